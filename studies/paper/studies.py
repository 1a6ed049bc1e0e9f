"""The studies of the paper, run and reported for the commands."""

from pathlib import Path

from janossy.cli.errors import BadArgument
from studies.paper.arithmetic.study import ARITHMETIC
from studies.paper.graphs.study import GRAPHS
from studies.runs import command
from studies.runs.options import Request

STUDIES = (ARITHMETIC, GRAPHS)


def run(name: str, request: Request) -> None:
    """Runs the trials of a study that have no result yet, and shows all results."""
    (study,) = (study for study in STUDIES if study.name == name)
    command.run(study, [other for other in STUDIES if other is not study], request)


def report(directory: Path) -> None:
    """Shows the results of a directory, and writes their report."""
    console = command.console()
    found = [(study, *study.read(directory)) for study in STUDIES]
    study, results, skipped = max(found, key=lambda of: len(of[1]))
    for each in skipped:
        console.print(str(each), style="yellow", markup=False, soft_wrap=True)
    if not results:
        raise BadArgument(f"{directory} holds no finished cell; give the --out of a reproduce run.")
    command.show(study, directory, results, skipped, console)
