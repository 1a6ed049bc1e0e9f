"""Projected: project each element once, add the projections of each row, apply the rest of f."""

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from janossy.evaluate.cost import Cost, Rates, Work, as_float
from janossy.evaluate.problem import Function, Problem
from janossy.evaluate.reduce import widened
from janossy.evaluate.rows.pieces import with_zero
from janossy.evaluate.rows.pool import Steps, pool_rows
from janossy.functions.structure import ACTIVATIONS, Additive
from janossy.functions.structure import structure as declared
from janossy.ragged import Ragged

# Fitted to TupleMLPs of 8 to 100 units on up to 100,000 tuples, float32, on two cores of an AMD EPYC.
RATES = Rates(flops_per_second=1e11, bytes_per_second=5e10, activations_per_second=3e8, overhead=4.3e-4)


@dataclass(frozen=True)
class Projected:
    """Project each element once, and sum k projections for each row: the first layer never sees a row.

    Rows estimated to need more than the memory budget are computed in chunks, and once more in backward, as Gather
    does; (T, k, d) is never written.

    Applies to: additive functions (``TupleMLP``) over orderings of rows of k elements: Tuples, Combinations, Sampled
        with k.      Tolerance: rounding.
    Cost: N·k projections, then for every row k·H additions, H activations and the later layers; memory for one chunk
        of rows, for the result, for the projections (N, k, H), and 5 kB a chunk.
    Raises: ValueError if f is not additive; RuntimeError, in backward, if rows were chunked and f's weights modified in
        place since forward.
    """

    name: ClassVar[str] = "projected"

    def refuses(self, problem: Problem) -> str | None:
        if (reason := problem.lacks(Additive)) is not None:
            return reason
        needed, k = problem.declared(Additive).k, getattr(problem.orderings, "k", None)
        if needed != k:
            return f"f takes rows of k = {needed} elements, and these orderings have k = {k}"
        return None

    def check_rows(self, problem: Problem) -> None:
        problem.check_rows()

    def cost(self, problem: Problem) -> Cost:
        structure, work, values = problem.declared(Additive), _work(problem), problem.values
        sizes = Counter(problem.elements.sizes)
        num_rows = as_float(sum(num_sets * problem.orderings.num_rows(n) for n, num_sets in sizes.items()))
        sums = structure.k * len(structure.bias)
        later_flops = max(0, work.flops(structure.k) - 2 * sums * values.shape[1:].numel())
        element_size = widened(values[:0]).element_size()
        return Cost(
            flops=2 * values.numel() * sums + num_rows * (sums + later_flops),
            bytes=3 * element_size * len(values) * sums + num_rows * _row_bytes(work, structure, element_size),
            activations=num_rows * work.activations(structure.k),
            rates=RATES,
        )

    def __call__(self, problem: Problem) -> Tensor | Ragged:
        structure, rows = problem.declared(Additive), problem.rows()
        projections = structure.project(with_zero(problem.values, rows))
        wide = widened(projections)
        row_bytes = _row_bytes(_work(problem), structure, wide.element_size())
        steps = Steps(wide, partial(_take, projections.dtype), _apply, lambda length: row_bytes)
        return pool_rows(problem, rows, steps)


def _work(problem: Problem) -> Work:
    return Work.of(problem.f, whole_rows=True)


def _row_bytes(work: Work, structure: Additive, element_size: int) -> int:
    """The bytes of positions, the sum and the projection to add to it, and each layer's outputs thrice."""
    return 16 * structure.k + element_size * (2 * len(structure.bias) + 3 * work.outputs)


def _take(dtype: torch.dtype, projections: Tensor, positions: Tensor) -> Tensor:
    """The pre-activations (T, H), from projections (N, k, H) and positions (T, k)."""
    (p, i), *others = zip(projections.unbind(1), positions.unbind(1), strict=True)
    total = p.index_select(0, i)
    for p, i in others:
        total += p.index_select(0, i)
    return total.to(dtype)


def _apply(f: Function, preactivations: Tensor) -> Tensor:
    structure = declared(f)
    assert isinstance(structure, Additive)  # it was when the rows were made
    return structure.rest(ACTIVATIONS[structure.activation](preactivations))
