"""Values of codes, such as the mean target of the sets that hold them: their statistics over each set."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from janossy.nn.statistics.names import ColumnNames
from janossy.nn.statistics.sorted_sets import SortedSets


class CodeValues(nn.Module):
    """The mean, minimum, maximum and sum over each set of values that each code of a column has.

    Buffers: ``values`` (num_values, width) float32.

    Args:
        column: the number of the column of codes.
        num_values: the number of codes of the column.
        width: the number of values per code, such as one per class.

    Shapes: B sets -> (B, 4 · width); 0 for empty sets.
    """

    values: Tensor

    def __init__(self, column: int, *, num_values: int, width: int) -> None:
        super().__init__()
        self.column, self.num_values, self.width = column, num_values, width
        self.out_features = 4 * width
        self.register_buffer("values", torch.zeros(num_values, width, dtype=torch.float32))

    def codes_of(self, sets: SortedSets) -> tuple[Tensor, Tensor]:
        """Returns the code of each element, (N,), and the set that it is in, (N,)."""
        return sets.codes[:, self.column], sets.owners

    def check_columns(self, vocabularies: Sequence[int], num_numbers: int) -> None:
        """Raises a ValueError unless the column has ``num_values`` codes."""
        if not 0 <= self.column < len(vocabularies) or vocabularies[self.column] != self.num_values:
            raise ValueError(
                f"CodeValues of column {self.column} expects {self.num_values} codes; got {list(vocabularies)}."
            )

    def forward(self, sets: SortedSets) -> Tensor:
        values = self.values[sets.codes[:, self.column]].double()
        extremes = [sets.reduced(values, "min"), sets.reduced(values, "max")]
        return torch.cat([sets.means(values), *extremes, sets.reduced(values, "sum")], dim=1)

    def names(self, columns: ColumnNames) -> list[str]:
        """Returns the names of the features."""
        kinds = ("mean", "min", "max", "sum")
        return [f"{kind} target {i} of {columns.elements[self.column]}" for kind in kinds for i in range(self.width)]


class ContextCodeValues(nn.Module):
    """The values of each set's code in a column of its own.

    Buffers: ``values`` (num_values, width) float32.

    Args:
        column: the number of the column of codes in the context.
        num_values: the number of codes of the column.
        width: the number of values per code, such as one per class.

    Shapes: B sets with context (B, columns) -> (B, width).
    Raises: ValueError for sets without such a column.
    """

    values: Tensor

    def __init__(self, column: int, *, num_values: int, width: int) -> None:
        super().__init__()
        self.column, self.num_values, self.width = column, num_values, width
        self.out_features = width
        self.register_buffer("values", torch.zeros(num_values, width, dtype=torch.float32))

    def codes_of(self, sets: SortedSets) -> tuple[Tensor, Tensor]:
        """Returns the code of each set, (B,), and its number, (B,)."""
        if sets.context is None or not 0 <= self.column < sets.context.shape[1]:
            got = None if sets.context is None else tuple(sets.context.shape)
            raise ValueError(f"ContextCodeValues expects a context with a column {self.column}; got {got}.")
        codes = sets.context[:, self.column].long()
        return codes, torch.arange(len(codes), device=codes.device)

    def check_columns(self, vocabularies: Sequence[int], num_numbers: int) -> None:
        """Accepts all columns of elements."""

    def forward(self, sets: SortedSets) -> Tensor:
        return self.values[self.codes_of(sets)[0]].double()

    def names(self, columns: ColumnNames) -> list[str]:
        """Returns the names of the features."""
        return [f"target {i} of {columns.context[self.column]}" for i in range(self.width)]
