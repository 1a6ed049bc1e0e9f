"""Columns and their kinds: numbers, categories, booleans and dates, as numpy arrays with marks for missing values."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from math import isinf, isnan
from typing import Any, Literal, cast, get_args
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from janossy.tables.arrow import UUIDS, is_binary, is_text, one_chunk
from janossy.tables.category import Category, category_of
from janossy.tables.objects import inferred, shortened

Kind = Literal["numeric", "categorical", "boolean", "date"]
KINDS: tuple[Kind, ...] = get_args(Kind)

Where = Callable[[int], str]
"""A function that names a row, for errors."""

FLOAT_WHOLE = 2**53
"""The largest whole number up to which float64 holds every whole number."""


@dataclass(frozen=True, eq=False)
class Column:
    """One value for each element, or for each set.

    ``values``, by kind, with the mark of a missing value:

    - numeric: any real dtype; NaN
    - boolean: bool, or floats 0 and 1 if values are missing; NaN
    - date: datetime64; NaT
    - categorical: positions in ``categories``; -1

    The column shares the memory of its source if the source holds such an array without missing values.

    ``exact``: the same values in Arrow, for a numeric column whose source float64 does not hold. Such sources are
    decimals, and large whole numbers beside missing ones. Ids and categories are made from ``exact``.

    Shapes: values (N,), exact (N,).
    """

    kind: Kind
    values: np.ndarray
    categories: tuple[Category, ...] = ()
    exact: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> "Column":
        exact = None if self.exact is None else self.exact.take(pa.array(np.arange(len(self))[rows]))
        return Column(self.kind, self.values[rows], self.categories, exact)

    def keys(self) -> np.ndarray:
        """Returns numbers (N,), equal where the values are equal."""
        if self.exact is not None:
            return _from_dictionary(_dictionary(self.exact), "").values
        if self.kind == "date":
            return self.values.view(np.int64)
        return self.values + self.values.dtype.type(0) if self.values.dtype.kind == "f" else self.values  # -0 is 0

    def missing(self) -> np.ndarray:
        """Returns True for missing values, bool (N,)."""
        if self.kind == "categorical":
            return self.values < 0
        if self.values.dtype.kind in "fM":
            return cast(np.ndarray, np.isnan(self.values) if self.values.dtype.kind == "f" else np.isnat(self.values))
        return np.zeros(len(self), bool)

    def numbers(self) -> np.ndarray:
        """Returns the values as float64 (N,), NaN where missing. Booleans are 0 and 1, dates days since 1970-01-01."""
        if self.kind == "date":
            return (self.values - np.datetime64(0, "D")) / np.timedelta64(1, "D")
        return self.values.astype(np.float64, copy=False)

    def decoded(self) -> np.ndarray:
        """Returns the values (N,) as stored; categories by name, with None for a missing one."""
        if self.kind != "categorical":
            return self.values
        names = np.empty(len(self.categories) + 1, dtype=object)
        names[:-1] = self.categories
        return cast(np.ndarray, names[self.values])

    def is_rounded(self) -> bool:
        """Returns True if float64 makes two different values equal."""
        return self.exact is not None and len(np.unique(self.values)) < len(pc.unique(self.exact.drop_null()))

    def followed_by_missing(self, num: int) -> "Column":
        """Returns the column with ``num`` missing values appended."""
        exact = None if self.exact is None else pa.concat_arrays([self.exact, pa.nulls(num, self.exact.type)])
        return Column(self.kind, np.concatenate((self.values, _EMPTY[self.kind](num).values)), self.categories, exact)

    def to_kind(self, kind: Kind, name: str, where: Where = "row {}".format) -> "Column":
        """Returns the values as another kind.

        Raises: ValueError, naming the column and the row by ``where``, for a value that is not of that kind.
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
                "Name it in numeric= or categorical= if it is not boolean."
            )
        raise ValueError(
            f"column {name!r} expects values of kind {kind}; got {self.kind}. Convert the column, or name it in "
            "numeric= or categorical=, in the same way for training and prediction."
        )


_EMPTY = {
    "numeric": lambda n: Column("numeric", np.full(n, np.nan)),
    "boolean": lambda n: Column("boolean", np.full(n, np.nan)),
    "date": lambda n: Column("date", np.full(n, np.datetime64("NaT"), "datetime64[us]")),
    "categorical": lambda n: Column("categorical", np.full(n, -1)),
}


def from_numpy(values: np.ndarray, name: str) -> Column:
    """Returns the column of an array (N,).

    It shares the array's memory, unless the array holds text or objects or has the other byte order.
    Raises: TypeError for values of none of the four kinds.
    """
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    if isinstance(values, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(values)
        if values.dtype != object:
            return from_arrow(pa.array(values.data, mask=mask), name)
        values = values.data.copy()
        values[mask] = None
    kind = values.dtype.kind
    if kind in "iuf":
        return Column("numeric", values if values.dtype.itemsize <= 8 else values.astype(np.float64))
    if kind == "b":
        return Column("boolean", values)
    if kind == "M":
        return Column("date", values)
    if kind == "m":
        return _durations(values)
    if kind == "S":
        return from_arrow(pa.array(values.astype(object)), name)
    if kind in "UO":
        return from_arrow(inferred(values, name), name)
    if kind == "c":
        raise ValueError(f"Complex data not supported: column {name!r} is {values.dtype}. Give two real columns.")
    raise TypeError(f"column {name!r} expects numbers, text, booleans or dates; got {values.dtype}. Convert it.")


def from_arrow(values: pa.Array | pa.ChunkedArray, name: str) -> Column:
    """Returns the column of an Arrow array (N,).

    It shares the array's memory if the array holds numbers or dates without nulls.
    Raises: TypeError for values of none of the four kinds.
    """
    values = one_chunk(values)
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name != UUIDS:
        return from_arrow(values.storage, name)
    if pa.types.is_run_end_encoded(kind):
        return from_arrow(pc.run_end_decode(values), name)
    if pa.types.is_null(kind):
        return _EMPTY["numeric"](len(values))
    if pa.types.is_boolean(kind):
        if values.null_count:
            return Column("boolean", values.cast(pa.int8()).to_numpy(zero_copy_only=False))
        return Column("boolean", values.to_numpy(zero_copy_only=False))
    if pa.types.is_decimal(kind):
        return _from_decimals(values, name)
    if pa.types.is_integer(kind) and values.null_count and _exceeds_floats(values):
        return Column("numeric", values.to_numpy(zero_copy_only=False), exact=values)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return Column("numeric", values.to_numpy(zero_copy_only=False))
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return Column("date", values.to_numpy(zero_copy_only=False))
    if pa.types.is_duration(kind):
        return from_numpy(values.to_numpy(zero_copy_only=False), name)
    if pa.types.is_time(kind):
        whole = pa.int32() if pa.types.is_time32(kind) else pa.int64()
        return from_numpy(values.cast(whole).cast(pa.int64()).cast(pa.duration(kind.unit)).to_numpy(False), name)
    if isinstance(values, pa.DictionaryArray):
        return _from_dictionary(values, name)
    if is_text(kind) or is_binary(kind):
        return _from_dictionary(_dictionary(values), name)
    if pa.types.is_struct(kind) or pa.types.is_map(kind):
        fields = [] if pa.types.is_map(kind) else [field.name for field in kind]
        got = f"a struct of {', '.join(fields[:6])}{', …' * (len(fields) > 6)}" if fields else "a map"
        raise TypeError(
            f"column {name!r} expects one value per row; got {got}. Write its fields as columns, or leave it out."
        )
    raise TypeError(
        f"column {name!r} expects numbers, text, booleans or dates; got Arrow's {kind}. "
        "Convert it, or leave the column out."
    )


def _durations(values: np.ndarray) -> Column:
    """Returns durations as seconds, with exact values if float64 does not hold them."""
    seconds = values / np.timedelta64(1, "s")
    whole = values.view(np.int64)
    there = whole[~np.isnat(values)]
    if not len(there) or max(-int(there.min()), int(there.max())) <= FLOAT_WHOLE:
        return Column("numeric", seconds)
    one = np.array(1).astype(values.dtype)  # one unit of the dtype
    unit = Decimal(int(np.timedelta64(1, "s") / one))
    exact = [None if np.isnat(x) else Decimal(i) / unit for x, i in zip(values, whole.tolist(), strict=True)]
    return Column("numeric", seconds, exact=pa.array(exact))


def _from_decimals(values: pa.Array, name: str) -> Column:
    """Returns whole numbers if all values are whole, else floats with the exact values."""
    try:
        return from_arrow(values.cast(pa.int64()), name)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # fractions, or more than 64 bits hold
        return Column("numeric", values.cast(pa.float64()).to_numpy(zero_copy_only=False), exact=values)


def _exceeds_floats(values: pa.Array) -> bool:
    """Returns True if float64 does not hold all of these whole numbers."""
    ends = pc.min_max(values).as_py()
    return ends["max"] is not None and max(-ends["min"], ends["max"]) > FLOAT_WHOLE


def _dictionary(values: pa.Array) -> pa.DictionaryArray:
    """Returns values of any type that ids and categories may have, as codes and distinct values."""
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        codes = values.storage.dictionary_encode()
        words = pa.array([category_of(UUID(bytes=x)) for x in codes.dictionary.to_pylist()], pa.large_string())
        return pa.DictionaryArray.from_arrays(codes.indices, words)
    if pa.types.is_string_view(kind):
        values = values.cast(pa.large_string())
    if pa.types.is_binary_view(kind):
        values = values.cast(pa.large_binary())
    return values.dictionary_encode()


def _from_dictionary(values: pa.DictionaryArray, name: str) -> Column:
    """Returns a column of codes and categories. All categories differ, and none stands for a missing value."""
    codes = values.indices
    if not pa.types.is_signed_integer(codes.type):
        codes = codes.cast(pa.int64())
    numbers = codes.fill_null(-1).to_numpy(zero_copy_only=False)
    names = values.dictionary.to_pylist() if is_text(values.dictionary.type) else _listed(values.dictionary, name)
    known: dict[Category, int] = {}
    places = np.array([-1 if x is None else known.setdefault(x, len(known)) for x in names] + [-1])
    if not np.array_equal(places[:-1], np.arange(len(names))):
        numbers = places[numbers]
    return Column("categorical", numbers, tuple(known))


def _as_categories(column: Column, name: str) -> Column:
    """Returns numbers and booleans as categories, and dates as categories of their text."""
    if column.exact is not None:
        return _from_dictionary(_dictionary(column.exact), name)
    if column.kind == "date":
        return from_arrow(pa.array(_date_texts(column.values), pa.large_string(), mask=column.missing()), name)
    values = column.values.astype(np.float32) if column.values.dtype == np.float16 else column.values
    return _from_dictionary(pa.array(values, from_pandas=True).dictionary_encode(), name)


def _date_texts(values: np.ndarray) -> np.ndarray:
    """Returns dates as text to the microsecond, or to the nanosecond where that loses digits."""
    rounded = values.astype("datetime64[us]")
    text = np.datetime_as_string(rounded).astype(object)
    finer = rounded != values
    text[finer] = np.datetime_as_string(values[finer])
    text[np.isnat(values)] = None
    return text


def _listed(dictionary: pa.Array, name: str) -> list[Category | None]:
    """Returns the values of a dictionary without text. Whole numbers become int."""
    kind = dictionary.type
    if pa.types.is_integer(kind):
        return cast("list[Category | None]", dictionary.to_pylist())
    if pa.types.is_decimal(kind) or is_binary(kind):
        return [category_of(x) for x in dictionary.to_pylist()]
    column = from_arrow(dictionary, name)
    if column.kind != "numeric" and column.kind != "boolean":
        return cast("list[Category | None]", column.to_kind("categorical", name).decoded().tolist())
    listed: list[Category | None] = []
    for x in column.values.tolist():
        if isinstance(x, float) and isinf(x):
            raise ValueError(f"column {name!r} expects categories that are text or finite numbers; got {x}.")
        if isinstance(x, float) and not isnan(x) and x.is_integer():
            x = int(x)
        listed.append(None if isinstance(x, float) and isnan(x) else x)
    return listed


def _parsed(column: Column, name: str, where: Where) -> Column:
    """Returns categories as numbers, parsed if they are text."""
    numbers = np.full(len(column.categories) + 1, np.nan)
    for code, x in enumerate(column.categories):
        try:
            numbers[code] = float(x)
        except ValueError:
            rows = np.flatnonzero(column.values == code)
            if len(rows):
                raise ValueError(
                    f"column {name!r} is numeric, and expects numbers; got the text {shortened(x)} in "
                    f"{where(int(rows[0]))}. Correct it, or name the column in categorical=."
                ) from None
    return Column("numeric", numbers[column.values])
