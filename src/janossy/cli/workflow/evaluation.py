"""The scores of a model on sets that are new to its networks: predictions, scores, and the worst errors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from sklearn.metrics import mean_absolute_error, r2_score, recall_score, root_mean_squared_error

from janossy.cli.workflow.record import TaskName
from janossy.estimators import SetClassifier, SetRegressor
from janossy.tables import Column, SetTable

Model = SetClassifier | SetRegressor


NUMBERS = (1, 2, 5, 10, 20)
"""Numbers of permutations, as far as the model averages that many."""

MAX_WORST = 6
MAX_ELEMENTS = 200
"""Sets of more are not taken apart: that takes as many predictions as they have elements."""

SHOWN_ELEMENTS = 8
SHOWN_COLUMNS = 5


@dataclass(frozen=True, eq=False)
class Evaluation:
    """V sets, each predicted by networks that left it out in training.

    Shapes: sets (V,), their numbers; targets and predictions (V,): labels, or numbers, or (V, t) of several targets;
    probabilities (V, C) of the classes, None of numbers; quantiles (V, q) or (V, t, q) at ``levels`` (q,), if the model
    predicts them.
    """

    sets: np.ndarray
    targets: np.ndarray
    predictions: np.ndarray
    probabilities: np.ndarray | None
    quantiles: np.ndarray | None = None
    levels: tuple[float, ...] = ()

    def coverage(self) -> dict[str, float]:
        """The part of the targets between the outermost quantiles, by a name for it; empty without several."""
        if self.quantiles is None or len(self.levels) < 2:
            return {}
        within = (self.quantiles[..., 0] <= self.targets) & (self.targets <= self.quantiles[..., -1])
        return {f"part between the quantiles {self.levels[0]:g} and {self.levels[-1]:g}": float(within.mean())}

    @property
    def right(self) -> np.ndarray:
        """Returns True for sets whose class is right, (V,)."""
        return cast(np.ndarray, self.predictions == self.targets)

    def losses(self, classes: np.ndarray | None) -> np.ndarray:
        """Returns the size of each error, (V,): what the true class lacks in probability, or the distance of numbers.

        Of several targets the size of the largest error, in standard deviations of its target.
        """
        if self.probabilities is None:
            return cast(np.ndarray, self.errors().max(1))
        assert classes is not None
        return 1 - self.probabilities[np.arange(len(self.sets)), np.searchsorted(classes, self.targets)]

    def errors(self) -> np.ndarray:
        """The size of the error of each number, (V, t), in standard deviations where there are several."""
        errors = np.abs(self.predictions - self.targets).reshape(len(self.sets), -1)
        if errors.shape[1] == 1:
            return cast(np.ndarray, errors)
        spread = self.targets.std(0)
        return cast(np.ndarray, errors / np.where(spread > 0, spread, 1))


@dataclass(frozen=True)
class Misprediction:
    """A set that was predicted wrong: ``elements`` are those that mattered most, each with the prediction's change.

    ``largest``: the largest change of any of them. ``of``: which of several targets, whose error is the largest, they
    mattered to. ``note``: why it was not taken apart.
    """

    name: str
    target: str
    prediction: str
    elements: list[tuple[str, float]]
    largest: float
    num_elements: int
    of: str = ""
    note: str = ""


def task_of(model: Model) -> TaskName:
    """Returns the task of the model."""
    return "classification" if isinstance(model, SetClassifier) else "regression"


def evaluate(model: Model, targets: np.ndarray) -> Evaluation:
    """Returns the predictions of the validation sets, each by the networks that did not learn from it."""
    sets, predicted = model.validation_predictions()
    if isinstance(model, SetClassifier):
        return Evaluation(sets, targets[sets], model.classes_[predicted.argmax(1)], predicted)
    levels = model.task_.quantiles
    quantiles = model.validation_quantiles()[1] if levels else None
    return Evaluation(sets, targets[sets], predicted, None, quantiles, levels)


def scores(targets: np.ndarray, predictions: np.ndarray, task: TaskName, names: Sequence[str] = ()) -> dict[str, float]:
    """Scores by name, the main one first. Classes weigh alike in the balanced accuracy, however rare.

    Of several targets, called ``names``: the mean of their R², and the scores of each.
    """
    if targets.ndim == 2:
        each = {
            name: scores(targets[:, j], predictions[:, j], task)
            for j, name in enumerate(names or map(str, range(targets.shape[1])))
        }
        mean = {"R²": float(np.mean([found["R²"] for found in each.values()]))}
        return mean | {f"{score} of {name}": value for name, found in each.items() for score, value in found.items()}
    if task == "classification":
        recall = recall_score(targets, predictions, labels=np.unique(targets), average="macro", zero_division=0)
        return {"accuracy": float((targets == predictions).mean()), "balanced accuracy": float(recall)}
    return {
        "R²": float(r2_score(targets, predictions)) if len(targets) > 1 else float("nan"),
        "root mean squared error": float(root_mean_squared_error(targets, predictions)),
        "mean absolute error": float(mean_absolute_error(targets, predictions)),
    }


def by_permutations(model: Model, targets: np.ndarray) -> list[tuple[int, float]]:
    """Returns the main score for several numbers of permutations; none if the model draws no orders.

    Fewer permutations than all are some of those that the fit has drawn.
    """
    if model.sensitivity_ is None:
        return []
    found = []
    for num in sorted({*(num for num in NUMBERS if num < model.num_permutations), model.num_permutations}):
        sets, predicted = model.validation_predictions(num)
        if isinstance(model, SetClassifier):
            predicted = model.classes_[predicted.argmax(1)]
        found.append((num, next(iter(scores(targets[sets], predicted, task_of(model)).values()))))
    return found


def worst_predictions(
    model: Model, sets: SetTable, evaluation: Evaluation, targets: Sequence[str]
) -> Iterator[Misprediction]:
    """The sets that the model got most wrong, and which of their elements mattered to what it said.

    ``targets``: what they are called, of which only several are named.
    """
    classes = model.classes_ if isinstance(model, SetClassifier) else None
    losses = evaluation.losses(classes)
    wrong = losses > 0 if evaluation.probabilities is None else ~evaluation.right
    order = np.argsort(-losses, kind="stable")
    chosen = [int(v) for v in order[:MAX_WORST] if wrong[v]]
    parts = list(model.as_of_new_sets())
    for v in chosen:
        b = int(evaluation.sets[v])
        one = sets[[b]]
        said, true = (
            _numbers(values[v], targets) if evaluation.probabilities is None else str(values[v])
            for values in (evaluation.predictions, evaluation.targets)
        )
        if evaluation.probabilities is not None:
            said += f" ({evaluation.probabilities[v].max():.2f})"
        fields = {"name": sets.place_of_set(b), "target": true, "prediction": said}
        size, worst = one.num_elements, 0
        if evaluation.probabilities is None and len(targets) > 1:
            worst = int(evaluation.errors()[v].argmax())
            fields["of"] = targets[worst]
        if size > MAX_ELEMENTS:
            yield Misprediction(
                **fields, elements=[], largest=0, num_elements=size, note=f"more than {MAX_ELEMENTS} elements"
            )
            continue
        part = next(part for part, some in parts if b in some)
        changes = part.element_importance(one)[0].reshape(size, -1)[:, worst] if size else np.zeros(0)
        mattered = np.argsort(-np.abs(changes), kind="stable")[:SHOWN_ELEMENTS]
        elements = [(_element(one, int(i)), float(changes[i])) for i in mattered]
        yield Misprediction(
            **fields, elements=elements, largest=float(np.abs(changes).max(initial=0)), num_elements=size
        )


def _element(one: SetTable, i: int) -> str:
    """An element in words: its first columns."""
    shown = [f"{name} {_value(column, i)}" for name, column in list(one.elements.items())[:SHOWN_COLUMNS]]
    return ", ".join(shown) + (", …" if len(one.elements) > SHOWN_COLUMNS else "")


def _value(column: Column, i: int) -> str:
    return "missing" if column.missing()[i] else _number(column.decoded()[i])


def _numbers(values: np.ndarray, names: Sequence[str]) -> str:
    """The number, or several with their names."""
    if values.ndim == 0:
        return _number(values[()])
    return ", ".join(f"{name} {_number(value)}" for name, value in zip(names, values, strict=True))


def _number(value: object) -> str:
    return f"{value:.5g}" if isinstance(value, float | np.floating) else str(value)
