"""Shared prefixes: all arrangements of a set's elements as one tree, each beginning read once."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from math import comb
from typing import ClassVar, cast

import torch
from torch import Tensor

from janossy.evaluate.cost import Cost, Rates, as_float, check_memory_budget
from janossy.evaluate.forest import num_arrangements, num_beginnings, prefix_tree, prefixes
from janossy.evaluate.forest_pool import Grove, Part, pool
from janossy.evaluate.problem import Problem
from janossy.evaluate.recurrences import cell_bytes, cost_of_cells, why_not
from janossy.orderings.rows import MAX_ROWS, EveryArrangement, averages_every_arrangement
from janossy.orderings.sorting import sort_positions
from janossy.ragged import Ragged

# Fitted to a GRU of 80 units on all orders of 5 to 7 elements, float32, forward and backward, on two cores.
RATES = Rates(flops_per_second=5.5e10, bytes_per_second=9e9, activations_per_second=1.8e9, overhead=9e-4)
RATES_WITHOUT_KERNELS = Rates(flops_per_second=4e10, bytes_per_second=1e10, activations_per_second=4e8, overhead=3e-3)
SET = 6e-6
"""Seconds that each set takes besides, to find its tree."""


@dataclass(frozen=True)
class SharedPrefixes:
    """All arrangements of a set's elements as a tree, each beginning read once (DESIGN 3.3).

    Orderings that begin alike share the states up to where they part: all n! orderings take Σ_j n!/(n − j)! ≈ e·n!
    steps of the recurrence instead of n·n!, and of those only the inner nodes, fewer still, are multiplied with the
    weights. The tree is walked in slabs of at most memory_budget bytes; if there are several, each is computed once
    more in backward.

    With ``merge_equal`` equal elements of a set count as one kind, and orderings that look alike as one: n!/Π m! rows
    for elements that come m times. It costs a sort, and is worth it where repetitions are common.

    Applies to: ``RNN``, ``GRU``, ``LSTM``, one direction, over ``AllPermutations``, ``Tuples`` and ``Combinations``
        (which does not merge); reduce=None without merging; not under torch.compile.
    Tolerance: rounding.
    Cost: the tree's nodes; memory for the states and gates of one slab.
    Raises: ValueError if memory_budget < 1, or if more rows than the orderings' max_rows look different; RuntimeError,
        in backward, if there were slabs and f's weights modified in place since forward.
    """

    merge_equal: bool = False
    memory_budget: int = 2**30
    name: ClassVar[str] = "shared_prefixes"

    def __post_init__(self) -> None:
        check_memory_budget("SharedPrefixes", self.memory_budget)

    def refuses(self, problem: Problem) -> str | None:
        if not averages_every_arrangement(problem.orderings):
            return f"{type(problem.orderings).__name__} does not average over all arrangements of the elements"
        if (reason := why_not(problem)) is not None:
            return reason
        if any(len(layer) > 1 for layer in problem.recurrent.layers):
            return "f reads rows from behind too, and they share no ends"
        if self.merge_equal and _orderings(problem).increasing:
            return "increasing tuples of equal elements are not merged; use merge_equal=False"
        if self.merge_equal and problem.reduce is None:
            return "merged rows cannot be kept, for reduce=None"
        return None

    def cost(self, problem: Problem) -> Cost:
        nodes = products = 0.0
        for n in problem.elements.sizes:
            k = problem.orderings.row_length(n)
            if _orderings(problem).increasing:
                real = min(n, k)
                levels = [comb(n - real + j, j) for j in range(1, real + 1)] + [1] * (k - real)
                num, ends = sum(levels), (levels or [0])[-1]
            else:
                num, ends = num_beginnings((1,) * n, k), problem.orderings.num_rows(n)
            nodes += as_float(num)
            products += as_float(num - ends) if k > 0 else 0.0
        cost = cost_of_cells(problem, nodes, products, RATES, RATES_WITHOUT_KERNELS)
        return replace(cost, calls=SET * len(problem.elements))

    def __call__(self, problem: Problem) -> Tensor | Ragged:
        values, kinds = _kinds(problem, self.merge_equal)
        self._check_rows(problem, kinds)
        groves = list(_groves(problem, kinds, len(values), max(1, self.memory_budget // cell_bytes(problem))))
        with_zero = torch.cat((values, values.new_zeros(1, *values.shape[1:])))
        return pool(problem, with_zero, groves, self.memory_budget)

    def _check_rows(self, problem: Problem, kinds: list["_Kinds"]) -> None:
        max_rows = getattr(problem.orderings, "max_rows", MAX_ROWS)
        total = sum(_num_rows(problem, each.multiplicities) for each in kinds)
        if total > max_rows:
            raise ValueError(
                f"shared_prefixes reads every arrangement that looks different: {as_float(total):.3g} of these "
                f"{len(kinds)} sets, the largest of {max(problem.elements.sizes)} elements, over max_rows={max_rows}; "
                "use Sampled or a smaller k."
            )


@dataclass(frozen=True)
class _Kinds:
    """The kinds of elements of one set: where each is among the values, and how many elements it has."""

    positions: list[int]
    multiplicities: tuple[int, ...]


def _orderings(problem: Problem) -> EveryArrangement:
    return cast(EveryArrangement, problem.orderings)


def _num_rows(problem: Problem, multiplicities: tuple[int, ...]) -> int:
    """Arrangements of one set that look different."""
    n = sum(multiplicities)
    if max(multiplicities, default=1) == 1:
        return problem.orderings.num_rows(n)
    return num_arrangements(multiplicities, min(n, problem.orderings.row_length(n)))[-1]


def _kinds(problem: Problem, merge_equal: bool) -> tuple[Tensor, list[_Kinds]]:
    """The values that nodes read, and each set's kinds among them: the rarest first, so that sets have one tree."""
    elements = problem.elements
    bounds = elements.offsets.tolist()
    if not merge_equal:
        order = _orderings(problem).order(problem.keys)
        values = elements.values if order is None else elements.values.index_select(0, order)
        return values, [_Kinds(list(range(a, b)), (1,) * (b - a)) for a, b in pairwise(bounds)]
    order = sort_positions(elements)
    values = elements.values.index_select(0, order)
    starts = torch.ones(len(values), dtype=torch.bool, device=values.device)
    starts[1:] = (values[1:] != values[:-1]).flatten(1).any(1)
    starts[elements.offsets[:-1][elements.offsets.diff() > 0]] = True
    kind = starts.cumsum(0) - 1
    sizes = torch.bincount(kind)
    # Every one of equal elements gets its share of the gradient.
    merged = values.new_zeros(len(sizes), values.shape[1]).index_add(0, kind, values) / sizes[:, None]
    found = []
    first_kinds = torch.cat((kind, kind.new_full((1,), len(sizes))))[elements.offsets].tolist()
    for a, b in pairwise(first_kinds):
        alike = sizes[a:b].tolist()
        rarest_first = sorted(range(b - a), key=alike.__getitem__)
        found.append(_Kinds([a + i for i in rarest_first], tuple(alike[i] for i in rarest_first)))
    return merged, found


def _groves(problem: Problem, kinds: list[_Kinds], zero: int, limit: int) -> Iterator[Grove]:
    """The trees of all sets, in slabs of about so many cells; position ``zero`` holds the zero vector."""
    by_shape: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for b, each in enumerate(kinds):
        by_shape[each.multiplicities].append(b)
    device = problem.elements.device
    for multiplicities, sets in by_shape.items():
        k = problem.orderings.row_length(sum(multiplicities))
        tree = prefix_tree(multiplicities, k, increasing=_orderings(problem).increasing)
        num_slabs = -(-tree.num_nodes // limit)
        rows_each = -(-tree.num_rows // max(1, num_slabs))
        sets_each = max(1, limit // max(1, tree.num_nodes))
        for s in range(0, len(sets), sets_each):
            some = sets[s : s + sets_each]
            positions = torch.tensor([[*kinds[b].positions, zero] for b in some], device=device)
            for first in range(0, tree.num_rows, rows_each):
                slab = tree.between(first, min(first + rows_each, tree.num_rows))
                once = bool((slab.counts == 1).all())
                weights = None if once else torch.from_numpy(slab.counts).to(device)
                part = Part(some, slab.num_rows, continues=first > 0, weights=weights)
                yield Grove(prefixes(slab, positions), [part])
