"""The mean of f's output per element, wherever it stands, over the orderings: f(X_π) = f(X)_π."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from janossy.evaluate.cells.cost import cell_bytes, why_no_cells
from janossy.evaluate.cells.forest import paths
from janossy.evaluate.cells.layers import project, run
from janossy.evaluate.cells.traced import traced_states, why_not_traced_cells
from janossy.evaluate.cost import Work
from janossy.evaluate.problem import Function, Problem
from janossy.evaluate.reduce import HALF, widened
from janossy.evaluate.rows.pieces import Piece, batches_of, joined_positions, pieces_of, together
from janossy.evaluate.rows.recompute import computed_again, with_weights_of_now
from janossy.evaluate.rows.traced import why_not_traced
from janossy.functions.structure import Recurrent, call_with_mask, takes_mask
from janossy.orderings.rows import Rows
from janossy.orderings.sorting import first_of_equals
from janossy.sets import Ragged
from janossy.sets.transfer import upload


def per_element(problem: Problem) -> Tensor:
    """Returns the mean of f's outputs (T, L, c) at each element's places, (N, c).

    Every row holds all elements of its set. Rows that need more than the memory budget are computed in chunks, and
    again in backward.
    """
    if torch.compiler.is_compiling() and _is_traced(problem):
        return _of_any_sizes(problem)
    rows = problem.orderings.enumerate(problem.keys, problem.generator)
    in_cells = why_no_cells(problem) is None and problem.declared(Recurrent).per_position
    total = (_by_cells if in_cells else _by_rows)(problem, rows)
    counts = upload(torch.tensor(rows.counts(), dtype=total.dtype, device="cpu"), total.device)
    order = next((bucket.order for bucket in rows.buckets if bucket.order is not None), None)
    return _means(problem, total, counts, order)


def _means(problem: Problem, total: Tensor, counts: Tensor, order: Tensor | None) -> Tensor:
    """Returns the mean for each element, from the sum for each (N, c), and the number of rows of each set (B,)."""
    means = total / counts[problem.elements.to_index()[1], None]
    means = means if order is None else _alike_for_equals(means, problem.elements, order)
    return means.to(problem.elements.dtype) if problem.elements.dtype in HALF else means


def _is_traced(problem: Problem) -> bool:
    """Returns True if f is a recurrence that torch.compile need not unroll for each length."""
    if problem.generator is not None or why_not_traced(problem.orderings) or why_not_traced_cells(problem):
        return False
    return problem.declared(Recurrent).per_position


def _of_any_sizes(problem: Problem) -> Tensor:
    """Returns the same under torch.compile, in a graph for all sizes."""
    states, rows = traced_states(problem)
    outputs = widened(states)
    total = outputs.new_zeros(len(problem.elements.values), outputs.shape[1]).index_add(0, rows.positions, outputs)
    return _means(problem, total, rows.ends.diff().to(total.dtype), rows.order)


def _by_cells(problem: Problem, rows: Rows) -> Tensor:
    """Returns the sum for each element, by runs of a recurrence over many rows."""
    structure, num_values = problem.declared(Recurrent), len(problem.elements.values)
    limit = max(1, problem.memory_budget // cell_bytes(problem))
    batches = batches_of(pieces_of(rows, limit), limit)
    projections = project(problem.f, structure, problem.elements.values)
    forests = [paths([piece.positions(num_values) for piece in batch]) for batch in batches]
    arguments = [(projections, forest) for forest in forests]
    states_of = _computed(problem.f, run, arguments, once=len(forests) == 1)
    total = projections[0].new_zeros(num_values, structure.out_features)
    for forest, states in zip(forests, states_of, strict=True):
        total = total.index_add(0, forest.elements, states)
    return total


def _by_rows(problem: Problem, rows: Rows) -> Tensor:
    """Returns the sum for each element, by calls of f on rows of one length; of similar lengths if f takes a mask."""
    values = problem.elements.values
    work = Work.of(problem.f, whole_rows=False)
    lengths = [bucket.length for bucket in rows.buckets]
    longest = max(lengths) if lengths else 0  # torch.compile does not trace max(…, default=)
    row_bytes = values.element_size() * work.elements(longest, values.shape[1:].numel())
    limit = max(1, problem.memory_budget * max(1, longest) // row_bytes)
    pieces = [piece for piece in pieces_of(rows, limit) if piece.num_positions > 0]
    masked = takes_mask(problem.f)
    groups = list(together(pieces, lambda length, num_rows: length * num_rows <= limit, padded=masked))
    once = sum(length * piece.num_sets * piece.num_rows for length, group in groups for piece in group) <= limit
    arguments: list[Any] = [(values, length, group) for length, group in groups] or [(values, 1, [])]
    outputs_of = _computed(problem.f, _apply, arguments, once=once)
    outputs = widened(torch.cat(outputs_of) if len(outputs_of) > 1 else outputs_of[0])
    positions = [piece.positions(len(values)).flatten() for _, group in groups for piece in group]
    places = torch.cat(positions) if positions else outputs.new_zeros(0, dtype=torch.long)
    return outputs.new_zeros(len(values), outputs.shape[1]).index_add(0, places, outputs)


def _computed(
    f: Function, apply: Callable[[Function, Any], Tensor], arguments: Sequence[Any], *, once: bool
) -> list[Tensor]:
    """Returns ``apply`` of each argument; unless ``once``, it is computed again in backward."""
    if once:
        return [apply(f, each) for each in arguments]
    apply_now = with_weights_of_now(f, apply)
    return [computed_again(apply_now, each) for each in arguments]


def _apply(f: Function, x: tuple[Tensor, int, list[Piece]]) -> Tensor:
    """Returns the outputs at each position of these pieces' rows, (S·R·L, c).

    Without a piece there are no outputs, and c is f's width.
    """
    values, length, pieces = x
    if not pieces:
        return _checked(f, values.new_zeros(1, 1, *values.shape[1:]), None).flatten(0, 1)[:0]
    positions, mask = joined_positions(pieces, length, len(values))
    y = _checked(f, values[positions], mask).flatten(0, 1)
    return y if mask is None else y[mask.flatten()]


def _checked(f: Function, rows: Tensor, mask: Tensor | None) -> Tensor:
    """Returns f of rows (T, L, *features), checked to be (T, L, c)."""
    y = f(rows) if mask is None else call_with_mask(f, rows, mask)
    if not isinstance(y, Tensor) or y.dim() != 3 or y.shape[:2] != rows.shape[:2]:
        got = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
        raise ValueError(
            f"f must map rows {tuple(rows.shape)} to ({len(rows)}, {rows.shape[1]}, c), an output for each position; "
            f"got {got}. RNN, GRU and LSTM do so with per_position=True."
        )
    return y


def _alike_for_equals(means: Tensor, elements: Ragged, order: Tensor) -> Tensor:
    """Returns the mean over equal elements of a set, as their places in a sorted set do not tell them apart."""
    starts = first_of_equals(elements, order)
    if not (torch.compiler.is_compiling() or starts.is_cuda) and bool(starts.all()):
        return means
    kinds = torch.empty_like(order)
    kinds[order] = starts.cumsum(0) - 1
    sums = torch.zeros_like(means).index_add(0, kinds, means)
    counts = means.new_zeros(len(means)).index_add(0, kinds, torch.ones_like(means[:, 0]))
    return (sums / counts.clamp(min=1)[:, None])[kinds]
