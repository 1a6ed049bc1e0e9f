"""Projected: project each element once, add the projections of each row, apply the rest of f."""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from janossy.evaluate.cost import Cost, as_float
from janossy.evaluate.problem import Problem
from janossy.evaluate.rows.pool import pool_rows
from janossy.evaluate.rows.steps import cost_of_projections, of_projections, why_no_projections
from janossy.sets import Ragged


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

    def why_not_applicable(self, problem: Problem) -> str | None:
        return why_no_projections(problem)

    def check_rows(self, problem: Problem) -> None:
        problem.check_rows()

    def cost(self, problem: Problem) -> Cost:
        sizes = Counter(problem.elements.sizes).items()
        num_rows = as_float(sum(num * problem.orderings.num_rows(n) for n, num in sizes))
        return cost_of_projections(problem, num_rows, len(sizes))

    def __call__(self, problem: Problem) -> Tensor | Ragged:
        rows = problem.rows()
        return pool_rows(problem, rows, of_projections(problem, rows))
