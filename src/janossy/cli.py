"""The command line: janossy reproduce | report."""

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from janossy import __version__
from janossy.paper.arithmetic.cell import Cell as ArithmeticCell
from janossy.paper.arithmetic.models import MODELS
from janossy.paper.arithmetic.settings import Preset, Protocol, settings_for
from janossy.paper.arithmetic.tasks import TASKS
from janossy.paper.graphs import rows as graph_rows
from janossy.paper.graphs.cell import Cell as GraphCell
from janossy.paper.graphs.comparison import print_table
from janossy.paper.graphs.datasets import NAMES, load
from janossy.paper.graphs.report import write_report as write_graph_report
from janossy.paper.patterns import print_patterns
from janossy.paper.report import write_report
from janossy.paper.results import ARITHMETIC, GRAPHS, Kind, read_cells
from janossy.paper.run import run_cells, unfinished
from janossy.paper.tables import print_comparison
from janossy.paper.workers import Cell


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
    preset = preset or ("quick" if protocol == "fast" else "full")
    cells = [
        ArithmeticCell(task, model, seed, settings_for(TASKS[task], MODELS[model], preset, protocol, epochs))
        for seed in range(seeds)
        for task in _chosen("--tasks", tasks, TASKS)
        for model in _chosen("--models", models, MODELS)
    ]
    _run(cells, ARITHMETIC, out, resume, workers)


@reproduce.command()
def graphs(
    dataset: Annotated[str, typer.Option(help=f"Some of {', '.join(NAMES)}, with commas between.")] = "cora",
    rows: Annotated[
        str,
        typer.Option(help="Some of Table 2's, or others like them (gru-5-5, max, k2, …), with commas between."),
    ] = ",".join(graph_rows.PAPER_ROWS),
    seeds: Annotated[
        int | None, typer.Option(min=1, help="How many: 0, 1, …; by default 1, or for full the paper's 30, of PPI 4.")
    ] = None,
    preset: Annotated[
        graph_rows.Preset,
        typer.Option(help="smoke: a minute. quick: a fifth of the paper's epochs on PPI. full: the paper's schedules."),
    ] = "quick",
    data: Annotated[Path, typer.Option(help="The folder of the data, which are fetched if not there.")] = Path("data"),
    out: Annotated[Path, typer.Option(help="The directory of the results.")] = Path("results/graphs"),
    resume: Annotated[bool, typer.Option("--resume", help="Keep the results there, run what is missing.")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes, one core each.")] = os.cpu_count() or 1,
) -> None:
    """Vertex classification by GraphSAGE (Section 4.2, Tables 2, 9, 10 and Figure 2)."""
    cells = []
    for name in _chosen("--dataset", dataset, NAMES):
        num = seeds or (graph_rows.NUM_RUNS[name] if preset == "full" else 1)
        for row in _row_names(rows):
            settings = graph_rows.settings_for(name, graph_rows.Row.named(row), preset)
            cells += [GraphCell(name, row, seed, settings, data) for seed in range(num)]
        try:
            load(name, data)  # here once, before workers all fetch it
        except ValueError as error:
            raise typer.TyperException(str(error)) from None
    _run(cells, GRAPHS, out, resume, workers)


def _row_names(names: str) -> list[str]:
    chosen = list(dict.fromkeys(name.strip() for name in names.split(",")))
    for name in chosen:
        try:
            graph_rows.Row.named(name)
        except ValueError as error:
            raise _BadArgument(f"--rows: {error}") from None
    return chosen


def _run(cells: Sequence[Cell], kind: Kind, out: Path, resume: bool, workers: int) -> None:
    """Run the cells that are missing, and show all."""
    console = _console()
    if not resume and any((out / "cells").glob("*.json")):
        raise _BadArgument(f"{out} holds results; add --resume to keep them, or choose another --out.")
    try:
        missing = unfinished(cells, kind, out, console)
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
    if cells := read_cells(directory, ARITHMETIC)[0]:
        print_comparison(console, cells)
        print_patterns(console, cells)
        paths = write_report(directory)
    elif results := read_cells(directory, GRAPHS)[0]:
        print_table(console, results)
        paths = write_graph_report(directory)
    else:
        raise _BadArgument(f"{directory} holds no finished cell; give the --out of a reproduce run.")
    for path in paths:
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
