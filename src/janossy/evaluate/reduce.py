"""Reductions of a set's rows to one vector, in pieces, so that all rows need never be held together."""

from collections.abc import Callable
from dataclasses import dataclass
from math import log

import torch
from torch import Tensor

from janossy.sets import Ragged

HALF = (torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Reduction:
    """A reduction of rows (S, R, c) to (S, 1, c), or to themselves, in pieces.

    ``finish(combine(start(some rows), start(the other rows)), R)`` is the whole.
    Half-precision rows are accumulated in float32.
    """

    start: Callable[[Tensor], Tensor]
    combine: Callable[[Tensor, Tensor], Tensor]
    finish: Callable[[Tensor, float], Tensor]


def _sum(rows: Tensor) -> Tensor:
    return widened(rows).sum(1, keepdim=True)


def widened(x: Tensor) -> Tensor:
    """Returns half precision as float32, for accumulation; every other tensor as it is."""
    return x.float() if x.dtype in HALF else x


REDUCTIONS: dict[str | None, Reduction] = {
    "mean": Reduction(_sum, torch.add, lambda total, num_rows: total / num_rows),
    "sum": Reduction(_sum, torch.add, lambda total, num_rows: total),
    "max": Reduction(lambda rows: rows.amax(1, keepdim=True), torch.maximum, lambda largest, num_rows: largest),
    "logmeanexp": Reduction(
        lambda rows: widened(rows).logsumexp(1, keepdim=True),
        torch.logaddexp,
        lambda total, num_rows: total - log(num_rows),
    ),
    None: Reduction(lambda rows: rows, lambda a, b: torch.cat((a, b), 1), lambda rows, num_rows: rows),
}


OF_ROWS = ("mean", "sum", "max", "logmeanexp", "min", "std")
"""The reductions of rows that are held together."""


def reduce_segments(reduce: str, rows: Ragged) -> Tensor:
    """Returns the reduction of each set's rows, (B, c), in a few steps whatever the sizes.

    ``reduce`` is one of ``OF_ROWS``, and each set has at least one row.
    """
    sizes = rows.sizes
    if reduce == "min":
        return -reduce_segments("max", rows.map(torch.neg))
    if reduce == "std":
        rows = rows.map(widened)
        means = reduce_segments("mean", rows)[rows.to_index()[1]]
        variances = reduce_segments("mean", rows.map(lambda x: (x - means).square()))
        positive = variances > 0  # there the root has a gradient
        return torch.where(positive, torch.where(positive, variances, 1).sqrt(), 0)
    if not torch.compiler.is_compiling() and len(set(sizes)) == 1:
        each = rows.values.unflatten(0, (len(sizes), sizes[0]))
        return REDUCTIONS[reduce].finish(REDUCTIONS[reduce].start(each), sizes[0]).squeeze(1)
    values, owners = widened(rows.values), rows.to_index()[1]

    def total(x: Tensor) -> Tensor:
        return x.new_zeros(len(sizes), x.shape[1]).index_add(0, owners, x)

    if reduce == "sum":
        return total(values)
    counts = rows.offsets.diff()[:, None].to(values.dtype)
    if reduce == "mean":
        return total(values) / counts
    lowest = values.new_full((len(sizes), values.shape[1]), -torch.inf)
    columns = owners[:, None].expand_as(values)
    largest = lowest.scatter_reduce(0, columns, values.detach(), "amax")
    if reduce == "max":  # elements that tie share the gradient
        is_largest = (values == largest[owners]).to(values.dtype)
        return total(torch.where(is_largest > 0, values, 0)) / total(is_largest)
    shift = torch.where(largest.isfinite(), largest, 0)
    return shift + (total((values - shift[owners]).exp()) / counts).log()
