"""The studies there are: run, as a command asks for, and reported."""

import sys
from collections.abc import Sequence
from pathlib import Path

import typer
from rich.console import Console

from janossy.paper.arithmetic.study import ARITHMETIC
from janossy.paper.graphs.study import GRAPHS
from janossy.paper.options import Request
from janossy.paper.results import LeftOut, Result
from janossy.paper.run import run_trials, unfinished
from janossy.paper.study import Study
from janossy.refusal import BadArgument

STUDIES = (ARITHMETIC, GRAPHS)


def run(name: str, request: Request) -> None:
    """Run the trials of a study that have no result yet, and show all."""
    (study,) = (study for study in STUDIES if study.name == name)
    console, out, trials = _console(), request.out, request.trials
    if not request.resume and any((out / "cells").glob("*.json")):
        raise BadArgument(f"{out} holds results; add --resume to keep them, or choose another --out.")
    try:
        others = [other for other in STUDIES if other is not study]
        missing = unfinished(trials, study, others, out, console)
    except ValueError as error:
        raise BadArgument(str(error)) from None
    (out / "cells").mkdir(parents=True, exist_ok=True)
    finished = f"{len(trials) - len(missing)} of {len(trials)} cells are finished in {out}"
    console.print(f"{finished}; {request.num_workers} at a time.", markup=False)
    try:
        failures = run_trials(missing, out, request.num_workers, console) if missing else []
    except KeyboardInterrupt:
        kept = f"Stopped. Finished cells are kept in {out}; the same command with --resume goes on from there."
        console.print(kept, markup=False)
        raise typer.Exit(130) from None
    if len(failures) < len(trials):
        _show(study, out, *study.read(out), console)
    if failures:
        raise typer.TyperException(f"{len(failures)} cells failed: {'; '.join(failures)}")


def report(directory: Path) -> None:
    """Show and write the report of the results there."""
    console = _console()
    found = [(study, *study.read(directory)) for study in STUDIES]
    study, results, left_out = max(found, key=lambda of: len(of[1]))
    for each in left_out:
        console.print(str(each), style="yellow", markup=False, soft_wrap=True)
    if not results:
        raise BadArgument(f"{directory} holds no finished cell; give the --out of a reproduce run.")
    _show(study, directory, results, left_out, console)


def _show(
    study: Study, directory: Path, results: Sequence[Result], left_out: Sequence[LeftOut], console: Console
) -> None:
    study.show(console, results)
    for path in study.write_report(directory, results, [str(each) for each in left_out]):
        console.print(f"wrote {path}", markup=False)


def _console() -> Console:
    """Standard output; as wide as the tables where it is no terminal."""
    return Console() if sys.stdout.isatty() else Console(width=120)
