"""Contenders of a search: candidates with their trained networks, which may be trained further."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np
import torch
from torch import Tensor, nn

from janossy.estimators.candidates import Candidate
from janossy.estimators.classical.learners import FittedLearner
from janossy.estimators.out_of_fold import linked_mean
from janossy.estimators.tasks import Task
from janossy.estimators.training import Trained, Training
from janossy.estimators.trials import Trial

BY_CHANCE = 2.0
"""The most standard errors by which the best of many epochs seems better than it is."""


@dataclass(eq=False)
class Run:
    """A network that was trained on one split, with its outputs for the split's validation sets.

    ``training`` is the paused training, or None if it cannot continue.

    Shapes: outputs (V, m, out), as ``outputs_by_draw`` gives them; predicted (V, out), their linked mean.
    """

    network: nn.Module
    training: Training | None
    trained: Trained
    outputs: Tensor
    predicted: Tensor


@dataclass(eq=False)
class Contender:
    """A candidate in a search. Its runs are on the first splits, in the order of the splits.

    - ``losses``: on the validation sets of its splits, after each round.
    - ``standard_error``: that of its loss on the validation sets of one split.
    - ``planned``: the epochs of all rounds together.
    - ``is_over``: True if further rounds would not help, or are not possible.
    - ``fitted``: a classical learner as fitted to the first split.
    - ``of_all``: a classical learner fitted to all sets.
    """

    index: int
    candidate: Candidate
    runs: list[Run] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    standard_error: float = inf
    planned: int = 0
    is_over: bool = False
    note: str = ""
    fitted: FittedLearner | None = None
    of_all: nn.Module | None = None

    @property
    def seconds(self) -> float:
        """The training time of the first network."""
        return self.runs[0].trained.seconds

    @property
    def gain_hoped_for(self) -> float:
        """The fall of the loss in two further rounds, if each lowers it by the same factor as the last round.

        A round doubles the training, and learning curves are at best power laws of its length. Losses that may be
        negative have no factor. For these, each round is taken to bring as much as the last.
        """
        if len(self.losses) > 1:
            before, last = self.losses[-2:]
        else:
            losses = [row["valid_loss"] for row in self.runs[0].trained.history]
            before, last = min(losses[: (len(losses) + 1) // 2]), min(losses)
        if last >= before:
            return 0.0
        return last - last * (last / before) ** 2 if last > 0 else 2 * (before - last)

    @property
    def optimism(self) -> float:
        """The amount by which the loss is too small, because each network was stopped by the sets that judge it.

        It is the mean difference of each split's validation loss between the epoch that is best for the other splits
        and its own best epoch. It is 0 for one split, and for learners that are not stopped. It is at most two standard
        errors of the loss on a split. Networks that become sure of few sets may have any loss at the others' epoch.
        """
        curves = [[row["valid_loss"] for row in run.trained.history] for run in self.runs]
        num = min(map(len, curves), default=0)
        if len(curves) < 2 or num < 2:
            return 0.0
        losses = np.array([curve[:num] for curve in curves])
        chosen = (losses.sum(0) - losses).argmin(1)
        difference = float((losses[np.arange(len(losses)), chosen] - losses.min(1)).mean())
        return min(difference, BY_CHANCE * self.standard_error)

    @property
    def weighted(self) -> list[tuple[nn.Module, float]]:
        """The networks that predict, with weights that add up to 1.

        A learner fitted to all sets takes the place of the one that left out a split. It has half of the weight beside
        those of several splits, whose mean varies less.
        """
        if self.of_all is not None and len(self.runs) == 1:
            return [(self.of_all, 1.0)]
        part = 1.0 if self.of_all is None else 0.5
        networks = [(run.network, part / len(self.runs)) for run in self.runs]
        return networks if self.of_all is None else [*networks, (self.of_all, part)]

    def predicted(self, num_splits: int) -> Tensor:
        """Returns the predictions (V, out) of the validation sets of the first ``num_splits`` splits."""
        return torch.cat([run.predicted for run in self.runs[:num_splits]])

    def trial(self, task: Task, targets: Tensor, weights: Tensor, weight: float) -> Trial:
        """Returns the record of this contender.

        ``targets`` and ``weights`` are those of the validation sets of all splits, in the order of the splits.
        """
        named = self.candidate.strategy, dict(self.candidate.settings)
        if not self.runs:
            return Trial(*named, 0, 0, 0.0, inf, -inf, note=self.note, candidate=self.index)
        predicted = self.predicted(len(self.runs))
        targets, weights = targets[: len(predicted)], weights[: len(predicted)]
        return Trial(
            *named,
            len(self.losses) - 1,
            max(len(run.trained.history) for run in self.runs),
            sum(run.trained.seconds for run in self.runs),
            mean_loss(task, predicted, targets, weights),
            task.score(predicted, targets, weights),
            weight,
            self.note or _ending(self.runs),
            [run.trained.history for run in self.runs],
            self.index,
        )


def mean_loss(task: Task, predicted: Tensor, targets: Tensor, weights: Tensor) -> float:
    """Returns the weighted mean loss of predictions (V, out)."""
    return float((task.losses(predicted, targets) * weights).sum() / weights.sum())


def linked(outputs: Tensor, task: Task) -> Tensor:
    """Returns the predictions (V, out) from outputs by draw (V, m, out)."""
    return linked_mean(outputs, task.link(1.0))


def _ending(runs: Sequence[Run]) -> str:
    """Returns the ending of the first network that did not end as planned."""
    return next((str(run.trained.ending) for run in runs if run.trained.ending), "")
