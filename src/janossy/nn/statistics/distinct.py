"""Counts of the different values in each set."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from janossy.nn.statistics.names import ColumnNames
from janossy.nn.statistics.sorted_sets import SortedSets


class DistinctCounts(nn.Module):
    """The number of different values in each set, per column.

    Args:
        columns: the numbers of the columns: codes first, then numbers.
        num_codes: the number of columns of codes.

    Shapes: B sets -> (B, columns); 0 for empty sets.
    """

    def __init__(self, columns: Sequence[int], *, num_codes: int) -> None:
        super().__init__()
        self.columns, self.num_codes = list(columns), num_codes
        self.out_features = len(self.columns)

    def check_columns(self, vocabularies: Sequence[int], num_numbers: int) -> None:
        """Raises a ValueError unless there are ``num_codes`` columns of codes, and all ``columns`` exist."""
        num_columns = self.num_codes + num_numbers
        if self.num_codes != len(vocabularies) or not all(0 <= column < num_columns for column in self.columns):
            raise ValueError(
                f"DistinctCounts of columns {self.columns}, after {self.num_codes} of codes, expects such columns; "
                f"got {len(vocabularies)} of codes and {num_numbers} of numbers."
            )

    def forward(self, sets: SortedSets) -> Tensor:
        found = [sets.numbers.new_zeros(len(sets), 0)]
        for column in self.columns:
            is_code = column < self.num_codes
            values = sets.codes[:, column] if is_code else sets.numbers[:, column - self.num_codes]
            distinct, places = values.unique(return_inverse=True)
            of_set = (sets.owners * len(distinct) + places).unique() // max(1, len(distinct))
            found.append(of_set.bincount(minlength=len(sets)).double()[:, None])
        return torch.cat(found, dim=1)

    def names(self, columns: ColumnNames) -> list[str]:
        """Returns the names of the features."""
        return [f"distinct values of {columns.elements[column]}" for column in self.columns]
