"""Layers of a recurrence over a forest of cells, compiled or in torch operations."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from janossy.evaluate.cost import Cost, Rates
from janossy.evaluate.forest import Forest, Shape
from janossy.evaluate.operators import on_kernels, on_threads
from janossy.evaluate.problem import Function, Problem
from janossy.evaluate.reduce import widened
from janossy.functions.structure import Direction, Recurrent, recurrent

LANES = {torch.float32: 16, torch.float64: 8}
"""The kernels take hidden states of whole vectors."""

# Fitted to GRUs and LSTMs of 64 to 80 units, on single rows and on all orders of 5 to 7 elements, float32, forward and
# backward, on two cores of an AMD EPYC.
RATES = Rates(flops_per_second=5.5e10, bytes_per_second=9e9, activations_per_second=1.8e9, overhead=9e-4)
RATES_WITHOUT_KERNELS = Rates(flops_per_second=4e10, bytes_per_second=1e10, activations_per_second=4e8, overhead=3e-3)

SLAB = 2**21
"""Gradients of gates, in numbers, that backward holds at once where elements are read many times; 8 MB in float32, or
as much as the gradient by the projections, of which each slab adds to the whole."""


def why_not(problem: Problem) -> str | None:
    """Why cells cannot compute f's value for each row; None if they can."""
    if problem.recurrent is not None and problem.recurrent.per_position:
        return f"{type(problem.f).__name__} gives a state for each position, and not for each row"
    return why_no_cells(problem)


def why_no_cells(problem: Problem) -> str | None:
    """Why cells cannot compute f here; None if they can."""
    structure, name = problem.recurrent, type(problem.f).__name__
    if structure is None:
        if not hasattr(problem.f, "recurrence"):
            return f"{name} declares no recurrence"
        return f"{name} has a hook or a forward of its own, which would not run"
    if problem.elements.values.dim() != 2 or problem.elements.values.shape[1] != structure.in_features:
        shape = tuple(problem.elements.values.shape[1:])
        return f"{name} takes elements of {structure.in_features} features, and these have shape {shape}"
    if torch.compiler.is_compiling():
        return "torch.compile unrolls a recurrence, which gather does"
    return None


def cell_bytes(problem: Problem) -> int:
    """What a cell keeps, forward and backward together, with its projections and its indices; an upper estimate."""
    structure, values = problem.recurrent, widened(problem.elements.values)
    numbers = 0
    for i, layer in enumerate(structure.layers):
        for direction in layer:
            num_gates, H = len(direction.weight_hh) // direction.weight_hh.shape[1], direction.weight_hh.shape[1]
            H += -H % LANES.get(values.dtype, 1)
            numbers += (2 * num_gates + 8) * H + (0 if i == 0 else direction.weight_ih.shape[1])
    return numbers * values.element_size() + 64


def cost_of_cells(problem: Problem, num_cells: float, num_products: float) -> Cost:
    """Of the projections, so many cells, and so many products of a state with the weights."""
    values = widened(problem.elements.values)
    with_kernels_now = on_kernels(values) and not problem.recurrent.unrolled
    first = later = hidden = gates = 0.0
    for i, layer in enumerate(problem.recurrent.layers):
        for direction in layer:
            num_units, H = direction.weight_hh.shape
            filled = 1 + (-H % LANES.get(values.dtype, 1)) / H if with_kernels_now else 1.0
            gates += num_units * filled
            hidden += num_units * H * filled**2
            if i == 0:
                first += direction.weight_ih.numel() * filled
            else:
                later += direction.weight_ih.numel() * filled
    return Cost(
        flops=2.0 * (len(values) * first + num_cells * later + num_products * hidden),
        bytes=num_cells * cell_bytes(problem),
        activations=num_cells * gates,
        rates=RATES if with_kernels_now else RATES_WITHOUT_KERNELS,
    )


def project(structure: Recurrent, elements: Tensor) -> list[Tensor]:
    """What the first layer's cells read of each element: for each direction (N, d) -> (N, gates·H).

    H is then the hidden units filled up to whole vectors, where compiled kernels take them.
    """
    return [_project(structure, direction, elements) for direction in structure.layers[0]]


def run(f: Function, x: tuple[list[Tensor], Forest]) -> Tensor:
    """f of a forest's rows, from the elements' projections: (rows, c); or, if f is per_position, of each cell, (C, c).

    Only paths are read from behind: a bidirectional structure needs a forest of them.
    """
    structure, (projections, forest) = recurrent(f), x
    assert structure is not None  # an evaluator that applies has seen that f declares it
    per_position, device = structure.per_position, projections[0].device
    if forest.shape.num_cells == 0:
        return projections[0].new_zeros(0 if per_position else forest.num_rows, structure.out_features)
    mirror = None if forest.mirror is None else torch.from_numpy(forest.mirror).to(device)
    elements, inputs, outputs = forest.elements, projections, projections[0]
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
    """With every bias but the GRU's of its new gate's hidden part, which is multiplied by the reset gate."""
    x, weight = widened(x), widened(direction.weight_ih)
    H = direction.weight_hh.shape[1]
    bias, by_hidden = widened(direction.bias_ih), widened(direction.bias_hh)
    if structure.kind == "gru":
        by_hidden = nn.functional.pad(by_hidden[: 2 * H], (0, H))
    bias = bias + by_hidden
    if not structure.unrolled and _is_plain(x):
        weight, bias = _filled(weight, H, -H % LANES[x.dtype]), _filled(bias, H, -H % LANES[x.dtype])
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
    bias = bias[-H:] if structure.kind == "gru" else weight.new_zeros(H)
    missing = inputs.shape[1] * H // len(weight) - H
    if missing > 0:
        weight = nn.functional.pad(_filled(weight, H, missing), (0, missing))
        bias = _filled(bias, H, missing)
    if structure.unrolled or not _is_plain(inputs) or weight.dtype != inputs.dtype:
        states = in_torch(structure, inputs, weight, bias, elements, shape, every_state)
    else:
        keep = torch.is_grad_enabled() and any(x.requires_grad for x in (inputs, weight, bias))
        states = _Cells.apply(structure, shape, elements, every_state, keep, inputs, weight, bias)
    return states[:, :H] if missing > 0 else states


def _is_plain(x: Tensor) -> bool:
    """Whether compiled kernels may take these numbers here and now: eager, and nothing follows or maps them."""
    return (
        not torch.compiler.is_compiling()
        and not is_in_torch_dispatch_mode()
        and not torch._C._are_functorch_transforms_active()
        and torch.autograd.forward_ad._current_level < 0
        and on_kernels(x)
    )


def in_torch(
    structure: Recurrent,
    inputs: Tensor,
    weight: Tensor,
    bias: Tensor,
    elements: Tensor,
    shape: Shape,
    every_state: bool,
) -> Tensor:
    """The same, depth by depth in torch operations: on every device, differentiable any number of times."""
    H = weight.shape[1]
    bias = nn.functional.pad(bias, (len(weight) - H, 0))
    cells, parents, place = (_on(x, inputs) for x in shape.by_depth)
    zero = inputs.new_zeros(1, H)
    state = (zero,) * structure.num_states
    hidden: list[Tensor] = []
    for now, above in zip(cells, parents, strict=True):
        product = nn.functional.linear(state[0], weight, bias)
        before = above if hidden else torch.zeros_like(above)
        state = structure.step(inputs[elements[now]], product[before], tuple(s[before] for s in state))
        hidden.append(state[0])
    states = torch.cat([*hidden, zero])  # the zero state, of rows of length 0, comes last
    if every_state:
        return states[place]
    ends = _on(shape.ends, inputs)
    return states[torch.cat((place, place.new_full((1,), len(place))))[ends]]


def _on(x: Any, like: Tensor) -> Any:
    if isinstance(x, list):
        return [_on(each, like) for each in x]
    return torch.from_numpy(x).to(like.device)


class _Cells(torch.autograd.Function):
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
        return changes.T @ states, changes.new_zeros(H)
    # The GRU's new gate has a part of its own by the product, behind those by the input.
    by_product = changes[:, width:]
    return torch.cat((changes[:, : width - H].T @ states, by_product.T @ states)), by_product.sum(0)
