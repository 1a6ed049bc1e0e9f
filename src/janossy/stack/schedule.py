"""The schedule of R networks: the rows stepped at each depth, and each cell's input, known from sizes alone."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import numpy as np

from janossy.evaluate.cells.forest import KEEP_CELLS

Shapes = tuple[tuple[tuple[int, int], ...], ...]
"""Per network, pairs of a number of rows and their length, the longest first."""


@dataclass(frozen=True, eq=False)
class Schedule:
    """Rows of R networks, m each, and the number of them stepped at each depth: the first ones, the longest.

    A network with fewer rows than another gets rows of length 0. At a depth where it has fewer rows, it steps some
    beyond their end, on its zero vector. Cells are numbered depth by depth, then network by network.

    Shapes:
        ends: (R, m), the cell at which a row ends, -1 for a row of length 0.
        entries: (C,), the entry of the rows, one after the other, that a cell reads. Beyond an end it is -1 - r, for
            the zero vector of network r.
    """

    active: tuple[int, ...]
    """The number of rows per network that are stepped at each depth; it never rises."""
    starts: tuple[int, ...]
    """The first cell of each depth, and the number of cells."""
    ends: np.ndarray
    entries: np.ndarray
    has_gaps: bool
    """True if a cell is beyond the end of its row."""


def schedule(shapes: Shapes) -> Schedule:
    """Returns the schedule of rows of these shapes; kept if it is small."""
    num_cells = sum(num * length for each in shapes for num, length in each)
    return (_kept if num_cells <= 16 * KEEP_CELLS else _schedule)(shapes)


def _schedule(shapes: Shapes) -> Schedule:
    lengths_of = [np.repeat([n for _, n in each], [num for num, _ in each]).astype(np.int64) for each in shapes]
    lengths = np.zeros((len(shapes), max(map(len, lengths_of))), np.int64)
    begins = np.zeros_like(lengths)
    total = 0
    for row, begin, own in zip(lengths, begins, lengths_of, strict=True):
        row[: len(own)] = own
        begin[: len(own)] = total + np.cumsum(own) - own
        total += int(own.sum())
    depths = range(int(lengths.max(initial=0)))
    active = tuple(int((lengths > t).sum(1).max()) for t in depths)
    starts = (0, *accumulate(len(shapes) * each for each in active))
    beyond = -1 - np.arange(len(shapes))[:, None]
    entries = [
        np.where(t < lengths[:, :m], begins[:, :m] + t, beyond).ravel() for t, m in zip(depths, active, strict=True)
    ]
    ends = np.full_like(lengths, -1)
    networks, rows = np.nonzero(lengths)
    last = lengths[networks, rows] - 1
    ends[networks, rows] = np.array(starts)[last] + networks * np.array(active, np.int64)[last] + rows
    joined = np.concatenate(entries) if entries else np.zeros(0, np.int64)
    return Schedule(active, starts, ends, joined, bool((joined < 0).any()))


_kept = lru_cache(maxsize=8)(_schedule)
