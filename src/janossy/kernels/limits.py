"""Limits of the kernels and counts of their work, known also where numba is not."""

from collections.abc import Sequence

import numpy as np

LANES = {"float32": 16, "float64": 8}
"""Numbers in a vector, 512 bits, by dtype. Kernels read and write whole vectors: an array whose last axis is no
multiple of them is read out of bounds."""

CELL_KINDS = {"rnn": 0, "gru": 1, "lstm": 2}
"""The recurrences whose steps are compiled, by the names of the steps, and their codes."""

NUMBERS_KEPT = {"rnn": 0, "gru": 4, "lstm": 4}
"""The numbers that a cell keeps per hidden unit for backward beside its state: the GRU's gates and its new gate's
hidden part, the LSTM's gates.
"""

MAX_POSITIONS_ON_CUDA = 4
"""The largest k of the kernels for CUDA devices: a thread's registers hold what so many positions keep."""

LEAST_CAPABILITY = (8, 0)
"""The oldest compute capability of a CUDA device that they are compiled and checked for."""


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
    """Returns True for sets that the spectral path enumerates whatever their numbers are: those smaller than k, those
    of at most ``up_to`` elements, and if that is −1 those for which it is cheaper even with the ``fewest`` harmonics
    possible.
    """
    n = np.asarray(sizes, dtype=np.int64)
    small = (n < k) | (n <= up_to)
    if up_to < 0:
        small |= num_tuples(n, k, increasing) <= series_cost(n, k, increasing, fewest)
    return small
