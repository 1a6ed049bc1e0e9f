"""Gather: build the rows, apply f, reduce. Works for every function and every ordering."""

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
    """Build the rows, apply f, reduce (Eq. 3, literally). Every other evaluator is compared with this one.

    f is called on rows of equal length, so it never sees padding. An f that says that it takes a mask
    (``functions.structure.takes_mask``) is called on rows of like lengths together. It is never called on rows of
    length 0: their value is the zero vector. Rows estimated to need more than the memory budget are computed in chunks,
    and once more in backward.

    Applies to: everything.      Tolerance: none, it is the definition.
    Cost: f on every row; memory for one chunk of rows, for the result, and 5 kB a chunk (the state of the random
        generator, so that dropout recomputes alike).
    Raises: ValueError if f does not return (T, c); RuntimeError, in backward, if rows were chunked and f's weights
        modified in place since forward.
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
