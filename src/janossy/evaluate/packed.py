"""Packed: an evaluator that runs all rows of a recurrence at once, whatever their lengths, without padding."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import perm
from typing import ClassVar

import torch
from torch import Tensor, nn

from janossy.evaluate.cells import by_torch
from janossy.evaluate.cells.by_torch import Sequences, sequences
from janossy.evaluate.cells.cost import cell_bytes, cost_of_cells, why_not
from janossy.evaluate.cells.forest import Forest, paths
from janossy.evaluate.cells.pool import Grove, Part, pool_forests, pool_sequences
from janossy.evaluate.cells.prefix_tree import num_arranged, num_nodes, prefix_tree, prefixes
from janossy.evaluate.cost import Cost, as_float
from janossy.evaluate.problem import Problem
from janossy.evaluate.rows.pieces import Piece, batches_of, pieces_of, with_zero
from janossy.functions.structure import Recurrent, Structure
from janossy.orderings.contract import averages_every_arrangement
from janossy.orderings.rows import Rows
from janossy.sets import Ragged


@dataclass(frozen=True)
class Packed:
    """All rows of a recurrence in one run, whatever their lengths.

    Rows are sorted by length and run eight at a time, so that no padding enters the recurrence. An element is projected
    once, however many rows it is in. From there on, the compiled kernels give a row the same bits whatever the other
    rows are. If sampling gives all arrangements of a small set, these share their beginnings, as in
    ``SharedPrefixes``. Rows estimated to need more than the memory budget are computed in chunks, and again in
    backward.

    On CUDA torch's kernels (cuDNN's) run all rows of ``RNN``, ``GRU`` and ``LSTM`` in one call. Products of float32 are
    in TF32 there, to about 1e-3, unless ``torch.backends.cudnn.allow_tf32`` is False. They do not run ``unrolled``
    recurrences, or in training those with dropout between layers.

    Applies to: ``RNN``, ``GRU``, ``LSTM`` over any orderings; not under torch.compile, where ``OfAnySizes`` runs them.
    Tolerance: rounding.
    Cost: a step of the recurrence for each position of each row; memory for the states and gates of one chunk.
    Raises: RuntimeError in backward if rows were chunked and f's weights were modified in place since forward.
    """

    name: ClassVar[str] = "packed"

    def why_not_applicable(self, problem: Problem) -> str | None:
        return why_not(problem)

    def check_rows(self, problem: Problem) -> None:
        problem.check_rows()

    def cost(self, problem: Problem) -> Cost:
        orderings = problem.orderings
        cells = 0.0
        for n, num_sets in Counter(problem.elements.sizes).items():
            cells += as_float(num_sets * orderings.num_rows(n) * orderings.row_length(n))
        cost = cost_of_cells(problem, cells, cells)
        if not by_torch.takes(problem):
            return cost
        deepest = max((orderings.row_length(n) for n in set(problem.elements.sizes)), default=0)
        return replace(cost, launches=by_torch.launches(problem, deepest))

    def __call__(self, problem: Problem) -> Tensor | Ragged:
        rows = problem.rows()
        values = with_zero(problem.values, rows)
        limit = max(1, problem.memory_budget // cell_bytes(problem))
        if by_torch.takes(problem):
            batches = batches_of(pieces_of(rows, limit), limit)
            return pool_sequences(problem, values, [_grove(sequences, each, values, rows) for each in batches])
        trees, apart = _trees(problem, rows, len(values), limit)
        groves = [_grove(paths, pieces, values, rows) for pieces in batches_of(pieces_of(apart, limit), limit)]
        return pool_forests(problem, values, [*groves, *trees])


def max_shared(structure: Structure | None, num: int, row_length: Callable[[int], int]) -> int | None:
    """Returns the most arrangements of a set that f reads, as a tree, in no more steps than ``num`` rows of it.

    It is None if f reads no trees.
    """
    if not _may_share(structure):
        return None
    n = 1
    while num_nodes(n + 1, row_length(n + 1), increasing=False)[0] <= num * row_length(n + 1):
        n += 1
    return perm(n, min(n, row_length(n)))


def _may_share(structure: Structure | None) -> bool:
    """Returns True if f's rows may share their beginnings: f reads in one direction, and applies no dropout."""
    return isinstance(structure, Recurrent) and not structure.dropout and max(map(len, structure.layers)) == 1


def _trees(problem: Problem, rows: Rows, num_values: int, limit: int) -> tuple[list[Grove], Rows]:
    """Returns drawn rows that are all arrangements of their sets as trees that fit the limit, and the other rows."""
    if not _may_share(problem.structure) or averages_every_arrangement(problem.orderings):
        return [], rows
    groves, others = [], []
    for bucket in rows.buckets:
        n = num_arranged(bucket)
        tree = None if n is None else prefix_tree((1,) * n, bucket.length, increasing=False)
        if n is None or tree is None or tree.num_nodes * bucket.num_sets > limit:
            others.append(bucket)
            continue
        each = replace(bucket, local=torch.arange(n, device=bucket.local.device)[None, None], padded=False)
        positions = nn.functional.pad(each.positions()[:, 0], (0, 1), value=num_values - 1)
        groves.append(Grove(prefixes(tree, positions), [Part(bucket.members(rows.num_sets), bucket.num_rows)]))
    return groves, replace(rows, buckets=tuple(others))


def _grove(
    made_of: Callable[[list[Tensor]], Forest | Sequences], pieces: Sequence[Piece], values: Tensor, rows: Rows
) -> Grove:
    parts: list[Part] = []
    # Sets of different sizes with equally many rows, as from Sampled, are reduced together.
    for (num_rows, whole), alike in groupby(pieces, key=lambda p: (p.num_rows, p.whole)):
        if whole:
            parts.append(Part([b for p in alike for b in p.members(rows.num_sets)], num_rows))
        else:
            parts.extend(Part(p.members(rows.num_sets), num_rows, p.continues) for p in alike)
    return Grove(made_of([p.positions(len(values)) for p in pieces]), parts)
