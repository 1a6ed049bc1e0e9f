"""One layer of cells in one direction: on the compiled kernels in one step of autograd, or in torch operations."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from janossy.evaluate.cells.forest import Shape
from janossy.evaluate.on_kernels import on_threads
from janossy.functions.structure import Recurrent

SLAB = 2**21
"""Gradients of gates, in numbers, that backward holds at once where elements are read many times; 8 MB in float32, or
as much as the gradient by the projections, of which each slab adds to the whole."""


def in_torch(
    structure: Recurrent,
    inputs: Tensor,
    weight: Tensor,
    bias: Tensor,
    elements: Tensor,
    shape: Shape,
    every_state: bool,
) -> Tensor:
    """One layer of cells, depth by depth in torch operations: on every device, differentiable any number of times."""
    H = weight.shape[1]
    bias = nn.functional.pad(bias, (len(weight) - len(bias), 0))
    depths = shape.by_depth_on(inputs.device)
    zero = inputs.new_zeros(1, H)
    state = (zero,) * structure.num_states
    hidden: list[Tensor] = []
    for now, above in zip(depths.cells, depths.parents, strict=True):
        product = nn.functional.linear(state[0], weight, bias)
        before = above if hidden else torch.zeros_like(above)
        state = structure.step(inputs[elements[now]], product[before], tuple(s[before] for s in state))
        hidden.append(state[0])
    states = torch.cat([*hidden, zero])  # the zero state, of rows of length 0, comes last
    return states[depths.place if every_state else depths.ends]


class Cells(torch.autograd.Function):
    """One layer in one direction by the kernels; in torch operations where the gradient is itself differentiated."""

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
        bias: Tensor,
    ) -> Tensor:
        cells = (elements.numpy(), shape.parents, shape.rows, shape.levels, shape.trees)
        arrays = (x.contiguous().numpy() for x in (inputs, weight, bias))
        ends, states, gates = on_threads(
            "run_cells", structure.kind, *arrays, cells, len(shape.ends), keep or every_state, keep
        )
        ctx.structure, ctx.shape, ctx.every_state = structure, shape, every_state
        states, gates = torch.from_numpy(states), torch.from_numpy(gates)
        ctx.save_for_backward(elements, inputs, weight, bias, states, gates)
        # A copy where the state is more than the hidden state; and what is returned must not be what is saved.
        return states[:-1, : weight.shape[1]].clone() if every_state else torch.from_numpy(ends)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        elements, inputs, weight, bias, states, gates = ctx.saved_tensors
        needed = ctx.needs_input_grad[5:]
        if torch.is_grad_enabled():  # of a gradient that will itself be differentiated
            inputs, weight, bias = (x.view_as(x) for x in (inputs, weight, bias))  # the gradient stops here
            out = in_torch(ctx.structure, inputs, weight, bias, elements, ctx.shape, ctx.every_state)
            wanted = [x for x, needs in zip((inputs, weight, bias), needed, strict=True) if needs]
            found = iter(torch.autograd.grad(out, wanted, gradient, create_graph=True))
            return *(None,) * 5, *(next(found) if needs else None for needs in needed)
        shape, cells, (width, H) = ctx.shape, elements.numpy(), weight.shape
        if len(cells) == len(inputs) and (np.bincount(cells) == 1).all():
            # Each element is read once: the changes of its cell, kept at its place, are its gradient.
            changes = _changes(ctx, shape.trees, cells, gradient, weight, states, gates)
            by_weights = _by_weights(changes, states[:, :H], shape.before[cells.argsort()], width)
            return *(None,) * 5, changes[:, :width], *by_weights
        total: list[Tensor] = []
        at_once = max(SLAB // width, len(inputs), torch.get_num_threads() * shape.largest_tree)
        for trees in shape.slabs(at_once if len(cells) > 4 * len(inputs) else len(cells)):
            first, last = shape.levels[trees[[0, -1]]]
            changes = _changes(ctx, trees, np.arange(last - first), gradient, weight, states, gates)
            read = changes[:, :width].numpy(), cells[first:last], len(inputs)
            by_inputs = torch.from_numpy(on_threads("sum_by_element", *read))
            part = [by_inputs, *_by_weights(changes, states[:, :H], shape.before[first:last], width)]
            total = [a.add_(b) for a, b in zip(total, part, strict=True)] if total else part
        return *(None,) * 5, *total


def _changes(
    ctx: Any, trees: np.ndarray, places: np.ndarray, gradient: Tensor, weight: Tensor, states: Tensor, gates: Tensor
) -> Tensor:
    """The gradients by what the gates of these trees' cells are made of, (cells, changes·H), each at its place."""
    shape, nothing = ctx.shape, gradient.new_zeros(0, weight.shape[1])
    cells = (places, shape.parents, shape.rows, shape.levels, trees)
    by_ends, by_states = (nothing, gradient) if ctx.every_state else (gradient, nothing)
    arrays = (x.contiguous().numpy() for x in (states, gates, by_ends, by_states))
    weights = weight.contiguous().numpy()
    return torch.from_numpy(on_threads("run_cells_back", ctx.structure.kind, weights, cells, *arrays))


def _by_weights(changes: Tensor, hidden: Tensor, before: np.ndarray, width: int) -> tuple[Tensor, Tensor]:
    """The gradients by the weights of the states, (gates·H, H), and by the GRU's bias (H,), else zero."""
    H = hidden.shape[1]
    states = hidden.index_select(0, torch.from_numpy(before))
    if changes.shape[1] == width:
        return torch.mm(changes.T, states), changes.new_zeros(H)
    # The GRU's new gate has a part of its own by the product, behind those by the input.
    by_product = changes[:, width:]
    return torch.cat((torch.mm(changes[:, : width - H].T, states), torch.mm(by_product.T, states))), by_product.sum(0)
