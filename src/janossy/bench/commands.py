"""The commands of the bench: janossy bench sets. It loads nothing but typer until it is run: see ``cli.app``."""

from pathlib import Path
from typing import Annotated

import typer

from janossy.bench.names import DATA, MODELS
from janossy.refusal import BadArgument
from janossy.runs.options import Out, Request, Resume, chosen

bench = typer.Typer(no_args_is_help=True, help="Measure the estimators beside peers, in one loop.")


@bench.callback()
def _group() -> None:
    """Commands of a group stay below its name where there is only one."""


@bench.command()
def sets(
    only: Annotated[str, typer.Option(metavar="DATA,…", help=f"Some of {', '.join(DATA)}.")] = "all",
    models: Annotated[str, typer.Option(metavar="MODEL,…", help=f"Some of {', '.join(MODELS)}.")] = "all",
    folds: Annotated[int | None, typer.Option(min=1, help="The first so many of each; by default all.")] = None,
    data: Annotated[Path | None, typer.Option(help="A folder of data; what is not there is downloaded.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes, one core each.")] = 1,
    out: Out = Path("results/sets"),
    resume: Resume = False,
) -> None:
    """Ours and peers on sets with targets: scores by folds, parameters, CPU seconds to fit and to predict."""
    some, some_models = chosen("--only", only, DATA), chosen("--models", models, MODELS)
    if data is not None and not data.is_dir():
        raise BadArgument(f"--data {data} is not a directory.")
    from janossy.bench.settings import Settings
    from janossy.bench.study import SETS, trials
    from janossy.runs.command import run

    try:
        found = trials(some, some_models, folds, Settings(), data)
    except ValueError as error:
        raise typer.TyperException(str(error)) from None
    run(SETS, (), Request(found, out, resume, jobs))
