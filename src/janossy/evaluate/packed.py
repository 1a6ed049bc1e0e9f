"""Packed: all rows of a recurrence in one run, whatever their lengths, without padding."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

from torch import Tensor

from janossy.evaluate.cells.cost import cell_bytes, cost_of_cells, why_not
from janossy.evaluate.cells.forest import paths
from janossy.evaluate.cells.pool import Grove, Part, pool_forests
from janossy.evaluate.cost import Cost, as_float
from janossy.evaluate.problem import Problem
from janossy.evaluate.rows.pieces import Piece, batches_of, pieces_of, with_zero
from janossy.ragged import Ragged


@dataclass(frozen=True)
class Packed:
    """All rows of a recurrence in one run, whatever their lengths.

    Rows are sorted by length and run eight at a time, so that no padding enters the recurrence. An element's projection
    is made once, however many rows it is in; from there on the compiled kernels compute a row alike, to the last bit,
    whatever the other rows. Rows estimated to need more than the memory budget are computed in chunks, and once more
    in backward.

    Applies to: ``RNN``, ``GRU``, ``LSTM`` over any orderings; not under torch.compile, which unrolls them with gather.
    Tolerance: rounding.
    Cost: a step of the recurrence for each position of each row; memory for the states and gates of one chunk.
    Raises: RuntimeError, in backward, if rows were chunked and f's weights modified in place since forward.
    """

    name: ClassVar[str] = "packed"

    def refuses(self, problem: Problem) -> str | None:
        return why_not(problem)

    def check_rows(self, problem: Problem) -> None:
        problem.check_rows()

    def cost(self, problem: Problem) -> Cost:
        orderings = problem.orderings
        cells = 0.0
        for n, num_sets in Counter(problem.elements.sizes).items():
            cells += as_float(num_sets * orderings.num_rows(n) * orderings.row_length(n))
        return cost_of_cells(problem, cells, cells)

    def __call__(self, problem: Problem) -> Tensor | Ragged:
        rows = problem.rows()
        values = with_zero(problem.values, rows)
        limit = max(1, problem.memory_budget // cell_bytes(problem))
        groves = [_grove(pieces, len(values), rows.num_sets) for pieces in batches_of(pieces_of(rows, limit), limit)]
        return pool_forests(problem, values, groves)


def _grove(pieces: Sequence[Piece], num_values: int, num_sets: int) -> Grove:
    parts: list[Part] = []
    # Sets of different sizes with as many rows, as by Sampled, are reduced together.
    for (num_rows, whole), alike in groupby(pieces, key=lambda p: (p.num_rows, p.whole)):
        if whole:
            parts.append(Part([b for p in alike for b in p.members(num_sets)], num_rows))
        else:
            parts.extend(Part(p.members(num_sets), num_rows, p.continues) for p in alike)
    return Grove(paths([p.positions(num_values) for p in pieces]), parts)
