"""The tree of all arrangements of a set's elements, each beginning once; and such trees as a forest of cells."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import comb, perm
from typing import cast

import numpy as np
import torch
from torch import Tensor

from janossy.evaluate.cells.forest import GROUP, KEEP_CELLS, Forest, Shape
from janossy.orderings.rows import Bucket
from janossy.orderings.templates import injective_tuples
from janossy.sets.transfer import upload


@dataclass(frozen=True, eq=False)
class PrefixTree:
    """The rows of one set with their beginnings shared: a node for every distinct beginning (docs/recurrences.md).

    The rows are all arrangements of k elements, Σ_j n!/(n − j)! nodes for j ≤ k, or the increasing ones. Equal elements
    may be of one kind. Arrangements that look alike are then one row.

    Shapes:
        parents: (M_j,) for each length j of a beginning, the node that a beginning prolongs, never falling.
        kinds: (M_j,) for each length j, the kind of element that is added, -1 for the zero vector.
        shares: (R,), the share of all arrangements that each row stands for. Their number may be beyond a float.
    """

    parents: list[np.ndarray]
    kinds: list[np.ndarray]
    shares: np.ndarray

    @property
    def num_rows(self) -> int:
        return len(self.shares)

    @property
    def num_nodes(self) -> int:
        return sum(len(level) for level in self.parents)

    def between(self, first: int, last: int) -> "PrefixTree":
        """Returns the part of the tree that holds the rows from first to last (exclusive)."""
        shares = self.shares[first:last]
        parents, kinds = [], []
        for level_parents, level_kinds in zip(reversed(self.parents), reversed(self.kinds), strict=True):
            above = level_parents[first:last]
            kinds.append(level_kinds[first:last])
            first, last = int(above[0]), int(above[-1]) + 1
            parents.append(above - first)
        return PrefixTree(parents[::-1], kinds[::-1], shares)

    def branches(self, at_most: int = 64) -> list["PrefixTree"]:
        """Returns parts of the tree that share nothing, in order."""
        starts = np.arange(self.num_rows)
        for level_parents in reversed(self.parents[1:]):
            starts = level_parents[starts]
        bounds = np.flatnonzero(np.diff(starts, prepend=-1, append=-1))
        several = -(-(len(bounds) - 1) // at_most)
        bounds = np.append(bounds[:-1:several], bounds[-1])
        return [self.between(a, b) for a, b in pairwise(bounds.tolist())]


def prefix_tree(multiplicities: tuple[int, ...], k: int, *, increasing: bool) -> PrefixTree:
    """Returns the tree of a set with these numbers of elements per kind.

    Rows longer than the set are filled up with the zero vector. Increasing rows take kinds of one element each, in
    their order.
    """
    num_elements = sum(multiplicities)
    real = min(k, num_elements)
    num_rows = comb(num_elements, real) if increasing else num_arrangements(multiplicities, real)
    return (_kept_tree if num_rows * k <= KEEP_CELLS else _new_tree)(multiplicities, k, increasing)


@lru_cache(maxsize=1024)
def num_arrangements(multiplicities: tuple[int, ...], k: int) -> int:
    """Counts the arrangements of k elements that look different, from the numbers of elements per kind."""
    if max(multiplicities, default=1) == 1:
        return perm(len(multiplicities), k)
    counts = [1] + [0] * k  # of 0 … k elements of the kinds so far
    for alike in multiplicities:
        counts = [sum(comb(j, t) * counts[j - t] for t in range(min(alike, j) + 1)) for j in range(k + 1)]
    return counts[k]


def num_arranged(bucket: Bucket) -> int | None:
    """Returns the size of the bucket's sets if its rows are all arrangements of their elements, in order; else None.

    Sets of one row are excluded.
    """
    if len(bucket.local) > 1 or bucket.num_rows < 2 or bucket.length == 0 or bucket.local.is_cuda:
        return None  # a look at a GPU's rows would wait for it
    n = int(bucket.local.max()) + 1
    if bucket.num_rows != perm(n, min(n, bucket.length)):
        return None
    return n if torch.equal(bucket.local[0], injective_tuples(n, bucket.length)) else None


def num_nodes(n: int, k: int, *, increasing: bool) -> tuple[float, float]:
    """Counts the nodes of the tree of n unequal elements, and those that end a row; at most 1e200 per length."""
    real = min(n, k)
    levels = [1.0]
    for j in range(1, real + 1):
        more = levels[-1] * (n - real + j) / j if increasing else levels[-1] * (n - j + 1)
        levels.append(min(more, 1e200))
    levels += levels[-1:] * (k - real)
    return sum(levels[1:]), levels[-1] if k > 0 else 0.0


def _new_tree(multiplicities: tuple[int, ...], k: int, increasing: bool) -> PrefixTree:
    left = np.array([multiplicities], dtype=np.int64)
    shares = np.ones(1)
    parents, kinds = [], []
    real = min(k, sum(multiplicities))
    for length in range(1, k + 1):
        if length > real:
            level_parents, level_kinds = np.arange(len(shares)), np.full(len(shares), -1)
        else:
            level_parents, level_kinds = np.nonzero(_may_follow(left, real - length, increasing))
            of_left = left / left.sum(1, keepdims=True)
            shares = shares[level_parents] * of_left[level_parents, level_kinds]
            if length < real:
                left = left[level_parents]
                left[np.arange(len(left)), level_kinds] -= 1
                if increasing:
                    left[np.arange(left.shape[1]) < level_kinds[:, None]] = 0
        parents.append(level_parents)
        kinds.append(level_kinds)
    if increasing:
        shares = np.full(len(shares), 1 / len(shares))
    return PrefixTree(parents, kinds, shares)


_kept_tree = lru_cache(maxsize=16)(_new_tree)


def _may_follow(left: np.ndarray, num_later: int, increasing: bool) -> np.ndarray:
    """Returns True for the kinds that may come next, (M, kinds), given the numbers of elements left."""
    if not increasing:
        return left > 0
    behind = left.sum(1, keepdims=True) - left.cumsum(1)
    return cast(np.ndarray, (left > 0) & (behind >= num_later))


def prefixes(tree: PrefixTree, elements: Tensor) -> Forest:
    """Returns the rows of sets that all have this tree.

    Rows are numbered set by set. Every branch is a separate tree, so that threads share the work.

    Shapes: elements (S, kinds + 1), one of each kind, the zero vector's last.
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
    shape = Shape(np.concatenate(parents), np.concatenate(ends), np.array(levels), np.array(trees))
    of_kinds = upload(np.concatenate(kinds), elements.device)
    return Forest(_joined([(shape, num_sets)]), elements[:, of_kinds].flatten())


def stems(tree: PrefixTree, elements: Tensor, length: int) -> Forest:
    """Returns the tree's rows behind stems of ``length`` elements.

    Rows are numbered stem by stem. Eight stems are a tree of the forest, as many rows as a kernel multiplies at once.

    Shapes: elements (S, length + kinds + 1), the zero vector's last.
    """
    num_stems, num_columns = elements.shape
    whole = num_stems // GROUP
    shapes, reads = [], []
    for piece, size in ((elements[: GROUP * whole], GROUP), (elements[GROUP * whole :], num_stems % GROUP)):
        if len(piece):
            shape, columns = _stems(tree, length, size, num_columns)
            shapes += [(shape, len(piece) // size)]
            reads.append(piece.reshape(-1, size * num_columns)[:, upload(columns, piece.device)].flatten())
    return Forest(_joined(shapes), torch.cat(reads) if reads else elements.new_zeros(0))


def _stems(tree: PrefixTree, length: int, size: int, num_columns: int) -> tuple[Shape, np.ndarray]:
    """Returns one tree of ``size`` stems, and which of the stems' elements each cell reads."""
    parents_of_levels = [np.zeros(1, np.int64)] * length + tree.parents
    columns_of_levels = [np.array([t]) for t in range(length)] + [
        np.where(kinds >= 0, length + kinds, num_columns - 1) for kinds in tree.kinds
    ]
    stem = np.arange(size)[:, None]
    parents, columns, levels = [], [], [0]
    above, width = -1, 0
    for level_parents, level_columns in zip(parents_of_levels, columns_of_levels, strict=True):
        behind = above + stem * width + level_parents if levels[1:] else np.full((size, len(level_parents)), -1)
        parents.append(behind.reshape(-1))
        columns.append((stem * num_columns + level_columns).reshape(-1))
        above, width = levels[-1], len(level_parents)
        levels.append(above + size * width)
    num_rows = size * tree.num_rows
    ends = np.arange(levels[-1] - num_rows, levels[-1]) if parents else np.full(num_rows, -1)
    none = np.zeros(0, np.int64)
    shape = Shape(
        np.concatenate([none, *parents]), ends, np.array(levels), np.array([0, len(levels) - 1] if parents else [0])
    )
    return shape, np.concatenate([none, *columns])


def _joined(shapes: list[tuple[Shape, int]]) -> Shape:
    """Returns one shape of these shapes behind each other, each repeated as often as given."""
    parents, ends, levels, trees = ([np.zeros(0, np.int64)] for _ in range(4))
    num_cells = num_levels = 0
    for shape, times in shapes:
        cells, deep = shape.num_cells, len(shape.levels) - 1
        parents.append(_repeated(shape.parents, times, cells, num_cells))
        ends.append(_repeated(shape.ends, times, cells, num_cells))
        levels.append(_repeated(shape.levels[:-1], times, cells, num_cells))
        trees.append(_repeated(shape.trees[:-1], times, deep, num_levels))
        num_cells += times * cells
        num_levels += times * deep
    return Shape(
        np.concatenate(parents),
        np.concatenate(ends),
        np.append(np.concatenate(levels), num_cells),
        np.append(np.concatenate(trees), num_levels),
    )


def _repeated(numbers: np.ndarray, times: int, shift: int, first: int) -> np.ndarray:
    """Returns the numbers plus ``first``, repeated, each time shifted once more; -1 stays."""
    shifted = numbers + first + shift * np.arange(times)[:, None]
    return np.where(numbers >= 0, shifted, -1).reshape(-1)
