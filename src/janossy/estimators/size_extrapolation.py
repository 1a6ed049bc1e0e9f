"""Sets larger than all of training: what a network is told of their size."""

from math import hypot, inf

import numpy as np
from scipy.stats import linregress, norm, rankdata
from torch import Tensor

LEVEL = 0.01
"""The level of each of two tests: if the size does not count, it does by chance in at most twice as many fits."""


def largest_size(targets: Tensor, sizes: Tensor, largest: int) -> int | None:
    """The size that a network is told of larger sets too: the largest of training; None, to tell them as they are.

    What a network makes of a size that training never showed is anybody's guess. So a larger one is told only where the
    targets still go with the size in the larger half of the sets; or where they do in the smaller half, and nothing
    says that this ends. Of numbers is looked at each, and at whether its spread rises; of classes at each by itself.

    Shapes: targets (B,) of classes, int64, or (B, t) numbers; sizes (B,).
    """
    y, n = targets.cpu().numpy(), sizes.cpu().numpy()
    if y.ndim == 1:
        columns = [(y == label, "two-sided") for label in np.unique(y)]
    else:
        columns = [(rankdata(column), "two-sided") for column in y.T]
        columns += [(rankdata(column), "greater") for column in np.abs(y - np.median(y, 0)).T]
    level = LEVEL / len(columns)
    return None if any(_goes_on(n, of, alternative, level) for of, alternative in columns) else largest


def _goes_on(n: np.ndarray, y: np.ndarray, alternative: str, level: float) -> bool:
    """Returns True if y goes with n where n is large, as far as can be told at this level."""
    middle = np.median(n)
    (slope, error, chance), (of_larger, error_of_larger, chance_of_larger) = (
        _trend(n[half], y[half], alternative) for half in (n <= middle, n >= middle)
    )
    if chance_of_larger < level:
        return True
    ends = abs(slope - of_larger) >= norm.isf(level / 2) * hypot(error, error_of_larger)
    return chance < level and not ends


def _trend(n: np.ndarray, y: np.ndarray, alternative: str) -> tuple[float, float, float]:
    """Returns the slope of y over n, its standard error, and how probable as steep a one is by chance."""
    if len(n) < 3 or np.ptp(n) == 0:
        return 0.0, inf, 1.0
    if (y == y[0]).all():
        return 0.0, 0.0, 1.0
    fit = linregress(n, y, alternative)
    return fit.slope, fit.stderr, fit.pvalue
