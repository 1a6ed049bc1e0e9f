"""The evaluation of a model on validation sets: predictions, scores, and the worst errors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from janossy.cli.workflow.record import TaskName
from janossy.cli.workflow.scoring import label_flags, scores
from janossy.estimators import SetClassifier, SetRegressor
from janossy.tables import Column, SetTable

Estimator = SetClassifier | SetRegressor


NUMBERS = (1, 2, 5, 10, 20)
"""The numbers of permutations to score, up to the number that the model averages."""

MAX_WORST = 6
MAX_ELEMENTS = 200
"""The most elements of a set that is analysed. The analysis takes as many predictions as the set has elements."""

SHOWN_ELEMENTS = 8
SHOWN_COLUMNS = 5


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Out-of-fold predictions of V sets.

    Labels count as several targets, 0 or 1, with their ``names``. Times (V, 2) include events; their predictions are
    (V,).

    ``classes`` has one array per target, whose probabilities are side by side.

    Shapes: sets (V,), the sets' numbers. Targets and predictions (V,), or (V, t) for several targets. Probabilities
        (V, C), or None for numbers. Quantiles (V, q) or (V, t, q) at ``levels`` (q,), if the model predicts them.
    """

    sets: np.ndarray
    targets: np.ndarray
    predictions: np.ndarray
    probabilities: np.ndarray | None
    quantiles: np.ndarray | None = None
    levels: tuple[float, ...] = ()
    names: tuple[str, ...] = ()
    classes: tuple[np.ndarray, ...] = ()

    @property
    def are_times(self) -> bool:
        """True for times with events, whose predictions are hazards."""
        return self.targets.ndim > self.predictions.ndim

    @property
    def columns(self) -> list[tuple[str, np.ndarray, np.ndarray]]:
        """The name, the targets (V,) and the predictions (V,) of each target."""
        targets, predictions = (x.reshape(len(self.sets), -1).T for x in (self.targets, self.predictions))
        names = self.names if len(self.names) == len(targets) else ("",) * len(targets)
        return list(zip(names, targets, predictions, strict=True))

    def coverage(self) -> dict[str, float]:
        """Returns the fraction of targets between the outermost quantiles, by name; empty if there are not two."""
        if self.quantiles is None or len(self.levels) < 2:
            return {}
        within = (self.quantiles[..., 0] <= self.targets) & (self.targets <= self.quantiles[..., -1])
        return {f"part between the quantiles {self.levels[0]:g} and {self.levels[-1]:g}": float(within.mean())}

    @property
    def right(self) -> np.ndarray:
        """Flags (V,) of sets whose class is right, or whose classes are all right."""
        right = self.predictions == self.targets
        return cast(np.ndarray, right.all(1) if right.ndim == 2 else right)

    def losses(self) -> np.ndarray:
        """Returns the size of each set's error, (V,): 1 minus the probability of the true class, or a distance.

        For several targets it is the largest. Distances are then in standard deviations of their target.
        """
        return cast(np.ndarray, self.errors().max(1))

    def errors(self) -> np.ndarray:
        """Returns the size of each error, (V, t): 1 minus the true class's probability, or a distance.

        With several targets, distances are in standard deviations.
        """
        if self.probabilities is not None:
            parts = np.split(self.probabilities, np.cumsum([len(each) for each in self.classes])[:-1], axis=1)
            rows, columns = np.arange(len(self.sets)), self.targets.reshape(len(self.sets), -1).T
            each = zip(parts, self.classes, columns, strict=True)
            return np.stack([1 - part[rows, places(classes, values)] for part, classes, values in each], 1)
        errors = np.abs(self.predictions - self.targets).reshape(len(self.sets), -1)
        if errors.shape[1] == 1:
            return cast(np.ndarray, errors)
        spread = self.targets.std(0)
        return cast(np.ndarray, errors / np.where(spread > 0, spread, 1))


@dataclass(frozen=True)
class Misprediction:
    """A wrongly predicted set.

    - ``elements``: the elements that mattered most, each with the change of the prediction.
    - ``largest``: the largest change of any element.
    - ``of``: with several targets, the target with the largest error, which the changes refer to.
    - ``note``: the reason why the set was not analysed.
    """

    name: str
    target: str
    prediction: str
    elements: list[tuple[str, float]]
    largest: float
    num_elements: int
    of: str = ""
    note: str = ""


def task_of(model: Estimator) -> TaskName:
    """Returns the name of the model's task."""
    return "classification" if isinstance(model, SetClassifier) else "regression"


def evaluate(model: Estimator, targets: np.ndarray, names: Sequence[str] = ()) -> Evaluation:
    """Returns the out-of-fold predictions of the validation sets.

    ``names``: the names of the targets.
    """
    sets, means = model._validation_means(None)
    if isinstance(model, SetClassifier):
        known, codes = model._class_targets, model.task_.codes(means).numpy()
        found = means.numpy()
        if known.kind == "labels":
            labels = [str(label) for label in known.classes[0]]
            flags = (np.array([0, 1]),) * len(labels)
            true = label_flags(known.classes[0], targets[sets])
            return Evaluation(sets, true, codes, found, names=tuple(labels), classes=flags)
        said = known.decoded(codes)
        return Evaluation(sets, targets[sets], said, found, names=tuple(names), classes=tuple(known.classes))
    sets, predicted = model.validation_predictions()
    levels = model.task_.quantiles
    quantiles = model.validation_quantiles()[1] if levels else None
    return Evaluation(sets, targets[sets], predicted, None, quantiles, levels, tuple(names))


def places(classes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Returns the position of each value in ``classes``, which ascend."""
    return np.searchsorted(classes, np.array(values.tolist()).astype(classes.dtype))


def by_permutations(model: Estimator, targets: np.ndarray) -> list[tuple[int, float]]:
    """Returns the main score for several numbers of permutations; empty if the model samples no orders.

    Smaller numbers use a part of the orders that the fit sampled.
    """
    if model.sensitivity_ is None:
        return []
    found = []
    for num in sorted({*(num for num in NUMBERS if num < model.num_permutations), model.num_permutations}):
        sets, means = model._validation_means(num)
        if not isinstance(model, SetClassifier):
            predicted = model.validation_predictions(num)[1]
        elif model._class_targets.kind == "labels":
            predicted = model.task_.codes(means).numpy()
        else:
            predicted = model._class_targets.decoded(model.task_.codes(means).numpy())
        found.append((num, next(iter(scores(targets[sets], predicted, task_of(model)).values()))))
    return found


def worst_predictions(model: Estimator, sets: SetTable, evaluation: Evaluation) -> Iterator[Misprediction]:
    """Yields the sets with the largest errors, and the elements that mattered most to their predictions.

    Times with events have no such sets, because a single set has no error. Several targets are named.
    """
    if evaluation.are_times:
        return
    errors = evaluation.errors()
    losses = errors.max(1)
    wrong = losses > 0 if evaluation.probabilities is None else ~evaluation.right
    order = np.argsort(-losses, kind="stable")
    chosen = [int(v) for v in order[:MAX_WORST] if wrong[v]]
    parts = list(model.as_of_new_sets())
    names = evaluation.names
    for v in chosen:
        b = int(evaluation.sets[v])
        one = sets[[b]]
        said, true = (_shown(values[v], evaluation) for values in (evaluation.predictions, evaluation.targets))
        if evaluation.probabilities is not None and errors.shape[1] == 1:
            said += f" ({evaluation.probabilities[v].max():.2f})"
        fields = {"name": sets.place_of_set(b), "target": true, "prediction": said}
        size, worst = one.num_elements, 0
        if errors.shape[1] > 1:
            worst = int(errors[v].argmax())
            fields["of"] = names[worst]
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
    """Returns an element's first columns as text."""
    shown = [f"{name} {_value(column, i)}" for name, column in list(one.elements.items())[:SHOWN_COLUMNS]]
    return ", ".join(shown) + (", …" if len(one.elements) > SHOWN_COLUMNS else "")


def _value(column: Column, i: int) -> str:
    return "missing" if column.missing()[i] else _number(column.decoded()[i])


def _shown(values: np.ndarray, evaluation: Evaluation) -> str:
    """Returns a class or number as text, several with their names, or the labels that are present."""
    if np.ndim(values) == 0:
        return _number(values[()] if isinstance(values, np.generic | np.ndarray) else values)
    if evaluation.probabilities is not None and all(np.array_equal(each, [0, 1]) for each in evaluation.classes):
        return ", ".join(name for name, there in zip(evaluation.names, values, strict=True) if there) or "nothing"
    return ", ".join(f"{name} {_number(value)}" for name, value in zip(evaluation.names, values, strict=True))


def _number(value: object) -> str:
    return f"{value:.5g}" if isinstance(value, float | np.floating) else str(value)
