"""The canonical order of the elements of each set (Section 2.1)."""

from collections.abc import Callable

import torch
from torch import Tensor

from janossy.ragged import Ragged

Key = Callable[[Tensor], Tensor]
"""Maps the elements (N, *features) to numbers to sort by: (N,), or (N, j) to sort by column 0, then 1, and so on."""


def sort_positions(keys: Ragged, key: Key | None = None) -> Tensor:
    """The positions (N,) that sort each set by ``key``, and elements of equal key lexicographically.

    Elements that still tie are equal in every feature, so the sorted set does not depend on the order it came in.
    NaN sorts last. Cost: a stable sort of N numbers for each column of the key and then each feature, up to those
    that leave no tie.
    """
    elements = keys.values.detach()
    features = elements.reshape(len(elements), -1) if elements.numel() else elements.new_zeros(len(elements), 0)
    first_columns = [] if key is None else _key_columns(key, elements)
    all_columns = len(first_columns) + features.shape[1]
    owners = keys.to_index()[1]
    # The first columns nearly always decide; torch.compile, which cannot branch on values, sorts by all.
    num_columns = all_columns if torch.compiler.is_compiling() else 1
    while True:
        num_features = max(0, num_columns - len(first_columns))
        deciding = [owners, *first_columns[:num_columns], *features[:, :num_features].unbind(1)]
        order = torch.arange(len(owners), device=owners.device)
        for column in reversed(deciding):
            order = order[torch.argsort(column[order], stable=True)]
        if num_columns >= all_columns or not _any_tie(deciding, order):
            return order
        num_columns *= 4


def first_of_equals(elements: Ragged, order: Tensor) -> Tensor:
    """Whether each element of the sorted sets (N,) differs from the one before it in its set, or is the first of it."""
    values, owners = elements.values.detach().flatten(1)[order], elements.to_index()[1]
    first = torch.ones(len(values), dtype=torch.bool, device=values.device)
    first[1:] = (values[1:] != values[:-1]).any(1) | (owners[1:] != owners[:-1])
    return first


def _any_tie(columns: list[Tensor], order: Tensor) -> bool:
    tied = torch.ones(max(0, len(order) - 1), dtype=torch.bool, device=order.device)
    for column in columns:
        a, b = column[order[1:]], column[order[:-1]]
        tied &= (a == b) | (a.isnan() & b.isnan()) if column.is_floating_point() else a == b
    return bool(tied.any())


def _key_columns(key: Key, elements: Tensor) -> list[Tensor]:
    columns = key(elements)
    if not isinstance(columns, Tensor) or columns.dim() not in (1, 2) or len(columns) != len(elements):
        shape = tuple(columns.shape) if isinstance(columns, Tensor) else type(columns).__name__
        raise ValueError(
            f"a key function maps elements ({len(elements)}, *features) to a tensor ({len(elements)},) "
            f"or ({len(elements)}, j) to sort by; got {shape}."
        )
    columns = columns.detach()
    return [columns] if columns.dim() == 1 else [*columns.unbind(1)]
