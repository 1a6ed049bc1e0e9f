"""Distinct: an evaluator that applies f once to each distinct tuple of a batch."""

from collections import Counter
from dataclasses import dataclass, replace
from math import comb, expm1
from typing import Any, ClassVar, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from janossy.evaluate.cost import Cost, as_float
from janossy.evaluate.problem import Function, Problem
from janossy.evaluate.reduce import widened
from janossy.evaluate.rows.incidence import MAX_CODES, Incidence, distinct_tuples
from janossy.evaluate.rows.pool import pool_rows
from janossy.evaluate.rows.steps import (
    cost_of_elements,
    cost_of_projections,
    of_elements,
    of_projections,
    why_no_projections,
)
from janossy.evaluate.tuples.every_tuple import in_place, is_increasing, reduced, why_not_every_tuple
from janossy.functions.structure import draws_or_mixes_rows
from janossy.orderings.contract import EveryTuple
from janossy.orderings.rows import Rows

OCCURRENCE_BYTES = 32
"""The bytes per occurrence of a tuple while occurrences are counted; a quarter of them is kept."""

COUNT, ADD = 3e-8, 1e-8
"""The seconds to count an occurrence, and to add it up, forward and backward, at some 30 numbers per row."""

OVERHEAD = 2e-4
"""The seconds of a call with next to nothing to count."""

SORTED_BYTES, WAITED = 200, 400
"""The bytes that a GPU moves to sort an occurrence's number, and the launches that fit into the wait for it."""

NUM_KEPT = 4
"""The number of batches per function whose counts are kept."""


@dataclass(frozen=True)
class DistinctTuples:
    """f of each distinct tuple of the batch, once; each set adds the values up as often as it has the tuple.

    It serves elements from a small vocabulary. If h is an ``nn.Embedding``, elements are places in its table, and
    tuples of equal places are one. Elements that are not places are all distinct. For example, the training set of the
    paper's variance task is 100,000 sets of 10 of 100 integers. Of its 12 million increasing triples 171,700 are
    distinct.

    The sum is a product with a sparse matrix of counts, which depends on the places alone. The counts of the last few
    batches are kept, so that training on a whole data set at once counts once.

    Applies to: every f that does not draw or mix rows now (dropout, batch norm), over all k-tuples (Tuples,
        Combinations), reduced by mean or sum. Not under torch.compile.      Tolerance: rounding.
    Cost: f on the distinct tuples; a ``TupleMLP`` projects each element once. Counting takes 32 bytes per occurrence, a
        quarter of them kept. If f needs more than the memory budget, it is computed in chunks, and again in backward.
    Raises: RuntimeError in backward if rows were chunked and f's weights were modified in place since forward.
    """

    name: ClassVar[str] = "distinct"

    def why_not_applicable(self, problem: Problem) -> str | None:
        k = problem.orderings.k or 0
        if (reason := why_not_every_tuple(problem, k)) is not None:
            return reason
        if draws_or_mixes_rows(problem.f):
            return (
                f"{type(problem.f).__name__} is random or mixes rows, so its value for a tuple is not always the same"
            )
        if torch.compiler.is_compiling():
            return "torch.compile does not know the number of distinct tuples"
        if (len(problem.values) + 1) ** k > MAX_CODES:
            return f"{len(problem.values)} elements have too many {k}-tuples to number them"
        if (num := _occurrences(problem)) * OCCURRENCE_BYTES > problem.memory_budget:
            return (
                f"counting {as_float(num):.3g} tuples takes more than the memory budget, {problem.memory_budget} bytes"
            )
        return None

    def check_rows(self, problem: Problem) -> None:
        """Does nothing: it builds no more rows than the memory budget allows."""

    def cost(self, problem: Problem) -> Cost:
        num, most = as_float(_occurrences(problem)), as_float(_max_distinct(problem))
        # The expected number for ids that are all equally likely; otherwise there are fewer.
        num_distinct = num if problem.table is None else -most * expm1(-num / most)
        if why_no_projections(problem) is None:
            cost = cost_of_projections(problem, num_distinct)
        else:
            cost = cost_of_elements(problem, {cast(EveryTuple, problem.orderings).k: num_distinct})
        if problem.values.is_cuda:  # a sort of all tuples' numbers, and a wait for it
            return replace(cost, bytes=cost.bytes + SORTED_BYTES * num, launches=cost.launches + WAITED)
        return replace(cost, calls=cost.calls + OVERHEAD + (COUNT + ADD) * num)

    def __call__(self, problem: Problem) -> Tensor:
        tuples, lists = _counted(problem)
        steps = (of_projections if why_no_projections(problem) is None else of_elements)(problem, tuples)
        values = cast(Tensor, pool_rows(replace(problem, reduce="sum"), tuples, steps))
        return reduced(problem, lists.sums(widened(values)) / lists.lengths[:, None])

    def diagnostics(self, problem: Problem) -> str:
        """Returns a sentence on how many tuples are distinct."""
        tuples, lists = _counted(problem)
        return f"{tuples.num_sets} distinct tuples, which occur {len(lists.rows)} times"


def _occurrences(problem: Problem) -> int:
    """Counts the tuples of all sets."""
    return sum(num_sets * problem.orderings.num_rows(n) for n, num_sets in Counter(problem.elements.sizes).items())


def _max_distinct(problem: Problem) -> int:
    """Counts the possible tuples of the table's elements: in every order, or only the sorted ones."""
    num, k = max(1, len(problem.values)), cast(EveryTuple, problem.orderings).k
    return comb(num + k - 1, k) if is_increasing(problem) else num**k


@dataclass(frozen=True, eq=False)
class _Kept:
    """The counts of a batch, and copies of all numbers that they depend on."""

    case: tuple[Any, ...]
    numbers: list[Tensor]
    found: tuple[Rows, Incidence]


_kept: WeakKeyDictionary[Function, list[_Kept]] = WeakKeyDictionary()
"""The last few batches of each function, the latest first."""


def _counted(problem: Problem) -> tuple[Rows, Incidence]:
    """Returns the distinct tuples, and the list of every set's tuples.

    Those of the last few batches are kept and found again by all numbers that they depend on. So they are found if the
    numbers come in another tensor, and not found if a tensor was modified.
    """
    case = problem.orderings, problem.elements.sizes, len(problem.values), problem.elements.device
    numbers = [] if problem.table is None else [problem.elements.values]
    if is_increasing(problem) and not any(x is problem.keys.values for x in numbers):
        numbers.append(problem.keys.values)
    try:
        kept = _kept.setdefault(problem.f, [])
    except TypeError:  # f takes no weak reference
        kept = []
    for batch in kept:
        if batch.case == case and all(map(_equal, batch.numbers, numbers)):
            kept.remove(batch)
            break
    else:
        with torch.inference_mode(False), torch.no_grad():  # a batch of inference may come again in training
            batch = _Kept(case, [x.detach().clone() for x in numbers], _count(problem))
    kept.insert(0, batch)
    del kept[NUM_KEPT:]
    return batch.found


def _equal(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and torch.equal(a, b)


def _count(problem: Problem) -> tuple[Rows, Incidence]:
    orderings, elements = cast(EveryTuple, problem.orderings), problem.elements
    places = torch.arange(len(elements.values), device=elements.device)
    places = places if problem.table is None else elements.values
    if is_increasing(problem):
        places = in_place(places, orderings.order(problem.keys))
    return distinct_tuples(elements.with_values(places), orderings.k, is_increasing(problem), len(problem.values))
