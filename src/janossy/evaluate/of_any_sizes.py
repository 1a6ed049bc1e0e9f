"""OfAnySizes: rows under torch.compile whose number only the running graph knows; compiled once for all sizes."""

from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor

from janossy.evaluate.cells.traced import traced_states, why_not_traced_cells
from janossy.evaluate.cost import Cost, as_float
from janossy.evaluate.problem import Problem
from janossy.evaluate.reduce import HALF, reduce_between, widened
from janossy.evaluate.rows.pool import Steps
from janossy.evaluate.rows.steps import (
    cost_of_elements,
    cost_of_projections,
    of_elements,
    of_projections,
    why_no_projections,
)
from janossy.evaluate.rows.traced import TracedRows, traced_rows, why_not_traced
from janossy.functions.structure import Recurrent
from janossy.orderings.rows import Bucket, Rows
from janossy.sets import Ragged


@dataclass(frozen=True)
class OfAnySizes:
    """f of rows of k elements in one call, or a recurrence over rows of whole sets, in a graph for all sizes.

    Applies to: every f over rows of k elements, and ``RNN``, ``GRU``, ``LSTM`` over whole sets; by every reduction;
        over all tuples and permutations, ``Sampled``, ``AsGiven``, and ``Canonical`` with one key; under torch.compile.
    Tolerance: rounding.
    Cost: f on every row, all held at once. Backward computes a recurrence again.
    Raises: RuntimeError if the rows need more than the memory budget.
    """

    name: ClassVar[str] = "of_any_sizes"

    def why_not_applicable(self, problem: Problem) -> str | None:
        if not torch.compiler.is_compiling():
            return "it is for torch.compile"
        if problem.table is not None or problem.generator is not None:
            return "it takes neither places in a table nor a generator"
        if (reason := why_not_traced(problem.orderings)) is not None:
            return reason
        if problem.orderings.k is not None:
            return None
        if isinstance(problem.structure, Recurrent) and problem.structure.per_position:
            return f"{type(problem.f).__name__} gives a state for each position, and not for each row"
        return why_not_traced_cells(problem)

    def check_rows(self, problem: Problem) -> None:
        problem.check_rows()

    def cost(self, problem: Problem) -> Cost:
        num = as_float(sum(problem.orderings.num_rows(n) for n in problem.elements.sizes))
        if why_no_projections(problem) is None:
            return cost_of_projections(problem, num)
        return cost_of_elements(problem, {problem.orderings.k or 1: num})

    def __call__(self, problem: Problem) -> Tensor | Ragged:
        results = traced_states if problem.orderings.k is None else traced_results
        return _reduced(problem, *results(problem))


def traced_results(problem: Problem) -> tuple[Tensor, TracedRows]:
    """Returns f of each row of k elements, (T, c), and the rows. Raises: RuntimeError in the graph for too many."""
    k = cast(int, problem.orderings.k)
    steps = _steps(problem, k)
    most = k * max(1, problem.memory_budget // max(1, steps.row_bytes(k)))
    rows = traced_rows(problem.orderings, problem.keys, most)
    return steps.apply(problem.f, steps.take(steps.values, rows.positions)), rows


def _steps(problem: Problem, k: int) -> Steps:
    """Returns the steps of rows of k positions, of which some may be the zero vector's."""
    offsets = problem.elements.offsets
    padded = Bucket(offsets.new_zeros(1, 1, k), None, offsets[:-1], None, padded=True)
    make = of_projections if why_no_projections(problem) is None else of_elements
    return make(problem, Rows((padded,), len(offsets) - 1))


def _reduced(problem: Problem, results: Tensor, rows: TracedRows) -> Tensor | Ragged:
    if problem.reduce is None:
        return Ragged.unsized(results, rows.ends)
    reduced = reduce_between(problem.reduce, results, rows.ends)
    return reduced.to(problem.values.dtype) if problem.values.dtype in HALF else widened(reduced)
