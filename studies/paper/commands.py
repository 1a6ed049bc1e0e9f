"""The paper's commands: python -m studies reproduce STUDY | report.

A file of commands or options imports only typer and the standard library, so that help and errors come before torch.
The work of a command is imported in its body when it runs (tests/test_imports.py).
"""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from janossy.cli.door import loading
from janossy.cli.errors import BadArgument
from studies.paper.arithmetic.options import arithmetic
from studies.paper.graphs.options import graphs
from studies.runs.options import Request

reproduce = typer.Typer(no_args_is_help=True, help="Run the paper's experiments and set ours beside its tables.")


def report(directory: Annotated[Path, typer.Argument(help="The --out of a reproduce run.")]) -> None:
    """Turn results into Markdown, PNG plots and one self-contained HTML page."""
    if not directory.is_dir():
        raise BadArgument(f"{directory} is not a directory; give the --out of a reproduce run.")
    with loading():
        from studies.paper.studies import report

    report(directory)


def _running(study: Callable[..., Request]) -> Callable[..., None]:
    """Returns a command with the study's options that also runs the request."""

    @wraps(study)
    def command(**options: Any) -> None:
        request = study(**options)
        with loading():
            from studies.paper.studies import run

        run(study.__name__, request)

    return command


for study in (arithmetic, graphs):
    reproduce.command()(_running(study))
