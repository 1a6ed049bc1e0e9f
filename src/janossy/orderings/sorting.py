"""The canonical order of the elements of each set, and the effect of ties (Section 2.1)."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from janossy.checks import check_function, check_integer
from janossy.sets import Ragged

Key = Callable[[Tensor], Tensor]
"""Maps the elements (N, *features) to numbers to sort by: (N,), or (N, j) to sort by column 0, then 1, and so on."""

MAX_SORTS = 16
"""The most sorts of a whole batch on CUDA without asking the device which elements still tie, which would wait."""


def sort_positions(keys: Ragged, key: Key | int | None = None) -> Tensor:
    """Returns the positions (N,) that sort each set by ``key``, and elements of equal key lexicographically.

    Elements that still tie are equal in every feature, so the sorted set does not depend on the order it came in.
    Lexicographically NaN is last. As a key NaN is refused, except on CUDA, where keys are not checked.

    Cost: a stable sort of N integers, then one of the elements that still tie, column by column. Sets of one size with
        one column are sorted one by one. On CUDA there is one sort per column, up to ``MAX_SORTS`` of them. With more
        columns the device is asked after each sort which elements still tie.
    """
    elements = keys.values.detach()
    columns = [*in_columns(elements).unbind(1)]
    columns = columns if key is None else [*_numbers(key, elements), *columns]
    if len(columns) == 1 and len(set(keys.sizes)) == 1 and len(elements) and not torch.compiler.is_compiling():
        of_sets = columns[0].view(len(keys), -1).argsort(stable=True, dim=1)
        return of_sets.add_(keys.offsets[:-1, None]).view(-1)
    owners = keys.to_index()[1]
    order = torch.arange(len(owners), device=owners.device)
    at_once = elements.is_cuda and len(columns) <= MAX_SORTS
    if at_once or torch.compiler.is_compiling():  # a compiled graph cannot branch on values: it sorts by all columns
        for column in reversed([owners, *columns]):
            order = order[torch.argsort(column[order], stable=True)]
        return order
    places, runs = order, owners  # for the elements that tie so far: their places, and the runs that they tie in
    for column in columns:
        for word in range(2 if column.element_size() == 8 else 1):
            tied = order[places]
            by, sorted_from = torch.sort(runs << 32 | _word(column[tied], word), stable=True)
            order = order.scatter(0, places, tied[sorted_from])
            equal = torch.nn.functional.pad(by[1:] == by[:-1], (1, 1))[: len(by) + 1]  # to the one before it
            tie = equal[1:] | equal[:-1]
            places, runs = places[tie], (~equal[:-1]).cumsum(0)[tie]
            if not len(places):
                return order
    return order


def is_sorted(keys: Ragged) -> bool:
    """Returns True if each set is seen to be sorted as by ``sort_positions``.

    Only sets of one size, with one number per element, are looked at. The look takes a twentieth of a sort. There is
    none on CUDA, as it would wait for the device.
    """
    values = keys.values
    if values.is_cuda or torch.compiler.is_compiling():
        return False
    if values.dim() != 1 or len(set(keys.sizes)) != 1 or values.requires_grad:
        return False
    of_sets = values.unflatten(0, (len(keys), -1))
    return bool((of_sets[:, 1:] >= of_sets[:, :-1]).all())


def first_of_equals(elements: Ragged, order: Tensor) -> Tensor:
    """Returns True for elements of the sorted sets (N,) that differ from the one before, or are first in their set."""
    values, owners = elements.values.detach().flatten(1)[order], elements.to_index()[1]
    first = torch.ones(len(values), dtype=torch.bool, device=values.device)
    first[1:] = (values[1:] != values[:-1]).any(1) | (owners[1:] != owners[:-1])
    return first


def _word(column: Tensor, word: int) -> Tensor:
    """Returns integers from 0 to 2^32 - 1 in the order of these numbers: upper 32 bits (word 0), or lower."""
    if column.is_floating_point():
        column = column if column.dtype == torch.float64 else column.float()
        integers = torch.int64 if column.dtype == torch.float64 else torch.int32
        most = torch.iinfo(integers).max
        bits = (column + 0.0).view(integers)  # -0.0 + 0.0 = 0.0.
        # The bits of a float >= 0, read as an integer, rise with it. Those of a negative one fall, without the sign.
        column = torch.where(column.isnan(), most, bits ^ (most & (bits >> (torch.iinfo(integers).bits - 1))))
    if column.element_size() < 8:
        return column.long() + 2**31
    return (column >> 32) + 2**31 if word == 0 else column & (2**32 - 1)


def check_keys_to_sort_by(owner: str, keys: Sequence[Any]) -> None:
    """Raises a TypeError unless each key is a function, a column or None.

    Raises a ValueError for a column below 0, or for no keys.
    """
    if not keys:
        raise ValueError(f"{owner} expects one key to sort by, or several; got key=(). Write key=(0, 1), or None.")
    for key in keys:
        if isinstance(key, int) and not isinstance(key, bool):
            check_integer(owner, "key", key, 0)
        else:
            check_function(owner, "key", key, "Write key=0, or key=lambda x: x[:, 0], to sort by the first feature.")


def key_name(key: Any) -> str:
    """Returns the name of a key, or of several, for messages and for the state of a layer."""
    if isinstance(key, tuple):
        return ", ".join(map(key_name, key))
    if key is None or isinstance(key, int):
        return "all features" if key is None else f"column {key}"
    return getattr(key, "__name__", type(key).__name__)


def key_columns(key: Key | int, elements: Tensor) -> Tensor:
    """Returns what a key gives for the elements (N, *features): the columns (N, j) to sort by.

    Raises: ValueError for a key that gives something else.
    """
    if isinstance(key, int):
        features = in_columns(elements)
        if key >= features.shape[1]:
            raise ValueError(
                f"a key expects a column of elements of {features.shape[1]} features; got {key}. The first is 0."
            )
        return features[:, key : key + 1]
    columns = key(elements)
    if not isinstance(columns, Tensor) or columns.dim() not in (1, 2) or columns.shape[0] != elements.shape[0]:
        shape = tuple(columns.shape) if isinstance(columns, Tensor) else type(columns).__name__
        raise ValueError(
            f"a key function maps elements ({len(elements)}, *features) to a tensor ({len(elements)},) "
            f"or ({len(elements)}, j) to sort by; got {shape}."
        )
    if columns.is_complex():
        raise ValueError(f"a key expects real numbers to sort by; got {columns.dtype}. Sort by torch.abs of them.")
    return in_columns(columns.detach())


def in_columns(x: Tensor) -> Tensor:
    """Returns x (N, *features) with its features side by side, (N, d)."""
    return x.flatten(1) if x.dim() > 1 else x[:, None]  # without len(x), which an export would take for a constant


def _numbers(key: Key | int, elements: Tensor) -> tuple[Tensor, ...]:
    """Returns the columns of a key. Raises: ValueError for NaN, but not on CUDA or under torch.compile."""
    columns = key_columns(key, elements)
    looks = columns.is_floating_point() and not columns.is_cuda and not torch.compiler.is_compiling()
    if looks and (nan := columns.isnan()).any():
        element = int(nan.nonzero()[0, 0])
        raise ValueError(
            f"a key expects numbers to sort by; got NaN by key {key_name(key)} for element {element} of the batch. "
            "Give these elements a number, such as by torch.nan_to_num, or leave them out."
        )
    return columns.unbind(1)


def ties_of(keys: Ragged, key: Key | int | None) -> Tensor:
    """Returns True for each set, (B,), in which two unequal elements have equal keys.

    They are ordered lexicographically, so that the sorted set is still a function of the multiset.
    """
    elements = in_columns(keys.values.detach())
    columns = elements if key is None else key_columns(key, keys.values.detach())
    order = sort_positions(keys, key)
    return _pairs(keys, order, equal=columns, unequal=elements)


def unordered_by(keys: Ragged, values: Tensor) -> Tensor:
    """Returns True for each set, (B,), with elements that agree in all ``keys`` and differ in ``values`` (N, …).

    No feature is left to order them by, so they stay in the order that they came in.
    """
    equal, unequal = in_columns(keys.values.detach()), in_columns(values.detach())
    return _pairs(keys, sort_positions(keys), equal=equal, unequal=unequal)


def diagnostics_of_ties(keys: Ragged, values: Tensor, key: Key | int | None) -> str | None:
    """Returns a sentence on how ties of the key affect the invariance of these sets' results; None without ties.

    f reads the elements as ``values`` (N, …).
    """
    name, num, tied = f"key ({key_name(key)})", len(keys), int(ties_of(keys, key).sum())
    unordered = 0 if values is keys.values else int(unordered_by(keys, values).sum())
    if unordered:
        return (
            f"ties: in {unordered} of {num} sets elements that differ have the same {name} and nothing else is known "
            "to order them by: these sets' results depend on the order they came in"
        )
    if key is None:
        return None
    if tied:
        return (
            f"ties: in {tied} of {num} sets unequal elements have the same {name}; they are ordered lexicographically, "
            "which keeps results exactly invariant, and makes them jump where a feature decides"
        )
    return f"ties: no unequal elements of {num} sets have the same {name}: results are exactly invariant"


def _pairs(keys: Ragged, order: Tensor, *, equal: Tensor, unequal: Tensor) -> Tensor:
    """Returns True for each set, (B,), in which two neighbours agree in ``equal`` and differ in ``unequal``."""
    owners = keys.to_index()[1]
    equal, unequal, owners = equal[order], unequal[order], owners[order]
    tied = (owners[1:] == owners[:-1]) & (equal[1:] == equal[:-1]).all(1) & (unequal[1:] != unequal[:-1]).any(1)
    return torch.zeros(len(keys), dtype=torch.bool, device=owners.device).index_fill(0, owners[1:][tied], True)
