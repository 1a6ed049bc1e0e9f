"""Arrays of objects in the type that Arrow infers, and in ours where Arrow has none."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from janossy.tables.category import DIGITS


def inferred(values: np.ndarray, name: str) -> pa.Array:
    """Returns text and objects in the type that Arrow infers: text, numbers, booleans or dates."""
    try:
        array = pa.array(values, from_pandas=True)
    except OverflowError as error:
        large = _large_integers(values)
        if large is None:
            raise TypeError(
                f"column {name!r} expects numbers of one kind; got whole numbers beyond 64 bits."
            ) from error
        return large
    except (ValueError, TypeError, pa.ArrowException) as error:
        if all(x is None or isinstance(x, UUID) for x in values):  # pyarrow infers their type from version 24 on
            stored = pa.array([None if x is None else x.bytes for x in values], pa.binary(16))
            return pa.ExtensionArray.from_storage(pa.uuid(), stored)
        first, row = _odd_one(values)
        raise TypeError(
            f"column {name!r} expects values of one type, and each argument must be a string or a number (or a "
            f"boolean, or a date); got {first} and, in row {row}, {shortened(values[row])}. Convert the column."
        ) from error
    if pa.types.is_timestamp(array.type) and any(getattr(x, "nanosecond", 0) for x in values):
        array = pa.array(values, pa.timestamp("ns", array.type.tz), from_pandas=True)
    if pa.types.is_duration(array.type) and any(getattr(x, "nanoseconds", 0) for x in values):
        array = pa.array(values, pa.duration("ns"), from_pandas=True)
    if pa.types.is_nested(array.type):
        raise TypeError(
            f"column {name!r} expects one value per row, each a string or a number; got Arrow's {array.type}. Give "
            "counts as a Counter, and the entries of other dicts as columns."
        )
    return array


def from_json(values: Sequence[Any]) -> pa.Array:
    """Returns values of JSON, or lists or objects of them, in the type that Arrow infers.

    Whole numbers beyond 64 bits become text, as codes are. Beside other numbers, those that floats do not hold make all
    of them decimals.
    Raises: ArrowInvalid or ArrowTypeError for values of several kinds.
    """
    try:
        return pa.array(values)
    except (OverflowError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        found = {type(x) for x in values} - {type(None)}
        missing = pa.array([x is None for x in values])
        if found == {list}:
            offsets = np.cumsum([0] + [len(x or ()) for x in values])
            inner = from_json([each for x in values for each in x or ()])
            return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), inner, mask=missing)
        if found == {dict}:
            names = list(dict.fromkeys(name for x in values for name in x or ()))
            fields = [from_json([(x or {}).get(name) for x in values]) for name in names]
            return pa.StructArray.from_arrays(fields, names, mask=missing)
        if found == {int}:
            return pa.array([None if x is None else str(x) for x in values])
        if found <= {int, float}:
            return pa.array([None if x is None else Decimal(repr(x)) for x in values])
        raise error if isinstance(error, pa.ArrowException) else pa.ArrowInvalid(str(error)) from None


def _large_integers(values: np.ndarray) -> pa.Array | None:
    """Returns whole numbers beyond 64 bits as decimals, or None for other values."""
    if not all(x is None or (isinstance(x, int) and not isinstance(x, bool)) for x in values):
        return None
    digits = max(len(str(abs(x))) for x in values if x is not None)
    if digits > DIGITS:
        return pa.array([None if x is None else str(x) for x in values], pa.large_string())
    return pa.array([None if x is None else Decimal(x) for x in values], pa.decimal256(digits, 0))


def _odd_one(values: np.ndarray) -> tuple[str, int]:
    """Returns the type of the first value, and the first row with another type."""
    types = [type(x).__name__ for x in values]
    return types[0], next((row for row, kind in enumerate(types) if kind != types[0]), 0)


def shortened(x: Any) -> str:
    """Returns the value as text of at most 40 characters, for errors."""
    text = repr(x)
    return text if len(text) < 40 else f"{text[:36]} …"
