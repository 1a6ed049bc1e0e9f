"""Elementwise: an evaluator for k = 1 that calls f once on all elements, whatever the sizes of the sets."""

from dataclasses import dataclass, replace
from typing import ClassVar, cast

import torch
from torch import Tensor

from janossy.evaluate.cost import Cost, as_float
from janossy.evaluate.problem import Problem
from janossy.evaluate.reduce import HALF, reduce_between, reduce_segments, widened
from janossy.evaluate.rows.pool import apply, pool_rows
from janossy.evaluate.rows.steps import bytes_of_elements, cost_of_elements, of_elements
from janossy.evaluate.tuples.every_tuple import in_place
from janossy.functions.structure import draws_or_mixes_rows, maps_features, mixes_rows
from janossy.orderings.contract import EveryTuple, averages_every_tuple
from janossy.orderings.rows import Bucket, Rows
from janossy.sets import Ragged


@dataclass(frozen=True)
class Elementwise:
    """f of every element, as rows (N, 1, d), in one call, then the reduction of each set: DeepSets.

    All rows of k = 1 have one length, so sizes make no difference. If elements are places in a table, f is called once
    on each row of the table. Rows estimated to need more than the memory budget are computed in chunks, and again in
    backward.

    Applies to: every f, over ``Tuples(1)`` and ``Combinations(1)``, by every reduction.      Tolerance: rounding.
    Cost: f on every element, or on every row of the table. An f with dropout or batch norm in training takes every
        element.
    Raises:
        ValueError: if f does not return (N, c) or (N, 1, c).
        RuntimeError: in backward, if rows were chunked and f's weights were modified in place since forward.
    """

    name: ClassVar[str] = "elementwise"

    def why_not_applicable(self, problem: Problem) -> str | None:
        if averages_every_tuple(problem.orderings) and problem.orderings.k == 1:
            return None
        return "it takes single elements, such as those of Tuples(1)"

    def check_rows(self, problem: Problem) -> None:
        problem.check_rows()

    def cost(self, problem: Problem) -> Cost:
        num = len(problem.elements.values if draws_or_mixes_rows(problem.f) else problem.values)
        return cost_of_elements(problem, {1: as_float(num)})

    def __call__(self, problem: Problem) -> Tensor | Ragged:
        problem = _to_compute(problem)
        if _of_any_sizes(problem):
            return _reduced_at_once(problem)
        most = len(problem.elements.values) + len(problem.elements)  # an empty set has one row
        if most > problem.orderings.max_rows:  # torch.compile knows no perm
            problem.check_rows()
        some_are_empty = not all(problem.elements.sizes) or not len(problem.values)
        results = _of_each(problem, some_are_empty)
        sets, places = _places(problem, len(problem.values), some_are_empty)
        each = Ragged(in_place(results, places), sets.offsets, sizes=sets.sizes)
        if problem.reduce is None:
            return each
        reduced = reduce_segments(problem.reduce, each)
        return reduced.to(problem.values.dtype) if problem.values.dtype in HALF else reduced


def _to_compute(problem: Problem) -> Problem:
    """Returns the problem without a table if f is random or mixes rows: it then has a value of its own per element."""
    if problem.table is None or not draws_or_mixes_rows(problem.f):
        return problem
    return replace(problem, elements=problem.gathered, table=None)


def _of_any_sizes(problem: Problem) -> bool:
    """Returns True under torch.compile if the sizes, for which it would compile anew, are not needed.

    They are if f mixes rows: without them, the zero vector is always among the rows.
    """
    if not torch.compiler.is_compiling() or problem.table is not None or problem.reduce is None:
        return False
    return not mixes_rows(problem.f)


def _reduced_at_once(problem: Problem) -> Tensor:
    """Returns the reduction of f over each set, and of f of the zero vector for empty sets."""
    if len(problem.values) > problem.orderings.max_rows:
        problem.check_rows()
    offsets, reduce = problem.elements.offsets, cast(str, problem.reduce)
    results = _of_each(problem, some_are_empty=True)
    reduced = reduce_between(reduce, results[:-1], offsets)
    of_zero = torch.zeros_like(results[-1]) if reduce == "std" else results[-1]
    reduced = torch.where((offsets.diff() == 0)[:, None], widened(of_zero), reduced)
    return reduced.to(problem.values.dtype) if problem.values.dtype in HALF else reduced


def _of_each(problem: Problem, some_are_empty: bool) -> Tensor:
    """Returns f of each value, (N, c), and of the zero vector behind them if a set is empty, (N + 1, c)."""
    values = problem.values
    num = len(values) + some_are_empty
    if num * bytes_of_elements(problem) <= problem.memory_budget:
        if some_are_empty:
            values = torch.cat((values, values.new_zeros(1, *values.shape[1:])))
        if values.dim() == 2 and maps_features(problem.f):
            return problem.f(values)
        return apply(problem.f, values.unsqueeze(1), single=True)
    local = torch.zeros(1, 1, 1, dtype=torch.long, device=values.device)
    starts = torch.arange(num, device=values.device)
    rows = Rows((Bucket(local, None, starts, None, padded=some_are_empty),), num)
    return cast(Tensor, pool_rows(replace(problem, reduce="sum"), rows, of_elements(problem, rows)))


def _places(problem: Problem, zero: int, some_are_empty: bool) -> tuple[Ragged, Tensor | None]:
    """Returns the sets of rows, and the place of each row's result, (R,); None if the results are in the rows' order.

    An empty set has one row, whose result is behind the others.
    """
    elements = problem.elements
    order = cast(EveryTuple, problem.orderings).order(problem.keys)
    places = order if problem.table is None else in_place(elements.values, order)
    if not some_are_empty:
        return elements, places
    counts, sizes = elements.offsets.diff(), [max(1, n) for n in elements.sizes]
    offsets = torch.cat((elements.offsets[:1], counts.clamp(min=1).cumsum(0)))
    full = (counts > 0).repeat_interleave(offsets.diff(), output_size=sum(sizes))
    places = torch.arange(zero, device=full.device) if places is None else places
    found = torch.full_like(full, zero, dtype=torch.long).masked_scatter(full, places)
    return Ragged(found, offsets, sizes=sizes), found
