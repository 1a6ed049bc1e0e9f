"""Calibration: the temperature at which an ensemble's probabilities suit sets that its networks have not seen."""

from collections.abc import Sequence
from math import exp, nan

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor, nn
from torch.nn.functional import pad

from janossy.estimators.batches import Examples
from janossy.estimators.ensemble import predict_by, steps
from janossy.estimators.search import Part
from janossy.estimators.tasks import Classification

MOST_SETS = 5_000
"""One number needs no more."""

WIDTH = 1.0
"""The standard deviation of the logarithm of temperatures, before any set is seen: a few sets do not move it far."""


def temperature(parts: Sequence[Part], examples: Examples, task: Classification, num_permutations: int) -> float:
    """The divisor of all logits at which the sets that were left out are the least surprising (Guo et al., 2017).

    Maximum a posteriori, as a few sets that are all predicted well would ask for probabilities of 0 and 1.
    """
    share = min(1.0, MOST_SETS / sum(len(sets) for _, _, sets in parts))
    logits, targets, weights = [], [], []
    for networks, each, sets in parts:
        some = examples[sets[: max(1, int(share * len(sets)))]]
        logits.append([(w, _draws(network, some, num_permutations)) for network, w in zip(networks, each, strict=True)])
        targets.append(some.targets)
        weights.append(some.weights)

    def surprise(log_temperature: float) -> float:
        link = task.link(exp(log_temperature))
        total = log_temperature**2 / (2 * WIDTH**2)
        for part, target, weight in zip(logits, targets, weights, strict=True):
            mean = sum(w * link(draws).nanmean(1) for w, draws in part)
            assert isinstance(mean, Tensor)
            total += float((task.losses(mean, target) * weight).sum())
        return total

    return exp(minimize_scalar(surprise, bounds=(-3, 3), method="bounded").x)


def _draws(network: nn.Module, examples: Examples, num_permutations: int) -> Tensor:
    """The logits of each set and draw, (B, m, C), NaN behind those of a set that has fewer."""
    parts = []
    for step in steps(examples.sets):
        some = examples[step]
        prediction = predict_by(network, some.sets, some.context, None, num_permutations, error_bar=False)
        assert prediction.outputs is not None
        parts.append(prediction.outputs)
    most = max(part.shape[1] for part in parts)
    return torch.cat([pad(part, (0, 0, 0, most - part.shape[1]), value=nan) for part in parts])
