"""Which sets have ties in a canonical order, and what that does to their results."""

import torch
from torch import Tensor

from janossy.orderings.sorting import Key, in_columns, key_columns, key_name, sort_positions
from janossy.sets import Ragged


def ties_of(keys: Ragged, key: Key | int | None) -> Tensor:
    """Whether two unequal elements of each set have equal keys, (B,).

    They are ordered lexicographically, so that the sorted set is still a function of the multiset.
    """
    elements = in_columns(keys.values.detach())
    columns = elements if key is None else key_columns(key, keys.values.detach())
    order = sort_positions(keys, key)
    return _pairs(keys, order, equal=columns, unequal=elements)


def unordered_by(keys: Ragged, values: Tensor) -> Tensor:
    """Whether two unequal ``values`` (N, …) of a set have elements of ``keys`` that are equal in every feature, (B,).

    Nothing is left to order them by: they stay in the order that they came in.
    """
    equal, unequal = in_columns(keys.values.detach()), in_columns(values.detach())
    return _pairs(keys, sort_positions(keys), equal=equal, unequal=unequal)


def diagnostics_of_ties(keys: Ragged, values: Tensor, key: Key | int | None) -> str | None:
    """What ties of the key do to the invariance of these sets' results, in a sentence; None if there is none to tell.

    ``values``: what f reads of the elements, (N, …).
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
    """Whether two neighbours in the order of each set agree in ``equal`` and differ in ``unequal``, (B,)."""
    owners = keys.to_index()[1]
    equal, unequal, owners = equal[order], unequal[order], owners[order]
    found = (owners[1:] == owners[:-1]) & (equal[1:] == equal[:-1]).all(1) & (unequal[1:] != unequal[:-1]).any(1)
    return torch.zeros(len(keys), dtype=torch.bool, device=owners.device).index_fill(0, owners[1:][found], True)
