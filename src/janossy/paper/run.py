"""Run cells with live progress, and write every result as it comes."""

import os
import platform
from collections.abc import Sequence
from dataclasses import MISSING, asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from janossy import __version__
from janossy.paper.results import KINDS, Kind, cell_path, read_cells, write_json
from janossy.paper.workers import Cell, name_of, work


def unfinished(cells: Sequence[Cell], kind: Kind, directory: Path, console: Console) -> list[Cell]:
    """The cells without a result in the directory. Damaged files are named, set aside, and run again.

    Raises: ValueError if a result there has other settings, or is of another experiment.
    """
    if any(read_cells(directory, other)[0] for other in KINDS if other != kind):
        raise ValueError(f"{directory} holds results of another experiment; choose another --out.")
    results, damaged = read_cells(directory, kind, set_aside=True)
    for line in damaged:
        console.print(f"{line}; set aside, its cell runs again", style="yellow", markup=False)
    finished = {tuple(result[key] for key in kind.place): result["config"] for result in results}
    for cell in cells:
        if cell.place not in finished:
            continue
        # A result from before a setting was there has its default.
        defaults = {field.name: field.default for field in fields(cell.settings) if field.default is not MISSING}
        there, asked = _as_json(defaults) | finished[cell.place], _as_json(asdict(cell.settings))
        other = [f"{key}={there.get(key)!r} there, {v!r} asked for" for key, v in asked.items() if there.get(key) != v]
        if other:
            raise ValueError(
                f"{directory} holds {name_of(cell)} run with other settings ({'; '.join(other)}); choose another --out."
            )
    return [cell for cell in cells if cell.place not in finished]


def _as_json(settings: dict[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in settings.items()}


def run_cells(cells: Sequence[Cell], directory: Path, num_workers: int, console: Console) -> list[str]:
    """Train the cells, writing each result as it finishes; return one line for each that failed.

    Raises: OSError if a result cannot be written; KeyboardInterrupt. Results already written stay.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(elapsed_when_finished=False))
    failures = []
    with Progress(*columns, *times, console=console, speed_estimate_period=120) as progress:
        overall = progress.add_task(f"{len(cells)} cells", total=sum(cell.cost for cell in cells))
        bars: dict[Cell, TaskID] = {}
        for event in work(cells, num_workers):
            cell = event.cell
            if event.kind == "started":
                bars[cell] = progress.add_task(f"  {name_of(cell)}", total=cell.units)
            elif event.kind == "progress":
                progress.advance(bars[cell], event.value)
                progress.advance(overall, event.value * cell.cost / cell.units)
            else:
                if event.kind == "done":
                    write_json(cell_path(directory, *cell.place), event.value | _circumstances())
                    console.print(f"{name_of(cell)}: {cell.score(event.value)} ({event.value['seconds']:.0f} s)")
                else:
                    failures.append(f"{name_of(cell)}: {event.value}")
                    console.print(failures[-1], style="red", markup=False)
                progress.remove_task(bars.pop(cell))
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
