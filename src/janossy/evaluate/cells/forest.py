"""Rows of a recurrence as a forest of cells: each cell reads an element after the state of its parent.

A row is a path. Paths are separate (``paths``) or share their beginnings (``prefix_tree.py``). Both are evaluated by
``layers.py``. The shape of a forest depends on the sizes of the sets alone, so it is made on the host, once.
"""

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from janossy.sets.transfer import keep

GROUP = 8
"""The paths in a tree: the number of rows that a kernel multiplies at once."""

KEEP_CELLS = 2**16
"""The most cells of a shape that is kept (two megabytes); larger ones are made at every call."""


@dataclass(frozen=True, eq=False)
class Shape:
    """Cells ordered by tree, then by level, then by parent; arrays of int64.

    Shapes:
        parents: (C,), the parent of each cell, -1 at a root.
        ends: (T,), the cell at which each row ends, -1 for a row of length 0.
        levels: (V + 1,), the first cell of each level.
        trees: (G + 1,), the first level of each tree.
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
        """The row that ends at each cell, or -1."""
        rows = np.full(self.num_cells, -1)
        real = np.flatnonzero(self.ends >= 0)
        rows[self.ends[real]] = real
        return rows

    @cached_property
    def largest_tree(self) -> int:
        """The number of cells of the largest tree."""
        return int(np.diff(self.levels[self.trees]).max(initial=0))

    def slabs(self, num_cells: int) -> list[np.ndarray]:
        """Returns the trees, in stretches of about ``num_cells`` cells."""
        if 0 < self.num_cells <= num_cells:
            return [self.trees]
        begins = self.levels[self.trees]
        cuts = np.searchsorted(begins, np.arange(0, self.num_cells, max(1, num_cells)))
        return [self.trees[a : b + 1] for a, b in pairwise(np.unique([*cuts, len(self.trees) - 1]))]

    @cached_property
    def before(self) -> np.ndarray:
        """The parent of each cell; at a root C, which stands for the zero state."""
        return np.where(self.parents >= 0, self.parents, self.num_cells)

    @cached_property
    def by_depth(self) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
        """The cells of each depth, over all trees, and their parents among the cells of the depth before.

        The third result is each cell's place when the depths are put behind each other.
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

    @cached_property
    def in_order(self) -> list[bool]:
        """True, per depth, if its parents are the first cells of the depth before, in order, as they are with paths."""
        return [np.array_equal(parents, np.arange(len(parents))) for parents in self.by_depth[1]]

    def by_depth_on(self, device: torch.device) -> "Depths":
        """Returns ``by_depth`` on this device; it is sent there once, in one piece."""
        cells, parents, place = self.by_depth
        ends = np.where(self.ends >= 0, place[self.ends], len(place)) if len(place) else -1 - self.ends
        arrays, num = [*cells, *parents, place, ends], len(cells)
        parts = self.sent(device, "depths", np.concatenate(arrays)).split([len(x) for x in arrays])
        return Depths(parts[:num], parts[num : 2 * num], *parts[2 * num :])

    def sent(self, device: torch.device, name: str, numbers: np.ndarray) -> Tensor:
        """Returns these numbers, which follow from the shape, on this device; they are sent to CUDA once."""
        return keep(self._sent[name], device, lambda: numbers)

    @cached_property
    def _sent(self) -> dict[str, dict[torch.device, Tensor]]:
        return defaultdict(dict)


class Depths(NamedTuple):
    """Cells depth by depth: their numbers, their parents in the depth before, their places, and the ends of rows.

    Places count the cells when the depths follow each other. The end of a row of length 0 is one behind the last.
    """

    cells: tuple[Tensor, ...]
    parents: tuple[Tensor, ...]
    place: Tensor
    ends: Tensor


@dataclass(frozen=True, eq=False)
class Forest:
    """A shape, and the element that each cell reads.

    Shapes: elements (C,), int64. mirror (C,), for paths: the cell as far from the row's end as this cell is from its
        beginning. The direction that reads rows backwards uses it.
    """

    shape: Shape
    elements: Tensor
    mirror: Tensor | None = None

    @property
    def num_rows(self) -> int:
        return len(self.shape.ends)

    @property
    def num_cells(self) -> int:
        return self.shape.num_cells


def paths(positions: list[Tensor]) -> Forest:
    """Returns rows that share nothing: positions (T_i, L_i) of elements, the longest first.

    Rows are numbered as they come.
    """
    shapes = tuple((x.shape[0], x.shape[1]) for x in positions)
    flat = (
        torch.cat([x.reshape(-1) for x in positions]) if positions else torch.zeros(0, dtype=torch.long, device="cpu")
    )
    shape, mirror, cells = _paths(shapes)
    return Forest(shape, flat[shape.sent(flat.device, "cells", cells)], shape.sent(flat.device, "mirror", mirror))


def _paths(shapes: tuple[tuple[int, int], ...]) -> tuple[Shape, np.ndarray, np.ndarray]:
    """Returns the shape of (T_i, L_i) rows and lengths, the mirrored cells, and the entry that each cell reads."""
    return (_kept_paths if sum(num * length for num, length in shapes) <= KEEP_CELLS else _new_paths)(shapes)


def _new_paths(shapes: tuple[tuple[int, int], ...]) -> tuple[Shape, np.ndarray, np.ndarray]:
    lengths = np.repeat([length for _, length in shapes], [num for num, _ in shapes]).astype(np.int64)
    real = lengths[: np.count_nonzero(lengths)]  # those of length 0 come last
    tree_lengths = real[::GROUP]
    trees = _starts(tree_lengths)
    # The rows of a tree that are longer than t, for each of its levels t.
    tree_of_level = np.repeat(np.arange(len(tree_lengths)), tree_lengths)
    t_of_level = np.arange(trees[-1]) - trees[tree_of_level]
    padded = np.zeros(len(tree_lengths) * GROUP, np.int64)
    padded[: len(real)] = real
    levels = _starts((padded.reshape(-1, GROUP)[tree_of_level] > t_of_level[:, None]).sum(1))
    # The entries of the rows, one row after the other.
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


_kept_paths = lru_cache(maxsize=8)(_new_paths)


def _starts(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(sizes)))
