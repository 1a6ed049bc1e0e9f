"""Rows of a recurrence as a forest of cells: what is read, and which cell's state it is read after.

A row is a path. Paths are kept apart (``paths``) or share their beginnings (``PrefixTree``). Both are evaluated by
``recurrences.py``. The shape of a forest depends on the sizes of the sets alone, so it is made on the host, once.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from math import comb, perm

import numpy as np
import torch
from torch import Tensor

GROUP = 8
"""Paths to a tree: as many rows as a kernel multiplies at once."""

KEEP_CELLS = 2**16
"""Larger shapes are made at every call rather than kept (two megabytes each)."""


@dataclass(frozen=True, eq=False)
class Shape:
    """Cells ordered by tree, within it by level, within that by parent; arrays of int64.

    Shapes: parents (C,), -1 at a root; ends (T,), the cell that each row ends at, -1 for a row of length 0;
    levels (V + 1,), where each level begins among the cells; trees (G + 1,), where each tree begins among the levels.
    """

    parents: np.ndarray
    ends: np.ndarray
    levels: np.ndarray
    trees: np.ndarray

    @property
    def num_cells(self) -> int:
        return len(self.parents)

    @cached_property
    def rows(self) -> np.ndarray:
        """The row that each cell is the end of, or -1."""
        rows = np.full(self.num_cells, -1)
        real = np.flatnonzero(self.ends >= 0)
        rows[self.ends[real]] = real
        return rows

    @property
    def largest_tree(self) -> int:
        """In cells."""
        return int(np.diff(self.levels[self.trees]).max(initial=0))

    def slabs(self, num_cells: int) -> list[np.ndarray]:
        """The trees, in stretches of about so many cells."""
        begins = self.levels[self.trees]
        cuts = np.searchsorted(begins, np.arange(0, self.num_cells, max(1, num_cells)))
        return [self.trees[a : b + 1] for a, b in pairwise(np.unique([*cuts, len(self.trees) - 1]))]

    @cached_property
    def before(self) -> np.ndarray:
        """The cell whose state each one is read after; at a root C, which stands for the zero state."""
        return np.where(self.parents >= 0, self.parents, self.num_cells)

    @cached_property
    def by_depth(self) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
        """For each depth its cells, over all trees, and their parents among the cells of the depth before.

        And each cell's place when the depths are put behind each other.
        """
        depth_of_level = np.concatenate([np.arange(b - a) for a, b in pairwise(self.trees)] or [np.arange(0)])
        depths = np.repeat(depth_of_level, np.diff(self.levels))
        order = np.argsort(depths, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        bounds = np.concatenate(([0], np.bincount(depths).cumsum()))
        cells = [order[a:b] for a, b in pairwise(bounds)]
        starts = [0, *bounds[:-1]]
        parents = [place[self.parents[c]] - start for c, start in zip(cells, starts, strict=False)]
        return cells, parents, place


@dataclass(frozen=True, eq=False)
class Forest:
    """A shape, and the element that each cell reads.

    Shapes: elements (C,), int64; mirror (C,), of paths: the cell that is as far from its row's end as this one from
    the beginning, for the direction that reads rows from behind.
    """

    shape: Shape
    elements: Tensor
    mirror: np.ndarray | None = None

    @property
    def num_rows(self) -> int:
        return len(self.shape.ends)


def paths(positions: list[Tensor]) -> Forest:
    """Rows that share nothing: positions (T_i, L_i), the longest first, of elements. Rows are numbered as they come."""
    shape, mirror, cells = _paths(tuple((x.shape[0], x.shape[1]) for x in positions))
    flat = torch.cat([x.reshape(-1) for x in positions]) if positions else torch.zeros(0, dtype=torch.long)
    return Forest(shape, flat[torch.from_numpy(cells).to(flat.device)], mirror)


def _paths(blocks: tuple[tuple[int, int], ...]) -> tuple[Shape, np.ndarray, np.ndarray]:
    """The shape of (T_i, L_i) rows and lengths; the mirrored cells; and which entry of the rows each cell reads."""
    return (_kept_paths if sum(num * length for num, length in blocks) <= KEEP_CELLS else _new_paths)(blocks)


def _new_paths(blocks: tuple[tuple[int, int], ...]) -> tuple[Shape, np.ndarray, np.ndarray]:
    lengths = np.repeat([length for _, length in blocks], [num for num, _ in blocks]).astype(np.int64)
    real = lengths[: np.count_nonzero(lengths)]  # those of length 0 come last
    tree_lengths = real[::GROUP]
    trees = _starts(tree_lengths)
    # The rows of a tree that are longer than t, for each of its levels t.
    tree_of_level = np.repeat(np.arange(len(tree_lengths)), tree_lengths)
    t_of_level = np.arange(trees[-1]) - trees[tree_of_level]
    padded = np.zeros(len(tree_lengths) * GROUP, np.int64)
    padded[: len(real)] = real
    levels = _starts((padded.reshape(-1, GROUP)[tree_of_level] > t_of_level[:, None]).sum(1))
    # Entry by entry of the rows, one row after the other.
    begins = _starts(real)
    row = np.repeat(np.arange(len(real)), real)
    t = np.arange(begins[-1]) - begins[row]
    cell = levels[trees[row // GROUP] + t] + row % GROUP
    parents, mirror, entry = (np.empty(len(cell), np.int64) for _ in range(3))
    parents[cell] = np.where(t == 0, -1, np.roll(cell, 1))
    mirror[cell] = cell[begins[row + 1] - 1 - t]
    entry[cell] = np.arange(len(cell))
    ends = np.full(len(lengths), -1)
    ends[: len(real)] = cell[begins[1:] - 1]
    return Shape(parents, ends, levels, trees), mirror, entry


_kept_paths = lru_cache(maxsize=64)(_new_paths)


def _starts(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(sizes)))


@dataclass(frozen=True, eq=False)
class PrefixTree:
    """The rows of one set with their beginnings shared: a node for every distinct beginning (DESIGN 3.3).

    All arrangements of k elements, Σ_j n!/(n − j)! nodes for j ≤ k; or the increasing ones. Elements come in kinds, of
    which there may be several alike: arrangements that look alike are one row, which counts as often as there are such.

    Shapes: parents and kinds, for each length of a beginning (M_j,): the node that it prolongs, never falling, and the
    kind that it adds, -1 for the zero vector; counts (R,), how many arrangements each row stands for.
    """

    parents: list[np.ndarray]
    kinds: list[np.ndarray]
    counts: np.ndarray

    @property
    def num_rows(self) -> int:
        return len(self.counts)

    @property
    def num_nodes(self) -> int:
        return sum(len(level) for level in self.parents)

    def between(self, first: int, last: int) -> "PrefixTree":
        """The part that the rows from first to last (exclusive) are made of."""
        counts = self.counts[first:last]
        parents, kinds = [], []
        for level_parents, level_kinds in zip(reversed(self.parents), reversed(self.kinds), strict=True):
            above = level_parents[first:last]
            kinds.append(level_kinds[first:last])
            first, last = int(above[0]), int(above[-1]) + 1
            parents.append(above - first)
        return PrefixTree(parents[::-1], kinds[::-1], counts)

    def branches(self, at_most: int = 64) -> list["PrefixTree"]:
        """Parts that share nothing, in order."""
        starts = np.arange(self.num_rows)
        for level_parents in reversed(self.parents[1:]):
            starts = level_parents[starts]
        bounds = np.flatnonzero(np.diff(starts, prepend=-1, append=-1))
        several = -(-(len(bounds) - 1) // at_most)
        bounds = np.append(bounds[:-1:several], bounds[-1])
        return [self.between(a, b) for a, b in pairwise(bounds.tolist())]


def prefix_tree(multiplicities: tuple[int, ...], k: int, *, increasing: bool) -> PrefixTree:
    """Of a set with so many elements of each kind; rows longer than the set are filled up with the zero vector.

    Increasing rows take kinds of one element each, in their order.
    """
    num_elements = sum(multiplicities)
    real = min(k, num_elements)
    num_rows = comb(num_elements, real) if increasing else num_arrangements(multiplicities, real)
    return (_kept_tree if num_rows * k <= KEEP_CELLS else _new_tree)(multiplicities, k, increasing)


@lru_cache(maxsize=1024)
def num_arrangements(multiplicities: tuple[int, ...], k: int) -> int:
    """How many arrangements of k elements look different, if there are so many elements of each kind."""
    if max(multiplicities, default=1) == 1:
        return perm(len(multiplicities), k)
    found = [1] + [0] * k  # of 0 … k elements of the kinds so far
    for alike in multiplicities:
        found = [sum(comb(j, t) * found[j - t] for t in range(min(alike, j) + 1)) for j in range(k + 1)]
    return found[k]


def num_nodes(n: int, k: int, *, increasing: bool) -> tuple[float, float]:
    """Of the tree of n unequal elements: all nodes, and those that end a row. No more than 1e200 of each length."""
    real = min(n, k)
    levels = [1.0]
    for j in range(1, real + 1):
        more = levels[-1] * (n - real + j) / j if increasing else levels[-1] * (n - j + 1)
        levels.append(min(more, 1e200))
    levels += levels[-1:] * (k - real)
    return sum(levels[1:]), levels[-1] if k > 0 else 0.0


def _new_tree(multiplicities: tuple[int, ...], k: int, increasing: bool) -> PrefixTree:
    left = np.array([multiplicities], dtype=np.int64)
    counts = np.ones(1)
    parents, kinds = [], []
    real = min(k, sum(multiplicities))
    for length in range(1, k + 1):
        if length > real:
            level_parents, level_kinds = np.arange(len(counts)), np.full(len(counts), -1)
        else:
            level_parents, level_kinds = np.nonzero(_may_follow(left, real - length, increasing))
            counts = counts[level_parents] * left[level_parents, level_kinds]
            if length < real:
                left = left[level_parents]
                left[np.arange(len(left)), level_kinds] -= 1
                if increasing:
                    left[np.arange(left.shape[1]) < level_kinds[:, None]] = 0
        parents.append(level_parents)
        kinds.append(level_kinds)
    return PrefixTree(parents, kinds, counts)


_kept_tree = lru_cache(maxsize=64)(_new_tree)


def _may_follow(left: np.ndarray, num_later: int, increasing: bool) -> np.ndarray:
    """Which kinds may come next, by how many of each are left, (M, kinds)."""
    if not increasing:
        return left > 0
    behind = left.sum(1, keepdims=True) - left.cumsum(1)
    return (left > 0) & (behind >= num_later)


def prefixes(tree: PrefixTree, elements: Tensor) -> Forest:
    """The rows of sets that all have this tree: elements (S, kinds + 1), one of each kind, the zero vector's last.

    Rows are numbered set by set. Every branch is a tree of its own, for threads to share.
    """
    parents, kinds, ends = ([np.zeros(0, np.int64)] for _ in range(3))
    levels, trees, num_cells = [0], [0], 0
    for branch in tree.branches():
        begin = above = num_cells
        for level_parents, level_kinds in zip(branch.parents, branch.kinds, strict=True):
            parents.append(np.full(len(level_kinds), -1) if num_cells == begin else level_parents + above)
            kinds.append(level_kinds)
            above = num_cells
            num_cells += len(level_kinds)
            levels.append(num_cells)
        ends.append(np.arange(above, num_cells) if num_cells > begin else np.full(branch.num_rows, -1))
        trees.append(len(levels) - 1)
    num_sets = len(elements)
    shape = Shape(
        _repeated(np.concatenate(parents), num_sets, num_cells),
        _repeated(np.concatenate(ends), num_sets, num_cells),
        np.append(_repeated(np.array(levels[:-1], np.int64), num_sets, num_cells), num_sets * num_cells),
        np.append(_repeated(np.array(trees[:-1], np.int64), num_sets, trees[-1]), num_sets * trees[-1]),
    )
    of_kinds = torch.from_numpy(np.concatenate(kinds)).to(elements.device)
    return Forest(shape, elements[:, of_kinds].flatten())


def _repeated(numbers: np.ndarray, times: int, shift: int) -> np.ndarray:
    """The numbers, over and over, each time shifted once more; but -1 stays."""
    shifted = numbers + shift * np.arange(times)[:, None]
    return np.where(numbers >= 0, shifted, -1).reshape(-1)
