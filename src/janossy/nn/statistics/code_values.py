"""Values of codes, such as the mean target of the sets that hold them: their statistics over each set."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from janossy.nn.statistics.names import ColumnNames
from janossy.nn.statistics.sorted_sets import SortedSets


class CodeValues(nn.Module):
    """The mean, minimum and maximum over each set of values that each code of a column has.

    Buffers: ``values`` (num_values, width) float32.

    Args:
        column: the number of the column of codes.
        num_values: the number of codes of the column.
        width: the number of values per code, such as one per class.

    Shapes: B sets -> (B, 3 · width); 0 for empty sets.
    """

    values: Tensor

    def __init__(self, column: int, *, num_values: int, width: int) -> None:
        super().__init__()
        self.column, self.num_values, self.width = column, num_values, width
        self.out_features = 3 * width
        self.register_buffer("values", torch.zeros(num_values, width, dtype=torch.float32))

    def check_columns(self, vocabularies: Sequence[int], num_numbers: int) -> None:
        """Raises a ValueError unless the column has ``num_values`` codes."""
        if not 0 <= self.column < len(vocabularies) or vocabularies[self.column] != self.num_values:
            raise ValueError(
                f"CodeValues of column {self.column} expects {self.num_values} codes; got {list(vocabularies)}."
            )

    def forward(self, sets: SortedSets) -> Tensor:
        values = self.values[sets.codes[:, self.column]].double()
        return torch.cat([sets.means(values), sets.reduced(values, "min"), sets.reduced(values, "max")], dim=1)

    def names(self, columns: ColumnNames) -> list[str]:
        """Returns the names of the features."""
        kinds = ("mean", "min", "max")
        return [f"{kind} target {i} of {columns.elements[self.column]}" for kind in kinds for i in range(self.width)]
