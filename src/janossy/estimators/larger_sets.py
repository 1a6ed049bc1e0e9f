"""Sets larger than in training: what predicts them is chosen by training on the smaller sets alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor

from janossy.estimators.batches import Examples
from janossy.estimators.contenders import Contender, Run, linked
from janossy.estimators.interrupts import now
from janossy.estimators.out_of_fold import outputs_by_draw
from janossy.estimators.splits import Split
from janossy.estimators.tasks import Regression, Task
from janossy.estimators.trainer import Trainer

FEWEST_SETS = 50
"""The fewest sets to learn from, and the fewest larger ones to judge by."""

MOST_SETS = 1_000
"""The most larger sets that judge."""

REACH = 1.5
"""The factor by which the largest set must at least exceed the median size: else larger sets tell nothing."""

SURE_TRAINING = 1.2
"""The number of times the estimated seconds of a training that it surely ends in."""

BEYOND_CHANCE = 2.0
"""The number of standard errors by which a candidate must be better than the average on larger sets."""


def can_extrapolate(task: Task, sizes: Tensor) -> bool:
    """Returns True for numbers to predict of sets whose sizes (B,) differ enough.

    The losses of "cox" are no losses of single sets.
    """
    is_of_numbers = isinstance(task, Regression) and task.loss != "cox"
    return is_of_numbers and len(sizes) >= 2 * FEWEST_SETS and bool(sizes.max() >= REACH * sizes.median())


def split_by_size(split: Split, sizes: Tensor) -> tuple[Split, Tensor] | None:
    """Returns the sets of a split that are at most of median size, and the numbers of larger sets that judge.

    None if there are too few of either. Shapes: sizes (B,), of all sets.
    """
    middle = sizes.median()
    training, validation = (numbers[sizes[numbers] <= middle] for numbers in split)
    larger = (sizes > middle).nonzero()[:, 0]
    if len(training) < FEWEST_SETS or not len(validation) or len(larger) < FEWEST_SETS:
        return None
    return (training, validation), larger[:: ceil(len(larger) / MOST_SETS)]


def by_growth(totals: Sequence[Contender], sizes: Tensor, targets: Tensor) -> list[Contender]:
    """Sorts totals over tuples of one element, two, and so on by how well the numbers of tuples explain the targets.

    Shapes: sizes (B,), targets (B, t).
    """
    explained, numbers = [], torch.ones_like(sizes, dtype=torch.double)
    for k in range(len(totals)):
        numbers = numbers * (sizes - k)
        correlations = torch.corrcoef(torch.cat([numbers[None], targets.double().T]))[0, 1:]
        explained.append(float(correlations.square().nan_to_num().sum()))
    return [total for _, total in sorted(zip(explained, totals, strict=True), key=lambda each: -each[0])]


@dataclass(frozen=True)
class _Copies:
    """Copies of a search's contenders, which are trained on the smaller sets and judged by larger ones."""

    trainer: Trainer
    """The trainer of the search."""
    split: Split
    """The smaller sets of its first split."""
    larger: Examples
    part: float
    """The part of the training sets that is smaller."""

    def trained(self, contender: Contender, latest: float, further: float = 0.0) -> Run | None:
        """Returns a contender's copy after its training; None if the time does not suffice.

        ``further``: the time must also suffice for so many times the copy's training.
        """
        copied = Contender(contender.index, contender.candidate)
        # beside another contender, a training that diverges ends with a note
        on_smaller = self.trainer.on_split(self.split, [copied, contender], "smaller sets")
        if (1 + further) * self._seconds(on_smaller, contender) > latest - now():
            return None
        if copied.candidate.classical:
            on_smaller.fit(copied, latest, 1)
        else:
            on_smaller.train_further(copied, 1.0, latest)
        is_whole = copied.runs and not copied.note and not copied.runs[0].trained.ending
        return copied.runs[0] if is_whole else None

    def _seconds(self, on_smaller: Trainer, contender: Contender) -> float:
        """Estimates the seconds of a copy's training."""
        if not contender.runs:
            return on_smaller.estimate(contender, 1.0)
        epochs = on_smaller.plan(0, 1.0).epochs / contender.planned if contender.planned else 1.0
        return self.part * contender.seconds * epochs

    def seconds_on_all(self, run: Run) -> float:
        """Returns the seconds in which a contender surely trains on sets of all sizes, given the run of its copy."""
        epochs = self.trainer.plan(0, 1.0).epochs / len(run.trained.history)
        return SURE_TRAINING * run.trained.seconds * epochs / self.part

    def predicted(self, run: Run) -> Tensor:
        """Returns a copy's predictions of the larger sets."""
        outputs = outputs_by_draw(run.network.eval(), self.larger, self.trainer.num_permutations)
        return linked(outputs, self.trainer.task)

    def losses(self, predicted: Tensor) -> Tensor:
        """Returns the weighted loss of each larger set."""
        return self.trainer.task.losses(predicted, self.larger.targets) * self.larger.weights


def best_for_larger(
    trainer: Trainer, average: Mapping[Contender, int], others: Sequence[Contender]
) -> Contender | None:
    """Returns the contender that should predict sets larger than in training; None for the average.

    Copies of all train on the sets of at most median size. On larger sets, the best of the others must be better than
    each of the average, and than their mean, by more than two standard errors of the difference. If the time does not
    suffice for all of the average, those of the largest counts stand for it. It must suffice for the training of the
    chosen one on all sizes too. The one that grows most like the targets comes before the average, the rest if time is
    left.

    Args:
        trainer: that of the search, after the training of ``average``.
        average: contenders with their counts in the average.
        others: candidates that are not trained yet: totals over tuples of one element, two, and so on.
    """
    sizes = trainer.examples.sets.offsets.diff().cpu()
    found = split_by_size(trainer.splits[0], sizes)
    if found is None:
        return None
    split, larger = found
    copies = _Copies(trainer, split, trainer.examples[larger], len(split[0]) / len(trainer.splits[0][0]))
    first, *less_likely = by_growth(others, sizes, trainer.examples.targets.cpu())
    run = copies.trained(first, trainer.deadline)
    if run is None:
        return None
    best, of_best = first, copies.losses(copies.predicted(run))
    latest = trainer.deadline - copies.seconds_on_all(run)
    of_average: list[tuple[int, Tensor]] = []
    for contender in sorted(average, key=lambda each: -average[each]):
        if (run := copies.trained(contender, latest)) is not None:
            of_average.append((average[contender], copies.predicted(run)))
    if not of_average:
        return None
    for other in less_likely:
        run = copies.trained(other, latest, SURE_TRAINING / copies.part)
        if run is not None and copies.seconds_on_all(run) <= trainer.deadline - now():
            of_other = copies.losses(copies.predicted(run))
            if of_other.mean() < of_best.mean():
                best, of_best = other, of_other
    total = sum(count for count, _ in of_average)
    mean = torch.stack([count / total * each for count, each in of_average]).sum(0)
    gains = [copies.losses(each) - of_best for each in (mean, *(each for _, each in of_average))]
    is_better = all(gain.mean() > BEYOND_CHANCE * gain.std(correction=0) / len(gain) ** 0.5 for gain in gains)
    return best if is_better else None
