"""Brute force from the definitions: one row at a time, in float64, without code of the library."""

from math import log

import torch
from torch import Tensor

from janossy import JanossyPooling, Ragged
from janossy.orderings import RandomOrderings
from tests.examples import DEFINITIONS, drawing

REDUCTIONS = {
    "mean": lambda rows: rows.mean(0),
    "sum": lambda rows: rows.sum(0),
    "max": lambda rows: rows.amax(0),
    "min": lambda rows: rows.amin(0),
    "std": lambda rows: rows.std(0, correction=0),
    "logmeanexp": lambda rows: rows.logsumexp(0) - log(len(rows)),
}
"""The reductions of rows (T, c) to (c,)."""


def rows_by_definition(orderings, x: Tensor) -> list[Tensor]:
    """Returns the sequences (L, d) that the ordering averages for one set x (n, d)."""
    k = orderings.k or 0
    definition = next(DEFINITIONS[kind] for kind in type(orderings).__mro__ if kind in DEFINITIONS)
    return [_fill(_take(x, chosen), k) for chosen in definition(orderings, x)]


def drawn_rows(orderings: RandomOrderings, sets: Ragged) -> list[list[Tensor]]:
    """Returns, per set, the sequences that ``drawing(orderings)`` samples, by the loop in ``Rows.flatten``."""
    positions, owners = orderings.enumerate(sets, **drawing(orderings)).flatten()
    zero = torch.zeros_like(sets.values[:1].sum(0))
    rows: list[list[Tensor]] = [[] for _ in sets]
    for t, owner in enumerate(owners.tolist()):
        elements = [zero if p == -1 else sets.values[p] for p in positions[t].tolist()]
        rows[owner].append(torch.stack(elements) if elements else sets.values[:0])
    return rows


def pool_by_definition(pooling: JanossyPooling, sets: Ragged, rows_of=rows_by_definition) -> list[Tensor]:
    """Returns, per set, the reduction of f over its rows, or (rows, c) if ``reduce`` is None."""
    weights = [1.0] * sum(pooling.orderings.num_rows(n) for n in sets.sizes)
    if pooling.orderings.weighs_rows:
        weights = pooling.orderings.enumerate(sets, **drawing(pooling.orderings)).weights()[:, 0].tolist()
    if pooling.orderings.draws:
        rows = drawn_rows(pooling.orderings, sets)
    else:
        rows = [rows_of(pooling.orderings, x) for x in sets]
    width = pooling.f(
        sets.values.new_zeros(1, getattr(pooling.orderings, "k", None) or 1, *sets.values.shape[1:])
    ).shape[1]
    in_turn = iter(weights)
    return [
        _reduce(torch.stack([next(in_turn) * _value(pooling.f, row, width) for row in each]), pooling.reduce)
        for each in rows
    ]


def _take(x: Tensor, order) -> Tensor:
    return x[torch.tensor(order, dtype=torch.long)]


def _fill(row: Tensor, k: int) -> Tensor:
    return torch.cat((row, row.new_zeros(max(0, k - len(row)), *row.shape[1:])))


def _value(f, row: Tensor, width: int) -> Tensor:
    return f(row[None])[0] if len(row) else row.new_zeros(width)


def _reduce(values: Tensor, reduce: str | None) -> Tensor:
    match reduce:
        case "mean":
            return sum(values) / len(values)
        case "sum":
            return sum(values)
        case "max":
            return torch.stack([max(column) for column in values.T])
        case "logmeanexp":
            return (sum(values.exp()) / len(values)).log()
        case None:
            return values
    raise NotImplementedError(reduce)
