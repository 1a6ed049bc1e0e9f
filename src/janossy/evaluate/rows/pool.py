"""The reduction of f over every row, a limited number of rows at a time, computed again in backward."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce as fold

import torch
from torch import Tensor

from janossy.evaluate.problem import Function, Problem
from janossy.evaluate.reduce import HALF, REDUCTIONS, Reduction, widened
from janossy.evaluate.rows.pieces import Piece, chunks_of, joined_positions, positions_of, together
from janossy.evaluate.rows.recompute import computed_again, with_weights_of_now
from janossy.functions.structure import call_with_mask
from janossy.orderings.rows import Bucket, Rows
from janossy.sets import Ragged


@dataclass(frozen=True)
class Steps:
    """The two steps that compute a row's value: apply(f, take(values, positions)).

    Shapes:
        values: (N, …), one entry per element, or (N + 1, …), with the zero vector's last (see ``with_zero``).
        take: values and positions (T, L) in them -> (T, …), to which f is applied.
        apply: f and (T, …) -> (T, c), with the weights that f has at that time.
    """

    values: Tensor
    take: Callable[[Tensor, Tensor], Tensor]
    apply: Callable[..., Tensor]
    row_bytes: Callable[[int], int]
    """An upper estimate of the bytes that a row of this length takes."""
    takes_mask: bool = False
    """True if ``apply`` takes a mask (T, L) as third argument, so that rows of several lengths are one call."""


def pool_rows(problem: Problem, rows: Rows, steps: Steps) -> Tensor | Ragged:
    """Returns the reduced rows of each set, (B, c); or, if problem.reduce is None, the rows themselves.

    A row of length 0 is not computed: its value is the zero vector.
    """
    reduction = REDUCTIONS[problem.reduce]
    parts = _parts(problem, rows, steps, reduction)
    if parts:
        example = next(iter(parts.values()))
    else:
        # No element anywhere: f of zero vectors tells the width and dtype of the zero result.
        length = max(1, *(bucket.length for bucket in rows.buckets))
        zeros = torch.zeros(1, length, dtype=torch.long, device=steps.values.device)
        example = steps.apply(problem.f, steps.take(steps.values, zeros))[None]
    for i, bucket in enumerate(rows.buckets):
        if i not in parts:
            empty = example.new_zeros(bucket.num_sets, bucket.num_rows, example.shape[2])
            parts[i] = reduction.finish(reduction.start(empty), bucket.num_rows)
    joined = rows.join([parts[i] for i in range(len(rows.buckets))])
    if problem.values.dtype in HALF:
        joined = joined.to(problem.values.dtype)
    return joined if problem.reduce is not None else Ragged.from_sizes(joined, rows.counts())


def _parts(problem: Problem, rows: Rows, steps: Steps, reduction: Reduction) -> dict[int, Tensor]:
    """Returns the reduction of each set's rows, (S, 1, c), or (S, R, c) if rows are kept, for each bucket with rows."""

    def limit(length: int) -> int:
        return max(1, problem.memory_budget // max(1, steps.row_bytes(length)))

    parts, whole = {}, []
    numbers = {id(bucket): i for i, bucket in enumerate(rows.buckets)}
    for i, bucket in _longest_first(rows.buckets):
        if bucket.length == 0 or bucket.num_sets == 0:
            continue
        if bucket.num_sets * bucket.num_rows > limit(bucket.length):
            parts[i] = _in_chunks(problem.f, steps, bucket, reduction, limit(bucket.length))
        else:
            whole.append(Piece(bucket, slice(None), slice(None), whole=True))
    for length, group in together(whole, lambda length, num: num <= limit(length), padded=steps.takes_mask):
        positions, mask = joined_positions(group, length, len(steps.values))
        x = steps.take(steps.values, positions)
        y = steps.apply(problem.f, x) if mask is None else steps.apply(problem.f, x, mask)
        for piece, each in zip(group, y.split([p.num_sets * p.num_rows for p in group]), strict=True):
            started = reduction.start(each.unflatten(0, (piece.num_sets, piece.num_rows)))
            parts[numbers[id(piece.bucket)]] = reduction.finish(started, piece.num_rows)
    return parts


def _longest_first(buckets: Sequence[Bucket]) -> list[tuple[int, Bucket]]:
    """Returns the buckets with their numbers, those of long rows first."""
    if not torch.compiler.is_compiling():
        return sorted(enumerate(buckets), key=lambda pair: -pair[1].length)
    order: list[tuple[int, Bucket]] = []  # torch.compile compares varying lengths, but does not sort by them
    for i, bucket in enumerate(buckets):
        shorter = 0
        while shorter < len(order) and order[shorter][1].length >= bucket.length:
            shorter += 1
        order.insert(shorter, (i, bucket))
    return order


def _in_chunks(f: Function, steps: Steps, bucket: Bucket, reduction: Reduction, limit: int) -> Tensor:
    """Returns the reduction of each set's rows, computed for at most ``limit`` rows at once."""
    chunks = chunks_of(bucket.num_sets, bucket.num_rows, limit)
    # Gradients add up over the chunks, in float32 for half-precision values and weights.
    apply_now, wide_values, dtype = with_weights_of_now(f, steps.apply), widened(steps.values), steps.values.dtype

    def start(wide_values: Tensor, sets: slice, rows: slice) -> Tensor:
        positions = positions_of(bucket, len(wide_values), sets, rows)
        y = apply_now(steps.take(wide_values, positions.flatten(0, 1)).to(dtype))
        return reduction.start(y.unflatten(0, positions.shape[:2]))

    results = []
    for sets, pieces in chunks:
        started = (computed_again(start, wide_values, sets, rows) for rows in pieces)
        results.append(reduction.finish(fold(reduction.combine, started), bucket.num_rows))
    return torch.cat(results)


def apply(f: Function, x: Tensor, mask: Tensor | None = None, *, single: bool = False) -> Tensor:
    """Returns f of rows (T, L, *features), checked to be (T, c); or (T, 1, c) if all rows are single elements.

    ``mask`` (T, L) is False behind shorter rows.
    """
    y = f(x) if mask is None else call_with_mask(f, x, mask)
    if single and isinstance(y, Tensor) and y.dim() == 3 and y.shape[:2] == (len(x), 1):
        return y.squeeze(1)
    if not isinstance(y, Tensor) or y.dim() != 2 or len(y) != len(x):
        got = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
        raise ValueError(
            f"f must map rows {tuple(x.shape)} to ({len(x)}, c); got {got}. "
            "Reduce the sequence dimension inside f: its last state, or a mean over positions."
        )
    return y
