"""Codes of one column, fitted on training sets: standardised numbers, or codes of categories; both as plain data."""

from dataclasses import dataclass
from math import isfinite
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct

from janossy.files.typed_json import typed
from janossy.tables.category import Category
from janossy.tables.columns import Column, Kind, Where

FORMAT, VERSION = "janossy.TableEncoder", 1
"""The format and version of the state of a ``TableEncoder``."""

MAX_CODES = 2**24
"""The largest number of codes. Codes are whole numbers in float32, which is exact up to 2^24."""

MAX_CATEGORY = 2**20
"""The largest number of characters of a category."""

TURNS = ((-np.pi, np.pi), (0.0, 2 * np.pi), (-180.0, 180.0), (0.0, 360.0))
"""The ranges in which angles lie, in radians and in degrees."""

MAX_GAP = 0.05
"""The largest empty part of a turn that values may leave and still be angles."""

FEWEST_ANGLES = 100
"""The smallest number of values that can show a column of angles."""

NUM_BINS = 16
"""The number of quantile bins that describe a distribution."""

MAX_VALUES = 64
"""The largest number of different whole numbers that may be codes."""

ROUNDING = 4 * np.finfo(np.float64).eps
"""The largest relative variation of a constant column. It is relative to the largest value, and allows for rounding."""


@dataclass(frozen=True)
class Number:
    """A numeric, boolean or date column as (x - mean) / scale. The mean stands for missing values.

    - ``scale`` is 0 if the column is constant in training. The column is then always encoded as 0, because training
      says nothing about other values.
    - ``missing`` is True if values were missing in training. A second column is then 1 where a value is missing.
    - ``period`` is 2π or 360 if the values lie all around a turn, in radians or degrees; else 0.
    - ``low`` and ``high`` are the range of training. They are equal if it is unknown or the column is constant.
    - ``smallest`` is the smallest positive number, the unit of logarithms. It is 0 if there is no positive number, and
      -1 if there are negative numbers.
    - ``quantiles`` are those at the levels 0, 1/16, …, 1. They are empty if unknown, as for files read in pieces.
    - ``values`` are the different values, ascending, if they may be codes: 3 to 64 whole numbers. Else they are empty.
    """

    name: str
    kind: Kind
    mean: float
    scale: float
    missing: bool
    period: float = 0.0
    low: float = 0.0
    high: float = 0.0
    smallest: float = 0.0
    quantiles: tuple[float, ...] = ()
    values: tuple[float, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, f"{self.name} missing") if self.missing else (self.name,)

    @classmethod
    def fit(cls, column: Column, name: str, where: Where) -> "Number":
        """Returns the code of a column, from its values that are not missing, in float64.

        The mean and the scale are 0 if all values are missing. Raises: ValueError, naming the row, for infinity.
        """
        numbers, missing = column.numbers(), column.missing()
        if np.isinf(numbers).any():
            raise _not_finite(name, int(np.isinf(numbers).argmax()), where)
        there = numbers[~missing] if missing.any() else numbers
        largest = float(np.abs(there).max(initial=0))
        if largest == 0:
            return cls(name, column.kind, 0.0, 0.0, bool(missing.any()))
        low, high = float(there.min()), float(there.max())
        smallest = _smallest(there) if column.kind == "numeric" else 0.0
        levels = np.linspace(0, 1, NUM_BINS + 1)
        quantiles = tuple(np.quantile(there, levels).tolist()) if column.kind == "numeric" and low < high else ()
        values = _values(there) if column.kind == "numeric" else ()
        power = int(np.frexp(largest)[1])
        there = np.ldexp(there, -power)  # below 1, so that squares neither overflow nor vanish
        mean = there.mean()
        scale = np.sqrt(np.square(there - mean).mean())
        mean, scale = np.ldexp([mean, scale if scale > ROUNDING else 0.0], power).tolist()
        period = Turns.of(np.ldexp(there, power)).period if column.kind == "numeric" else 0.0
        return cls(name, column.kind, mean, scale, bool(missing.any()), period, low, high, smallest, quantiles, values)

    def far(self, column: Column) -> np.ndarray:
        """Flags values (N,) that lie farther outside the range of training than that range is wide."""
        numbers, width = column.numbers(), self.high - self.low
        with np.errstate(invalid="ignore"):  # missing values are NaN
            return ((numbers < self.low - width) | (numbers > self.high + width)) & (width > 0)

    def encode(self, column: Column, out: np.ndarray, where: Where, standardize: bool) -> None:
        """Writes the numbers to out (N, 1 or 2), float32."""
        numbers, missing = column.numbers(), column.missing()
        if missing.any():
            numbers = np.where(missing, self.mean, numbers)
        with np.errstate(over="ignore"):
            if standardize:
                numbers = (numbers - self.mean) / self.scale if self.scale else np.where(np.isinf(numbers), numbers, 0)
            out[:, 0] = numbers
        if not np.isfinite(out[:, 0]).all():
            raise _not_finite(self.name, int(np.isfinite(out[:, 0]).argmin()), where)
        if self.missing:
            out[:, 1] = missing

    def state(self) -> dict[str, Any]:
        return vars(self).copy()


def _smallest(numbers: np.ndarray) -> float:
    """Returns the smallest positive number, or -1 if there are negative numbers. Some number must not be 0."""
    return -1.0 if (numbers < 0).any() else float(numbers[numbers > 0].min())


def _values(numbers: np.ndarray) -> tuple[float, ...]:
    """Returns the different values if they may be codes, else nothing."""
    some = np.unique(numbers[: 4 * MAX_VALUES])
    if len(some) > MAX_VALUES or (some != np.round(some)).any():
        return ()
    values = np.unique(numbers)
    may_be_codes = 2 < len(values) <= MAX_VALUES and (values == np.round(values)).all()
    return tuple(values.tolist()) if may_be_codes else ()


@dataclass(frozen=True)
class Turns:
    """A summary of numbers for each range of ``TURNS``: their count, minimum, maximum, and the parts that they fill."""

    num: int = 0
    least: float = np.inf
    largest: float = -np.inf
    filled: tuple[frozenset[int], ...] = (frozenset(),) * len(TURNS)

    @classmethod
    def of(cls, values: np.ndarray) -> "Turns":
        """Makes the turns of finite numbers (N,)."""
        if not len(values):
            return cls()
        least, largest = float(values.min()), float(values.max())
        filled = []
        for low, high in TURNS:
            inside = _within(least, largest, low, high)
            places = np.floor((values - low) / (MAX_GAP * (high - low))) if inside else np.zeros(0)
            filled.append(frozenset(np.unique(places.clip(0, round(1 / MAX_GAP) - 1)).astype(int).tolist()))
        return cls(len(values), least, largest, tuple(filled))

    def and_(self, other: "Turns") -> "Turns":
        """Returns the summary of these numbers and others together."""
        filled = tuple(mine | theirs for mine, theirs in zip(self.filled, other.filled, strict=True))
        least, largest = min(self.least, other.least), max(self.largest, other.largest)
        return Turns(self.num + other.num, least, largest, filled)

    @property
    def period(self) -> float:
        """The turn that they fill all around, 2π or 360, if they lie in one; else 0."""
        for (low, high), filled in zip(TURNS, self.filled, strict=True):
            turn = high - low
            wide = _within(self.least, self.largest, low, high) and self.largest - self.least > (1 - MAX_GAP) * turn
            if wide and self.num >= FEWEST_ANGLES:
                return turn if len(filled) == round(1 / MAX_GAP) else 0.0
        return 0.0


def _within(least: float, largest: float, low: float, high: float) -> bool:
    slack = 1e-6 * (high - low)  # of angles in float32
    return least >= low - slack and largest <= high + slack


@dataclass(frozen=True)
class CategoryCodes:
    """A categorical column as codes: 0 for what is new since training, 1, 2, … for its categories in ascending order.

    ``missing``: values were missing in training, and are a category of their own, the last.
    """

    name: str
    categories: tuple[Category, ...]
    missing: bool
    kind: Kind = "categorical"

    @property
    def num_codes(self) -> int:
        return 1 + len(self.categories) + self.missing

    @classmethod
    def fit(cls, column: Column, name: str) -> "CategoryCodes":
        """Returns the categories that occur."""
        occur = np.bincount(column.values.astype(np.int64) + 1, minlength=len(column.categories) + 1) > 0
        categories = [x for x, occurs in zip(column.categories, occur[1:], strict=True) if occurs]
        categories.sort(key=lambda x: (isinstance(x, str), x))
        longest = max((len(x) for x in categories if isinstance(x, str)), default=0)
        if longest > MAX_CATEGORY:
            raise ValueError(
                f"column {name!r} expects categories of at most {MAX_CATEGORY:,} characters, as saved models have; got "
                f"one of {longest:,}. Leave the column out, or shorten it."
            )
        if len(categories) + 2 > MAX_CODES:
            raise ValueError(f"column {name!r} expects at most {MAX_CODES - 2:,} categories; got {len(categories):,}.")
        return cls(name, tuple(categories), bool(occur[0]))

    def and_(self, other: "CategoryCodes") -> "CategoryCodes":
        """Returns the categories of both."""
        categories = sorted({*self.categories, *other.categories}, key=lambda x: (isinstance(x, str), x))
        if len(categories) + 2 > MAX_CODES:
            raise ValueError(f"column {self.name!r} expects at most {MAX_CODES - 2:,} categories; got more.")
        return CategoryCodes(self.name, tuple(categories), self.missing or other.missing)

    def encode(self, column: Column, out: np.ndarray) -> int:
        """Writes the codes to out (N,), float32, and returns the number of zeros among them."""
        words = {isinstance(x, str) for x in self.categories}, {isinstance(x, str) for x in column.categories}
        codes = {x: code for code, x in enumerate(self.categories, 1)}
        if all(words) and words[0].isdisjoint(words[1]):
            if words[1] == {False}:
                raise ValueError(
                    f"column {self.name!r} expects categories that are text, as in training; got numbers, in which "
                    "007 and 7 are the same. Read the column as text, in pandas by dtype={'" + self.name + "': str}."
                )
            codes = {spelling: code for x, code in codes.items() for spelling in _spellings(x)}
        table = np.array([codes.get(x, 0) for x in column.categories] + [self.num_codes - 1 if self.missing else 0])
        out[:] = table.astype(np.float32)[column.values]
        return len(out) - int(np.count_nonzero(out))

    def state(self) -> dict[str, Any]:
        return {
            "name": self.name, "kind": self.kind, "categories": list(self.categories), "missing": self.missing
        }  # fmt: skip


def _spellings(x: Category) -> tuple[str, ...]:
    """Returns the texts that name a number in a column of text, as it is written without leading zeros."""
    if isinstance(x, bool):
        return (str(x), str(x).lower())
    return (str(x), f"{x}.0") if isinstance(x, int) else (str(x),)


Code = Number | CategoryCodes


Name = Annotated[str, Meta(max_length=10_000)]


class NumberState(Struct, forbid_unknown_fields=True):
    """A number column as it is saved."""

    name: Name
    kind: Literal["numeric", "boolean", "date"]
    mean: float
    scale: Annotated[float, Meta(ge=0)]
    missing: bool
    period: Annotated[float, Meta(ge=0)]
    low: float = 0.0
    high: float = 0.0
    smallest: Annotated[float, Meta(ge=-1)] = 0.0
    quantiles: Annotated[list[float], Meta(max_length=NUM_BINS + 1)] = []
    values: Annotated[list[float], Meta(max_length=MAX_VALUES)] = []


class CategoriesState(Struct, forbid_unknown_fields=True):
    """A categorical column as it is saved."""

    name: Name
    kind: Literal["categorical"]
    categories: list[Annotated[str, Meta(max_length=MAX_CATEGORY)] | bool | int | float]
    missing: bool


class EncoderState(Struct):
    """A ``TableEncoder`` as it is saved."""

    format: Literal["janossy.TableEncoder"]
    version: int
    standardize: bool
    elements: list[dict[str, Any]]
    context: list[dict[str, Any]]
    inner: bool = False
    """True for sets of sets."""


def columns_from_state(state: Any) -> tuple[EncoderState, tuple[Code, ...], tuple[Code, ...]]:
    """Returns what ``TableEncoder.state()`` wrote, and the columns of the elements and of the sets.

    Raises: ValueError, which names the field, for anything else.
    """
    try:
        encoder = typed(state, EncoderState)
        if encoder.version != VERSION:
            raise ValueError(
                f"version {VERSION} is expected; got version {str(encoder.version)[:20]}. Load it with the version of "
                "janossy that wrote it"
            )
        elements, context = (
            tuple(_at(f"{place}[{i}]", column) for i, column in enumerate(columns))
            for place, columns in (("elements", encoder.elements), ("context", encoder.context))
        )
        names = [code.name for code in (*elements, *context)]
        if len(set(names)) < len(names) or not elements:
            raise ValueError("columns of the elements, all of different names, are expected; got others")
    except ValueError as error:
        raise ValueError(f"TableEncoder.from_state expects what state() gave, of format {FORMAT!r}; {error}.") from None
    return encoder, elements, context


def _at(place: str, column: dict[str, Any]) -> Code:
    try:
        return code_from_state(column)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def code_from_state(state: Any) -> Code:
    """Returns the column whose ``state()`` this is.

    Raises: ValueError, which names the field, for anything else.
    """
    if isinstance(state, dict) and state.get("kind") == "categorical":
        saved = typed(state, CategoriesState)
        if len(saved.categories) + 2 > MAX_CODES or len(set(saved.categories)) != len(saved.categories):
            raise ValueError(f"categories: all different, at most {MAX_CODES - 2:,}, are expected; got others")
        _check_finite("categories", *(x for x in saved.categories if not isinstance(x, str)))
        return CategoryCodes(saved.name, tuple(saved.categories), saved.missing)
    number = typed(state, NumberState)
    fields = {name: getattr(number, name) for name in number.__struct_fields__}
    for field in ("mean", "scale", "period", "low", "high", "smallest"):
        _check_finite(field, fields[field])
    _check_finite("quantiles", *number.quantiles)
    if number.quantiles != sorted(number.quantiles) or len(number.quantiles) not in (0, NUM_BINS + 1):
        raise ValueError(f"quantiles: {NUM_BINS + 1} ascending numbers, or none, are expected; got others")
    _check_finite("values", *number.values)
    if number.values != sorted(set(number.values)):
        raise ValueError("values: ascending numbers are expected; got others")
    return Number(**fields | {"quantiles": tuple(number.quantiles), "values": tuple(number.values)})


def _check_finite(field: str, *numbers: float) -> None:
    for x in numbers:
        if not (isfinite(x) if isinstance(x, float) else abs(x) < 2**1023):
            raise ValueError(f"{field}: finite numbers are expected; got {str(x)[:60]}")


def _not_finite(name: str, row: int, where: Where) -> ValueError:
    return ValueError(
        f"column {name!r} expects finite numbers that fit float32 after scaling; got infinity, or a number too large, "
        f"in {where(row)}. Correct it, or make it missing."
    )
