"""Layers of a recurrence over a forest of cells, compiled or in torch operations."""

import torch
from torch import Tensor, nn

from janossy.evaluate.cells.autograd import Cells, in_torch
from janossy.evaluate.cells.forest import Forest, Shape
from janossy.evaluate.on_kernels import lanes, on_kernels_eagerly
from janossy.evaluate.problem import Function
from janossy.evaluate.reduce import widened
from janossy.functions.checks import check_dtype
from janossy.functions.structure import Direction, Recurrent
from janossy.functions.structure import structure as declared
from janossy.kernels.limits import CELL_KINDS


def project(f: Function, structure: Recurrent, elements: Tensor) -> list[Tensor]:
    """What the first layer's cells read of each element: for each direction (N, d) -> (N, gates·H).

    H is then the hidden units filled up to whole vectors, where compiled kernels take them.
    Raises: ValueError for elements in another dtype than the weights.
    """
    check_dtype(f, elements, structure.layers[0][0].weight_ih)
    return [_project(structure, direction, elements) for direction in structure.layers[0]]


def run(f: Function, x: tuple[list[Tensor], Forest]) -> Tensor:
    """f of a forest's rows, from the elements' projections: (rows, c); or, if f is per_position, of each cell, (C, c).

    Only paths are read from behind: a bidirectional structure needs a forest of them.
    """
    structure, (projections, forest) = declared(f), x
    assert isinstance(structure, Recurrent)  # an evaluator that applies has seen that f declares it
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
        found = []
        for direction, projected in zip(layer, inputs, strict=True):
            read = elements[mirror] if direction.reverse else elements
            states = _run_layer(structure, direction, projected, read, forest.shape, every_state)
            found.append(states[mirror] if direction.reverse and every_state else states)
        outputs = torch.cat(found, dim=1) if len(found) > 1 else found[0]
    return outputs


def _project(structure: Recurrent, direction: Direction, x: Tensor) -> Tensor:
    """The projections of x, with every bias but those of the hidden parts that stay apart."""
    x, weight = widened(x), widened(direction.weight_ih)
    H = direction.weight_hh.shape[1]
    bias, by_hidden = widened(direction.bias_ih), widened(direction.bias_hh)
    if structure.num_apart > 0:
        apart = structure.num_apart * H
        by_hidden = nn.functional.pad(by_hidden[:-apart], (0, apart))
    bias = bias + by_hidden
    if _is_compiled(structure, x):
        weight, bias = _filled(weight, H, -H % lanes(x)), _filled(bias, H, -H % lanes(x))
    return nn.functional.linear(x, weight, bias)


def _filled(x: Tensor, H: int, missing: int) -> Tensor:
    """Each gate's H rows of (gates·H, …), and as many of zeros as are missing: those units are zero, and stay so."""
    if missing == 0:
        return x
    gates = x.unflatten(0, (-1, H))
    return torch.cat((gates, gates.new_zeros(len(gates), missing, *x.shape[1:])), dim=1).flatten(0, 1)


def _run_layer(
    structure: Recurrent, direction: Direction, inputs: Tensor, elements: Tensor, shape: Shape, every_state: bool
) -> Tensor:
    """One layer in one direction: the hidden state of every cell (C, H), or of each row's end (T, H)."""
    weight, bias = widened(direction.weight_hh), widened(direction.bias_hh)
    H = weight.shape[1]
    # At least one gate's, of zeros if none stays apart: what the kernels take.
    bias = bias[-structure.num_apart * H :] if structure.num_apart > 0 else weight.new_zeros(H)
    missing = inputs.shape[1] * H // len(weight) - H
    if missing > 0:
        weight = nn.functional.pad(_filled(weight, H, missing), (0, missing))
        bias = _filled(bias, H, missing)
    if not _is_compiled(structure, inputs) or weight.dtype != inputs.dtype:
        states = in_torch(structure, inputs, weight, bias, elements, shape, every_state)
    else:
        keep = torch.is_grad_enabled() and any(x.requires_grad for x in (inputs, weight, bias))
        states = Cells.apply(structure, shape, elements, every_state, keep, inputs, weight, bias)
    return states[:, :H] if missing > 0 else states


def _is_compiled(structure: Recurrent, x: Tensor) -> bool:
    """Whether compiled kernels run these cells on these numbers here and now."""
    return structure.kind in CELL_KINDS and not structure.unrolled and on_kernels_eagerly(x)
