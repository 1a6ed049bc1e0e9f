"""Layout: what the columns of an encoded tensor mean."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

SKEWED = 2.5
"""Numbers are skewed if one of the bins of equally many of them is so many times as wide as half of the bins."""

SPAN = 20.0
"""Numbers are amounts if their mean and standard deviation together are so many times the smallest of them."""


@dataclass(frozen=True)
class Layout:
    """The columns of a float tensor (N, num_columns): first one of codes for each categorical column, then numbers.

    ``vocabularies``: how many codes each categorical column has, 0, the unknown, included. Codes are whole numbers in
    float32, which holds them exactly up to 2^24. ``names``: of all columns. ``means`` and ``scales``: what was
    subtracted from each column of numbers, and what it was divided by. ``periods``: per column of numbers, 2π or 360
    if its values are angles, else 0. Each may be empty, where nothing is known. ``smallest``: the smallest positive
    number of each column, 0 without any, and -1 if there are negative ones. ``quantiles``: those of each column, before
    it was standardised. ``largest_size``: the size of a set
    that a network is to be told of larger ones too.
    """

    vocabularies: tuple[int, ...] = ()
    num_numbers: int = 0
    names: tuple[str, ...] = ()
    scales: tuple[float, ...] = ()
    periods: tuple[float, ...] = ()
    largest_size: int | None = None
    means: tuple[float, ...] = ()
    smallest: tuple[float, ...] = ()
    quantiles: tuple[tuple[float, ...], ...] = field(default=(), repr=False)

    @property
    def num_columns(self) -> int:
        return len(self.vocabularies) + self.num_numbers

    def column(self, name: Any) -> int:
        """The number of a column, from its name or from itself, which in JSON's keys is text.

        Raises: ValueError for a column that there is not.
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
        """The columns of numbers that span orders of magnitude: each with its mean, its scale and its smallest number.

        Columns are counted from the first number. Angles are not amounts.
        """
        known = zip(self.means, self.scales, self.smallest, self.periods, strict=True) if self.means else ()
        return [
            (j, mean, scale, smallest)
            for j, (mean, scale, smallest, period) in enumerate(known)
            if smallest > 0 and not period and abs(mean) + scale > SPAN * smallest
        ]

    @property
    def skewed(self) -> list[tuple[int, list[float]]]:
        """The columns of numbers whose distribution is skewed: each with its quantiles, as standardised.

        Columns are counted from the first number. Angles are not skewed.
        """
        found = []
        for j, knots in enumerate(self.quantiles):
            gaps = np.diff(knots)[1:-1]  # the outermost bins are wide in any case
            if len(gaps) and self.scales[j] and not self.periods[j] and gaps.max() > SKEWED * np.median(gaps):
                found.append((j, ((np.array(knots) - self.means[j]) / self.scales[j]).tolist()))
        return found

    def scale(self, column: int) -> float:
        """Returns what a column of numbers was divided by, 1 if that is not known."""
        place = column - len(self.vocabularies)
        return (self.scales[place] if self.scales and place >= 0 else 0.0) or 1.0
