"""Run cells with live progress, and write every result as it comes."""

import os
import platform
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from janossy import __version__
from janossy.paper.arithmetic.tasks import TASKS
from janossy.paper.arithmetic.workers import Cell, work
from janossy.paper.results import cell_path, read_cells, write_json


def unfinished(cells: list[Cell], directory: Path, console: Console) -> list[Cell]:
    """The cells without a result in the directory. Damaged files are named, set aside, and run again.

    Raises: ValueError if a result there has other settings.
    """
    results, damaged = read_cells(directory, set_aside=True)
    for line in damaged:
        console.print(f"{line}; set aside, its cell runs again", style="yellow", markup=False)
    finished = {(result["task"], result["model"], result["seed"]): result["config"] for result in results}
    for cell in cells:
        there = finished.get((cell.task, cell.model, cell.seed))
        if there is None:
            continue
        asked = {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(cell.settings).items()}
        other = [f"{key}={there.get(key)!r} there, {v!r} asked for" for key, v in asked.items() if there.get(key) != v]
        if other:
            raise ValueError(
                f"{directory} holds {cell.name} run with other settings ({'; '.join(other)}); choose another --out."
            )
    return [cell for cell in cells if (cell.task, cell.model, cell.seed) not in finished]


def run_cells(cells: list[Cell], directory: Path, num_workers: int, console: Console) -> list[str]:
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
                total = cell.settings.epochs * len(cell.settings.learning_rates)
                bars[cell] = progress.add_task(f"  {cell.name}", total=total)
            elif event.kind == "progress":
                progress.advance(bars[cell], event.value)
                progress.advance(overall, event.value * cell.epoch_cost)
            else:
                if event.kind == "done":
                    write_json(cell_path(directory, cell.task, cell.model, cell.seed), event.value | _circumstances())
                    console.print(_finished_line(event.value))
                else:
                    failures.append(f"{cell.name}: {event.value}")
                    console.print(failures[-1], style="red", markup=False)
                progress.remove_task(bars.pop(cell))
    return failures


def _finished_line(result: dict[str, Any]) -> str:
    score = result["scores"][-1]
    text = f"accuracy {score['accuracy']:.3f}" if TASKS[result["task"]].is_integer else f"RMSE {score['rmse']:.3f}"
    permutations = score["num_permutations"]
    how = "" if permutations is None else f" with {permutations} permutations"
    return f"{result['task']} {result['model']} seed {result['seed']}: {text}{how} ({result['seconds']:.0f} s)"


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
