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
    if torch.compiler.is_compiling():  # which would compile anew for other sizes if these were looked at
        return reduce_between(reduce, rows.values, rows.offsets)
    sizes = rows.sizes
    of_one_size = len(sizes) > 0 and sizes == sizes[:1] * len(sizes)
    return reduce_between(reduce, rows.values, rows.offsets, sizes[0] if of_one_size else None)


def means_by_counts(values: Tensor, counts: Tensor) -> Tensor:
    """Returns the mean of counts[b] rows (N, c) for set b, one set after the other, (B, c); 0 without rows.

    Half precision is added up in float32.
    """
    owners = torch.arange(len(counts), device=values.device)
    owners = owners.repeat_interleave(counts, output_size=len(values))
    wide = widened(values)
    sums = wide.new_zeros(len(counts), wide.shape[1]).index_add(0, owners, wide)
    return (sums / counts[:, None].clamp_min(1)).to(values.dtype)


def reduce_between(reduce: str, rows: Tensor, offsets: Tensor, size: int | None = None) -> Tensor:
    """Returns the same for rows (T, c) of sets between offsets (B + 1,); ``size`` is that of all sets, or None."""
    num_sets = len(offsets) - 1
    if reduce == "min":
        return -reduce_between("max", -rows, offsets, size)
    if reduce in REDUCTIONS and size is not None:
        each = rows.unflatten(0, (num_sets, size))
        return REDUCTIONS[reduce].finish(REDUCTIONS[reduce].start(each), size).squeeze(1)
    values, counts = widened(rows), offsets.diff()
    owners = torch.repeat_interleave(counts, output_size=len(rows))
    if reduce == "std":
        means = reduce_between("mean", values, offsets, size)[owners]
        variances = reduce_between("mean", (values - means).square(), offsets, size)
        has_slope = variances != 0  # the root has none at 0; NaN stays NaN
        return torch.where(has_slope, torch.where(has_slope, variances, 1).sqrt(), 0)

    def total(x: Tensor) -> Tensor:
        zeros = x.new_zeros(num_sets, x.shape[1])
        if x.is_cuda:
            return zeros.index_add(0, owners, x)
        # On the CPU its backward, a gather, takes a fifth of an index_select.
        return zeros.scatter_add(0, owners[:, None].expand_as(x), x)

    if reduce == "sum":
        return total(values)
    if reduce == "mean":
        return total(values) / counts[:, None]
    lowest = values.new_full((num_sets, values.shape[1]), -torch.inf)
    columns = owners[:, None].expand_as(values)
    largest = lowest.scatter_reduce(0, columns, values.detach(), "amax")
    if reduce == "max":  # elements that tie share the gradient
        is_largest = (values == largest[owners]).to(values.dtype)
        return total(torch.where(is_largest > 0, values, 0)) / total(is_largest)
    shift = torch.where(largest.isfinite(), largest, 0)
    return shift + (total((values - shift[owners]).exp()) / counts[:, None].to(values.dtype)).log()
