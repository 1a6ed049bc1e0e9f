"""The results of a data set in one file: per model, the scores and the cost of every fold."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from janossy.files.atomic import write_whole
from studies.bench.cells import About, Number
from studies.bench.names import AUTO, DATA, MODELS
from studies.runs.results import Result, read_result
from studies.runs.schema import Count, Seconds, Seed

DIGITS = 5
"""The number of significant digits of every stored number."""


@dataclass
class ModelSummary:
    """The results of a model, one entry per fold in the order of ``folds``. If it does not apply, only the reason."""

    folds: list[Seed]
    does_not_apply: str | None
    scores: dict[str, dict[str, list[Number]]]
    num_parameters: list[Seed]
    num_networks: list[Seed]
    num_test: list[Seed]
    fit_seconds: list[Seconds]
    predict_seconds: list[Seconds]
    chosen: dict[str, float]
    """The mean weight of each strategy in the average of a search."""


@dataclass
class Summary:
    """The summary of one data set."""

    name: str
    data_set: About
    num_train: Count
    config: dict[str, Any]
    versions: dict[str, Any]
    models: dict[str, ModelSummary]


def summarise(cells: Sequence[Result]) -> list[Result]:
    """Returns one summary per data set with cells, in display order."""
    names = sorted({cell["data"] for cell in cells}, key=DATA.index)
    return [_of_data_set([cell for cell in cells if cell["data"] == name]) for name in names]


def write_summary(directory: Path, summary: Result) -> Path:
    """Writes NAME.json with one line per list. Raises: OSError if it cannot be written. The old file then stays."""
    text = json.dumps(summary, indent=1, ensure_ascii=False)
    path = directory / f"{summary['name']}.json"
    write_whole(path, (re.sub(r"\[[^\[\]{}\"]*\]", _on_a_line, text) + "\n").encode())
    return path


def read_summaries(directory: Path) -> list[Result]:
    """Returns the summaries of a directory. Raises: ValueError, in one line with the name, for a damaged one."""
    found = []
    for name in DATA:
        path = directory / f"{name}.json"
        if path.exists():
            try:
                found.append(read_result(path, Summary))
            except ValueError as error:
                raise ValueError(f"{path} {error}") from None
    return found


def _of_data_set(cells: Sequence[Result]) -> Result:
    in_time = sorted(cells, key=lambda cell: cell.get("finished", ""))
    newest = in_time[-1]
    settings = next((cell for cell in reversed(in_time) if cell["model"] == AUTO), newest)  # only auto has a budget
    models = {}
    for name in MODELS:
        if of_model := sorted((cell for cell in cells if cell["model"] == name), key=lambda cell: cell["fold"]):
            models[name] = _of_model(of_model)
    return {
        "name": newest["data"],
        "data_set": newest["data_set"],
        "num_train": newest["num_train"],
        "config": settings["config"],
        "versions": newest.get("versions", {}),
        "models": models,
    }


def _of_model(cells: Sequence[Result]) -> dict[str, Any]:
    run = [cell for cell in cells if not cell["does_not_apply"]]
    strategies = sorted({strategy for cell in run for strategy in cell["chosen"]})
    return {
        "folds": [cell["fold"] for cell in run],
        "does_not_apply": cells[0]["does_not_apply"] if not run else None,
        "scores": {
            test: {name: [_short(cell["scores"][test][name]) for cell in run] for name in of_test}
            for test, of_test in (run[0]["scores"] if run else {}).items()
        },
        **{key: [cell[key] for cell in run] for key in ("num_parameters", "num_networks", "num_test")},
        **{key: [_short(cell[key]) for cell in run] for key in ("fit_seconds", "predict_seconds")},
        "chosen": {name: _short(sum(cell["chosen"].get(name, 0.0) for cell in run) / len(run)) for name in strategies},
    }


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")


def _on_a_line(found: re.Match[str]) -> str:
    return re.sub(r"\s+", " ", found[0]).replace("[ ", "[").replace(" ]", "]")
