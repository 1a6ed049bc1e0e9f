"""Ensemble: the weighted mean of several networks, how far the order matters to it, and its temperature."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor, nn
from torch.nn.functional import pad

from janossy.estimators.batches import Examples
from janossy.estimators.networks import SEED, predict_by, steps
from janossy.estimators.out_of_fold import Fold
from janossy.estimators.tasks import Classification, Task
from janossy.inference import Prediction
from janossy.inference.error_bars import Sample
from janossy.kernels.compilation import waiting
from janossy.sets import Ragged

MAX_CALIBRATION_SETS = 5_000
"""The most sets that a temperature is fitted to: one number needs no more."""

WIDTH = 1.0
"""The standard deviation of the logarithm of temperatures, before any set is seen: a few sets do not move it far."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """Predictions of B sets.

    Shapes: mean, standard_error (B, out); change_probability (B,).

    ``standard_error`` is that of the mean over the draw of the permutations, 0 where none are drawn, and NaN after a
    single one. ``change_probability``: how probable it is that more permutations would give another class.
    """

    mean: Tensor
    standard_error: Tensor
    change_probability: Tensor

    @staticmethod
    def cat(parts: Sequence["Outcome"]) -> "Outcome":
        """Returns the predictions of several batches of sets, one after the other."""
        means, errors, changes = (
            torch.cat([getattr(part, name) for part in parts])
            for name in ("mean", "standard_error", "change_probability")
        )
        return Outcome(means, errors, changes)

    def cpu(self) -> "Outcome":
        return Outcome(self.mean.cpu(), self.standard_error.cpu(), self.change_probability.cpu())


@dataclass(eq=False)
class Ensemble:
    """Networks, in evaluation mode, and the weight of each.

    Predictions are averaged after the task's link, over permutations and networks. ``temperature`` divides logits.
    """

    networks: Sequence[nn.Module]
    weights: list[float]
    task: Task
    temperature: float = 1.0

    def to(self, device: str | torch.device) -> "Ensemble":
        """Returns the same, its networks moved to a device."""
        for network in self.networks:
            network.to(device)
        return self

    @waiting()
    def predict(self, sets: Ragged, context: Tensor | None, num_permutations: int, seed: int = SEED) -> Outcome:
        """Returns the mean over ``num_permutations`` orders of each set.

        A set's prediction depends on that set and the seed alone.
        """
        parts = [
            self._predict(sets[some], None if context is None else context[some], num_permutations, seed)
            for some in steps(sets)
        ]
        return Outcome.cat(parts)

    def _predict(self, sets: Ragged, context: Tensor | None, num_permutations: int, seed: int) -> Outcome:
        link = self.task.link(self.temperature)
        each = [predict_by(network, sets, context, link, num_permutations, seed=seed) for network in self.networks]
        weighted = list(zip(self.weights, each, strict=True))
        mean = torch.stack([weight * prediction.mean for weight, prediction in weighted]).sum(0)
        if not any((prediction.standard_error != 0).any() for prediction in each):
            return Outcome(mean, torch.zeros_like(mean), mean.new_zeros(len(mean)))
        sample = _together(mean, weighted)
        return Outcome(mean, sample.standard_error, sample.change_probability())


def check_outputs_finite(outputs: Tensor, owner: str, what: str = "set") -> None:
    """Raises a FloatingPointError if outputs (B, out), one row per set, are not finite."""
    wrong = (~outputs.isfinite().all(1)).nonzero()[:, 0].tolist()
    if wrong:
        others = f", and for {len(wrong) - 1} more," if len(wrong) > 1 else ""
        raise FloatingPointError(
            f"{owner} expects finite predictions; got {outputs[wrong[0]].tolist()} for {what} {wrong[0]}{others} of "
            f"{len(outputs)}. Look for values far outside those of training, and for damaged weights of the model."
        )


def _together(mean: Tensor, drawn: list[tuple[float, Prediction]]) -> Sample:
    """Blocks of the mean of all networks: block i of one goes with block i of another, and with the exact means.

    A network whose mean of a set is exact adds nothing to the error of that set.
    """
    num_blocks = torch.full((len(mean),), 2**62, device=mean.device)
    for _, prediction in drawn:
        sure = (prediction.standard_error == 0).all(1)
        num_blocks = torch.minimum(num_blocks, prediction.num_blocks.where(~sure, 2**62))
    num_blocks = num_blocks.where(num_blocks < 2**62, 2)  # all exact: two blocks that are alike
    most = int(num_blocks.max())
    inside = torch.arange(most, device=mean.device) < num_blocks[:, None]
    deviations = mean.new_zeros(len(mean), most, mean.shape[1])
    for weight, prediction in drawn:
        assert prediction.sample is not None
        sure = (prediction.standard_error == 0).all(1)
        blocks = prediction.sample.block_means[:, :most]
        blocks = pad(blocks, (0, 0, 0, most - blocks.shape[1]))
        used = inside & ~sure[:, None]
        blocks = blocks.where(used[..., None], 0)
        average = blocks.sum(1, keepdim=True) / num_blocks[:, None, None]
        deviations = deviations + weight * (blocks - average).where(used[..., None], 0)
    sets, numbers = inside.cpu().nonzero(as_tuple=True)
    unlimited = torch.full((len(mean),), torch.inf, dtype=torch.float64, device=mean.device)
    return Sample((mean[:, None] + deviations)[inside], sets, numbers, unlimited)


def temperature(folds: Sequence[Fold], examples: Examples, task: Classification) -> float:
    """Returns the divisor of all logits at which validation sets are the least surprising (Guo et al., 2017).

    Maximum a posteriori, as a few sets that are all predicted well would ask for probabilities of 0 and 1. The logits
    are those that the folds keep.
    """
    share = min(1.0, MAX_CALIBRATION_SETS / sum(len(fold.sets) for fold in folds))
    some = [_first(fold, max(1, int(share * len(fold.sets)))) for fold in folds]
    targets = [(examples.targets[fold.sets], examples.weights[fold.sets]) for fold in some]

    def surprise(log_temperature: float) -> float:
        link = task.link(exp(log_temperature))
        total = log_temperature**2 / (2 * WIDTH**2)
        for fold, (target, weight) in zip(some, targets, strict=True):
            total += float((task.losses(fold.mean(link), target) * weight).sum())
        return total

    return exp(minimize_scalar(surprise, bounds=(-3, 3), method="bounded").x)


def _first(fold: Fold, num: int) -> Fold:
    return replace(fold, sets=fold.sets[:num], outputs=[outputs[:num] for outputs in fold.outputs])
