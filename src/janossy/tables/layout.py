"""Layout: the meaning of an encoded tensor's columns."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

SKEWED = 2.5
"""Numbers are skewed if the widest of their quantile bins is more than this many times as wide as the median bin."""

BEYOND = 0.1
"""The part of a column's range by which numbers may lie outside it before networks take them as its limit."""

SPAN = 20.0
"""Numbers are amounts if mean plus standard deviation is more than this many times the smallest number."""


@dataclass(frozen=True)
class Layout:
    """The columns of a float tensor (N, num_columns): first a column of codes per categorical column, then numbers.

    Fields may be empty if nothing is known. Those of numbers have one entry per column of numbers:

    - ``vocabularies``: the number of codes of each categorical column, with code 0 for unknown values. Codes are whole
      numbers in float32, which is exact up to 2^24.
    - ``names``: the names of all columns.
    - ``means`` and ``scales``: what was subtracted from each column of numbers, and what it was divided by.
    - ``periods``: 2π or 360 if the values are angles, else 0.
    - ``smallest``: the smallest positive number, 0 if no number is positive, and -1 if there are negative numbers.
    - ``ranges``: the smallest and the largest number of each column before standardisation, equal if unknown.
    - ``quantiles``: those of each column before standardisation.
    - ``values``: the different values of each column before standardisation, if they may be codes.
    - ``inner``: True for sets of sets. Behind these columns there is one more: the number of the element's inner set.
    - ``largest_size``: the set size that a network reads for all larger sets too; None if sizes are read as they are.
    """

    vocabularies: tuple[int, ...] = ()
    num_numbers: int = 0
    names: tuple[str, ...] = ()
    scales: tuple[float, ...] = ()
    periods: tuple[float, ...] = ()
    largest_size: int | None = None
    inner: bool = False
    means: tuple[float, ...] = ()
    smallest: tuple[float, ...] = ()
    ranges: tuple[tuple[float, float], ...] = ()
    quantiles: tuple[tuple[float, ...], ...] = field(default=(), repr=False)
    values: tuple[tuple[float, ...], ...] = field(default=(), repr=False)

    @property
    def num_columns(self) -> int:
        return len(self.vocabularies) + self.num_numbers

    @property
    def width(self) -> int:
        """The number of columns of the tensor, with that of inner sets."""
        return self.num_columns + self.inner

    def column(self, name: Any) -> int:
        """Returns the position of a column from its name or from its position, which is text in JSON's keys.

        Raises: ValueError for a column that does not exist.
        """
        if name in self.names:
            return self.names.index(name)
        numbers = range(self.num_columns)
        if str(name) not in map(str, numbers) or isinstance(name, bool | float):
            names = ", ".join(self.names[:12]) + ", …" * (len(self.names) > 12)
            known = names or "known by number only"
            raise ValueError(f"features expects columns 0 … {self.num_columns - 1}, {known}; got {name!r}.")
        return int(name)

    @property
    def amounts(self) -> list[tuple[int, float, float, float]]:
        """The columns of numbers that span orders of magnitude: each with its mean, scale and smallest number.

        Columns are counted from the first column of numbers. Angles are not amounts.
        """
        known = zip(self.means, self.scales, self.smallest, self.periods, strict=True) if self.means else ()
        return [
            (j, mean, scale, smallest)
            for j, (mean, scale, smallest, period) in enumerate(known)
            if smallest > 0 and not period and abs(mean) + scale > SPAN * smallest
        ]

    @property
    def limits(self) -> list[tuple[int, float, float]]:
        """The limits of each column of numbers, standardised: its range in training, a tenth wider at each end.

        Columns are counted from the first column of numbers. Angles have no limits.
        """
        known = zip(self.ranges, self.means, self.scales, self.periods, strict=True) if self.ranges else ()
        return [
            (j, (low - BEYOND * (high - low) - mean) / scale, (high + BEYOND * (high - low) - mean) / scale)
            for j, ((low, high), mean, scale, period) in enumerate(known)
            if low < high and scale and not period
        ]

    @property
    def skewed(self) -> list[tuple[int, list[float]]]:
        """The columns of numbers whose distribution is skewed: each with its quantiles, standardised.

        Columns are counted from the first column of numbers. Angles are not skewed.
        """
        found = []
        for j, knots in enumerate(self.quantiles):
            gaps = np.diff(knots)[1:-1]  # the outermost bins are wide in any case
            if len(gaps) and self.scales[j] and not self.periods[j] and gaps.max() > SKEWED * np.median(gaps):
                found.append((j, ((np.array(knots) - self.means[j]) / self.scales[j]).tolist()))
        return found

    @property
    def coded(self) -> list[tuple[int, list[float]]]:
        """The columns of numbers that may be codes: each with its different values, standardised.

        Columns are counted from the first column of numbers.
        """
        return [
            (j, ((np.array(values) - self.means[j]) / self.scales[j]).tolist())
            for j, values in enumerate(self.values)
            if values and self.scales[j]
        ]

    def scale(self, column: int) -> float:
        """Returns the scale by which a column of numbers was divided, or 1 if it is unknown."""
        place = column - len(self.vocabularies)
        return (self.scales[place] if self.scales and place >= 0 else 0.0) or 1.0
