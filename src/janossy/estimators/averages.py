"""Averages of contenders, chosen by the validation sets of all splits that they have been trained on."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from janossy.estimators.contenders import Contender

PICKS = 20
"""Steps of the choice of weights."""

MAX_AVERAGED = 6
"""The most candidates that are averaged."""

BEYOND_CHANCE = 2.0
"""Standard errors by which an average on fewer splits has to be better."""

Losses = Callable[[Tensor], Tensor]
"""Maps predictions (V, out) of the first V validation sets to the loss of each set, (V,)."""


def best_average(contenders: Sequence[Contender], losses: Losses) -> tuple[dict[Contender, int], int]:
    """Returns the best average: how often each contender counts, and on how many splits it was chosen.

    Averages of contenders that have been trained on more splits come first, as all sets choose and calibrate them. One
    on fewer is taken if it is better on the first split by more than two standard errors of the difference.
    """
    found = []
    for num in sorted({len(contender.runs) for contender in contenders}):
        counts = counts_in_average([each for each in contenders if len(each.runs) >= num], num, losses)
        mean = sum(count * contender.predicted(1) for contender, count in counts.items()) / sum(counts.values())
        found.append((counts, num, losses(torch.as_tensor(mean))))
    best = min((of_average for _, _, of_average in found), key=lambda each: float(each.sum()))

    def is_as_good(of_average: Tensor) -> bool:
        difference = of_average - best
        return bool(difference.mean() <= BEYOND_CHANCE * difference.std(correction=0) / len(difference) ** 0.5)

    return next((counts, num) for counts, num, of_average in reversed(found) if is_as_good(of_average))


def counts_in_average(contenders: Sequence[Contender], num_splits: int, losses: Losses) -> dict[Contender, int]:
    """Returns how often each contender counts in the best average on the validation sets of so many splits."""
    outputs = [contender.predicted(num_splits) for contender in contenders]
    optimism = [contender.optimism for contender in contenders]
    return dict(zip(contenders, picks(outputs, losses, optimism), strict=True))


def picks(outputs: Sequence[Tensor], losses: Losses, optimism: Sequence[float] | None = None) -> list[int]:
    """Returns how often each prediction counts in the average.

    It begins with all that are level with the best: a few sets cannot tell which of them is better. Level is within the
    standard error of the mean difference of their losses. Then predictions are picked one by one, each that which helps
    the most, until none helps (Caruana et al., 2004).

    Args:
        losses: maps predictions to the loss of each set, (V,).
        optimism: what the mean loss of each prediction is too small by; an average is by the mean of its parts. None
            for 0.
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
