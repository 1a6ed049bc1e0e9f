"""Columns and their kinds: numbers, categories, booleans and dates, as arrays of numpy that say what is missing."""

from collections.abc import Callable
from dataclasses import dataclass
from math import isinf, isnan
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa

Kind = Literal["numeric", "categorical", "boolean", "date"]
KINDS: tuple[Kind, ...] = get_args(Kind)

Where = Callable[[int], str]
"""The name of a row, for errors."""

Category = str | int | float | bool


@dataclass(frozen=True, eq=False)
class Column:
    """One value for each element, or for each set.

    ``values``, by kind, and what stands for a missing value:

    - numeric: any real dtype; NaN
    - boolean: bool, or floats 0 and 1 where values are missing; NaN
    - date: datetime64; NaT
    - categorical: numbers of ``categories``; -1

    Where the source holds such an array without missing values, the column shares its memory.

    Shapes: values (N,).
    """

    kind: Kind
    values: np.ndarray
    categories: tuple[Category, ...] = ()

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> "Column":
        return Column(self.kind, self.values[rows], self.categories)

    def missing(self) -> np.ndarray:
        """Which values are missing, bool (N,)."""
        if self.kind == "categorical":
            return self.values < 0
        if self.values.dtype.kind in "fM":
            return np.isnan(self.values) if self.values.dtype.kind == "f" else np.isnat(self.values)
        return np.zeros(len(self), bool)

    def numbers(self) -> np.ndarray:
        """The values as float64 (N,), NaN where missing: booleans are 0 and 1, dates days since 1970-01-01."""
        if self.kind == "date":
            return (self.values - np.datetime64(0, "D")) / np.timedelta64(1, "D")
        return self.values.astype(np.float64, copy=False)

    def decoded(self) -> np.ndarray:
        """The values themselves (N,): categories as they are called, None where missing; others as they are stored."""
        if self.kind != "categorical":
            return self.values
        names = np.empty(len(self.categories) + 1, dtype=object)
        names[:-1] = self.categories
        return names[self.values]

    def followed_by_missing(self, num: int) -> "Column":
        """The same values, and behind them so many that are missing."""
        return Column(self.kind, np.concatenate((self.values, _EMPTY[self.kind](num).values)), self.categories)

    def to_kind(self, kind: Kind, name: str, where: Where = "row {}".format) -> "Column":
        """The same values as another kind.

        Raises: ValueError, naming the column and ``where`` its value is, for one that is none of that kind.
        """
        if kind == self.kind:
            return self
        if self.missing().all():
            return _EMPTY[kind](len(self))
        if kind == "categorical":
            return _as_categories(self, name)
        if kind == "numeric" and self.kind == "categorical":
            return _parsed(self, name, where)
        if kind == "numeric":
            return Column("numeric", self.values if self.kind == "boolean" else self.numbers())
        if kind == "boolean" and self.kind == "numeric":
            wrong = ~(np.isin(self.values, (0, 1)) | self.missing())
            if not wrong.any():
                return Column("boolean", self.values)
            row = int(wrong.argmax())
            raise ValueError(
                f"column {name!r} is boolean, and expects true, false, 1 or 0; got {self.values[row]} in {where(row)}. "
                "Name it in numeric= or categorical= if it is none."
            )
        raise ValueError(
            f"column {name!r} expects values of kind {kind}; got {self.kind}. Convert the column, or name it in "
            "numeric= or categorical=, alike for training and prediction."
        )


_EMPTY = {
    "numeric": lambda n: Column("numeric", np.full(n, np.nan)),
    "boolean": lambda n: Column("boolean", np.full(n, np.nan)),
    "date": lambda n: Column("date", np.full(n, np.datetime64("NaT"), "datetime64[us]")),
    "categorical": lambda n: Column("categorical", np.full(n, -1)),
}


def from_numpy(values: np.ndarray, name: str) -> Column:
    """The column of an array (N,), sharing its memory unless it holds text or objects.

    Raises: TypeError for what is none of the four kinds.
    """
    if isinstance(values, np.ma.MaskedArray):
        return from_arrow(pa.array(values.data, mask=np.ma.getmaskarray(values)), name)
    kind = values.dtype.kind
    if kind in "iuf":
        return Column("numeric", values if values.dtype.itemsize <= 8 else values.astype(np.float64))
    if kind == "b":
        return Column("boolean", values)
    if kind == "M":
        return Column("date", values)
    if kind == "m":
        return Column("numeric", values / np.timedelta64(1, "s"))
    if kind in "UO":
        return from_arrow(_inferred(values, name), name)
    if kind == "c":
        raise ValueError(f"Complex data not supported: column {name!r} is {values.dtype}. Give two real columns.")
    raise TypeError(f"column {name!r} expects numbers, text, booleans or dates; got {values.dtype}. Convert it.")


def from_arrow(values: pa.Array | pa.ChunkedArray, name: str) -> Column:
    """The column of an Arrow array (N,), sharing its memory where it holds numbers or dates and no nulls.

    Raises: TypeError for what is none of the four kinds.
    """
    values = one_chunk(values)
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return from_arrow(values.storage, name)
    if pa.types.is_null(kind):
        return _EMPTY["numeric"](len(values))
    if pa.types.is_boolean(kind):
        if values.null_count:
            return Column("boolean", values.cast(pa.int8()).to_numpy(zero_copy_only=False))
        return Column("boolean", values.to_numpy(zero_copy_only=False))
    if pa.types.is_decimal(kind):
        values, kind = values.cast(pa.float64()), pa.float64()
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return Column("numeric", values.to_numpy(zero_copy_only=False))
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return Column("date", values.to_numpy(zero_copy_only=False))
    if pa.types.is_duration(kind):
        return from_numpy(values.to_numpy(zero_copy_only=False), name)
    if pa.types.is_time(kind):
        whole = pa.int32() if pa.types.is_time32(kind) else pa.int64()
        return from_numpy(values.cast(whole).cast(pa.int64()).cast(pa.duration(kind.unit)).to_numpy(False), name)
    if pa.types.is_string_view(kind):
        values = values.cast(pa.large_string())
    if _is_text(kind):
        values = values.dictionary_encode()
    if isinstance(values, pa.DictionaryArray):
        return _from_dictionary(values, name)
    raise TypeError(
        f"column {name!r} expects numbers, text, booleans or dates; got Arrow's {kind}. "
        "Convert it, or leave the column out."
    )


def _from_dictionary(values: pa.DictionaryArray, name: str) -> Column:
    """Codes and categories, of which no two are equal and none is missing."""
    codes = values.indices
    if not pa.types.is_signed_integer(codes.type):
        codes = codes.cast(pa.int64())
    numbers = codes.fill_null(-1).to_numpy(zero_copy_only=False)
    names = values.dictionary.to_pylist() if _is_text(values.dictionary.type) else _listed(values.dictionary, name)
    known: dict[Category, int] = {}
    places = np.array([-1 if x is None else known.setdefault(x, len(known)) for x in names] + [-1])
    if not np.array_equal(places[:-1], np.arange(len(names))):
        numbers = places[numbers]
    return Column("categorical", numbers, tuple(known))


def _as_categories(column: Column, name: str) -> Column:
    """Numbers and booleans as categories; dates as their text."""
    if column.kind == "date":
        text = np.datetime_as_string(column.values.astype("datetime64[us]")).astype(object)
        return from_arrow(pa.array(text, pa.large_string(), mask=column.missing()), name)
    values = column.values.astype(np.float32) if column.values.dtype == np.float16 else column.values
    return _from_dictionary(pa.array(values, from_pandas=True).dictionary_encode(), name)


def _listed(dictionary: pa.Array, name: str) -> list[Category | None]:
    """The values of a dictionary that holds no text, whole numbers as int."""
    column = from_arrow(dictionary, name)
    if column.kind == "date":
        return _as_categories(column, name).decoded().tolist()
    listed: list[Category | None] = []
    for x in column.values.tolist():
        if isinstance(x, float) and isinf(x):
            raise ValueError(f"column {name!r} expects categories that are text or finite numbers; got {x}.")
        if isinstance(x, float) and not isnan(x) and x.is_integer():
            x = int(x)
        listed.append(None if isinstance(x, float) and isnan(x) else x)
    return listed


def _parsed(column: Column, name: str, where: Where) -> Column:
    """The numbers that text spells, or that categories are."""
    numbers = np.full(len(column.categories) + 1, np.nan)
    for code, x in enumerate(column.categories):
        try:
            numbers[code] = float(x)
        except ValueError:
            rows = np.flatnonzero(column.values == code)
            if len(rows):
                raise ValueError(
                    f"column {name!r} is numeric, and expects numbers; got the text {_short(x)} in "
                    f"{where(int(rows[0]))}. Correct it, or name the column in categorical=."
                ) from None
    return Column("numeric", numbers[column.values])


def _inferred(values: np.ndarray, name: str) -> pa.Array:
    """Text and objects as Arrow infers them: text, numbers, booleans or dates."""
    try:
        inferred = pa.array(values, from_pandas=True)
    except (ValueError, TypeError, OverflowError, pa.ArrowException) as error:
        first, row = _odd_one(values)
        raise TypeError(
            f"column {name!r} expects values of one type, and each argument must be a string or a number (or a "
            f"boolean, or a date); got {first} and, in row {row}, {_short(values[row])}. Convert the column."
        ) from error
    if pa.types.is_nested(inferred.type):
        raise TypeError(
            f"column {name!r} expects one value a row, each a string or a number; got Arrow's {inferred.type}."
        )
    return inferred


def _odd_one(values: np.ndarray) -> tuple[str, int]:
    """The type of the first value, and the first row of another type."""
    types = [type(x).__name__ for x in values]
    return types[0], next((row for row, kind in enumerate(types) if kind != types[0]), 0)


def one_chunk(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The same values in one array; copied only if there were several chunks."""
    if not isinstance(values, pa.ChunkedArray):
        return values
    return values.chunk(0) if values.num_chunks == 1 else values.unify_dictionaries().combine_chunks()


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _short(x: Any) -> str:
    text = repr(x)
    return text if len(text) < 40 else f"{text[:36]} …"
