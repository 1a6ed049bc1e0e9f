"""The tasks: a class or numbers per set, and the loss of a wrong prediction."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, cast, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import huber_loss

from janossy.estimators.description import LossName
from janossy.inference.prediction import Link

LEAST_PROBABILITY = 1e-12
"""Below this a probability costs no more: one confident mistake of one network must not decide a search."""


class Task(Protocol):
    """Classification or regression, as training, search and prediction see it.

    Networks give ``num_outputs`` numbers per set. ``link(temperature)`` maps them to what is averaged over permutations
    and networks, and ``losses`` compares such averages (B, out) with the targets: (B,), as ``criterion`` does with the
    numbers themselves.
    """

    @property
    def num_outputs(self) -> int: ...

    @property
    def criterion(self) -> nn.Module: ...

    def link(self, temperature: float) -> Link: ...

    def losses(self, mean: Tensor, targets: Tensor) -> Tensor: ...

    def score(self, mean: Tensor, targets: Tensor, weights: Tensor) -> float: ...


@dataclass(frozen=True)
class Classification:
    """One of several classes, by cross-entropy; the score is the accuracy."""

    num_outputs: int
    criterion: ClassVar[nn.Module] = nn.CrossEntropyLoss(reduction="none")

    def link(self, temperature: float) -> Link:
        return lambda outputs: torch.softmax(outputs / temperature, -1)

    def losses(self, mean: Tensor, targets: Tensor) -> Tensor:
        return -mean.gather(1, targets[:, None])[:, 0].clamp_min(LEAST_PROBABILITY).log()

    def score(self, mean: Tensor, targets: Tensor, weights: Tensor) -> float:
        return float(((mean.argmax(1) == targets) * weights).sum() / weights.sum())


LOSSES: tuple[LossName, ...] = get_args(LossName)

HUBER = 1.345
"""Standard deviations beyond which Huber's loss is linear: of normal errors it keeps 95 % of the efficiency."""


class RegressionLoss(nn.Module):
    """The mean over targets of a loss of each, for each set: (B, t · q), (B, t) -> (B,).

    - "squared_error", and "huber" (1964), which is linear beyond ``HUBER``;
    - "poisson" and "gamma": their negative log-likelihoods less what depends on the targets alone. Outputs are the
      logarithms of means;
    - "quantile": the mean over quantiles of the pinball loss (Koenker and Bassett, 1978). The q outputs of a target
      stand side by side.
    """

    def __init__(self, loss: LossName = "squared_error", quantiles: Sequence[float] = ()) -> None:
        super().__init__()
        self.loss, self.quantiles = loss, tuple(quantiles)

    def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if self.loss == "squared_error":
            each = (outputs - targets).square()
        elif self.loss == "huber":
            each = huber_loss(outputs, targets.expand_as(outputs), reduction="none", delta=HUBER)
        elif self.loss == "poisson":
            each = outputs.exp() - targets * outputs
        elif self.loss == "gamma":
            each = outputs + targets * (-outputs).exp()
        else:
            levels = outputs.new_tensor(self.quantiles)
            errors = targets[..., None] - outputs.unflatten(1, (-1, len(levels)))
            each = torch.maximum(levels * errors, (levels - 1) * errors).mean(2)
        return each.mean(1)


@dataclass(frozen=True)
class Regression:
    """Numbers, in units of their scale, by a loss by name; the score is R², averaged over them.

    Of quantiles the score is of the one nearest to the median.
    """

    num_targets: int
    loss: LossName = "squared_error"
    quantiles: tuple[float, ...] = ()

    @property
    def num_outputs(self) -> int:
        return self.num_targets * max(1, len(self.quantiles))

    @property
    def criterion(self) -> nn.Module:
        return RegressionLoss(self.loss, self.quantiles)

    @property
    def middle(self) -> int:
        """The place of the quantile nearest to the median, 0 of other losses."""
        return min(range(len(self.quantiles)), key=lambda i: abs(self.quantiles[i] - 0.5), default=0)

    def link(self, temperature: float) -> Link:
        if self.loss in ("poisson", "gamma"):
            return torch.exp
        if self.loss == "quantile":  # sorted, no two cross, and the loss is no larger (Chernozhukov et al., 2010)
            return lambda outputs: outputs.unflatten(-1, (self.num_targets, -1)).sort(-1).values.flatten(-2)
        return lambda outputs: outputs

    def losses(self, mean: Tensor, targets: Tensor) -> Tensor:
        if self.loss in ("poisson", "gamma"):
            mean = mean.clamp_min(torch.finfo(mean.dtype).tiny).log()
        return cast(Tensor, self.criterion(mean, targets))

    def points(self, mean: Tensor) -> Tensor:
        """One number per target, (B, t): of quantiles the middle one."""
        return mean[:, self.middle :: max(1, len(self.quantiles))]

    def score(self, mean: Tensor, targets: Tensor, weights: Tensor) -> float:
        mean = self.points(mean)
        weights = weights[:, None] / weights.sum()
        left = (weights * (targets - mean).square()).sum(0)
        there = (weights * (targets - (weights * targets).sum(0)).square()).sum(0)
        return float((1 - left / there.clamp_min(torch.finfo(there.dtype).tiny)).mean())
