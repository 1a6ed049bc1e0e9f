"""Tasks: classes or numbers per set, with the loss of a prediction."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, huber_loss, logsigmoid, softplus

from janossy.estimators.description import LossName
from janossy.estimators.survival import concordance, partial_likelihood_losses
from janossy.inference.prediction import Link

LEAST_PROBABILITY = 1e-12
"""The smallest probability that the loss distinguishes, so that one confident mistake cannot decide a search."""


class Task(Protocol):
    """The interface of classification and regression for training, search and prediction.

    Networks give ``num_outputs`` numbers per set. ``link(temperature)`` maps them to the values that are averaged over
    permutations and networks. ``losses`` compares these averages (B, out) with the targets, (B,). ``criterion``
    compares the numbers themselves.
    """

    @property
    def num_outputs(self) -> int: ...

    @property
    def criterion(self) -> nn.Module: ...

    def link(self, temperature: float) -> Link: ...

    def losses(self, mean: Tensor, targets: Tensor) -> Tensor: ...

    def score(self, mean: Tensor, targets: Tensor, weights: Tensor) -> float: ...


class ClassLoss(nn.Module):
    """The cross-entropy of outputs before the link, averaged over the classifications of a set.

    Shapes: (B, out), (B,) or (B, t) -> (B,).
    """

    def __init__(self, task: "Classification") -> None:
        super().__init__()
        self.task = task

    def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if self.task.ordinal:
            return -_ordinal_log_probabilities(outputs).gather(1, targets[:, None])[:, 0]
        columns = targets.reshape(len(targets), -1).T
        parts = self.task.parts(outputs)
        each = [cross_entropy(part, of, reduction="none") for part, of in zip(parts, columns, strict=True)]
        return torch.stack(each, 1).mean(1)


def _ordinal_log_probabilities(outputs: Tensor) -> Tensor:
    """Returns the log-probabilities of K ordered classes from K - 1 outputs, (…, K - 1) -> (…, K).

    The first output is the logit of a class above the lowest. Each further output lowers the logit of the next class.
    """
    gaps = softplus(outputs[..., 1:])
    above = torch.cat([outputs[..., :1], outputs[..., :1] - gaps.cumsum(-1)], -1)
    # sigmoid(a) - sigmoid(b) is sigmoid(a) sigmoid(-b) (1 - exp(b - a)).
    none = torch.zeros_like(outputs[..., :1])
    left = torch.cat([none, logsigmoid(above)], -1)
    right = torch.cat([logsigmoid(-above), none], -1)
    between = torch.cat([none, (-torch.expm1(-gaps)).log(), none], -1)
    return left + right + between


@dataclass(frozen=True)
class Classification:
    """One or several classifications of a set, by cross-entropy. The score is the accuracy. Both are means over these.

    - ``sizes``: the number of classes of each classification. Their probabilities are side by side.
    - ``ordinal``: True if the classes of a single classification ascend. Its outputs are cumulative logits (McCullagh,
      1980), whose distances depend on the set too.
    - ``doubt``: losses clip probabilities to between this and 1 - ``doubt``. A few validation sets that are all right
      do not show that errors are impossible.

    Shapes: targets (B,) for one, (B, t) for several, int64; mean (B, sum of sizes).
    """

    sizes: tuple[int, ...]
    ordinal: bool = False
    doubt: float = field(default=0.0, compare=False)  # a loaded model has none

    @property
    def num_outputs(self) -> int:
        return sum(self.sizes) - self.ordinal

    @property
    def criterion(self) -> nn.Module:
        return ClassLoss(self)

    def link(self, temperature: float) -> Link:
        if self.ordinal:
            return lambda outputs: _ordinal_log_probabilities(outputs / temperature).exp()
        return lambda outputs: torch.cat([part.softmax(-1) for part in self.parts(outputs / temperature)], -1)

    def parts(self, mean: Tensor) -> tuple[Tensor, ...]:
        """Returns the columns of each classification, as one tensor each."""
        return cast("tuple[Tensor, ...]", mean.split(self.sizes, -1))

    def chosen(self, mean: Tensor, targets: Tensor) -> Tensor:
        """Returns the entries (B, t) of the target classes."""
        columns = targets if targets.dim() == 2 else targets[:, None]
        each = [part.gather(1, columns[:, j : j + 1]) for j, part in enumerate(self.parts(mean))]
        return torch.cat(each, 1)

    def codes(self, mean: Tensor) -> Tensor:
        """Returns the most probable classes, (B, t)."""
        return torch.stack([part.argmax(1) for part in self.parts(mean)], 1)

    def losses(self, mean: Tensor, targets: Tensor) -> Tensor:
        least = max(self.doubt, LEAST_PROBABILITY)
        return -self.chosen(mean, targets).clamp(least, 1 - self.doubt).log().mean(1)

    def surprise(self, mean: Tensor, targets: Tensor) -> Tensor:
        """Returns the losses to which a temperature is fitted: they expect another class by the doubt (Platt, 1999)."""
        right = self.chosen(mean, targets)
        of_right, of_wrong = (each.clamp_min(LEAST_PROBABILITY).log() for each in (right, 1 - right))
        return -((1 - self.doubt) * of_right + self.doubt * of_wrong).mean(1)

    def score(self, mean: Tensor, targets: Tensor, weights: Tensor) -> float:
        right = (self.codes(mean) == targets.reshape(len(targets), -1)).to(weights).mean(1)
        return float((right * weights).sum() / weights.sum())


LOSSES: tuple[LossName, ...] = get_args(LossName)

HUBER = 1.345
"""The standard deviations beyond which Huber's loss is linear. It keeps 95 % of the efficiency for normal errors."""


ANCHOR = 0.1
"""The weight of the squared mean log-hazard of a batch, which gives networks one zero, so that they can be averaged."""


class RegressionLoss(nn.Module):
    """The mean over targets of the loss of each target, per set: (B, t · q), (B, t) -> (B,).

    - "squared_error"
    - "huber" (1964), which is linear beyond ``HUBER``
    - "poisson" and "gamma": their negative log-likelihoods without terms of the targets alone. Outputs are logarithms
      of means.
    - "quantile": the mean over quantiles of the pinball loss (Koenker and Bassett, 1978). The q outputs of a target are
      side by side.
    - "cox": the negative partial likelihood, for targets of a time and an event (``survival``). The likelihood leaves
      the mean log-hazard open; it is held near 0.
    """

    def __init__(self, loss: LossName = "squared_error", quantiles: Sequence[float] = ()) -> None:
        super().__init__()
        self.loss, self.quantiles = loss, tuple(quantiles)

    def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if self.loss == "cox":
            risks = outputs[:, 0]
            return partial_likelihood_losses(risks, targets) + ANCHOR * risks.mean().square()
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
    """A regression of numbers in units of their scale, by a named loss. The score is R², averaged over the targets.

    For quantiles, the score is that of the quantile nearest to the median. For "cox", it is the concordance, and
    targets (B, 2) are a time and an event.
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
        """The position of the quantile nearest to the median; 0 for other losses."""
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
        if self.loss == "cox":
            return partial_likelihood_losses(mean[:, 0], targets)
        return cast(Tensor, self.criterion(mean, targets))

    def points(self, mean: Tensor) -> Tensor:
        """Returns one number per target, (B, t): for quantiles, the middle one."""
        return mean[:, self.middle :: max(1, len(self.quantiles))]

    def score(self, mean: Tensor, targets: Tensor, weights: Tensor) -> float:
        mean = self.points(mean)
        if self.loss == "cox":
            return concordance(mean[:, 0], targets, weights)
        weights = weights[:, None] / weights.sum()
        left = (weights * (targets - mean).square()).sum(0)
        there = (weights * (targets - (weights * targets).sum(0)).square()).sum(0)
        return float((1 - left / there.clamp_min(torch.finfo(there.dtype).tiny)).mean())
