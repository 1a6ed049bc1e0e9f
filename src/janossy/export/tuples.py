"""Rows of k elements of padded sets: Tuples and Combinations as tensors with dynamic sizes."""

from itertools import combinations, permutations
from math import factorial, prod
from operator import add, mul
from typing import cast

import torch
from torch import Tensor, nn

from janossy.evaluate import Function
from janossy.export.indices import flat, gather
from janossy.functions.structure import ACTIVATIONS, Additive, Product, structure

MAX_ELEMENTS = 4
"""The largest k, as a table of n^k places marks the tuples."""


def over_tuples(f: Function, x: Tensor, sizes: Tensor, k: int, *, increasing: bool) -> tuple[Tensor, Tensor]:
    """Returns f of every k-tuple of elements (B, n, d), real ones first: (B, R, c), and True for real rows, (B, R).

    A row that a set does not have is replaced by the row of its first k places, which it has. So f and its backward
    read no row that the definition does not have.
    """
    whole, filled = _tuples(x.shape[1], k, increasing, x.device), _fillable(k, increasing).to(x.device)
    slots, sizes = torch.arange(k, device=x.device), sizes[:, None]
    has_whole = (whole < sizes[:, :, None]).all(2)
    has_filled = ((filled == slots) | (slots < sizes[:, :, None])).all(2) & (sizes < k)
    counted = torch.cat((has_whole, has_filled), dim=1)
    tuples = torch.cat((whole, filled)).where(counted[..., None], slots)
    return _values(f, nn.functional.pad(x, (0, 0, 0, k)), tuples), counted


def _tuples(n: int, k: int, increasing: bool, device: torch.device) -> Tensor:
    """Returns the tuples of distinct places of n, or the increasing ones: (R, k)."""
    places = torch.arange(n, device=device)
    if k == 1:
        return places[:, None]
    axes = [places.view(*(-1 if i == j else 1 for i in range(k))) for j in range(k)]
    chosen = torch.ones((n,) * k, dtype=torch.bool, device=device)
    for before, axis in combinations(axes, 2):
        chosen = chosen & (before < axis if increasing else before != axis)
    tuples = chosen.nonzero()
    num_choices = prod(n - j for j in range(k)) // factorial(k)
    # An export cannot count the tuples.
    torch._check(tuples.shape[0] == (num_choices if increasing else factorial(k) * num_choices))
    return tuples


def _fillable(k: int, increasing: bool) -> Tensor:
    """Returns the orders of the first k places, or the increasing one: (R, k).

    A set of s < k elements has those that begin with an order of its s elements. The other places hold the zero vector.
    """
    return torch.tensor([range(k)] if increasing else list(permutations(range(k))))


def _values(f: Function, x: Tensor, tuples: Tensor) -> Tensor:
    """Returns f of the elements (B, N, d) at tuples (B, R, k) of places: (B, R, c).

    If f is a sum of projections or a product of factors, these are computed once per element.
    """
    declared, k = structure(f), tuples.shape[2]
    if isinstance(declared, Additive | Product) and declared.k == k:
        of_each, combine = (declared.project, add) if isinstance(declared, Additive) else (declared.factors, mul)
        parts = of_each(flat(x)).unflatten(0, x.shape[:2])
        rows = gather(parts[:, :, 0], tuples[:, :, 0])
        for j in range(1, k):
            rows = combine(rows, gather(parts[:, :, j], tuples[:, :, j]))
        if isinstance(declared, Additive):
            rows = ACTIVATIONS[declared.activation](rows)
        values = declared.rest(flat(rows))
    else:
        values = f(flat(gather(x, tuples.flatten(1)).unflatten(1, tuples.shape[1:])))
    return cast(Tensor, values.unflatten(0, tuples.shape[:2]))
