"""Averages of contenders, chosen by their validation sets on all splits."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from janossy.estimators.contenders import Contender

PICKS = 20
"""The most steps in which the weights of an average are chosen."""

MAX_AVERAGED = 6
"""The most candidates that are averaged."""

BEYOND_CHANCE = 2.0
"""The number of standard errors by which an average on fewer splits must be better."""

MAY_BE_EASY = 200
"""The number of sets below which all of them may be easy by chance."""

BEYOND_LUCK = 3.0
"""The number of standard errors for so few sets. The best of a dozen candidates is also the luckiest one on these."""

Losses = Callable[[Tensor], Tensor]
"""Maps predictions (V, out) of the first V validation sets to the loss of each set, (V,)."""


def best_average(contenders: Sequence[Contender], losses: Losses) -> tuple[dict[Contender, int], int]:
    """Returns the best average: the count of each contender, and the number of splits on which it was chosen.

    Averages of contenders that were trained on more splits come first, because all sets then choose and calibrate them.
    An average on fewer splits is taken if it is better on these by more than two standard errors of the difference. If
    they hold out few sets, all of them may be easy by chance. Then it takes three errors, with the deviation of the
    losses of the other average on all of its splits, if that is larger.
    """
    found: list[tuple[dict[Contender, int], int, Tensor]] = []
    for num in sorted({len(contender.runs) for contender in contenders}):
        counts = counts_in_average([each for each in contenders if len(each.runs) >= num], num, losses)
        mean = sum(count * contender.predicted(num) for contender, count in counts.items()) / sum(counts.values())
        found.append((counts, num, losses(torch.as_tensor(mean))))

    def is_as_good(place: int) -> bool:
        of_average = found[place][2]
        for _, _, of_other in found[:place]:
            difference = of_average[: len(of_other)] - of_other
            deviation = difference.std(correction=0)
            least = BEYOND_CHANCE * deviation
            if len(of_other) < MAY_BE_EASY:
                least = BEYOND_LUCK * max(deviation, of_average.std(correction=0))
            if difference.mean() > least / len(of_other) ** 0.5:
                return False
        return True

    return next(found[place][:2] for place in reversed(range(len(found))) if is_as_good(place))


def counts_in_average(contenders: Sequence[Contender], num_splits: int, losses: Losses) -> dict[Contender, int]:
    """Returns the count of each contender in the best average on the validation sets of ``num_splits`` splits."""
    outputs = [contender.predicted(num_splits) for contender in contenders]
    optimism = [contender.optimism for contender in contenders]
    return dict(zip(contenders, picks(outputs, losses, optimism), strict=True))


def picks(outputs: Sequence[Tensor], losses: Losses, optimism: Sequence[float] | None = None) -> list[int]:
    """Returns the count of each prediction in the average.

    All predictions that are level with the best are counted first, because a few sets cannot tell them apart. Level
    means within the standard error of the mean difference of their losses. Then predictions are picked one by one. Each
    pick is the one that lowers the loss the most, until no pick lowers it (Caruana et al., 2004).

    Args:
        losses: maps predictions to the loss of each set, (V,).
        optimism: the amount by which the mean loss of each prediction is too small. That of an average is the mean of
            its parts. None for 0.
    """
    hidden = [0.0] * len(outputs) if optimism is None else list(optimism)
    each = [losses(prediction) + more for prediction, more in zip(outputs, hidden, strict=True)]
    order = sorted(range(len(outputs)), key=lambda i: float(each[i].mean()))
    counts = [0] * len(outputs)
    for i in order[:MAX_AVERAGED]:
        difference = each[i] - each[order[0]]
        counts[i] = int(difference.mean() <= difference.std(correction=0) / len(difference) ** 0.5)

    def loss(counts: Sequence[int]) -> float:
        parts = [(count / sum(counts), i) for i, count in enumerate(counts) if count]
        average = torch.stack([part * outputs[i] for part, i in parts]).sum(0)
        return float(losses(average).mean()) + sum(part * hidden[i] for part, i in parts)

    least = loss(counts)
    while sum(counts) < PICKS:
        allowed = [i for i in order if counts[i] or sum(map(bool, counts)) < MAX_AVERAGED]
        found = [loss([count + (i == j) for j, count in enumerate(counts)]) for i in allowed]
        if min(found) >= least:
            break
        least = min(found)
        counts[allowed[found.index(least)]] += 1
    return counts
