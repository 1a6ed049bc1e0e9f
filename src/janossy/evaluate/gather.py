"""Gather: an evaluator that builds the rows, applies f and reduces, for every function and every ordering."""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from janossy.evaluate.cost import Cost, as_float
from janossy.evaluate.problem import Problem
from janossy.evaluate.rows.pool import pool_rows
from janossy.evaluate.rows.steps import cost_of_elements, of_elements
from janossy.sets import Ragged


@dataclass(frozen=True)
class Gather:
    """The definition (Eq. 3): f of every row, then the reduction. Every other evaluator is compared with this one.

    f is called on rows of equal length, so it never reads padding. If f takes a mask
    (``functions.structure.takes_mask``), rows of similar lengths share a call. f is never called on rows of length 0,
    whose value is the zero vector. Rows estimated to need more than the memory budget are computed in chunks, and
    again in backward.

    Applies to: everything.      Tolerance: none, it is the definition.
    Cost: f on every row; memory for one chunk of rows and for the result. Another 5 kB per chunk hold the state of the
        random generator, so that dropout recomputes alike.
    Raises:
        ValueError: if f does not return (T, c).
        RuntimeError: in backward, if rows were chunked and f's weights were modified in place since forward.
    """

    name: ClassVar[str] = "gather"

    def why_not_applicable(self, problem: Problem) -> str | None:
        return None

    def check_rows(self, problem: Problem) -> None:
        problem.check_rows()

    def cost(self, problem: Problem) -> Cost:
        num_rows: Counter[int] = Counter()
        for n, num_sets in Counter(problem.elements.sizes).items():
            num_rows[problem.orderings.row_length(n)] += num_sets * problem.orderings.num_rows(n)
        floats = {length: as_float(num) for length, num in num_rows.items()}
        return cost_of_elements(problem, floats, len(set(problem.elements.sizes)))

    def __call__(self, problem: Problem) -> Tensor | Ragged:
        rows = problem.rows()
        return pool_rows(problem, rows, of_elements(problem, rows))
