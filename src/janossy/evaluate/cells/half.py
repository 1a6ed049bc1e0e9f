"""One layer of paths under autocast to bfloat16: products by torch in bfloat16, all else by the kernels in float32."""

from collections.abc import Iterator
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from janossy.evaluate.cells.autograd import in_torch
from janossy.evaluate.cells.forest import Shape
from janossy.evaluate.on_kernels import on_threads
from janossy.functions.structure import Recurrent
from janossy.kernels.limits import NUMBERS_KEPT

BLOCK = 1024
"""The rows that are stepped together: their products with the weights stay in the cache until the kernel reads them."""


class _Block(NamedTuple):
    """Rows of a forest of paths, the longest first, whose cells are numbered depth by depth.

    Shapes: cells (C,), each cell's number in the forest; ends (1, m), the cell that a row ends at, -1 if it has none.
    """

    rows: slice
    cells: np.ndarray
    places: slice
    """Where the block's cells stand when the blocks are put behind each other."""
    ends: np.ndarray
    active: tuple[int, ...]
    """The rows that have a cell at each depth: the first ones."""
    starts: tuple[int, ...]
    """The first cell of each depth, and the number of cells."""


def are_paths(shape: Shape) -> bool:
    """Returns True if the rows share no cells, stand in the order of their first cells, and the longer come first."""
    ends = np.full(len(shape.ends), -1)
    for cells in shape.by_depth[0]:
        if len(cells) > len(ends):
            return False
        ends[: len(cells)] = cells
    return all(shape.in_order[1:]) and np.array_equal(ends, shape.ends)


def _blocks(shape: Shape) -> Iterator[_Block]:
    depths, num_rows, begin = shape.by_depth[0], len(shape.ends), 0
    for first in range(0, num_rows, BLOCK):
        last = min(first + BLOCK, num_rows)
        cells = [each[first:last] for each in depths if len(each) > first]
        active = tuple(map(len, cells))
        starts = (0, *accumulate(active))
        ends = np.full(last - first, -1)
        for m, start in zip(active, starts, strict=False):  # a row ends at the last depth that it has
            ends[:m] = start + np.arange(m)
        joined = np.concatenate(cells) if cells else np.zeros(0, np.int64)
        yield _Block(slice(first, last), joined, slice(begin, begin + starts[-1]), ends[None], active, starts)
        begin += starts[-1]


class HalfCells(torch.autograd.Function):
    """The hidden state of each row's end (T, H), of a forest of paths.

    The products of the states with the weights, forward and backward, are of numbers rounded to bfloat16. States,
    gates and sums stay in float32.

    Shapes: inputs (N, gates·H), weight (gates·H, H), bias (H,) or None, all of float32.
    """

    @staticmethod
    def forward(
        ctx: Any,
        structure: Recurrent,
        shape: Shape,
        elements: Tensor,
        keep: bool,
        inputs: Tensor,
        weight: Tensor,
        bias: Tensor | None,
    ) -> Tensor:
        num_units, H = weight.shape
        half = weight.T.bfloat16()
        apart = weight.new_zeros(1, H) if bias is None else bias[None]
        out, read = inputs.new_zeros(len(shape.ends), H), elements.numpy()
        blocks = list(_blocks(shape))
        sizes = structure.num_states * H, NUMBERS_KEPT[structure.kind] * H
        num_kept = shape.num_cells if keep else 0
        all_states, all_gates = (inputs.new_empty(num_kept, size) for size in sizes)
        hidden = inputs.new_empty(BLOCK, num_units)
        fixed = inputs.contiguous().numpy(), apart.numpy()
        for block in blocks:
            if keep:
                states, gates = all_states[block.places], all_gates[block.places]
            else:
                states, gates = inputs.new_empty(len(block.cells), sizes[0]), all_gates
            for t, m in enumerate(block.active):
                before = block.starts[t - 1] if t > 0 else -1
                if t > 0:
                    hidden[:m] = states[before : before + m, :H].bfloat16() @ half
                depth = before, block.starts[t], block.active[t - 1], m
                arrays = fixed[0], read[block.cells], fixed[1], hidden.numpy(), states.numpy(), gates.numpy()
                on_threads("step_rows", structure.kind, *arrays, depth)
            real = torch.from_numpy(block.ends[0, : max(block.active, default=0)])
            out[block.rows.start : block.rows.start + len(real)] = states[:, :H].index_select(0, real)
        ctx.structure, ctx.shape, ctx.blocks = structure, shape, blocks
        ctx.save_for_backward(elements, inputs, weight, bias, all_states, all_gates)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        elements, inputs, weight, bias, all_states, all_gates = ctx.saved_tensors
        needed = ctx.needs_input_grad[4:]
        if torch.is_grad_enabled():  # of a gradient that will itself be differentiated
            inputs, weight = inputs.view_as(inputs), weight.view_as(weight)  # the gradient stops here
            bias = None if bias is None else bias.view_as(bias)
            out = in_torch(ctx.structure, inputs, weight, bias, elements, ctx.shape, every_state=False)
            wanted = [x for x, needs in zip((inputs, weight, bias), needed, strict=True) if needs]
            found = iter(torch.autograd.grad(out, wanted, gradient, create_graph=True))
            return *(None,) * 4, *(next(found) if needs else None for needs in needed)
        (num_units, H), kind = weight.shape, ctx.structure.kind
        half, read = weight.bfloat16(), elements.numpy()
        by_inputs, by_weight = torch.zeros_like(inputs), torch.zeros_like(weight)
        by_bias = None if bias is None else torch.zeros_like(bias)
        by_state, by_before = (inputs.new_empty(BLOCK * all_states.shape[1]) for _ in range(2))
        by_hidden = inputs.new_empty(BLOCK, num_units)
        for block in ctx.blocks:
            states, gates = all_states[block.places], all_gates[block.places]
            by_ends = gradient[block.rows].contiguous()
            fixed = read[block.cells], states.numpy(), gates.numpy(), by_ends.numpy()
            product, num_after = inputs.new_empty(0), 0
            for t in reversed(range(len(block.active))):
                m, before = block.active[t], block.starts[t - 1] if t > 0 else -1
                depth = before, block.starts[t], block.active[t - 1], m, num_after
                changing = (x.numpy() for x in (by_state, product, by_before, by_hidden, by_inputs))
                on_threads("step_rows_back", kind, *fixed, *changing, block.ends, depth)
                if by_bias is not None:
                    by_bias += by_hidden[:m, -H:].sum(0)
                if t > 0:
                    changes = by_hidden[:m].bfloat16()
                    by_weight += changes.T @ states[before : before + m, :H].bfloat16()
                    product = (changes @ half).float().flatten()
                by_state, by_before, num_after = by_before, by_state, m
        return *(None,) * 4, by_inputs, by_weight, by_bias
