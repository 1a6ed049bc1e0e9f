"""Statistics of columns of numbers: moments, quantiles, and the values at the extremes of other columns."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from janossy.nn.statistics.names import ColumnNames
from janossy.nn.statistics.sorted_sets import SortedSets

MOMENTS = ("mean", "std", "min", "max", "sum")


class NumberStatistics(nn.Module):
    """The mean, standard deviation, minimum, maximum, sum and quantiles of each column of numbers.

    Args:
        num_numbers: the number of columns.
        quantiles: levels between 0 and 1, interpolated linearly as by ``torch.quantile``.
        moments: some of "mean", "std", "min", "max" and "sum".

    Shapes: B sets -> (B, num_numbers · (moments + quantiles)); 0 for empty sets.
    """

    def __init__(
        self,
        num_numbers: int,
        *,
        quantiles: Sequence[float] = (0.25, 0.5, 0.75),
        moments: Sequence[str] = MOMENTS,
    ) -> None:
        super().__init__()
        self.num_numbers, self.quantiles = num_numbers, [float(level) for level in quantiles]
        self.moments = list(moments)
        if unknown := [name for name in self.moments if name not in MOMENTS]:
            raise ValueError(
                f"NumberStatistics expects moments among {', '.join(MOMENTS)}; got {', '.join(map(repr, unknown))}."
            )
        if not all(0 <= level <= 1 for level in self.quantiles):
            raise ValueError(f"NumberStatistics expects quantiles between 0 and 1; got {self.quantiles}.")
        self.out_features = num_numbers * (len(self.moments) + len(self.quantiles))

    def check_columns(self, vocabularies: Sequence[int], num_numbers: int) -> None:
        """Raises a ValueError unless there are ``num_numbers`` columns of numbers."""
        if num_numbers != self.num_numbers:
            raise ValueError(f"NumberStatistics expects {self.num_numbers} columns of numbers; got {num_numbers}.")

    def forward(self, sets: SortedSets) -> Tensor:
        x, mean, found = sets.numbers, sets.means(sets.numbers), [sets.numbers.new_zeros(len(sets), 0)]
        for name in self.moments:
            if name == "mean":
                found.append(mean)
            elif name == "std":
                found.append(sets.means((x - mean[sets.owners]).square()).sqrt())
            else:
                found.append(sets.reduced(x, name))
        return torch.cat([*found, *self._quantiles(sets)], dim=1)

    def _quantiles(self, sets: SortedSets) -> list[Tensor]:
        if not self.quantiles or not len(sets.numbers):
            return [sets.numbers.new_zeros(len(sets), self.num_numbers) for _ in self.quantiles]
        x = sets.numbers
        order = x.argsort(dim=0)
        order = order.gather(0, sets.owners[order].argsort(dim=0, stable=True))
        x = x.gather(0, order)
        found = []
        for level in self.quantiles:
            place = level * (sets.sizes - 1).clamp_min(0).double()
            low = place.floor().long()
            high = place.ceil().long()
            first = sets.starts.clamp_max(len(x) - 1)
            below, above = (x[(first + at).clamp_max(len(x) - 1)] for at in (low, high))
            part = (place - low)[:, None]
            step = ((above - below) * part).where(part > 0, 0.0)  # 0 · inf would be NaN
            found.append((below + step).where(sets.sizes[:, None] > 0, 0.0))
        return found

    def names(self, columns: ColumnNames) -> list[str]:
        """Returns the names of the features."""
        kinds = [*self.moments, *(f"quantile {level:g}" for level in self.quantiles)]
        return [f"{kind} of {column}" for kind in kinds for column in columns.numbers]


class OthersAtExtremes(nn.Module):
    """Each column of numbers at the elements where another column is least, and where it is largest.

    If several elements tie as extreme, it is their mean.

    Shapes: B sets -> (B, 2 · num_numbers · (num_numbers - 1)); 0 for empty sets.
    """

    def __init__(self, num_numbers: int) -> None:
        super().__init__()
        self.num_numbers = num_numbers
        self.out_features = 2 * num_numbers * (num_numbers - 1)

    def check_columns(self, vocabularies: Sequence[int], num_numbers: int) -> None:
        """Raises a ValueError unless there are ``num_numbers`` columns of numbers."""
        if num_numbers != self.num_numbers:
            raise ValueError(f"OthersAtExtremes expects {self.num_numbers} columns of numbers; got {num_numbers}.")

    def forward(self, sets: SortedSets) -> Tensor:
        x, owners, found = sets.numbers, sets.owners, [sets.numbers.new_zeros(len(sets), 0)]
        for reduction in ("min", "max"):
            extreme = sets.reduced(x, reduction)
            for j in range(self.num_numbers):
                there = (x[:, j] == extreme[owners, j]).double()[:, None]
                others = torch.cat([x[:, :j], x[:, j + 1 :]], dim=1)
                found.append(sets.reduced(others * there, "sum") / sets.reduced(there, "sum").clamp_min(1))
        return torch.cat(found, dim=1)

    def names(self, columns: ColumnNames) -> list[str]:
        """Returns the names of the features."""
        return [
            f"{other} where {column} is {kind}"
            for kind in ("least", "largest")
            for column in columns.numbers
            for other in columns.numbers
            if other != column
        ]
