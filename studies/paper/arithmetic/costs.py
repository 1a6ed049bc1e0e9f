"""The cost of training, from the results themselves, and beside a plain loop as measured."""

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from statistics import median
from typing import Any, cast

from studies.paper.arithmetic.tables import ALL_MODELS, Row, tasks_of
from studies.runs.results import Result


def costs(results: Sequence[Result]) -> list[tuple[Row, dict[str, str]]]:
    """Returns per model and task the median seconds of an epoch and the number of epochs; "–" without a result."""
    tasks = tasks_of(results)
    models = [model for model in ALL_MODELS if any(result["model"] == model for result in results)]
    return [(Row(model, None), {task: _cost(results, task, model) for task in tasks}) for model in models]


def _cost(results: Sequence[Result], task: str, model: str) -> str:
    histories = [
        result["history"]
        for result in results
        if (result["task"], result["model"]) == (task, model) and result["history"]
    ]
    if not histories:
        return "–"
    epochs = [history[-1]["epoch"] for history in histories]
    seconds = [
        sum(entry.get("seconds", 0.0) for entry in history) / num
        for history, num in zip(histories, epochs, strict=True)
    ]
    return f"{median(seconds):.2g} ({median(epochs):g})"


@cache
def replicas() -> dict[str, Any]:
    """Returns replicas.json: the cost of a replica's epoch in the authors' loop and in stacks."""
    return cast(
        "dict[str, Any]", json.loads(files("studies.paper").joinpath("replicas.json").read_text(encoding="utf-8"))
    )


def beside_plain_loop() -> list[tuple[Row, list[str]]]:
    """Returns, per model and set size, the seconds of a replica's epoch and the ratio of the plain loop's to them."""
    table = []
    for row in replicas()["rows"]:
        plain, *ours = (row[way] for way in ("plain", "stack of 1", "stack of 5", "stack of 15"))
        cells = [str(row["num_integers"]), str(row["batch_size"]), f"{plain:.2f}"]
        table.append((Row(row["model"], None), cells + [f"{each:.3f} ({plain / each:.1f}×)" for each in ours]))
    return table
