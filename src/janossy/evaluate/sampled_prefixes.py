"""Sampled prefixes: an evaluator for permutations that are averaged exactly over their last positions."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import perm
from typing import ClassVar

import torch
from torch import Tensor

from janossy.evaluate.cells.cost import cell_bytes, cost_of_cells, why_not
from janossy.evaluate.cells.pool import Grove, Part, pool_forests
from janossy.evaluate.cells.prefix_tree import num_nodes, prefix_tree, stems
from janossy.evaluate.cost import Cost
from janossy.evaluate.problem import Problem
from janossy.evaluate.rows.pieces import chunks_of, positions_of, with_zero
from janossy.functions.structure import Recurrent
from janossy.orderings.contract import Orderings
from janossy.orderings.rows import Bucket
from janossy.sets import Ragged


@dataclass(frozen=True)
class SampledPrefixes:
    """Sampled permutations with every arrangement at their end: the beginning is read once, the ends as a tree.

    A permutation that is averaged exactly over its last j of n positions has j! rows. They take n - j + Σ_i j!/(j - i)!
    steps of the recurrence instead of n·j!. For n = 10 and j = 3, these are 22 instead of 60. Chunks that keep to the
    memory budget are computed again in backward.

    Applies to: ``RNN``, ``GRU``, ``LSTM``, one direction, over ``Sampled`` with exact_last; not under torch.compile.
    Tolerance: rounding.
    Cost: these steps; memory for the states and gates of one chunk.
    Raises: RuntimeError in backward if there were chunks and f's weights were modified in place since forward.
    """

    name: ClassVar[str] = "sampled_prefixes"

    def why_not_applicable(self, problem: Problem) -> str | None:
        if problem.orderings.exact_last == 0:
            return f"{type(problem.orderings).__name__} does not average exactly over its last positions"
        if (reason := why_not(problem)) is not None:
            return reason
        if any(len(layer) > 1 for layer in problem.declared(Recurrent).layers):
            return "f also reads rows backwards, and they share no ends"
        return None

    def check_rows(self, problem: Problem) -> None:
        problem.check_rows()

    def cost(self, problem: Problem) -> Cost:
        cells = products = 0.0
        for n, num_sets in Counter(problem.elements.sizes).items():
            begin, num_kinds, end = _parts(problem.orderings, n)
            nodes, ends = num_nodes(num_kinds, end, increasing=False)
            num = num_sets * problem.orderings.num_rows(n) / perm(num_kinds, min(num_kinds, end))
            cells += num * (begin + nodes)
            products += num * (begin + nodes - ends)
        return cost_of_cells(problem, cells, products)

    def __call__(self, problem: Problem) -> Tensor | Ragged:
        rows = problem.rows()
        values = with_zero(problem.values, rows)
        limit = max(1, problem.memory_budget // cell_bytes(problem))
        groves: list[Grove] = []
        for bucket in rows.buckets:
            members = bucket.members(rows.num_sets)
            groves += _groves(problem, bucket, members, len(values), limit) if len(members) else []
        return pool_forests(problem, values, groves)


def _parts(orderings: Orderings, n: int) -> tuple[int, int, int]:
    """Returns the length of the sampled beginning, the number of elements left, and the number of positions left."""
    length = orderings.row_length(n)
    real = min(n, length)
    begin = real - min(orderings.exact_last, real)
    return begin, n - begin, length - begin


def _groves(problem: Problem, bucket: Bucket, members: Sequence[int], num_values: int, limit: int) -> Iterator[Grove]:
    """Yields the rows of a bucket, in chunks of about ``limit`` cells, or of one permutation of a set."""
    begin, num_kinds, end = _parts(problem.orderings, problem.elements.sizes[members[0]])
    tree = prefix_tree((1,) * num_kinds, end, increasing=False)
    each = tree.num_rows
    groups_at_once = max(1, limit // max(1, begin + tree.num_nodes))
    for sets, slices in chunks_of(bucket.num_sets, bucket.num_rows // each, groups_at_once):
        for draws in slices:
            rows = slice(draws.start * each, min(draws.stop * each, bucket.num_rows))
            positions = positions_of(bucket, num_values, sets, rows).unflatten(1, (-1, each)).flatten(0, 1)
            # Rows are in lexicographic order, so the first position behind the beginning lists the elements left.
            left = positions[:, :: max(1, each // max(1, num_kinds)), begin : begin + 1].flatten(1)[:, :num_kinds]
            zero = left.new_full((len(left), 1), num_values - 1)
            elements = torch.cat((positions[:, 0, :begin], left, zero), 1)
            part = Part(members[sets], rows.stop - rows.start, continues=draws.start > 0)
            yield Grove(stems(tree, elements, begin), [part])
