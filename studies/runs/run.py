"""The running of trials, with live progress and one file per result."""

import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from janossy import __version__
from janossy.batch.workers import work
from studies.runs.results import cell_path, defaults, printable, set_aside, write_json
from studies.runs.study import Study
from studies.runs.trials import JobsOf, Trial, Trials, name_of, one_by_one


def unfinished(
    trials: Sequence[Trial], study: Study, others: Iterable[Study], directory: Path, console: Console
) -> list[Trial]:
    """Returns the trials without a result in the directory. Files that do not count are reported and set aside.

    Raises: ValueError if a result has other settings, or belongs to one of the other studies; OSError if a file cannot
        be renamed.
    """
    if any(other.read(directory)[0] for other in others):
        raise ValueError(f"{directory} holds results of another experiment; choose another --out.")
    results, skipped = study.read(directory)
    for each in skipped:
        aside = set_aside(each.path)
        console.print(f"{each}; set aside as {printable(aside.name)}", style="yellow", markup=False, soft_wrap=True)
    finished = {study.place(result): result["config"] for result in results}
    for trial in trials:
        if trial.place not in finished:
            continue
        there, asked = _as_json(defaults(trial.settings)) | finished[trial.place], _as_json(asdict(trial.settings))
        other = [f"{key}={there.get(key)!r} there, {v!r} asked for" for key, v in asked.items() if there.get(key) != v]
        if other:
            raise ValueError(
                f"{directory} holds {name_of(trial)} run with other settings ({'; '.join(other)}); "
                "choose another --out."
            )
    return [trial for trial in trials if trial.place not in finished]


def _as_json(settings: dict[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in settings.items()}


def run_trials(
    trials: Sequence[Trial],
    directory: Path,
    num_workers: int,
    console: Console,
    in_order: bool = False,
    jobs_of: JobsOf | None = None,
) -> list[str]:
    """Runs the trials, writing each result as it finishes. Returns one line per failed trial.

    ``jobs_of`` chooses which trials run together; their results then come together.

    Raises: OSError if a result cannot be written; KeyboardInterrupt. Written results stay.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(elapsed_when_finished=False))
    failures = []
    with Progress(*columns, *times, console=console, speed_estimate_period=120) as progress:
        overall = progress.add_task(f"{len(trials)} cells", total=sum(trial.cost for trial in trials))
        bars: dict[Trials, TaskID] = {}
        for event in work((jobs_of or one_by_one)(trials), num_workers, in_order):
            job = event.job
            if event.kind == "started":
                bars[job] = progress.add_task(f"  {name_of(*job.trials)}", total=job.units)
            elif event.kind == "progress":
                progress.advance(bars[job], event.value)
                progress.advance(overall, event.value * job.cost / job.units)
            else:
                if event.kind == "done":
                    for trial, result in zip(job.trials, event.value, strict=True):
                        write_json(cell_path(directory, *trial.place, trial.numbered), result | _circumstances())
                        console.print(f"{name_of(trial)}: {trial.score(result)} ({result['seconds']:.0f} s)")
                else:
                    failures += [f"{name_of(trial)}: {event.value}" for trial in job.trials]
                    console.print(f"{name_of(*job.trials)}: {event.value}", style="red", markup=False)
                progress.remove_task(bars.pop(job))
    return failures


def _circumstances() -> dict[str, Any]:
    return {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {
            "janossy": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "platform": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
            "num_threads": 1,
        },
    }
