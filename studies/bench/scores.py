"""Scores of predictions, by the names that data sets use."""

from collections.abc import Callable, Sequence
from math import sqrt

import numpy as np
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    log_loss,
    mean_absolute_error,
    mean_squared_error,
    r2_score,
    recall_score,
    roc_auc_score,
)

Probabilities = np.ndarray
"""One probability per class, (B, C)."""

CLASSES: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": accuracy_score,
    "balanced accuracy": balanced_accuracy_score,
}
NUMBERS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "RMSE": lambda targets, found: sqrt(mean_squared_error(targets, found)),
    "MAE": mean_absolute_error,
    "R2": r2_score,
    "accuracy of rounded": lambda targets, found: accuracy_score(np.rint(targets), np.rint(found)),
}
RECALL = "recall of "
"""The prefix of the score "recall of CLASS", the share of the class that is found."""

SMALLER = frozenset({"RMSE", "MAE", "log loss"})
"""The scores for which smaller is better."""


def of_classes(
    names: Sequence[str], targets: np.ndarray, probabilities: Probabilities, classes: np.ndarray
) -> dict[str, float]:
    """Returns scores of class probabilities. Raises: ValueError for a score that is not one of classes."""
    found = classes[probabilities.argmax(axis=1)]
    return {name: _of_classes(name, targets, probabilities, classes, found) for name in names}


def of_numbers(names: Sequence[str], targets: np.ndarray, found: np.ndarray) -> dict[str, float]:
    """Returns scores of numbers. Raises: ValueError for a score that is not one of numbers."""
    if unknown := [name for name in names if name not in NUMBERS]:
        raise ValueError(f"a regression's scores are {', '.join(NUMBERS)}; got {', '.join(unknown)}.")
    return {name: float(NUMBERS[name](targets, found)) for name in names}


def _of_classes(
    name: str, targets: np.ndarray, probabilities: Probabilities, classes: np.ndarray, found: np.ndarray
) -> float:
    if name in CLASSES:
        return float(CLASSES[name](targets, found))
    if name.startswith(RECALL):
        label = classes.dtype.type(name.removeprefix(RECALL))
        return float(recall_score(targets, found, labels=[label], average="macro"))
    if name == "log loss":
        return float(log_loss(targets, probabilities, labels=classes))
    if name == "AUC":
        if len(classes) == 2:
            return float(roc_auc_score(targets == classes[1], probabilities[:, 1]))
        return float(roc_auc_score(targets, probabilities, multi_class="ovr", labels=classes))
    raise ValueError(
        f"a classification's scores are {', '.join(CLASSES)}, AUC, log loss and {RECALL}CLASS; got {name!r}."
    )
