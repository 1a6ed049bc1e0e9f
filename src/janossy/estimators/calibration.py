"""Calibration: the temperature at which probabilities of validation sets are what they say."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import exp

import torch
from scipy.optimize import minimize_scalar

from janossy.estimators.batches import Examples
from janossy.estimators.out_of_fold import Fold
from janossy.estimators.tasks import Classification

MAX_CALIBRATION_SETS = 5_000
"""The most sets that a temperature is fitted to. One number needs no more."""

WIDTH = 1.0
"""The prior standard deviation of the logarithm of a temperature. A few sets do not move the temperature far."""


def temperature(folds: Sequence[Fold], examples: Examples, task: Classification) -> float:
    """Returns the temperature (``least_surprising``) of the validation sets, by the logits that the folds keep.

    A set in folds of several searches has the mean of their probabilities.
    """
    share = min(1.0, MAX_CALIBRATION_SETS / len(torch.cat([fold.sets for fold in folds]).unique()))
    some = [_first(fold, max(1, int(share * len(fold.sets)))) for fold in folds]
    sets, places, counts = torch.cat([fold.sets for fold in some]).unique(return_inverse=True, return_counts=True)
    targets, weights = examples.targets[sets], examples.weights[sets]

    def losses(temperature: float) -> float:
        link = task.link(temperature)
        each = torch.cat([fold.mean(link) for fold in some])
        mean = each.new_zeros(len(sets), each.shape[1]).index_add(0, places, each) / counts[:, None]
        return float((task.surprise(mean, targets) * weights).sum())

    return least_surprising(losses)


def least_surprising(losses: Callable[[float], float]) -> float:
    """Returns the divisor of logits at which sets are the least surprising (Guo et al., 2017).

    It is the maximum a posteriori, because a few well-predicted sets would ask for probabilities of 0 and 1.

    Args:
        losses: maps a temperature to the sum of the sets' negative log-likelihoods.
    """

    def surprise(log_temperature: float) -> float:
        return log_temperature**2 / (2 * WIDTH**2) + losses(exp(log_temperature))

    return exp(minimize_scalar(surprise, bounds=(-3, 3), method="bounded").x)


def _first(fold: Fold, num: int) -> Fold:
    return replace(fold, sets=fold.sets[:num], outputs=[outputs[:num] for outputs in fold.outputs])
