"""What is predicted of a set: a class, or numbers; and what is lost by a wrong prediction."""

from dataclasses import dataclass
from typing import ClassVar, Protocol, cast

import torch
from torch import Tensor, nn

from janossy.inference.prediction import Link

LEAST_PROBABILITY = 1e-12
"""Below this a probability costs no more: one confident mistake of one network must not decide a search."""


class Task(Protocol):
    """Classification or regression, as training, search and prediction see it.

    Networks give ``num_outputs`` numbers a set. ``link(temperature)`` maps them to what is averaged over permutations
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


class SquaredError(nn.Module):
    """The mean over outputs of the squared error, for each set: (B, t), (B, t) -> (B,)."""

    def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).square().mean(1)


@dataclass(frozen=True)
class Regression:
    """Numbers, standardised, by squared error; the score is R², averaged over them."""

    num_outputs: int
    criterion: ClassVar[nn.Module] = SquaredError()

    def link(self, temperature: float) -> Link:
        return lambda outputs: outputs

    def losses(self, mean: Tensor, targets: Tensor) -> Tensor:
        return cast(Tensor, self.criterion(mean, targets))

    def score(self, mean: Tensor, targets: Tensor, weights: Tensor) -> float:
        weights = weights[:, None] / weights.sum()
        left = (weights * (targets - mean).square()).sum(0)
        there = (weights * (targets - (weights * targets).sum(0)).square()).sum(0)
        return float((1 - left / there.clamp_min(torch.finfo(there.dtype).tiny)).mean())
