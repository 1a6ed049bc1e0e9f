"""Checks of the inputs of densities."""

from collections.abc import Sequence
from typing import Any

import torch

from janossy.density.contract import Head
from janossy.density.sizes import Sizes
from janossy.orderings.contract import check_orderings
from janossy.sets import Ragged, check_ragged


def check_elements(q: Any, sets: Any, owner: str) -> None:
    """Raises a TypeError unless these are sets, a ValueError unless q, or its head, takes their elements."""
    check_ragged(sets, owner)
    head, weight = q.head, next(q.parameters())
    name = type(head).__name__
    if sets.values.shape[1:] != head.event_shape:
        dims = ", ".join(("N", *map(str, head.event_shape)))
        raise ValueError(
            f"{owner} expects values of shape ({dims}{',' if not head.event_shape else ''}), as {name} has them; got "
            f"{tuple(sets.values.shape)}."
        )
    if sets.dtype != torch.long if head.discrete else not sets.values.is_floating_point():
        kind, remedy = ("int64 ids", ".long()") if head.discrete else ("floating-point numbers", ".float()")
        raise ValueError(f"{owner} expects {kind}, as {name} has them; got {sets.dtype}. Convert them with {remedy}.")
    if sets.device != weight.device or (not head.discrete and sets.dtype != weight.dtype):
        raise ValueError(
            f"{owner} expects elements in {weight.dtype} on {weight.device}, as its weights are; got {sets.dtype} on "
            f"{sets.device}. Convert the sets, or the density, with .to()."
        )
    outside = ~head.holds(sets.values)
    if bool(outside.any()):
        i = int(outside.nonzero()[0, 0])
        b = int((sets.offsets <= i).sum()) - 1
        value = sets.values[i].tolist()
        raise ValueError(
            f"{owner} expects {head.expects}, the support of {name}; got {value}, element "
            f"{i - int(sets.offsets[b])} of set {b}, and {int(outside.sum())} such elements in all. "
            f"{_remedy(head, sets, i)}"
        )


def _remedy(head: Head, sets: Ragged, i: int) -> str:
    missing = sets.values.is_floating_point() and bool(sets.values[i].isnan().any())
    return "Fill in or drop what is missing." if missing else head.remedy


def check_orders(orderings: Any) -> None:
    """Raises a TypeError unless these are orderings, a ValueError unless their mean is over all whole orders."""
    check_orderings(orderings, "ExchangeableDensity")
    whole = orderings.averages == "all orderings" and orderings.k is None
    if not whole or orderings.weighs_rows:
        raise ValueError(
            f"ExchangeableDensity expects orders of whole sets whose mean is that over all of them; got {orderings}. "
            "Use Sampled(m), Distinct(m) or AllPermutations()."
        )


def check_sizes(sizes: Sizes | None, of_sets: Sequence[int], owner: str) -> None:
    """Raises a ValueError for a size that P(n) does not have."""
    if any(n < 0 for n in of_sets):
        raise ValueError(f"{owner} expects sizes >= 0; got {min(of_sets)}.")
    max_size = None if sizes is None else sizes.max_size
    if max_size is not None and max(of_sets, default=0) > max_size:
        raise ValueError(
            f"{owner} expects sets of at most {max_size} elements, as {type(sizes).__name__} has them; got one of "
            f"{max(of_sets)}. Raise max_size, or take NegativeBinomialSizes, which has all sizes."
        )
