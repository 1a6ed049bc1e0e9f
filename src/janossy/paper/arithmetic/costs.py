"""What training cost, from the results themselves."""

from collections.abc import Sequence
from statistics import median

from janossy.paper.arithmetic.tables import ALL_MODELS, Row, tasks_of
from janossy.runs.results import Result


def costs(results: Sequence[Result]) -> list[tuple[Row, dict[str, str]]]:
    """For each model, by task, the median seconds of an epoch and the number of epochs; "–" where there is none."""
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
