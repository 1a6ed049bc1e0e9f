"""The report of a results directory: report.md, report.html and the plots."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from janossy.paper.patterns import pattern_checks
from janossy.paper.results import ARITHMETIC, read_cells
from janossy.paper.summary import duration, summarise
from janossy.paper.tables import DIGITS, ROWS, SHOWN, Cell, comparison

try:
    import jinja2

    from janossy.paper.page import tally, write_pages
    from janossy.paper.plots import PLOTS
except ImportError as error:
    _ABSENT: ImportError | None = error
else:
    _ABSENT = None

NEEDS = {"scores-by-k": "scores", "error-by-permutations": "curve", "learning-curves": "history"}
"""What a cell must have for a plot to show it."""

CAPTIONS = {
    "scores-by-k": "Test accuracy by k and ρ (LSTM and GRU with 20 permutations at inference), for variance the RMSE "
    "on a log scale. Dots are ours, with the standard deviation over seeds if there are several; bars are the paper's.",
    "error-by-permutations": "Test error of LSTM and GRU against the number of permutations averaged at inference, on "
    "a log scale: dashed with linear ρ, solid with an MLP as ρ; seeds, if several, are faint lines behind their mean.",
    "learning-curves": "Score on the validation set after each epoch: accuracy, for variance the RMSE on a log scale. "
    "Seeds, if several, are faint lines behind their mean.",
}
ALTS = {
    "scores-by-k": "One panel a task: dots for our score of every model, bars for the paper's. The same numbers are in "
    "the first table.",
    "error-by-permutations": "One panel a task: lines of the test error of the LSTM and GRU models against 1 to 20 "
    "permutations.",
    "learning-curves": "Two panels a task, linear and MLP ρ: lines of the validation score of every model by epoch.",
}
MAE_NOTE = (
    "The paper's mean absolute errors of the integer tasks are of rounded predictions, as its 0.000 beside an accuracy "
    "of 1.00 shows. Its RMSE of the GRU with MLP ρ on variance (0.42 and 0.40) is below its mean absolute error (0.594 "
    "and 0.517), which no set of predictions can have, so those tables are not of the same runs."
)


def write_report(directory: Path) -> list[Path]:
    """Write report.md, report.html and the plots into a directory of results; return their paths.

    Raises: ValueError if it has no readable result; ImportError without the extra ``paper``; OSError.
    """
    if _ABSENT is not None:
        raise ImportError("The report needs matplotlib and jinja2: pip install janossy[paper]") from _ABSENT
    cells, damaged = read_cells(directory, ARITHMETIC)
    cells = [cell for cell in cells if cell["task"] in SHOWN]
    if not cells:
        also = f" ({len(damaged)} damaged)" if damaged else ""
        raise ValueError(
            f"{directory} holds no results{also}; janossy reproduce arithmetic --out {directory} makes some."
        )
    plots = {name: PLOTS[name] for name, part in NEEDS.items() if any(cell[part] for cell in cells)}
    context = _context(cells, [line.replace(f"{directory}{os.sep}", "") for line in damaged], directory)
    return write_pages(directory, jinja2.PackageLoader("janossy.paper", "."), context, plots, cells)


def _context(cells: Sequence[Cell], damaged: Sequence[str], directory: Path) -> dict[str, Any]:
    """What both templates say."""
    tasks = [task for task in SHOWN if any(cell["task"] == task for cell in cells)]
    checks = pattern_checks(cells)
    return {
        "run": summarise(cells, directory),
        "num_cells": len(cells),
        "tasks": tasks,
        "titles": {task: task.replace("_", " ") for task in tasks},
        "shown": SHOWN,
        "tables": {"score": comparison(cells), "mae": comparison(cells, "mae")},
        "checks": checks,
        "tally": tally(checks),
        "damaged": damaged,
        "captions": CAPTIONS,
        "alts": ALTS,
        "mae_note": MAE_NOTE,
        "score_heading": "accuracy" if "variance" not in tasks else "accuracy, for variance RMSE",
        "cells": [_cell_line(cell) for cell in sorted(cells, key=_place)],
    }


def _place(cell: Cell) -> tuple[int, int, int]:
    order = [row.model for row in ROWS]
    return (
        list(SHOWN).index(cell["task"]),
        order.index(cell["model"]) if cell["model"] in order else len(order),
        cell["seed"],
    )


def _cell_line(cell: Cell) -> dict[str, str]:
    """A row of the list of cells."""
    metric = SHOWN[cell["task"]]
    scores = [
        ("" if score["num_permutations"] is None else f"×{score['num_permutations']}: ")
        + _number(score[metric], metric)
        for score in cell["scores"]
    ]
    return {
        "task": cell["task"],
        "model": cell["model"],
        "seed": str(cell["seed"]),
        "score": ", ".join(scores),
        "epochs": str(cell["config"].get("epochs", "–")),
        "time": duration(cell["seconds"]),
        "finished": str(cell.get("finished", "–")),
    }


def _number(value: float | None, metric: str) -> str:
    return "NaN" if value is None or value != value else f"{value:.{DIGITS[metric]}f}"
