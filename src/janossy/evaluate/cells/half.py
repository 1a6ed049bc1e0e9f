"""One layer of cells in one direction in bfloat16, depth by depth: torch's products between compiled steps."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from janossy.evaluate.cells.autograd import gradients_in_torch
from janossy.evaluate.cells.forest import Shape
from janossy.evaluate.on_kernels import numbers_kept, on_threads, one_by_one, takes_gradients, unless_compiling
from janossy.functions.structure import Recurrent


class HalfCells(torch.autograd.Function):
    """One layer in one direction by the kernels; a gradient that is differentiated is in torch operations.

    States, gates and their gradients are kept in bfloat16. A step computes in float32, and so do sums of gradients.

    Shapes: inputs (N, gates·H), bfloat16; weight (gates·H, H), and bias (H,) or None, of any dtype ->
        the hidden state at the end of each row (T, H), or of every cell (C, H), bfloat16.
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
        width, H = weight.shape
        cells, _, place = shape.by_depth
        product, read = weight.to(inputs.dtype).T, [elements.numpy()[of_depth] for of_depth in cells]
        given = _bits(inputs), np.zeros(H, np.float32) if bias is None else bias.float().numpy()
        C = shape.num_cells
        kept = inputs.new_empty(C if keep else 0, numbers_kept(structure) * H)
        states = inputs.new_empty(C + 1, structure.num_states * H)
        states[C] = 0  # the zero state, of rows of length 0 and before each row
        before, hidden = states[C:], inputs.new_zeros(1, width)
        for i, (first, last, above) in enumerate(_depths(shape)):
            if i > 0:
                hidden = before[: above[-1] + 1, :H] @ product
            after = states[first:last]
            on_threads(
                "step_depth", structure.kind, *given, (read[i], above), *map(_bits, (hidden, before, after)),
                _bits(kept[first:last]),
            )  # fmt: skip
            before = after
        ctx.structure, ctx.shape, ctx.every_state = structure, shape, every_state
        ctx.save_for_backward(elements, inputs, weight, bias, states, kept)
        ends = np.where(shape.ends >= 0, place[shape.ends], C)
        return states[:, :H].index_select(0, torch.from_numpy(place if every_state else ends))

    @staticmethod
    @one_by_one
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        if takes_gradients():
            with unless_compiling():
                return *(None,) * 5, *_backward_on_kernels(ctx, gradient)
        return gradients_in_torch(ctx, gradient)


def _backward_on_kernels(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """Returns the gradients by the inputs, the weight and the bias."""
    elements, inputs, weight, bias, states, kept = ctx.saved_tensors
    kind, shape, (width, H), C = ctx.structure.kind, ctx.shape, weight.shape, len(elements)
    cells, _, place = shape.by_depth
    order, product = np.concatenate(cells), weight.to(inputs.dtype)
    gradient = gradient.contiguous()
    # The GRU's new gate has a separate part by the product, behind the parts by the input.
    changes = inputs.new_empty(C, width if bias is None else width + H)
    by_states, by_after = inputs.new_empty(0, H), inputs.new_empty(0, states.shape[1], dtype=torch.float32)
    below = np.zeros(0, np.int64)  # the parents of the depth after
    for i, (first, last, above) in reversed([*enumerate(_depths(shape))]):
        num = last - first
        before = states[first - len(cells[i - 1]) : first] if i > 0 else states[C:]
        children = np.searchsorted(below, np.arange(num + 1))
        rows = cells[i] if ctx.every_state else shape.rows[cells[i]]
        by_before = by_after.new_empty(num, states.shape[1])
        by_hidden = changes[first:last] if bias is None else inputs.new_empty(num, width)
        each = before, states[first:last], kept[first:last], gradient, by_states, by_after, by_before
        on_threads(
            "step_depth_back", kind, (above, rows, children), *map(_bits, (*each, changes[first:last], by_hidden))
        )
        if i > 0:
            by_states, by_after, below = by_hidden @ product, by_before, above
    read = _bits(changes[:, :width]), elements.numpy()[order], len(inputs)
    by_inputs = torch.from_numpy(on_threads("sum_by_element", *read)).view(inputs.dtype)
    above = torch.from_numpy(np.where(shape.parents >= 0, place[shape.parents], C)[order])
    hidden = states[:, :H].index_select(0, above)
    if bias is None:
        return by_inputs, (changes.T @ hidden).to(weight.dtype), None
    by_product = changes[:, width:]
    by_weight = torch.cat([changes[:, : width - H].T @ hidden, by_product.T @ hidden])
    return by_inputs, by_weight.to(weight.dtype), by_product.sum(0, dtype=bias.dtype)


def _depths(shape: Shape) -> Iterator[tuple[int, int, np.ndarray]]:
    """Yields the first cell of each depth, the one behind its last, and the parents in the depth before.

    The only parent of the first depth is the zero state, number 0.
    """
    cells, parents, _ = shape.by_depth
    bounds = pairwise(np.cumsum([0, *map(len, cells)]).tolist())
    for i, (first, last) in enumerate(bounds):
        yield first, last, parents[i] if i > 0 else np.zeros_like(parents[i])


def _bits(x: Tensor) -> np.ndarray:
    """Returns the bits of bfloat16 numbers as uint16, in the same memory; other numbers as they are."""
    x = x.detach()
    return (x.view(torch.uint16) if x.dtype == torch.bfloat16 else x).numpy()
