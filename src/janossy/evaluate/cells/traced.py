"""A recurrence over rows of any lengths as an operator that torch.compile calls, and does not unroll."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor

from janossy.evaluate.cells.cost import cell_bytes, why_no_recurrence
from janossy.evaluate.cells.forest import paths
from janossy.evaluate.cells.layers import project_of, run_of
from janossy.evaluate.problem import Problem
from janossy.evaluate.reduce import widened
from janossy.evaluate.rows.recompute import gradients_again, recorded
from janossy.evaluate.rows.traced import TracedRows, by_length, traced_rows
from janossy.functions.checks import check_dtype
from janossy.functions.recurrent import GRU, LSTM, RNN
from janossy.functions.structure import Direction, Recurrent
from janossy.kernels.limits import CELL_KINDS

KINDS = {kind.kind: kind for kind in (RNN, GRU, LSTM)}


def why_not_traced_cells(problem: Problem) -> str | None:
    """Returns the reason why ``traced_states`` cannot compute f; None if it can."""
    if (reason := why_no_recurrence(problem)) is not None:
        return reason
    structure = problem.declared(Recurrent)
    if structure.kind not in CELL_KINDS:
        return f"{type(problem.f).__name__} has a step of its own, which is unrolled"
    if structure.dropout:
        return f"{type(problem.f).__name__} has dropout between layers, which backward could not drop again"
    return None


def traced_states(problem: Problem) -> tuple[Tensor, TracedRows]:
    """Returns f of each row, (T, c), or, if f is per_position, its state at each position, (C, c); and the rows."""
    rows = traced_rows(problem.orderings, problem.keys, max(1, problem.memory_budget // cell_bytes(problem)))
    structure, values = problem.declared(Recurrent), problem.values
    directions = [direction for layer in structure.layers for direction in layer]
    check_dtype(problem.f, values, directions[0].weight_ih)
    weights = [w for d in directions for w in (d.weight_ih, d.weight_hh, d.bias_ih, d.bias_hh)]
    assert rows.lengths is not None  # they are rows of whole sets
    bidirectional, settings = len(structure.layers[0]) > 1, (structure.per_position, structure.unrolled)
    given = values, weights, rows.positions, rows.lengths
    return cast(Tensor, states_of_rows(*given, structure.kind, bidirectional, *settings)), rows


@torch.library.custom_op("janossy::states_of_rows", mutates_args=(), device_types=("cpu", "cuda"))
def states_of_rows(
    values: Tensor,
    weights: Sequence[Tensor],
    positions: Tensor,
    lengths: Tensor,
    kind: str,
    bidirectional: bool,
    per_position: bool,
    unrolled: bool,
) -> Tensor:
    """Returns the last state of each row, (T, c), or that at each position, (C, c). A row of length 0 gives zero.

    Backward keeps the arguments, and computes the states again.

    Shapes: values (N, d); weights, as torch's recurrences have them, of each direction of each layer; positions (C,) in
        the values, one row after the other; lengths (T,).
    """
    return _states(values, weights, positions, lengths, kind, bidirectional, per_position, unrolled)


@states_of_rows.register_fake
def _(
    values: Tensor,
    weights: Sequence[Tensor],
    positions: Tensor,
    lengths: Tensor,
    kind: str,
    bidirectional: bool,
    per_position: bool,
    unrolled: bool,
) -> Tensor:
    width = weights[1].shape[1] * (1 + bidirectional)
    return widened(values).new_empty((positions if per_position else lengths).shape[0], width)


@torch.library.custom_op("janossy::states_of_rows_back", mutates_args=(), device_types=("cpu", "cuda"))
def states_of_rows_back(
    gradient: Tensor,
    values: Tensor,
    weights: Sequence[Tensor],
    positions: Tensor,
    lengths: Tensor,
    kind: str,
    bidirectional: bool,
    per_position: bool,
    unrolled: bool,
) -> list[Tensor]:
    """Returns the gradients of ``states_of_rows`` by the values and by each weight."""

    def again(values: Tensor, *weights: Tensor) -> Tensor:
        return _states(values, weights, positions, lengths, kind, bidirectional, per_position, unrolled)

    if not len(positions):
        return [torch.zeros_like(x) for x in (values, *weights)]
    with recorded(), torch.no_grad():
        by_each = gradients_again(again, (values, *weights), (True,) * (1 + len(weights)), gradient)
    # Copies, as both biases of a direction have one gradient, and an operator's results may not share memory.
    return [x.clone(memory_format=torch.contiguous_format) for x in by_each if x is not None]


@states_of_rows_back.register_fake
def _(gradient: Tensor, values: Tensor, weights: Sequence[Tensor], *rest: object) -> list[Tensor]:
    return [torch.empty_like(x, memory_format=torch.contiguous_format) for x in (values, *weights)]


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    values, weights, positions, lengths, *ctx.settings = inputs
    ctx.num_weights = len(weights)
    ctx.save_for_backward(values, *weights, positions, lengths)


def _backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    values, *weights, positions, lengths = ctx.saved_tensors
    by_values, *by_weights = states_of_rows_back(gradient, values, weights, positions, lengths, *ctx.settings)
    return by_values, by_weights, *(None,) * (2 + len(ctx.settings))


states_of_rows.register_autograd(_backward, setup_context=_setup_context)


def _states(
    values: Tensor,
    weights: Sequence[Tensor],
    positions: Tensor,
    lengths: Tensor,
    kind: str,
    bidirectional: bool,
    per_position: bool,
    unrolled: bool,
) -> Tensor:
    structure = _structure(weights, kind, bidirectional, per_position, unrolled)
    if not len(positions):
        return widened(values).new_zeros(0 if per_position else len(lengths), structure.out_features)
    starts = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))[:-1]
    # The entries of the rows, the longest first, as paths takes them.
    entries, numbers = [], []
    for rows, length in by_length(lengths.cpu()):
        rows = rows.to(starts.device)
        entries.append(starts[rows][:, None] + torch.arange(length, device=starts.device))
        numbers.append(rows)
    forest = paths(entries)
    read = replace(forest, elements=positions[forest.elements])
    states = run_of(structure, project_of(structure, values), read)
    places = forest.elements if per_position else torch.cat(numbers)
    return torch.empty_like(states).index_copy(0, places, states)


def _structure(
    weights: Sequence[Tensor], kind: str, bidirectional: bool, per_position: bool, unrolled: bool
) -> Recurrent:
    directions = 1 + bidirectional
    fours = (weights[i : i + 4] for i in range(0, len(weights), 4))
    each = [Direction(w[0], w[1], w[2], w[3], reverse=i % directions == 1) for i, w in enumerate(fours)]
    layers = [tuple(each[i : i + directions]) for i in range(0, len(each), directions)]
    made = KINDS[kind]
    num_apart = made.num_gates if made.num_apart is None else made.num_apart
    return Recurrent(kind, made.step, made.num_states, num_apart, tuple(layers), 0.0, per_position, unrolled)
