"""Statistics of a pass over pieces: those that encode columns, and the classes or standard deviations of targets."""

from collections import Counter
from dataclasses import dataclass, field, replace
from math import hypot, sqrt
from typing import Any

import numpy as np

from janossy.tables.codes import ROUNDING, CategoryCodes, Number, Turns
from janossy.tables.columns import Column, Where
from janossy.tables.encoder import TableEncoder
from janossy.tables.table import SetTable
from janossy.tables.targets import check_no_dates

MAX_CLASSES = 10_000
"""The most classes of a target. A target with more different values has no classes."""


@dataclass(frozen=True)
class Numbers:
    """The statistics of one column's numbers. Two of them can be added.

    ``num`` counts the numbers, ``largest`` is the largest absolute value, and ``turns`` shows whether they are angles.
    """

    code: Number
    num: int
    largest: float
    turns: Turns

    @classmethod
    def of(cls, column: Column, name: str, where: Where) -> "Numbers":
        code = Number.fit(column, name, where)
        numbers = column.numbers()[~column.missing()]
        turns = Turns.of(numbers) if column.kind == "numeric" else Turns()
        return cls(code, len(numbers), float(np.abs(numbers).max(initial=0)), turns)

    def and_(self, other: "Numbers") -> "Numbers":
        """Adds up both. Means and deviations follow Chan, Golub and LeVeque (1979), so that large means lose
        nothing."""
        num = self.num + other.num
        part = other.num / num if num else 0.0
        apart = other.code.mean - self.code.mean
        spread = (sqrt(1 - part) * self.code.scale, sqrt(part) * other.code.scale, sqrt(part * (1 - part)) * apart)
        code = replace(
            self.code,
            mean=self.code.mean + part * apart,
            scale=hypot(*spread),
            missing=self.code.missing or other.code.missing,
            low=min((each.code.low for each in (self, other) if each.num), default=0.0),
            high=max((each.code.high for each in (self, other) if each.num), default=0.0),
            smallest=min((x for x in (self.code.smallest, other.code.smallest) if x), default=0.0),  # -1 stays
        )
        return Numbers(code, num, max(self.largest, other.largest), self.turns.and_(other.turns))

    def fitted(self) -> Number:
        constant = self.code.scale <= ROUNDING * self.largest
        scale = 0.0 if constant else self.code.scale
        return replace(self.code, scale=scale, period=self.turns.period, quantiles=(), values=())


@dataclass
class RunningStatistics:
    """Statistics of columns, targets and set sizes over all pieces that were added, by one process or several."""

    elements: dict[str, Numbers | CategoryCodes] = field(default_factory=dict)
    context: dict[str, Numbers | CategoryCodes] = field(default_factory=dict)
    targets: list[Numbers] = field(default_factory=list)
    classes: list[Counter[Any]] = field(default_factory=list)
    """The number of sets of each class, per column of the targets."""
    num_sets: int = 0
    num_elements: int = 0
    smallest: int = 0
    largest: int = 0
    weight: float = 0.0
    """The total weight of the sets."""

    def add(self, sets: SetTable, targets: np.ndarray, classes: bool, where: Where) -> None:
        """Adds a piece. If ``classes``, the values of the targets are counted; else their moments are added."""
        check_no_dates(targets, classes)
        sizes = sets.sizes
        self.join(
            RunningStatistics(
                {name: _statistics_of(column, name, sets.place) for name, column in sets.elements.items()},
                {name: _statistics_of(column, name, sets.place_of_set) for name, column in sets.context.items()},
                [] if classes else _spreads(targets, where),
                _counted(targets) if classes else [],
                len(sets),
                sets.num_elements,
                int(sizes.min()),
                int(sizes.max()),
            )
        )

    def join(self, other: "RunningStatistics") -> None:
        """Adds the statistics of other sets.

        Raises: ValueError if the targets have too many values to be classes.
        """
        if not other.num_sets:
            return
        if self.num_sets:
            self.elements = {name: _both(mine, other.elements[name]) for name, mine in self.elements.items()}
            self.context = {name: _both(mine, other.context[name]) for name, mine in self.context.items()}
            self.targets = [mine.and_(theirs) for mine, theirs in zip(self.targets, other.targets, strict=True)]
            self.smallest = min(self.smallest, other.smallest)
        else:
            self.elements, self.context, self.targets = other.elements, other.context, other.targets
            self.smallest = other.smallest
        self._join_classes(other.classes)
        self.num_sets += other.num_sets
        self.num_elements += other.num_elements
        self.weight += other.weight
        self.largest = max(self.largest, other.largest)

    def know_classes(self, targets: np.ndarray) -> None:
        """Adds the classes of sets that are not for learning, with a count of 0."""
        self._join_classes([Counter(dict.fromkeys(counts, 0)) for counts in _counted(targets)])

    def _join_classes(self, others: list[Counter[Any]]) -> None:
        """Adds up counts. Raises: ValueError for targets with too many values to be classes."""
        if others and not self.classes:
            self.classes = [Counter() for _ in others]
        for mine, theirs in zip(self.classes, others, strict=bool(others)):
            mine.update(theirs)
            if len(mine) > MAX_CLASSES:
                raise ValueError(
                    f"classes expect at most {MAX_CLASSES:,} different values of y; got more. SetRegressor takes "
                    "numbers."
                )

    def encoder(self) -> TableEncoder:
        """Returns the encoder that ``TableEncoder().fit`` would learn from all these sets, except for rounding."""
        encoder = TableEncoder()
        encoder.elements, encoder.context = (
            tuple(each.fitted() if isinstance(each, Numbers) else each for each in columns.values())
            for columns in (self.elements, self.context)
        )
        return encoder


def _statistics_of(column: Column, name: str, where: Where) -> Numbers | CategoryCodes:
    if column.kind == "categorical":
        return CategoryCodes.fit(column, name)
    return Numbers.of(column, name, where)


def _both(one: Numbers | CategoryCodes, other: Numbers | CategoryCodes) -> Numbers | CategoryCodes:
    if isinstance(one, Numbers) and isinstance(other, Numbers):
        return one.and_(other)
    assert isinstance(one, CategoryCodes) and isinstance(other, CategoryCodes)
    return one.and_(other)


def _spreads(targets: np.ndarray, where: Where) -> list[Numbers]:
    """Returns the statistics of each target.

    Raises: ValueError for targets that are not numbers.
    """
    if targets.dtype.kind not in "iufb":
        raise ValueError(f"a regression expects targets that are numbers; got {targets.dtype}, as {targets[0]!r}.")
    columns = targets.reshape(len(targets), -1).astype(np.float64).T
    return [Numbers.of(Column("numeric", column), "y", where) for column in columns]


def _counted(targets: np.ndarray) -> list[Counter[Any]]:
    """Returns the number of sets of each class, per column."""
    columns = list(targets.reshape(len(targets), -1).T)
    if targets.dtype == object:  # columns of several types
        columns = [np.array(column.tolist()) for column in columns]
    uniques = (np.unique(column, return_counts=True) for column in columns)
    return [Counter(dict(zip(values.tolist(), counts.tolist(), strict=True))) for values, counts in uniques]
