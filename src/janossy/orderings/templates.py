"""Templates: positions of the rows of one set of a given size, built once and kept if small.

They are kept as arrays, as a tensor would keep the mode (inference, fake) in which it was first built.
"""

import json
from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib.resources import files
from itertools import chain, combinations, permutations
from math import comb, perm
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from janossy.sets.transfer import constant, constant_when_compiled, upload

KEEP_ELEMENTS = 2**16
"""The most elements of a template that is kept (half a megabyte); larger ones are built at every call."""

MAX_DESIGNED_ELEMENTS, MAX_DESIGNED_ROWS = 16, 32
"""The largest sizes in designs.json."""

CPU = torch.device("cpu")


def injective_tuples(n: int, k: int, device: torch.device = CPU) -> Tensor:
    """Returns all orderings of min(n, k) of n positions, lexicographic, filled with -1: (n!/(n-k)!, k)."""
    length = min(n, k)
    return kept(perm(n, length) * k, _permutations, n, length, k, device=device)


def increasing_tuples(n: int, k: int, device: torch.device = CPU) -> Tensor:
    """Returns all increasing choices of min(n, k) of n positions, lexicographic, filled with -1: (C(n, k), k)."""
    length = min(n, k)
    return kept(comb(n, length) * k, _combinations, n, length, k, device=device)


def design(n: int, size: int, device: torch.device = CPU) -> Tensor:
    """Returns ``size`` permutations of n positions that make a good mean together (designs.json), (size, n)."""
    return kept(size * n, _design, n, size, device=device)


def designs(n: int, size: int, device: torch.device = CPU) -> Tensor:
    """Returns ``design(m, size)`` for m = 1 to n, each filled up with 0, (n, size, n)."""
    return kept(n * size * n, _designs_up_to, n, size, device=device)


def kept(num_elements: int, build: Callable[..., np.ndarray], *arguments: Any, device: torch.device = CPU) -> Tensor:
    """Returns the tensor of ``build(*arguments)``, which has ``num_elements`` elements.

    A small one is built, and sent to a GPU, once. For torch.compile it is a constant.
    """
    if device.type == "cuda" and num_elements <= KEEP_ELEMENTS and not torch.compiler.is_compiling():
        return constant(device, build, *arguments)
    # The constants of one function all have its name, which aot_autograd refuses; [:] gives each a name of its own.
    return upload(_constant(num_elements, build, *arguments)[:], device)


@constant_when_compiled
def _constant(num_elements: int, build: Callable[..., np.ndarray], *arguments: Any) -> Tensor:
    array = kept_arrays(build, *arguments) if num_elements <= KEEP_ELEMENTS else build(*arguments)
    return torch.from_numpy(array)


@lru_cache(maxsize=256)
def kept_arrays(build: Callable[..., np.ndarray], *arguments: Any) -> np.ndarray:
    """Returns the array that this function builds of these arguments, built once."""
    return build(*arguments)


def _permutations(n: int, length: int, k: int) -> np.ndarray:
    return _filled(permutations(range(n), length), perm(n, length), length, k)


def _combinations(n: int, length: int, k: int) -> np.ndarray:
    return _filled(combinations(range(n), length), comb(n, length), length, k)


def _design(n: int, size: int) -> np.ndarray:
    if size <= 2 or n == 1:
        return np.stack((np.arange(n), np.arange(n)[::-1]))[np.arange(size) % 2]
    designs = _designs()[str(n)]
    rows = designs[str(min(int(m) for m in designs if int(m) >= size))].split()
    return np.array([[int(digit, 16) for digit in row] for row in rows[:size]])


def _designs_up_to(n: int, size: int) -> np.ndarray:
    return np.stack([np.pad(_design(m, size), ((0, 0), (0, n - m))) for m in range(1, n + 1)])


@lru_cache(maxsize=1)
def _designs() -> dict[str, dict[str, str]]:
    text = files("janossy.orderings").joinpath("designs.json").read_text()
    return cast("dict[str, dict[str, str]]", json.loads(text))


def _filled(rows: Iterable[tuple[int, ...]], num_rows: int, length: int, k: int) -> np.ndarray:
    filled = np.full((num_rows, k), -1, dtype=np.int64)
    flat = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=num_rows * length)
    filled[:, :length] = flat.reshape(num_rows, length)
    return filled
