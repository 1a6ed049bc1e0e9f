"""One layer of cells in one direction: its projections, and its steps, compiled or in torch operations."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from janossy.evaluate.cells.forest import Shape
from janossy.evaluate.on_kernels import on_threads, one_by_one, takes_gradients, unless_compiling
from janossy.evaluate.rows.recompute import gradients_again
from janossy.functions.structure import Recurrent
from janossy.kernels.limits import CELL_KINDS


class Projections(torch.autograd.Function):
    """x · weightᵀ + bias + bias_hidden; the last ``apart`` units get no bias_hidden, which stays with its product.

    Each gate's H units are followed by ``missing`` units of zeros.

    Shapes: x (N, d), weight (gates·H, d), bias and bias_hidden (gates·H,) -> (N, gates·(H + missing)).
    """

    @staticmethod
    def forward(
        ctx: Any, H: int, missing: int, apart: int, x: Tensor, weight: Tensor, bias: Tensor, bias_hidden: Tensor
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.H, ctx.apart = H, apart
        summed = bias + bias_hidden
        if apart > 0:
            summed[-apart:] = bias[-apart:]
        return nn.functional.linear(x, filled(weight, H, missing), filled(summed, H, missing))

    @staticmethod
    @one_by_one
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (x, weight), apart, needed = ctx.saved_tensors, ctx.apart, ctx.needs_input_grad[3:]
        gradient = unfilled(gradient, len(weight), ctx.H)
        by_x = gradient @ weight if needed[0] else None
        by_weight = gradient.T @ x if needed[1] else None
        by_bias = by_hidden = gradient.sum(0)
        if apart > 0:
            by_hidden = nn.functional.pad(by_bias[:-apart], (0, apart))
        return None, None, None, by_x, by_weight, by_bias, by_hidden


def filled(x: Tensor, H: int, missing: int) -> Tensor:
    """Returns each gate's H rows of (gates·H, …), followed by ``missing`` rows of zeros.

    The units of these rows are zero at every step.
    """
    if missing == 0:
        return x
    gates = x.new_zeros(len(x) // H, H + missing, *x.shape[1:])
    gates[:, :H] = x.unflatten(0, (-1, H))
    return gates.flatten(0, 1)


def unfilled(x: Tensor, num_units: int, H: int) -> Tensor:
    """Returns (N, num_units) from x (N, gates·(H + missing)), without the missing units."""
    return x if x.shape[1] == num_units else x.unflatten(1, (num_units // H, -1))[:, :, :H].flatten(1)


SLAB = 2**21
"""The numbers of gates' gradients that backward holds at once if elements are read many times; 8 MB in float32.

It holds at least as many as the gradient by the projections has, as each slab adds to all of it."""


def in_torch(
    structure: Recurrent,
    inputs: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    elements: Tensor,
    shape: Shape,
    every_state: bool,
) -> Tensor:
    """Computes one layer of cells in torch operations, depth by depth.

    It runs on every device, and can be differentiated any number of times.

    Shapes: inputs (N, gates·H), weight (gates·H, H), bias that of the last gates, if one stays apart.
    """
    H = weight.shape[1]
    if bias is not None:
        bias = nn.functional.pad(bias, (len(weight) - len(bias), 0))
    depths = shape.by_depth_on(inputs.device)
    zero = inputs.new_zeros(1, H)
    state = (zero,) * structure.num_states
    hidden: list[Tensor] = []
    # All cells are read at once, as each reading makes a gradient by all inputs in backward.
    read = inputs.index_select(0, elements[torch.cat(depths.cells)]).split([len(cells) for cells in depths.cells])
    for projected, above, in_order in zip(read, depths.parents, shape.in_order, strict=True):
        if in_order and hidden:  # rows that have ended come last, and need no step
            state = tuple(x[: len(above)] for x in state) if len(above) < len(state[0]) else state
            before = nn.functional.linear(state[0], weight, bias), *state
        else:
            before = nn.functional.linear(state[0], weight, bias), *state
            before = tuple(x.index_select(0, above if hidden else torch.zeros_like(above)) for x in before)
        if structure.kind not in CELL_KINDS:  # a user's step may write into its inputs
            projected, before = projected.clone(), tuple(x.clone() for x in before)
        state = structure.step(projected, before[0], before[1:])
        hidden.append(state[0])
    every = torch.cat([*hidden, zero])  # the zero state, of rows of length 0, comes last
    return every[depths.place if every_state else depths.ends]


class Cells(torch.autograd.Function):
    """One layer in one direction by the kernels; a gradient that is differentiated is in torch operations.

    ``inputs`` have each gate's units filled up to a whole vector. weight (gates·H, H) and bias (H,) are not filled.
    """

    @staticmethod
    def forward(
        ctx: Any,
        structure: Recurrent,
        shape: Shape,
        elements: Tensor,
        every_state: bool,
        keep: bool,
        inputs: Tensor,
        weight: Tensor,
        bias: Tensor | None,
    ) -> Tensor:
        H = weight.shape[1]
        missing = inputs.shape[1] * H // len(weight) - H
        # A gate's bias, of zeros if none stays apart: what the kernels take.
        apart = filled(weight.new_zeros(H) if bias is None else bias, H, missing)
        whole = nn.functional.pad(filled(weight, H, missing), (0, missing)) if missing else weight
        cells = (elements.numpy(), shape.parents, shape.rows, shape.levels, shape.trees)
        arrays = (x.contiguous().numpy() for x in (inputs, whole, apart))
        ends, states, gates = on_threads(
            "run_cells", structure.kind, *arrays, cells, len(shape.ends), keep or every_state, keep
        )
        ctx.structure, ctx.shape, ctx.every_state = structure, shape, every_state
        states, gates = torch.from_numpy(states), torch.from_numpy(gates)
        ctx.save_for_backward(elements, inputs, weight, bias, whole, states, gates)
        # A copy if the state is more than the hidden state, and as the result must not be the saved tensor.
        return states[:-1, :H].clone() if every_state else torch.from_numpy(ends)[:, :H]

    @staticmethod
    @one_by_one
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        if takes_gradients():
            with unless_compiling():
                return Cells._backward_on_kernels(ctx, gradient)
        return gradients_in_torch(ctx, gradient)

    @staticmethod
    def _backward_on_kernels(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        elements, inputs, weight, _, whole, states, gates = ctx.saved_tensors
        shape, cells, (width, H) = ctx.shape, elements.numpy(), whole.shape
        if gradient.shape[1] < H:
            gradient = nn.functional.pad(gradient, (0, H - gradient.shape[1]))
        if len(cells) == len(inputs) and (np.bincount(cells) == 1).all():
            # Each element is read once: the changes of its cell, kept at its place, are its gradient.
            changes = _changes(ctx, shape.trees, cells, gradient, whole, states, gates)
            by_weights = _by_weights(changes, states, shape.before[cells.argsort()], weight, width)
            return *(None,) * 5, changes[:, :width], *by_weights, *(None,) * (2 - len(by_weights))
        total: list[Tensor] = []
        at_once = max(SLAB // width, len(inputs), torch.get_num_threads() * shape.largest_tree)
        for trees in shape.slabs(at_once if len(cells) > 4 * len(inputs) else len(cells)):
            first, last = shape.levels[trees[[0, -1]]]
            changes = _changes(ctx, trees, np.arange(last - first), gradient, whole, states, gates)
            read = changes[:, :width].numpy(), cells[first:last], len(inputs)
            by_inputs = torch.from_numpy(on_threads("sum_by_element", *read))
            part = [by_inputs, *_by_weights(changes, states, shape.before[first:last], weight, width)]
            total = [a.add_(b) for a, b in zip(total, part, strict=True)] if total else part
        return *(None,) * 5, *total, *(None,) * (3 - len(total))


def gradients_in_torch(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    """Returns the gradients of ``Cells`` or ``HalfCells`` by all arguments, which can be differentiated again."""
    elements, inputs, weight, bias, *_ = ctx.saved_tensors
    structure, shape, every_state = ctx.structure, ctx.shape, ctx.every_state

    def again(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        read = unfilled(inputs, *weight.shape)
        weight, bias = weight.to(read.dtype), None if bias is None else bias.to(read.dtype)
        return in_torch(structure, read, weight, bias, elements, shape, every_state)

    return *(None,) * 5, *gradients_again(again, (inputs, weight, bias), ctx.needs_input_grad[5:], gradient)


def _changes(
    ctx: Any, trees: np.ndarray, places: np.ndarray, gradient: Tensor, weight: Tensor, states: Tensor, gates: Tensor
) -> Tensor:
    """Returns the gradients by the inputs of the gates of these trees' cells.

    Shapes: (cells, changes·H), each cell at its place.
    """
    shape, nothing = ctx.shape, gradient.new_zeros(0, weight.shape[1])
    cells = (places, shape.parents, shape.rows, shape.levels, trees)
    by_ends, by_states = (nothing, gradient) if ctx.every_state else (gradient, nothing)
    arrays = (x.contiguous().numpy() for x in (states, gates, by_ends, by_states))
    weights = weight.contiguous().numpy()
    return torch.from_numpy(on_threads("run_cells_back", ctx.structure.kind, weights, cells, *arrays))


def _by_weights(changes: Tensor, states: Tensor, before: np.ndarray, weight: Tensor, width: int) -> list[Tensor]:
    """Returns the gradients by the states' weights, (gates·H, H), and by the bias of the GRU's new gate, (H,)."""
    H = weight.shape[1]
    hidden = states[:, :H].index_select(0, torch.from_numpy(before))
    if changes.shape[1] == width:
        return [unfilled(torch.mm(hidden.T, changes), *weight.shape).T]
    # The new gate has a separate part by the product, behind the parts by the input.
    by_product = changes[:, width:]
    of_gates = changes[:, : width - by_product.shape[1]], by_product
    by_weight = torch.cat([torch.mm(hidden.T, each) for each in of_gates], dim=1)
    return [unfilled(by_weight, *weight.shape).T, by_product.sum(0)[:H]]
