"""Positions of rows within one set of a given size: constants, built once and kept if small."""

from collections.abc import Iterable
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
    num_rows = perm(n, length)
    build = _kept_permutations if num_rows * k <= KEEP_ELEMENTS else _kept_permutations.__wrapped__
    return build(n, length, k)


@torch.compiler.assume_constant_result
def increasing_tuples(n: int, k: int) -> Tensor:
    """All increasing choices of min(n, k) of n positions, lexicographic, filled with -1: (C(n, k), k)."""
    length = min(n, k)
    num_rows = comb(n, length)
    build = _kept_combinations if num_rows * k <= KEEP_ELEMENTS else _kept_combinations.__wrapped__
    return build(n, length, k)


@torch.compiler.assume_constant_result
def seeded_permutations(seed: int, num: int, n: int) -> Tensor:
    """``num`` permutations of n positions, a function of (seed, n) whose first ones do not depend on num: (num, n)."""
    build = _kept_seeded if num * n <= KEEP_ELEMENTS else _kept_seeded.__wrapped__
    return build(seed, num, n)


@lru_cache(maxsize=128)
def _kept_permutations(n: int, length: int, k: int) -> Tensor:
    return _filled(permutations(range(n), length), perm(n, length), length, k)


@lru_cache(maxsize=128)
def _kept_combinations(n: int, length: int, k: int) -> Tensor:
    return _filled(combinations(range(n), length), comb(n, length), length, k)


@lru_cache(maxsize=128)
def _kept_seeded(seed: int, num: int, n: int) -> Tensor:
    noise = np.random.default_rng((seed, n)).random((num, n))
    return torch.from_numpy(noise.argsort(-1))


def _filled(rows: Iterable[tuple[int, ...]], num_rows: int, length: int, k: int) -> Tensor:
    filled = np.full((num_rows, k), -1, dtype=np.int64)
    flat = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=num_rows * length)
    filled[:, :length] = flat.reshape(num_rows, length)
    return torch.from_numpy(filled)
