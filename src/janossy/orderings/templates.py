"""Positions of rows within one set of a given size: constants, built once and kept if small.

They are kept as arrays, for a tensor would remember the mode (inference, fake) in which it was first asked for.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import chain, combinations, permutations
from math import comb, perm

import numpy as np
import torch
from torch import Tensor

KEEP_ELEMENTS = 2**16
"""Larger templates are built at every call rather than kept (half a megabyte each)."""


@torch.compiler.assume_constant_result
def injective_tuples(n: int, k: int) -> Tensor:
    """All orderings of min(n, k) of n positions, lexicographic, filled with -1: (n!/(n-k)!, k)."""
    length = min(n, k)
    return _template(perm(n, length) * k, _permutations, n, length, k)


@torch.compiler.assume_constant_result
def increasing_tuples(n: int, k: int) -> Tensor:
    """All increasing choices of min(n, k) of n positions, lexicographic, filled with -1: (C(n, k), k)."""
    length = min(n, k)
    return _template(comb(n, length) * k, _combinations, n, length, k)


@torch.compiler.assume_constant_result
def seeded_permutations(seed: int, num: int, n: int) -> Tensor:
    """``num`` permutations of n positions, a function of (seed, n) whose first ones do not depend on num: (num, n)."""
    return _template(num * n, _seeded, seed, num, n)


def _template(num_elements: int, build: Callable[..., np.ndarray], *arguments: int) -> Tensor:
    array = _kept(build, *arguments) if num_elements <= KEEP_ELEMENTS else build(*arguments)
    return torch.from_numpy(array)


@lru_cache(maxsize=256)
def _kept(build: Callable[..., np.ndarray], *arguments: int) -> np.ndarray:
    return build(*arguments)


def _permutations(n: int, length: int, k: int) -> np.ndarray:
    return _filled(permutations(range(n), length), perm(n, length), length, k)


def _combinations(n: int, length: int, k: int) -> np.ndarray:
    return _filled(combinations(range(n), length), comb(n, length), length, k)


def _seeded(seed: int, num: int, n: int) -> np.ndarray:
    return np.random.default_rng((seed, n)).random((num, n)).argsort(-1)


def _filled(rows: Iterable[tuple[int, ...]], num_rows: int, length: int, k: int) -> np.ndarray:
    filled = np.full((num_rows, k), -1, dtype=np.int64)
    flat = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=num_rows * length)
    filled[:, :length] = flat.reshape(num_rows, length)
    return filled
