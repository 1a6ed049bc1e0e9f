"""Shared prefixes: an evaluator that reads all arrangements of a set's elements as one tree, each beginning once."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from itertools import accumulate, pairwise
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from janossy.evaluate.cells.cost import cell_bytes, cost_of_cells, why_not
from janossy.evaluate.cells.pool import Grove, Part, pool_forests
from janossy.evaluate.cells.prefix_tree import num_arrangements, num_nodes, prefix_tree, prefixes
from janossy.evaluate.cost import Cost, as_float
from janossy.evaluate.problem import Problem
from janossy.evaluate.reduce import means_by_counts
from janossy.evaluate.tuples.every_tuple import in_order
from janossy.functions.checks import check_flags
from janossy.functions.structure import Recurrent
from janossy.orderings.contract import EveryArrangement, averages_every_arrangement
from janossy.orderings.sorting import first_of_equals, sort_positions
from janossy.sets import Ragged
from janossy.sets.transfer import upload

SET = 6e-6
"""The seconds per set to find its tree, beside the steps."""


@dataclass(frozen=True)
class SharedPrefixes:
    """All arrangements of a set's elements as a tree, each beginning read once.

    Orderings that begin alike share their states up to the first difference. So all n! orderings take
    Σ_j n!/(n − j)! ≈ e·n! steps of the recurrence instead of n·n!. Only the inner nodes, fewer still, are multiplied
    with the weights. The tree is walked in slabs that keep to the memory budget. If there are several slabs, each is
    computed again in backward.

    With ``merge_equal`` equal elements of a set count as one kind, and orderings that look alike as one. Elements that
    come m times give n!/Π m! rows. It costs a sort, and is worth it if repetitions are common.

    Applies to: ``RNN``, ``GRU``, ``LSTM``, one direction, over ``AllPermutations``, ``Tuples`` and ``Combinations``
        (which does not merge); rows without merging; not under torch.compile.
    Tolerance: rounding.
    Cost: the tree's nodes; memory for the states and gates of one slab.
    Raises:
        ValueError: if more than max_rows rows look different.
        RuntimeError: in backward, if there were slabs and f's weights were modified in place since forward.
    """

    _: KW_ONLY
    merge_equal: bool = False
    name: ClassVar[str] = "shared_prefixes"

    def __post_init__(self) -> None:
        check_flags(self, merge_equal=self.merge_equal)

    def why_not_applicable(self, problem: Problem) -> str | None:
        if not averages_every_arrangement(problem.orderings):
            return f"{type(problem.orderings).__name__} does not average over all arrangements of the elements"
        if (reason := why_not(problem)) is not None:
            return reason
        if any(len(layer) > 1 for layer in problem.declared(Recurrent).layers):
            return "f also reads rows backwards, and they share no ends"
        if self.merge_equal and _orderings(problem).increasing:
            return "increasing tuples of equal elements are not merged; use merge_equal=False"
        if self.merge_equal and problem.reduce is None:
            return "merged rows cannot be kept, for .rows()"
        return None

    def check_rows(self, problem: Problem) -> None:
        self._check_rows(problem, self._sets(problem)[2])

    def cost(self, problem: Problem) -> Cost:
        nodes = products = 0.0
        for n, num_sets in Counter(problem.elements.sizes).items():
            k, increasing = problem.orderings.row_length(n), _orderings(problem).increasing
            num, ends = num_nodes(n, k, increasing=increasing)
            nodes += num_sets * num
            products += num_sets * (num - ends)
        cost = cost_of_cells(problem, nodes, products)
        return replace(cost, calls=SET * len(problem.elements))

    def __call__(self, problem: Problem) -> Tensor | Ragged:
        values, order, alike = self._sets(problem)
        self._check_rows(problem, alike)
        limit = max(1, problem.memory_budget // cell_bytes(problem))
        groves = list(_groves(problem, alike, order, len(values), limit))
        with_zero = torch.cat((values, values.new_zeros(1, *values.shape[1:])))
        return pool_forests(problem, with_zero, groves)

    def _sets(self, problem: Problem) -> "tuple[Tensor, Tensor | None, Alike]":
        """Returns the values that nodes read, their order if it is another, and the sets, by how their kinds repeat."""
        return (_merged if self.merge_equal else _as_they_are)(problem)

    def _check_rows(self, problem: Problem, alike: "Alike") -> None:
        """Raises a ValueError if there are more rows than the orderings' max_rows."""
        max_rows = problem.orderings.max_rows
        total = sum(_num_rows(problem, multiplicities) * len(sets) for multiplicities, sets in alike.items())
        if total > max_rows:
            raise ValueError(
                f"shared_prefixes reads every arrangement that looks different: {as_float(total):.3g} of these "
                f"{len(problem.elements)} sets, the largest of {max(problem.elements.sizes)} elements, over "
                f"max_rows={max_rows}; use Sampled or a smaller k."
            )


Alike = dict[tuple[int, ...], dict[int, list[int]]]
"""The sets, grouped by their numbers of elements per kind, with the place of each of a set's kinds among the values."""


def _orderings(problem: Problem) -> EveryArrangement:
    return cast(EveryArrangement, problem.orderings)


def _num_rows(problem: Problem, multiplicities: tuple[int, ...]) -> int:
    """Counts the arrangements of one set that look different."""
    n = sum(multiplicities)
    if _orderings(problem).increasing:
        return problem.orderings.num_rows(n)
    return num_arrangements(multiplicities, min(n, problem.orderings.row_length(n)))


def _as_they_are(problem: Problem) -> tuple[Tensor, Tensor | None, Alike]:
    """Returns the values that nodes read, with every element as a separate kind, in the orderings' order."""
    alike: Alike = defaultdict(dict)
    for b, (start, end) in enumerate(pairwise(accumulate(problem.elements.sizes, initial=0))):
        alike[(1,) * (end - start)][b] = list(range(start, end))
    return *in_order(problem), alike


def _merged(problem: Problem) -> tuple[Tensor, None, Alike]:
    """Returns the values that nodes read, one for equal elements of a set.

    The rarest come first, so that more sets share a tree.
    """
    elements = problem.gathered
    order = sort_positions(elements)
    values, owners = elements.values.index_select(0, order), elements.to_index()[1]
    starts = first_of_equals(elements, order)
    sizes = torch.bincount(starts.cumsum(0) - 1)
    # A mean, so that each of the equal elements gets its share of the gradient.
    means = means_by_counts(values, sizes)
    of_sets: dict[int, list[int]] = {b: [] for b in range(len(elements))}
    for position, b in enumerate(owners[starts].tolist()):
        of_sets[b].append(position)
    counts = sizes.tolist()
    alike: Alike = defaultdict(dict)
    for b, positions in of_sets.items():
        positions.sort(key=counts.__getitem__)
        alike[tuple(counts[position] for position in positions)][b] = positions
    return means, None, alike


def _groves(problem: Problem, alike: Alike, order: Tensor | None, zero: int, limit: int) -> Iterator[Grove]:
    """Yields the trees of all sets, in slabs of about ``limit`` cells; position ``zero`` holds the zero vector."""
    device = problem.elements.device
    for multiplicities, sets in alike.items():
        k = problem.orderings.row_length(sum(multiplicities))
        tree = prefix_tree(multiplicities, k, increasing=_orderings(problem).increasing)
        num_slabs = max(1, -(-tree.num_nodes // limit))
        rows_each = -(-tree.num_rows // num_slabs)
        sets_each = max(1, limit // max(1, tree.num_nodes))
        members = list(sets.items())
        for s in range(0, len(members), sets_each):
            slab_members = members[s : s + sets_each]
            positions = upload(
                torch.tensor([kinds for _, kinds in slab_members], dtype=torch.long, device="cpu"), device
            )
            positions = nn.functional.pad(positions if order is None else order[positions], (0, 1), value=zero)
            for first in range(0, tree.num_rows, rows_each):
                slab = tree.between(first, min(first + rows_each, tree.num_rows))
                shares = upload(slab.shares, device) if max(multiplicities, default=1) > 1 else None
                part = Part([b for b, _ in slab_members], slab.num_rows, continues=first > 0, shares=shares)
                yield Grove(prefixes(slab, positions), [part])
