"""A command that runs the trials without a result, shows all results, and writes the report."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import typer
from rich.console import Console

from janossy.cli.errors import BadArgument
from studies.runs.durations import duration, projected
from studies.runs.options import Request
from studies.runs.results import Result, Skipped
from studies.runs.run import run_trials, unfinished
from studies.runs.study import Study
from studies.runs.trials import Trial


def run(study: Study, others: Iterable[Study], request: Request) -> None:
    """Runs the trials of a study that have no result yet, and shows all results.

    ``others``: studies whose results must not be in the directory.
    """
    terminal, out, trials = console(), request.out, request.trials
    if not request.resume and any((out / "cells").glob("*.json")):
        raise BadArgument(f"{out} holds results; add --resume to keep them, or choose another --out.")
    try:
        missing = unfinished(trials, study, others, out, terminal)
    except ValueError as error:
        raise BadArgument(str(error)) from None
    (out / "cells").mkdir(parents=True, exist_ok=True)
    finished = f"{len(trials) - len(missing)} of {len(trials)} cells are finished in {out}"
    terminal.print(f"{finished}; {request.num_workers} at a time.", markup=False)
    if missing and (seconds := projected(missing, _finished(trials, missing, study, out))) is not None:
        long = duration(seconds / request.num_workers)
        terminal.print(f"By the time of the finished ones, the others take about {long}.", markup=False)
    try:
        how = request.in_order, request.jobs_of
        failures = run_trials(missing, out, request.num_workers, terminal, *how) if missing else []
    except KeyboardInterrupt:
        kept = f"Stopped. Finished cells are kept in {out}; the same command with --resume goes on from there."
        terminal.print(kept, markup=False)
        raise typer.Exit(130) from None
    if len(failures) < len(trials):
        show(study, out, *study.read(out), terminal)
    if failures:
        raise typer.TyperException(f"{len(failures)} cells failed: {'; '.join(failures)}")


def _finished(
    trials: Sequence[Trial], missing: Sequence[Trial], study: Study, directory: Path
) -> list[tuple[Trial, Result]]:
    """Returns the trials with results, in the form in which they were run, with their results."""
    results = {study.place(result): result for result in study.read(directory)[0]}
    finished = [(trial, results[trial.place]) for trial in trials if trial not in missing]
    return [(study.as_run(trial, result), result) for trial, result in finished]


def show(
    study: Study, directory: Path, results: Sequence[Result], skipped: Sequence[Skipped], terminal: Console
) -> None:
    """Prints the results, and writes their report."""
    study.show(terminal, results)
    for path in study.write_report(directory, results, [str(each) for each in skipped]):
        terminal.print(f"wrote {path}", markup=False)


def console() -> Console:
    """Returns the console of standard output, as wide as the tables if it is not a terminal."""
    return Console() if sys.stdout.isatty() else Console(width=120)
