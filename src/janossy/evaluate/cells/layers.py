"""Layers of a recurrence over a forest of cells, compiled or in torch operations."""

from typing import Any, cast

import torch
from torch import Tensor, nn

from janossy.evaluate.cells.autograd import Cells, Projections, in_torch, unfilled
from janossy.evaluate.cells.forest import Forest, Shape
from janossy.evaluate.cells.half import HalfCells
from janossy.evaluate.loading import LOADING
from janossy.evaluate.on_kernels import lanes, takes_cells, takes_half_cells, unless_compiling
from janossy.evaluate.problem import Function
from janossy.evaluate.reduce import widened
from janossy.functions.checks import check_dtype
from janossy.functions.structure import Direction, Recurrent, recurrent


def project(f: Function, structure: Recurrent, elements: Tensor) -> list[Tensor]:
    """Projects each element for the first layer's cells: for each direction (N, d) -> (N, gates·H).

    If compiled kernels take them, H is the number of hidden units filled up to one vector.

    Raises: ValueError for elements in another dtype than the weights.
    """
    check_dtype(f, elements, structure.layers[0][0].weight_ih)
    return project_of(structure, elements)


def project_of(structure: Recurrent, elements: Tensor) -> list[Tensor]:
    """Returns the same for the structure of an f whose dtype was checked."""
    return [_project(structure, direction, elements) for direction in structure.layers[0]]


def run(f: Function, x: tuple[list[Tensor], Forest], structure: Recurrent | None = None) -> Tensor:
    """Returns f of a forest's rows (rows, c) from projections; or, if f is per_position, of each cell, (C, c).

    Only paths are read backwards, so a bidirectional structure needs a forest of paths. ``structure`` is the present
    declaration of f, if known.
    """
    return run_of(structure or recurrent(f), *x)


def run_of(structure: Recurrent, projections: list[Tensor], forest: Forest) -> Tensor:
    """Returns the same for a structure."""
    per_position, device = structure.per_position, projections[0].device
    if forest.num_cells == 0:
        return projections[0].new_zeros(0 if per_position else forest.num_rows, structure.out_features)
    mirror, elements, inputs, outputs = forest.mirror, forest.elements, projections, projections[0]
    for i, layer in enumerate(structure.layers):
        every_state = per_position or i + 1 < len(structure.layers)
        if i > 0:
            outputs = nn.functional.dropout(outputs, structure.dropout)
            inputs = [_project(structure, direction, outputs) for direction in layer]
            elements = torch.arange(len(outputs), device=device)
        directions = []
        for direction, projected in zip(layer, inputs, strict=True):
            read = elements[mirror] if direction.reverse else elements
            states = _run_layer(structure, direction, projected, read, forest.shape, every_state)
            directions.append(states[mirror] if direction.reverse and every_state else states)
        outputs = torch.cat(directions, dim=1) if len(directions) > 1 else directions[0]
    return outputs


def _project(structure: Recurrent, direction: Direction, x: Tensor) -> Tensor:
    """Returns the projections of x, with all biases except the hidden ones that stay apart."""
    x = widened(x)
    weight, bias, by_hidden = (widened(w) for w in (direction.weight_ih, direction.bias_ih, direction.bias_hh))
    H = direction.weight_hh.shape[1]
    apart = structure.num_apart * H
    if takes_cells(structure, x) and not torch.is_autocast_enabled("cpu"):
        return cast(Tensor, Projections.apply(H, max(0, lanes(x) - H), apart, x, weight, bias, by_hidden))  # type: ignore[no-untyped-call]
    if apart > 0:
        by_hidden = nn.functional.pad(by_hidden[:-apart], (0, apart))
    return nn.functional.linear(x, weight, bias + by_hidden)


def _run_layer(
    structure: Recurrent, direction: Direction, inputs: Tensor, elements: Tensor, shape: Shape, every_state: bool
) -> Tensor:
    """Returns one layer in one direction: the hidden state of every cell (C, H), or of each row's end (T, H)."""
    weight, bias = widened(direction.weight_hh), None
    if structure.num_apart > 0:
        bias = widened(direction.bias_hh)[-structure.num_apart * weight.shape[1] :]
    num_gates = len(weight) // weight.shape[1]
    wide_enough = inputs.shape[1] >= num_gates * lanes(inputs)
    by_kernels: Any = None
    if wide_enough and takes_cells(structure, inputs) and weight.dtype == inputs.dtype:
        by_kernels = Cells
    elif takes_half_cells(structure, inputs):
        by_kernels = HalfCells
    if by_kernels is not None:
        keep = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (inputs, weight, bias))
        LOADING.goes_without(lambda: shape.num_cells * len(weight))
        with unless_compiling():
            return cast(Tensor, by_kernels.apply(structure, shape, elements, every_state, keep, inputs, weight, bias))
    return in_torch(structure, unfilled(inputs, *weight.shape), weight, bias, elements, shape, every_state)
