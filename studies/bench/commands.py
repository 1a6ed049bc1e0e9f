"""The commands of the bench: python -m studies bench sets | page."""

from pathlib import Path
from typing import Annotated

import typer

from janossy.cli.arguments import seconds
from janossy.cli.door import loading
from janossy.cli.errors import BadArgument
from studies.bench.names import DATA, MODELS
from studies.runs.options import Out, Request, Resume, chosen

bench = typer.Typer(no_args_is_help=True, help="Measure the estimators beside peers, in one loop.")


@bench.command()
def sets(
    only: Annotated[str, typer.Option(metavar="DATA,...", help=f"Some of {', '.join(DATA)}.")] = "all",
    models: Annotated[str, typer.Option(metavar="MODEL,...", help=f"Some of {', '.join(MODELS)}.")] = "all",
    folds: Annotated[int | None, typer.Option(min=1, help="The first so many of each; by default all.")] = None,
    data: Annotated[Path | None, typer.Option(help="A folder of data; what is not there is downloaded.")] = None,
    max_epochs: Annotated[
        int | None, typer.Option(min=1, help="The most epochs of networks; by default by the number of sets.")
    ] = None,
    auto_budget: Annotated[str, typer.Option(help="CPU time of auto: 90s, 10m, 1h30m.")] = "10m",
    jobs: Annotated[int, typer.Option(min=1, help="Processes, one core each.")] = 1,
    out: Out = Path("results/sets"),
    resume: Resume = False,
) -> None:
    """Ours and peers on sets with targets: scores by folds, parameters, CPU seconds to fit and to predict."""
    some, some_models = chosen("--only", only, DATA), chosen("--models", models, MODELS)
    budget = seconds("--auto-budget", auto_budget)
    if data is not None and not data.is_dir():
        raise BadArgument(f"--data {data} is not a directory.")
    with loading():
        from studies.bench.settings import Settings
        from studies.bench.study import SETS, trials
        from studies.runs.command import run

    try:
        found = trials(some, some_models, folds, Settings(budget, max_epochs), data)
    except ValueError as error:
        raise typer.TyperException(str(error)) from None
    run(SETS, (), Request(found, out, resume, jobs))


@bench.command()
def page(
    directory: Annotated[
        Path, typer.Argument(help="The --out of a python -m studies bench sets, or another with its NAME.json.")
    ],
) -> None:
    """Write the page again, of the results of each data set that are there: Markdown, plots and HTML."""
    if not directory.is_dir():
        raise BadArgument(f"{directory} is not a directory; give the --out of a python -m studies bench sets.")
    with loading():
        from studies.bench.page import write_page

    try:
        for path in write_page(directory):
            print(f"wrote {path}")
    except ValueError as error:
        raise BadArgument(str(error)) from None
