"""Contenders of a search: candidates with the networks that were trained of them, and may be trained further."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np
import torch
from torch import Tensor, nn

from janossy.estimators.candidates import Candidate
from janossy.estimators.out_of_fold import linked_mean
from janossy.estimators.tasks import Task
from janossy.estimators.training import Trained, Training
from janossy.estimators.trials import Trial


@dataclass(eq=False)
class Run:
    """A network that has been trained on one split, with its outputs for the split's validation sets.

    Shapes: outputs (V, m, out), as ``outputs_by_draw`` gives them; predicted (V, out), their linked mean.

    ``training``: paused, to go on; None if there is nothing to go on with.
    """

    network: nn.Module
    training: Training | None
    trained: Trained
    outputs: Tensor
    predicted: Tensor


@dataclass(eq=False)
class Contender:
    """A candidate in a search. Its runs are on the first of the splits, in their order.

    ``losses``: on the validation sets of its splits, after each round. ``planned``: epochs of all rounds together.
    ``is_over``: True if further rounds would not help, or cannot be.
    """

    index: int
    candidate: Candidate
    runs: list[Run] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    planned: int = 0
    is_over: bool = False
    note: str = ""

    @property
    def seconds(self) -> float:
        """The time that its first network was trained for."""
        return self.runs[0].trained.seconds

    @property
    def gain_hoped_for(self) -> float:
        """The fall of the loss in two further rounds, if each brings as much as the last one did.

        The loss of a learning curve falls ever more slowly, so that hardly more than this is to be expected.
        """
        if len(self.losses) > 1:
            gain = self.losses[-2] - self.losses[-1]
        else:
            losses = [row["valid_loss"] for row in self.runs[0].trained.history]
            gain = min(losses[: (len(losses) + 1) // 2]) - min(losses)
        return 2 * max(0.0, gain)

    @property
    def optimism(self) -> float:
        """The part of the loss that is hidden, as each network was stopped by the very sets that judge it.

        It is the mean difference between each split's validation loss at the epoch that is best for the other splits,
        and at its own best epoch. 0 for one split, and for learners that are not stopped.
        """
        curves = [[row["valid_loss"] for row in run.trained.history] for run in self.runs]
        num = min(map(len, curves), default=0)
        if len(curves) < 2 or num < 2:
            return 0.0
        losses = np.array([curve[:num] for curve in curves])
        chosen = (losses.sum(0) - losses).argmin(1)
        return float((losses[np.arange(len(losses)), chosen] - losses.min(1)).mean())

    def predicted(self, num_splits: int) -> Tensor:
        """The predictions (V, out) of the validation sets of so many splits."""
        return torch.cat([run.predicted for run in self.runs[:num_splits]])

    def trial(self, task: Task, targets: Tensor, weights: Tensor, weight: float) -> Trial:
        """The record of this contender. ``targets``, ``weights``: of the validation sets of all splits, in turn."""
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
    """Returns the weighted mean of the losses of predictions (V, out)."""
    return float((task.losses(predicted, targets) * weights).sum() / weights.sum())


def linked(outputs: Tensor, task: Task) -> Tensor:
    """Returns the predictions (V, out) that outputs by draw (V, m, out) make."""
    return linked_mean(outputs, task.link(1.0))


def _ending(runs: Sequence[Run]) -> str:
    """Returns why the first network that did not end as planned ended."""
    return next((str(run.trained.ending) for run in runs if run.trained.ending), "")
