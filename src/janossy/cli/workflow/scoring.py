"""Scores of predictions."""

from collections.abc import Sequence

import numpy as np
import torch

from janossy.cli.workflow.record import TaskName
from janossy.estimators.survival import concordance


def label_flags(classes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Returns 0 or 1 for each set and label, (V, L). Labels outside of ``classes`` are ignored."""
    return np.array([[label in each for label in classes.tolist()] for each in labels], np.int64)


def scores(targets: np.ndarray, predictions: np.ndarray, task: TaskName, names: Sequence[str] = ()) -> dict[str, float]:
    """Returns scores by name, the main one first. All classes weigh the same in the balanced accuracy, however rare.

    For several targets with ``names``, it returns the mean R² or accuracy, and the scores of each. For times with
    events (V, 2), it returns the concordance of the predicted hazards (V,).
    """
    if targets.ndim > predictions.ndim:
        risks, times = torch.from_numpy(predictions.astype(np.float64)), torch.from_numpy(targets.astype(np.float64))
        return {"concordance": concordance(risks, times, torch.ones(len(risks)))}
    if targets.ndim == 2:
        each = {
            name: scores(targets[:, j], predictions[:, j], task)
            for j, name in enumerate(names or map(str, range(targets.shape[1])))
        }
        main = "accuracy" if task == "classification" else "R²"
        mean = {main: float(np.mean([found[main] for found in each.values()]))}
        if task == "classification":
            mean["all right"] = float((targets == predictions).all(1).mean())
        return mean | {f"{score} of {name}": value for name, found in each.items() for score, value in found.items()}
    if task == "classification":
        targets, predictions = (np.array(values.tolist()) for values in (targets, predictions))
        right = targets == predictions
        recalls = [right[targets == each].mean() for each in np.unique(targets)]
        return {"accuracy": float(right.mean()), "balanced accuracy": float(np.mean(recalls))}
    targets = targets.astype(np.float64)
    errors = predictions.astype(np.float64) - targets
    power, of_errors = (int(np.frexp(np.abs(values).max())[1]) for values in (targets, errors))  # squares stay finite
    near_one = np.ldexp(errors, -of_errors)
    return {
        "R²": _r2(np.ldexp(targets, -power), np.ldexp(errors, -power)) if len(targets) > 1 else float("nan"),
        "root mean squared error": float(np.ldexp(np.sqrt(np.square(near_one).mean()), of_errors)),
        "mean absolute error": float(np.ldexp(np.abs(near_one).mean(), of_errors)),
    }


def _r2(targets: np.ndarray, errors: np.ndarray) -> float:
    """Returns R². For constant targets it is 1 without an error, and 0 with one, as in scikit-learn."""
    of_errors, of_targets = np.square(errors).sum(), np.square(targets - targets.mean()).sum()
    if of_targets == 0:
        return float(of_errors == 0)
    return float(1 - of_errors / of_targets)
