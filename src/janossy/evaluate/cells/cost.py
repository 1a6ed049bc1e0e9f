"""The cost of a recurrence that runs as cells, and the reasons why it cannot."""

import torch

from janossy.evaluate.cost import Cost, Rates
from janossy.evaluate.gpu import rates_on
from janossy.evaluate.on_kernels import lanes, on_kernels
from janossy.evaluate.problem import Problem
from janossy.evaluate.reduce import widened
from janossy.functions.structure import Recurrent
from janossy.kernels.limits import CELL_KINDS

# Fitted, float32, forward and backward, on two cores of an AMD EPYC: python -m benchmarks.costs --fit.
RATES = Rates(flops_per_second=2.9e10, bytes_per_second=6.2e9, activations_per_second=1e10, overhead=8.5e-4)
RATES_WITHOUT_KERNELS = Rates(flops_per_second=4e10, bytes_per_second=1e10, activations_per_second=4e8, overhead=3e-3)


LAUNCHES, LAUNCHES_OF_A_STEP = 60, 40
"""The kernels of a run on a GPU, and of each depth of each layer, forward and backward."""


def why_not(problem: Problem) -> str | None:
    """Returns the reason why cells cannot compute f's value for each row; None if they can."""
    if isinstance(problem.structure, Recurrent) and problem.structure.per_position:
        return f"{type(problem.f).__name__} gives a state for each position, and not for each row"
    return why_no_cells(problem)


def why_no_cells(problem: Problem) -> str | None:
    """Returns the reason why cells cannot compute f here; None if they can."""
    if (reason := why_no_recurrence(problem)) is not None:
        return reason
    if torch.compiler.is_compiling():
        return "torch.compile does not trace the forests of cells"
    return None


def why_no_recurrence(problem: Problem) -> str | None:
    """Returns the reason why f is no recurrence of these elements; None if it is."""
    if (reason := problem.lacks(Recurrent)) is not None:
        return reason
    in_features, shape = problem.declared(Recurrent).in_features, tuple(problem.values.shape[1:])
    if shape != (in_features,):
        return f"{type(problem.f).__name__} takes elements of {in_features} features, and these have shape {shape}"
    return None


def cell_bytes(problem: Problem) -> int:
    """Returns an upper estimate of the bytes that a cell keeps, forward and backward, with projections and indices."""
    structure, values = problem.declared(Recurrent), widened(problem.values)
    numbers = 0
    for i, layer in enumerate(structure.layers):
        for direction in layer:
            num_gates, H = len(direction.weight_hh) // direction.weight_hh.shape[1], direction.weight_hh.shape[1]
            H = max(H, lanes(values))
            numbers += (2 * num_gates + 8) * H + (0 if i == 0 else direction.weight_ih.shape[1])
    return numbers * values.element_size() + 64


def cost_of_cells(problem: Problem, num_cells: float, num_products: float) -> Cost:
    """Returns the cost of the projections, of these cells, and of these products of a state with the weights."""
    structure, values = problem.declared(Recurrent), widened(problem.values)
    deepest = max((problem.orderings.row_length(n) for n in set(problem.elements.sizes)), default=0)
    with_kernels_now = structure.kind in CELL_KINDS and on_kernels(values) and not structure.unrolled
    first = later = hidden = gates = 0.0
    for i, layer in enumerate(structure.layers):
        for direction in layer:
            num_units, H = direction.weight_hh.shape
            filled = max(1.0, lanes(values) / H) if with_kernels_now else 1.0
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
        rates=rates_on(values.device, RATES if with_kernels_now else RATES_WITHOUT_KERNELS),
        launches=LAUNCHES + LAUNCHES_OF_A_STEP * deepest * sum(map(len, structure.layers)),
    )
