"""The command line: janossy reproduce | report."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from janossy import __version__
from janossy.paper.arithmetic.models import MODELS
from janossy.paper.arithmetic.run import run_cells, unfinished
from janossy.paper.arithmetic.settings import Preset, Protocol, settings_for
from janossy.paper.arithmetic.tasks import TASKS
from janossy.paper.arithmetic.workers import Cell
from janossy.paper.patterns import print_patterns
from janossy.paper.report import write_report
from janossy.paper.results import read_cells
from janossy.paper.tables import print_comparison


class _BadArgument(typer.TyperException):
    exit_code = 2


app = typer.Typer(no_args_is_help=True, add_completion=False)
reproduce = typer.Typer(no_args_is_help=True, help="Run the paper's experiments and set ours beside its tables.")
app.add_typer(reproduce, name="reproduce")


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Janossy pooling: learning functions of sets."""
    if show:
        print(f"janossy {__version__}")
        raise typer.Exit


@reproduce.command()
def arithmetic(
    preset: Annotated[
        Preset | None,
        typer.Option(help="smoke: a minute. quick: 15 minutes on two cores. full: the paper's epochs, days."),
    ] = None,
    protocol: Annotated[
        Protocol,
        typer.Option(
            help="fast: what trains in minutes. paper: its text. released: its code. The two: full by default."
        ),
    ] = "fast",
    tasks: Annotated[str, typer.Option(help=f"Some of {', '.join(TASKS)}, with commas between.")] = "all",
    models: Annotated[str, typer.Option(help=f"Some of {', '.join(MODELS)}, with commas between.")] = "all",
    seeds: Annotated[int, typer.Option(min=1, help="How many: 0, 1, …")] = 1,
    epochs: Annotated[int | None, typer.Option(min=1, help="Instead of the preset's.")] = None,
    out: Annotated[Path, typer.Option(help="The directory of the results.")] = Path("results/arithmetic"),
    resume: Annotated[bool, typer.Option("--resume", help="Keep the results there, run what is missing.")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes, one core each.")] = os.cpu_count() or 1,
) -> None:
    """The five arithmetic tasks by the ten models of Table 3 (Section 4.1)."""
    console = _console()
    preset = preset or ("quick" if protocol == "fast" else "full")
    cells = [
        Cell(task, model, seed, settings_for(TASKS[task], MODELS[model], preset, protocol, epochs))
        for seed in range(seeds)
        for task in _chosen("--tasks", tasks, TASKS)
        for model in _chosen("--models", models, MODELS)
    ]
    if not resume and any((out / "cells").glob("*.json")):
        raise _BadArgument(f"{out} holds results; add --resume to keep them, or choose another --out.")
    try:
        missing = unfinished(cells, out, console)
    except ValueError as error:
        raise _BadArgument(str(error)) from None
    (out / "cells").mkdir(parents=True, exist_ok=True)
    console.print(f"{len(cells) - len(missing)} of {len(cells)} cells are finished in {out}; {workers} at a time.")
    try:
        failures = run_cells(missing, out, workers, console) if missing else []
    except KeyboardInterrupt:
        console.print(f"Stopped. Finished cells are kept in {out}; the same command with --resume goes on from there.")
        raise typer.Exit(130) from None
    if len(failures) < len(cells):
        _show(out, console)
    if failures:
        raise typer.TyperException(f"{len(failures)} cells failed: {'; '.join(failures)}")


@app.command()
def report(directory: Annotated[Path, typer.Argument(help="The --out of a reproduce run.")]) -> None:
    """Turn results into Markdown, PNG plots and one self-contained HTML page."""
    if not directory.is_dir():
        raise _BadArgument(f"{directory} is not a directory; give the --out of a reproduce run.")
    _show(directory, _console())


def _show(directory: Path, console: Console) -> None:
    cells, _ = read_cells(directory)
    if not cells:
        raise _BadArgument(f"{directory} holds no finished cell; give the --out of a reproduce run.")
    print_comparison(console, cells)
    print_patterns(console, cells)
    for path in write_report(directory):
        console.print(f"wrote {path}")


def _console() -> Console:
    """Standard output; as wide as the tables where it is no terminal."""
    return Console() if sys.stdout.isatty() else Console(width=120)


def _chosen(option: str, names: str, known: Iterable[str]) -> list[str]:
    if names == "all":
        return list(known)
    chosen = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in chosen if name not in known]
    if unknown or not chosen:
        raise _BadArgument(f"{option} expects some of {', '.join(known)}; got {names!r}.")
    return list(dict.fromkeys(chosen))


def main() -> None:
    """Run the command line. Bad arguments give one line and exit code 2; what fails later, one line and 1."""
    try:
        sys.exit(app(standalone_mode=False))
    except typer.TyperException as error:
        _fail(error.format_message(), error.exit_code)
    except (OSError, ImportError) as error:
        _fail(f"{error} (what was finished is kept)", 1)
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(130)


def _fail(message: str, code: int) -> NoReturn:
    if message:
        print(f"janossy: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)
