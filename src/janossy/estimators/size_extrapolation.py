"""Set sizes beyond training: the size that a network reads for sets larger than all of training."""

from math import hypot, inf

import numpy as np
from scipy.stats import linregress, norm, rankdata
from torch import Tensor

LEVEL = 0.01
"""The level of each of two tests. If the size has no effect, at most twice this part of fits find one by chance."""


def largest_size(targets: Tensor, sizes: Tensor, largest: int) -> int | None:
    """Returns the size that a network reads for all larger sets too; None to read every size as it is.

    No training data show what a network does with a larger size. A larger size is therefore read as it is only in two
    cases:

    - the targets have a trend with the size in the larger half of the sets
    - they have one in the smaller half, and nothing shows that it ends

    Else the largest size of training is returned. Each numeric target is tested for a trend in mean and spread, and
    each class separately.

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
    """Returns True if y has a trend with n for large n, by tests at this level."""
    middle = np.median(n)
    (slope, error, chance), (of_larger, error_of_larger, chance_of_larger) = (
        _trend(n[half], y[half], alternative) for half in (n <= middle, n >= middle)
    )
    if chance_of_larger < level:
        return True
    ends = abs(slope - of_larger) >= norm.isf(level / 2) * hypot(error, error_of_larger)
    return chance < level and not ends


def _trend(n: np.ndarray, y: np.ndarray, alternative: str) -> tuple[float, float, float]:
    """Returns the slope of y over n, its standard error, and the probability of so steep a slope by chance."""
    if len(n) < 3 or np.ptp(n) == 0:
        return 0.0, inf, 1.0
    if (y == y[0]).all():
        return 0.0, 0.0, 1.0
    fit = linregress(n, y, alternative)
    return fit.slope, fit.stderr, fit.pvalue
