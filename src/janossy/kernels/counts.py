"""How much work the kernels have: what they share out over threads, and what evaluators compare."""

from collections.abc import Sequence

import numpy as np


def num_tuples(n: np.ndarray | Sequence[int], k: int, increasing: bool) -> np.ndarray:
    """The n!/(n − k)! injective or n!/(k! (n − k)!) increasing tuples of each set; those of all n elements if n < k."""
    n = np.asarray(n, dtype=np.float64)
    tuples = np.ones(n.shape)
    for j in range(k):
        tuples *= np.where(n > j, (n - j) / (j + 1.0 if increasing else 1.0), 1.0)
    return tuples


def series_cost(n: np.ndarray, k: int, increasing: bool, harmonics: np.ndarray | float) -> np.ndarray:
    """The cost of one hidden unit of one set by the spectral kernels, in activations of an enumeration.

    benchmarks/crossover.py measures it.
    """
    return n * harmonics * (4.0 * k if increasing else 1.5 * 2**k) + 40.0 * harmonics


def enumerated(sizes: Sequence[int] | np.ndarray, k: int, increasing: bool, fewest: float, up_to: int) -> np.ndarray:
    """Which sets the spectral path enumerates whatever their numbers are: those smaller than k, those of at most
    ``up_to`` elements, and if that is −1 those for which it is cheaper even with the ``fewest`` harmonics possible."""
    n = np.asarray(sizes, dtype=np.int64)
    small = (n < k) | (n <= up_to)
    if up_to < 0:
        small |= num_tuples(n, k, increasing) <= series_cost(n, k, increasing, fewest)
    return small
