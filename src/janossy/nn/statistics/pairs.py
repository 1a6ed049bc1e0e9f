"""Pairs of cells that are in a set together."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from janossy.nn.statistics.cells import CellCounts
from janossy.nn.statistics.names import ColumnNames
from janossy.nn.statistics.sorted_sets import SortedSets


class CellPairs(nn.Module):
    """1 for each pair of cells that are both in a set, else 0. A cell paired with itself must be there twice.

    Buffers: ``pairs`` (num_pairs, 2) int64, the places of both cells among the cells of ``bag``.

    Args:
        bag: a ``CellCounts`` of scheme "count".

    Shapes: B sets -> (B, num_pairs).
    """

    pairs: Tensor

    def __init__(self, bag: CellCounts, *, num_pairs: int) -> None:
        super().__init__()
        if not isinstance(bag, CellCounts) or bag.scheme != "count":
            raise ValueError(f"CellPairs expects a CellCounts of scheme 'count'; got {bag!r}.")
        self.bag, self.num_pairs = bag, num_pairs
        self.out_features = num_pairs
        self.register_buffer("pairs", torch.zeros(num_pairs, 2, dtype=torch.int64))

    def forward(self, sets: SortedSets) -> Tensor:
        counts: Tensor = self.bag(sets)
        first, second = self.pairs.unbind(1)
        needed = 1 + (first == second).double()
        return ((counts[:, first] >= needed) & (counts[:, second] > 0)).double()

    def check_columns(self, vocabularies: Sequence[int], num_numbers: int) -> None:
        """Raises a ValueError for columns that the bag does not count."""
        self.bag.check_columns(vocabularies, num_numbers)

    def check_buffers(self) -> None:
        """Raises a ValueError for buffers that no fit writes."""
        if ((self.pairs < 0) | (self.pairs >= self.bag.out_features)).any():
            raise ValueError(f"CellPairs expects pairs of {self.bag.out_features} cells; got others.")

    def names(self, columns: ColumnNames) -> list[str]:
        """Returns the names of the features."""
        cells = [name.removeprefix("count of ") for name in self.bag.names(columns)]
        return [f"{cells[i]} with {cells[j]}" for i, j in self.pairs.tolist()]
