"""Projected: an evaluator that projects each element once, adds a row's projections, and applies the rest of f."""

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
    """Sums of k projections per row: each element is projected once, and the first layer never reads a row.

    Rows estimated to need more than the memory budget are computed in chunks, and again in backward, as in Gather. The
    tensor (T, k, d) is never written.

    Applies to: additive functions (``TupleMLP``) over orderings of rows of k elements: Tuples, Combinations, Sampled
        with k.      Tolerance: rounding.
    Cost: N·k projections, then per row k·H additions, H activations and the later layers. Memory for one chunk of rows,
        for the result, for the projections (N, k, H), and 5 kB per chunk.
    Raises:
        ValueError: if f is not additive.
        RuntimeError: in backward, if rows were chunked and f's weights were modified in place since forward.
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
