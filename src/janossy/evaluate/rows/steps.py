"""The two ways to compute f of a row, and their costs: from its elements, or from a sum of their projections."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import cast

import torch
from torch import Tensor

from janossy.evaluate.cost import Cost, Rates, Work
from janossy.evaluate.gpu import rates_on
from janossy.evaluate.problem import Function, Problem
from janossy.evaluate.reduce import widened
from janossy.evaluate.rows.pieces import with_zero
from janossy.evaluate.rows.pool import Steps, apply
from janossy.functions.structure import ACTIVATIONS, Additive, Recurrent, takes_mask
from janossy.functions.structure import structure as declared
from janossy.orderings.rows import Rows

STEP, STEP_OF_ONEDNN = 6e-5, 5e-6
"""The seconds of a step of torch's recurrences on a few rows, forward and backward; oneDNN runs the float32 LSTM."""

LAUNCHES, LAUNCHES_OF_A_STEP, LAUNCHES_OF_CUDNN = 60, 40, 6
"""The kernels of a call of f on rows of one length, of a recurrence's step in torch operations, and of one by cuDNN."""

CALL, SIZE = 2e-4, 8e-5
"""The seconds of one more call of f on a few rows, and of one more size of sets, forward and backward."""

# Fitted, float32, forward and backward, on two cores of an AMD EPYC: python -m benchmarks.costs --fit.
RATES = Rates(flops_per_second=2.4e10, bytes_per_second=8.1e9, activations_per_second=1e10, overhead=3.9e-4)
RATES_OF_PROJECTIONS = Rates(1e11, 5e10, activations_per_second=1.2e8, overhead=4.6e-4)


def of_elements(problem: Problem, rows: Rows) -> Steps:
    """Returns the steps that look up a row's elements and apply f."""
    values = with_zero(problem.values, rows)
    apply_to = partial(apply, single=problem.orderings.k == 1)
    row_bytes = partial(_row_bytes, _work(problem), values)
    return Steps(values, _take, apply_to, row_bytes, takes_mask=takes_mask(problem.f))


def bytes_of_elements(problem: Problem) -> int:
    """Returns an upper estimate of the bytes of a row of one element, for f that reads elements."""
    return _row_bytes(_work(problem), problem.values, 1)


def cost_of_elements(problem: Problem, num_rows: Mapping[int, float], num_sizes: int = 1) -> Cost:
    """Returns the cost of ``of_elements`` for these numbers of rows per length, of sets of ``num_sizes`` sizes."""
    work = _work(problem)
    flops = num_bytes = activations = 0.0
    for length, num in num_rows.items():
        flops += num * work.flops(length)
        num_bytes += num * _row_bytes(work, problem.values, length)
        activations += num * work.activations(length)
    rates, calls = rates_on(problem.values.device, RATES), _step(problem) * sum(num_rows)
    calls += CALL * max(0, len(num_rows) - 1) + SIZE * max(0, num_sizes - 1)
    return Cost(flops, num_bytes, activations, rates, calls, _launches(problem, num_rows))


def why_no_projections(problem: Problem) -> str | None:
    """Returns the reason why ``of_projections`` does not apply; None if it does."""
    if (reason := problem.lacks(Additive)) is not None:
        return reason
    needed, k = problem.declared(Additive).k, problem.orderings.k
    if needed != k:
        return f"f takes rows of k = {needed} elements, and these orderings have k = {k}"
    return None


def of_projections(problem: Problem, rows: Rows) -> Steps:
    """Returns the steps that project each element once, sum k projections per row, and apply the rest of f."""
    structure = problem.declared(Additive)
    projections = structure.project(with_zero(problem.values, rows))
    wide = widened(projections)
    row_bytes = _projected_row_bytes(_projected_work(problem), structure, wide.element_size())
    return Steps(wide, partial(_sum, projections.dtype), _rest, lambda length: row_bytes)


def cost_of_projections(problem: Problem, num_rows: float, num_sizes: int = 1) -> Cost:
    """Returns the cost of ``of_projections`` for that many rows, of sets of ``num_sizes`` sizes."""
    structure, work, values = problem.declared(Additive), _projected_work(problem), problem.values
    sums = structure.k * len(structure.bias)
    later_flops = max(0, work.flops(structure.k) - 2 * sums * values.shape[1:].numel())
    element_size = widened(values[:0]).element_size()
    return Cost(
        flops=2 * values.numel() * sums + num_rows * (sums + later_flops),
        bytes=3 * element_size * len(values) * sums + num_rows * _projected_row_bytes(work, structure, element_size),
        activations=num_rows * work.activations(structure.k),
        rates=rates_on(values.device, RATES_OF_PROJECTIONS),
        calls=SIZE * max(0, num_sizes - 1),
        launches=LAUNCHES,
    )


def _step(problem: Problem) -> float:
    """Returns the seconds of a step at each position, through every layer, if f is a recurrence."""
    structure, values = problem.structure, problem.values
    if not isinstance(structure, Recurrent) or values.is_cuda:  # on CUDA steps count as launches
        return 0.0
    by_onednn = structure.kind == "lstm" and values.dtype == torch.float32 and values.device.type == "cpu"
    each = STEP_OF_ONEDNN if by_onednn and not structure.unrolled else STEP
    return each * sum(len(layer) for layer in structure.layers)


def _launches(problem: Problem, lengths: Iterable[int]) -> float:
    """Counts the launches for rows of these lengths, if f is called on each length by itself."""
    structure = problem.structure
    steps = sum(len(layer) for layer in structure.layers) if isinstance(structure, Recurrent) else 0
    each = LAUNCHES_OF_A_STEP if isinstance(structure, Recurrent) and structure.unrolled else LAUNCHES_OF_CUDNN
    return sum(LAUNCHES + each * steps * length for length in lengths)


def _work(problem: Problem) -> Work:
    structure = problem.structure
    return Work.of(problem.f, whole_rows=structure is not None and structure.reads_whole_rows)


def _row_bytes(work: Work, values: Tensor, length: int) -> int:
    positions = 8 * length
    return positions + values.element_size() * work.elements(length, values.shape[1:].numel())


def _take(values: Tensor, positions: Tensor) -> Tensor:
    return cast(Tensor, values.index_select(0, positions.reshape(-1)).unflatten(0, positions.shape))


def _projected_work(problem: Problem) -> Work:
    return Work.of(problem.f, whole_rows=True)


def _projected_row_bytes(work: Work, structure: Additive, element_size: int) -> int:
    """Returns the bytes of a row: positions, the sum and a projection to add, and each layer's outputs three times."""
    return 16 * structure.k + element_size * (2 * len(structure.bias) + 3 * work.outputs)


def _sum(dtype: torch.dtype, projections: Tensor, positions: Tensor) -> Tensor:
    """Returns the pre-activations (T, H), from projections (N, k, H) and positions (T, k)."""
    (p, i), *others = zip(projections.unbind(1), positions.unbind(1), strict=True)
    total = p.index_select(0, i)
    for p, i in others:
        total += p.index_select(0, i)
    return total.to(dtype)


def _rest(f: Function, preactivations: Tensor) -> Tensor:
    structure = declared(f)
    assert isinstance(structure, Additive)  # it was additive when the rows were made
    return structure.rest(ACTIVATIONS[structure.activation](preactivations))
