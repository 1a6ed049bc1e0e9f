"""Sets larger than all of training: what a network is told of their size."""

import numpy as np
from scipy.stats import spearmanr
from torch import Tensor

LEVEL = 0.01
"""Of the test: so often a size counts, by chance, where it does not."""


def largest_told(targets: Tensor, sizes: Tensor, largest: int) -> int | None:
    """The size that a network is told of larger sets too: the largest of training; None, to tell them as they are.

    What a network makes of a size that training never showed is anybody's guess. Only where the targets still go with
    the size, in the larger half of these sets, is a larger one told: by Spearman's correlation of the sizes with each
    target, with its distance from the median, or with whether a set is of each class.

    Shapes: targets (B,) of classes, int64, or (B, t) numbers; sizes (B,).
    """
    y, n = targets.cpu().numpy(), sizes.cpu().numpy()
    among_larger = n >= np.median(n)
    y, n = y[among_larger], n[among_larger]
    if y.ndim == 1:
        columns = (y[:, None] == np.unique(y)).T
    else:
        columns = np.concatenate((y, np.abs(y - np.median(y, 0))), axis=1).T
    varying = [column for column in columns if np.ptp(column.astype(float)) > 0]
    if np.ptp(n) == 0 or not varying:
        return largest
    least = min(spearmanr(n, column).pvalue for column in varying)
    return None if least < LEVEL / len(varying) else largest
