"""Reductions of a set's rows to one vector, in pieces, so that all rows need never be held together."""

from collections.abc import Callable
from dataclasses import dataclass
from math import log

import torch
from torch import Tensor

from janossy.sets import Ragged

HALF = (torch.bfloat16, torch.float16)

PIECE = 4096
"""The most rows that are added one by one. In float32, 10^7 numbers of 0.1 would add up to 1.09 million."""


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
    size = sizes[0] if of_one_size else None
    return reduce_between(reduce, rows.values, rows.offsets, size, in_pieces=max(sizes, default=0) > PIECE)


def segment_sums(rows: Tensor, owners: Tensor, offsets: Tensor, *, in_pieces: bool = True) -> Tensor:
    """Returns the sums of rows (T, …) of sets between offsets (B + 1,), in their precision: (B, …).

    ``owners`` (T,) are the sets of the rows. A set of more than ``PIECE`` rows is added in pieces. ``in_pieces=False``
    skips the look for such sets.
    """
    num_sets = len(offsets) - 1
    is_large = torch.compiler.is_compiling() or len(rows) > PIECE
    if not in_pieces or not is_large:
        return _added(rows, owners, num_sets)
    further = (offsets.diff() - 1).clamp(min=0) // PIECE
    firsts = further.cumsum(0) - further + torch.arange(num_sets, device=rows.device)
    places = torch.arange(len(rows), device=rows.device) - offsets[owners]
    pieces = _added(rows, firsts[owners] + places // PIECE, num_sets + len(rows) // PIECE)
    owners = torch.bucketize(torch.arange(len(pieces), device=rows.device), firsts, right=True) - 1
    return _added(pieces, owners, num_sets)


def _added(rows: Tensor, owners: Tensor, num_sets: int) -> Tensor:
    zeros = rows.new_zeros(num_sets, *rows.shape[1:])
    if rows.is_cuda or rows.dim() != 2:
        return zeros.index_add(0, owners, rows)
    # On the CPU its backward, a gather, takes a fifth of an index_select.
    return zeros.scatter_add(0, owners[:, None].expand_as(rows), rows)


def means_by_counts(values: Tensor, counts: Tensor) -> Tensor:
    """Returns the mean of counts[b] rows (N, c) for set b, one set after the other, (B, c); 0 without rows.

    Half precision is added up in float32.
    """
    owners = torch.arange(len(counts), device=values.device)
    owners = owners.repeat_interleave(counts, output_size=len(values))
    wide = widened(values)
    sums = segment_sums(wide, owners, torch.nn.functional.pad(counts.cumsum(0), (1, 0)))
    return (sums / counts[:, None].clamp_min(1)).to(values.dtype)


def reduce_between(
    reduce: str, rows: Tensor, offsets: Tensor, size: int | None = None, *, in_pieces: bool = True
) -> Tensor:
    """Returns the same for rows (T, c) of sets between offsets (B + 1,); ``size`` is that of all sets, or None.

    ``in_pieces`` is as in ``segment_sums``.
    """
    num_sets = len(offsets) - 1
    if reduce == "min":
        return -reduce_between("max", -rows, offsets, size)
    if reduce in REDUCTIONS and size is not None:
        each = rows.unflatten(0, (num_sets, size))
        return REDUCTIONS[reduce].finish(REDUCTIONS[reduce].start(each), size).squeeze(1)
    values, counts = widened(rows), offsets.diff()
    owners = torch.repeat_interleave(counts, output_size=len(rows))

    def total(x: Tensor) -> Tensor:
        return segment_sums(x, owners, offsets, in_pieces=in_pieces)

    if reduce == "std":
        means = reduce_between("mean", values, offsets, size, in_pieces=in_pieces)[owners]
        variances = reduce_between("mean", (values - means).square(), offsets, size, in_pieces=in_pieces)
        has_slope = variances != 0  # the root has none at 0; NaN stays NaN
        return torch.where(has_slope, torch.where(has_slope, variances, 1).sqrt(), 0)
    if reduce == "sum":
        return total(values)
    if reduce == "mean":
        return total(values) / counts[:, None]
    lowest = values.new_full((num_sets, values.shape[1]), -torch.inf)
    columns = owners[:, None].expand_as(values)
    largest = lowest.scatter_reduce(0, columns, values.detach(), "amax")
    if reduce == "max":  # elements that tie share the gradient
        is_largest = (values == largest[owners]).to(values.dtype)
        mean = total(torch.where(is_largest > 0, values, 0)) / total(is_largest)
        return mean + (largest - mean.detach()).nan_to_num()  # a mean of equal numbers is rounded
    shift = torch.where(largest.isfinite(), largest, 0)
    return shift + (total((values - shift[owners]).exp()) / counts[:, None].to(values.dtype)).log()
