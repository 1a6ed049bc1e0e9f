"""Averages of a few networks that predict better than the best of them."""

from collections.abc import Callable, Sequence
from math import inf

import torch
from torch import Tensor

PICKS = 10
"""Steps of the choice of weights."""

MOST_AVERAGED = 3
"""The most candidates that are averaged."""


def picks(outputs: Sequence[Tensor], loss: Callable[[Tensor], float]) -> list[int]:
    """How often each prediction is to be counted in the average: picked one by one, each that which helps the most.

    The first is the best by itself; it ends when none helps.
    """
    counts = [0] * len(outputs)
    total, least = torch.zeros_like(outputs[0]), inf
    for num in range(PICKS):
        allowed = [i for i in range(len(outputs)) if counts[i] or sum(map(bool, counts)) < MOST_AVERAGED]
        found = [loss((total + outputs[i]) / (num + 1)) for i in allowed]
        if min(found) >= least:
            break
        least = min(found)
        chosen = allowed[found.index(least)]
        counts[chosen] += 1
        total = total + outputs[chosen]
    return counts
