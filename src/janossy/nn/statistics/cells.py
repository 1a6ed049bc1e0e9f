"""Statistics of cells: how frequent each is in a set, and which ones are together there.

A cell is a category, a bin of a number, or a combination of them.
"""

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor, nn

from janossy.nn.statistics.names import ColumnNames
from janossy.nn.statistics.sorted_sets import MULTIPLIER, SortedSets

SCHEMES = ("count", "fraction", "amount", "mean", "share", "tf-idf")

OF_AMOUNTS = ("amount", "mean", "share")
"""The schemes that add up or average a column of numbers."""

MAX_COMBINATIONS = 2**62
"""The most combinations of the values of several columns, as each is numbered by an int64."""


class CellCounts(nn.Module):
    """Bag of cells: a cell is a value of a column, or a combination of values of several columns.

    Columns are those of encoded elements: first codes, then numbers, which are cut into bins. Cells that are not kept
    share ``num_hashed`` buckets, chosen by a hash. Without buckets they are left out. Cells of code 0 are left out too:
    their category is not in training, so no bucket has a learned weight for it.

    Args:
        columns: the columns that make a cell.
        sizes: the number of values of each of these columns: its codes, or its bins.
        num_codes: the number of encoded columns that are codes.
        num_cells: the number of cells that are kept.
        num_hashed: the number of buckets for all other cells.
        scheme: "count", "fraction" (of the set's elements), "amount" (the sum of a column of amounts), "mean" (of a
            column of numbers), "share" (of the set's sum of amounts; 0 if that is 0) or "tf-idf". The last is counts
            times the logarithm of their inverse frequency, divided by their norm.
        amount: the column of numbers that "amount", "mean" and "share" read, counted from the first number.

    Buffers: ``cells`` (num_cells,) int64, the numbers of the kept cells, ascending. ``edges``, the inner edges of the
        bins of all numbers. ``idf``, the factors of "tf-idf". ``absent``, the values of "mean" for cells that are not
        in a set.

    Shapes: B sets -> (B, num_cells + num_hashed).
    """

    cells: Tensor
    edges: Tensor
    idf: Tensor
    absent: Tensor

    def __init__(
        self,
        columns: Sequence[int],
        *,
        sizes: Sequence[int],
        num_codes: int,
        num_cells: int,
        num_hashed: int = 0,
        scheme: str = "count",
        amount: int | None = None,
    ) -> None:
        super().__init__()
        self.columns, self.sizes, self.num_codes = list(columns), list(sizes), num_codes
        self.num_cells, self.num_hashed, self.scheme, self.amount = num_cells, num_hashed, scheme, amount
        if len(self.columns) != len(self.sizes) or not self.columns or min(self.sizes) < 1 or min(self.columns) < 0:
            raise ValueError(f"CellCounts expects a size >= 1 for each of its columns; got {columns} and {sizes}.")
        if scheme not in SCHEMES or (scheme in OF_AMOUNTS) != (amount is not None):
            raise ValueError(f"CellCounts expects a scheme among {', '.join(SCHEMES)}; got {scheme}, amount={amount}.")
        if prod(self.sizes) > MAX_COMBINATIONS:
            raise ValueError(f"CellCounts expects at most 2^62 combinations; got sizes {sizes}. Give fewer columns.")
        self.out_features = num_cells + num_hashed
        num_edges = sum(size - 1 for column, size in zip(columns, sizes, strict=True) if column >= num_codes)
        self.register_buffer("cells", torch.zeros(num_cells, dtype=torch.int64))
        self.register_buffer("edges", torch.zeros(num_edges, dtype=torch.float64))
        if scheme == "tf-idf":
            self.register_buffer("idf", torch.ones(self.out_features, dtype=torch.float64))
        if scheme == "mean":
            self.register_buffer("absent", torch.zeros(self.out_features, dtype=torch.float64))

    def numbers_of(self, sets: SortedSets) -> Tensor:
        """Returns the number of each element's cell among all combinations, (N,)."""
        found = torch.zeros(len(sets.numbers), dtype=torch.int64, device=sets.sizes.device)
        for i, (column, size) in enumerate(zip(self.columns, self.sizes, strict=True)):
            if column < self.num_codes:
                value = sets.codes[:, column]
            else:
                begin, num = self._edges_at(i)
                numbers = sets.numbers[:, column - self.num_codes].contiguous()
                value = torch.bucketize(numbers, self.edges[begin : begin + num])
            found = found * size + value
        return found

    def places_of(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the position of each element's cell among those that are kept, (N,), and True where there is one."""
        places = torch.searchsorted(self.cells, numbers).clamp_max(max(0, self.num_cells - 1))
        return places, self.cells[places] == numbers if self.num_cells else torch.zeros_like(numbers, dtype=torch.bool)

    def features_of(self, sets: SortedSets) -> tuple[Tensor, Tensor]:
        """Returns the feature that each element counts for, (N,), and True where there is one."""
        numbers = self.numbers_of(sets)
        places, kept = self.places_of(numbers)
        if self.num_hashed:
            hashed = self.num_cells + ((numbers * MULTIPLIER) >> 33) % self.num_hashed
            places, kept = places.where(kept, hashed), kept | self._is_known(sets)
        return places, kept

    def forward(self, sets: SortedSets) -> Tensor:
        width = self.out_features
        places, kept = self.features_of(sets)
        weights = self._amounts(sets)
        flat = (sets.owners * width + places)[kept]
        nothing = torch.zeros(len(sets) * width, dtype=torch.float64, device=flat.device)
        counts = nothing.index_add(0, flat, weights[kept]).view(len(sets), width)
        if self.scheme == "mean":
            num = nothing.index_add(0, flat, torch.ones_like(weights[kept])).view(len(sets), width)
            return (counts / num.clamp_min(1)).where(num > 0, self.absent)
        if self.scheme == "fraction":
            return counts / sets.sizes.clamp_min(1)[:, None]
        if self.scheme == "share":
            total = sets.reduced(weights[:, None], "sum")
            return (counts / total.where(total != 0, 1.0)).where(total != 0, 0.0)
        if self.scheme == "tf-idf":
            counts = counts * self.idf
            return counts / counts.square().sum(1, keepdim=True).sqrt().clamp_min(1e-12)
        return counts

    def _is_known(self, sets: SortedSets) -> Tensor:
        """Returns True for elements without code 0, (N,)."""
        codes = [column for column in self.columns if column < self.num_codes]
        return (sets.codes[:, codes] != 0).all(1)

    def _amounts(self, sets: SortedSets) -> Tensor:
        if self.amount is None:
            return torch.ones(len(sets.numbers), dtype=torch.float64, device=sets.sizes.device)
        return sets.numbers[:, self.amount]

    def check_columns(self, vocabularies: Sequence[int], num_numbers: int) -> None:
        """Raises a ValueError for columns that do not exist, or codes beyond their sizes."""
        num_codes = len(vocabularies)
        fits = num_codes == self.num_codes and max(self.columns) < num_codes + num_numbers
        fits = fits and all(
            column >= num_codes or vocabularies[column] == size
            for column, size in zip(self.columns, self.sizes, strict=True)
        )
        if not fits or not (self.amount is None or 0 <= self.amount < num_numbers):
            raise ValueError(
                f"CellCounts of columns {self.columns} expects codes as it was made for; got {list(vocabularies)} and "
                f"{num_numbers} numbers."
            )

    def check_buffers(self) -> None:
        """Raises a ValueError for buffers that no fit writes."""
        if (self.cells.diff() <= 0).any() or not self.edges.isfinite().all():
            raise ValueError("CellCounts expects cells in ascending order, and edges that are finite; got others.")
        if self.scheme == "mean" and not self.absent.isfinite().all():
            raise ValueError("CellCounts expects finite values for absent cells; got others.")
        for i in range(len(self.columns)):
            begin, num = self._edges_at(i)
            if (self.edges[begin : begin + num].diff() < 0).any():
                raise ValueError("CellCounts expects edges of bins in ascending order; got others.")

    def names(self, columns: ColumnNames) -> list[str]:
        """Returns the names of the features."""
        strides = [prod(self.sizes[i + 1 :]) for i in range(len(self.sizes))]
        kept = [
            " & ".join(
                self._name(columns, i, cell // stride % size)
                for i, (size, stride) in enumerate(zip(self.sizes, strides, strict=True))
            )
            for cell in self.cells.tolist()
        ]
        together = " & ".join(columns.elements[column] for column in self.columns)
        kept += [f"other {together} {i}" for i in range(self.num_hashed)]
        by = "" if self.amount is None else f" of {columns.numbers[self.amount]}"
        return [f"{self.scheme}{by} of {name}" for name in kept]

    def _name(self, columns: ColumnNames, i: int, value: int) -> str:
        """Returns the name of a value of the i-th column."""
        column = self.columns[i]
        if column < self.num_codes:
            return columns.label(column, value)
        begin, num = self._edges_at(i)
        inner = [f"{edge:.6g}" for edge in self.edges[begin : begin + num].tolist()]
        ends = ["-inf", *inner, "inf"]
        return f"{columns.elements[column]} from {ends[value]} to {ends[value + 1]}"

    def _edges_at(self, i: int) -> tuple[int, int]:
        """Returns the place of the i-th column's first edge, and its number of edges."""
        numbers = [
            size - 1 if column >= self.num_codes else 0 for column, size in zip(self.columns, self.sizes, strict=True)
        ]
        return sum(numbers[:i]), numbers[i]


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
