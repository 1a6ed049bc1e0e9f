"""InnerStatistics: statistics of the inner sets of each set, and the statistics of these over the set."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from janossy.nn.statistics.names import ColumnNames
from janossy.nn.statistics.sorted_sets import SortedSets
from janossy.sets import Ragged
from janossy.sets.inner import inner_groups


class InnerStatistics(nn.Module):
    """Statistics of statistics, for sets of sets: a vector of each inner set, and statistics of these vectors.

    Args:
        inner: blocks of statistics, as in ``PooledStatistics``, of the elements of an inner set.
        outer: blocks of statistics of the vectors of a set's inner sets, whose columns are numbers.

    Shapes: B sets of N elements with ``inner`` (N,) -> (B, out_features).
    Invariance: exact, to the last bit, for the order of the elements, and for that of the inner sets.
    Raises: ValueError for sets without inner sets, and for outer blocks of other columns.

    Example:
        >>> block = InnerStatistics([SetSize()], [NumberStatistics(2)])
        >>> statistics = PooledStatistics([block], vocabularies=(), num_numbers=1, inner=True)
        >>> statistics(Ragged.from_sets([torch.tensor([[5.0, 0.0], [6.0, 1.0], [7.0, 0.0]])])).shape
        torch.Size([1, 16])
    """

    def __init__(self, inner: Sequence[nn.Module], outer: Sequence[nn.Module]) -> None:
        super().__init__()
        self.inner, self.outer = nn.ModuleList(inner), nn.ModuleList(outer)
        width = sum(cast(int, block.out_features) for block in inner)
        for block in outer:
            block.check_columns((), width)  # type: ignore[operator]
        self.out_features = sum(cast(int, block.out_features) for block in outer)

    def check_columns(self, vocabularies: Sequence[int], num_numbers: int) -> None:
        """Raises a ValueError unless the inner blocks are of these columns."""
        for block in self.inner:
            block.check_columns(vocabularies, num_numbers)  # type: ignore[operator]

    def forward(self, sets: SortedSets) -> Tensor:
        inner, num_inner = inner_sets(sets)
        vectors = torch.cat([block(inner) for block in self.inner], dim=1)
        outer = SortedSets.of(Ragged.from_sizes(vectors, num_inner.tolist()), 0)
        return torch.cat([block(outer) for block in self.outer], dim=1)

    def names(self, columns: ColumnNames) -> list[str]:
        """Returns the names of the features."""
        inner = [name for block in self.inner for name in block.names(columns)]  # type: ignore[operator]
        outer = [name for block in self.outer for name in block.names(ColumnNames(inner))]  # type: ignore[operator]
        return [f"inner sets: {name}" for name in outer]

    def config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {"inner": list(self.inner), "outer": list(self.outer)}


def inner_sets(sets: SortedSets) -> tuple[SortedSets, Tensor]:
    """Returns the inner sets of all sets, and how many each set has, (B,).

    Raises: ValueError if the elements are not in inner sets.
    """
    if sets.inner is None:
        raise ValueError("InnerStatistics expects PooledStatistics(…, inner=True); got sets without inner sets.")
    order, sizes, num_inner = inner_groups(sets.owners, sets.inner, len(sets))
    found = replace(sets, codes=sets.codes[order], numbers=sets.numbers[order], sizes=sizes, context=None, inner=None)
    return found, num_inner
