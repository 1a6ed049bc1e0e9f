"""f of every row, reduced: at most so many rows at a time, which are computed again in backward."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce as fold

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from janossy.evaluate.problem import Function, Problem
from janossy.evaluate.reduce import HALF, REDUCTIONS, Reduction, widened
from janossy.evaluate.rows.pieces import chunks_of, positions_of
from janossy.evaluate.rows.recompute import with_weights_of_now
from janossy.orderings.rows import Bucket, Rows
from janossy.sets import Ragged


@dataclass(frozen=True)
class Steps:
    """The two steps that make a row's value: apply(f, take(values, positions)).

    Shapes:
        values: (N, …), what is known of each element; or (N + 1, …), the zero vector's last (see ``with_zero``).
        take: values and positions (T, L) in them -> (T, …), to which f is applied.
        apply: f and (T, …) -> (T, c), with the weights that f has at that time.
    """

    values: Tensor
    take: Callable[[Tensor, Tensor], Tensor]
    apply: Callable[[Function, Tensor], Tensor]
    row_bytes: Callable[[int], int]
    """An upper estimate of the bytes that a row of this length takes."""


def pool_rows(problem: Problem, rows: Rows, steps: Steps) -> Tensor | Ragged:
    """The reduced rows of each set, (B, c); or, if problem.reduce is None, the rows themselves.

    A row of length 0 is not computed: its value is the zero vector.
    """
    reduction = REDUCTIONS[problem.reduce]
    parts: dict[int, Tensor] = {}
    for together in _in_one_call(rows.buckets, steps, problem.memory_budget):
        if len(together) == 1:
            bucket = rows.buckets[together[0]]
            parts[together[0]] = _evaluate(problem.f, steps, bucket, reduction, problem.memory_budget)
        else:
            of_each = _evaluate_together(problem.f, steps, [rows.buckets[i] for i in together], reduction)
            parts |= zip(together, of_each, strict=True)
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


def _in_one_call(buckets: Sequence[Bucket], steps: Steps, memory_budget: int) -> Iterator[list[int]]:
    """Yields the numbers of buckets to whose rows f is applied at once.

    They have rows of one length, which fit the budget together. On small sets calls of f cost more than its arithmetic.
    """
    by_length: dict[int, list[int]] = {}
    for i, bucket in enumerate(buckets):
        if bucket.length > 0 and bucket.num_sets > 0:
            by_length.setdefault(bucket.length, []).append(i)
    for length, numbers in by_length.items():
        num_rows = sum(buckets[i].num_sets * buckets[i].num_rows for i in numbers)
        if num_rows * steps.row_bytes(length) <= memory_budget:
            yield numbers
        else:
            yield from ([i] for i in numbers)


def _evaluate_together(f: Function, steps: Steps, buckets: Sequence[Bucket], reduction: Reduction) -> Iterator[Tensor]:
    """Yields what ``_evaluate`` gives of each bucket, by one call of f."""
    positions = [positions_of(bucket, len(steps.values)).flatten(0, 1) for bucket in buckets]
    y = steps.apply(f, steps.take(steps.values, torch.cat(positions)))
    for bucket, rows in zip(buckets, y.split([len(each) for each in positions]), strict=True):
        yield reduction.finish(reduction.start(rows.unflatten(0, (bucket.num_sets, bucket.num_rows))), bucket.num_rows)


def _evaluate(f: Function, steps: Steps, bucket: Bucket, reduction: Reduction, memory_budget: int) -> Tensor:
    """The reduction of each set's rows, (S, 1, c), or (S, R, c) where rows are kept."""
    limit = max(1, memory_budget // max(1, steps.row_bytes(bucket.length)))
    chunks = chunks_of(bucket.num_sets, bucket.num_rows, limit)
    if len(chunks) == len(chunks[0][1]) == 1:
        positions = positions_of(bucket, len(steps.values))
        y = steps.apply(f, steps.take(steps.values, positions.flatten(0, 1)))
        return reduction.finish(reduction.start(y.unflatten(0, positions.shape[:2])), bucket.num_rows)

    # Gradients add up over the chunks, so those of half-precision values and weights do it in float32.
    apply_now, wide_values, dtype = with_weights_of_now(f, steps.apply), widened(steps.values), steps.values.dtype

    def start(sets: slice, rows: slice) -> Tensor:
        positions = positions_of(bucket, len(wide_values), sets, rows)
        y = apply_now(steps.take(wide_values, positions.flatten(0, 1)).to(dtype))
        return reduction.start(y.unflatten(0, positions.shape[:2]))

    results = []
    for sets, pieces in chunks:
        started = (checkpoint(start, sets, rows, use_reentrant=False) for rows in pieces)
        results.append(reduction.finish(fold(reduction.combine, started), bucket.num_rows))
    return torch.cat(results)


def apply(f: Function, x: Tensor) -> Tensor:
    """f of rows (T, L, *features), checked to be (T, c)."""
    y = f(x)
    if not isinstance(y, Tensor) or y.dim() != 2 or len(y) != len(x):
        got = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
        raise ValueError(
            f"f must map rows {tuple(x.shape)} to ({len(x)}, c); got {got}. "
            "Reduce the sequence dimension inside f: its last state, or a mean over positions."
        )
    return y
