"""Tables of any library as columns by name: pandas, polars, Arrow, DuckDB, awkward, dicts and structured arrays."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from math import isnan
from typing import Any
from warnings import warn

import numpy as np
import pyarrow as pa
from torch import Tensor

from janossy.sets import Ragged
from janossy.tables.arrow import index_columns, one_chunk, without_structs
from janossy.tables.columns import Column, from_arrow, from_numpy
from janossy.tables.lists import (
    Lists,
    check_new,
    holds_lists,
    lists_from_arrow,
    lists_from_python,
    lists_from_ragged,
    null_list,
    to_numpy,
)

Source = Column | Lists

LISTED = (list, tuple, set, frozenset, Counter, np.ndarray, Tensor)
"""The types of lists that a column of objects can hold."""


def is_of(library: str, x: Any) -> bool:
    """Returns True if x is of a class of this library, or of one that inherits from it. The library is not imported."""
    return any(kind.__module__.partition(".")[0] == library for kind in type(x).__mro__)


def is_labelled_array(x: Any) -> bool:
    """Returns True for an array with named dimensions, such as xarray's."""
    return hasattr(x, "dims") and hasattr(x, "__array__") and not isinstance(x, Mapping)


def named_columns(
    x: Any, set_id: Sequence[str] = (), drop: Collection[str] = (), named: Collection[str] = ()
) -> dict[str, Source] | None:
    """Returns the columns of a table by name, without those in ``drop``, or None if x is not a table.

    Other names in ``drop`` are those of fields, which are left out of lists of structs.
    A column of structs or dicts becomes one column per field, such as "customer.age".
    ``set_id`` may also name the index of a pandas frame, or levels of it. If an Arrow table has columns that were such
    an index, they are left out with a warning, unless ``named`` has them.
    Raises: ValueError for two columns of one name, and for columns of unequal length.
    """
    if is_of("pandas", x) and hasattr(x, "columns"):
        pairs = [(str(name), x.iloc[:, i]) for i, name in enumerate(x.columns)]
        named = {name for name, _ in pairs}
        levels = {str(name): i for i, name in enumerate(x.index.names) if name is not None}
        pairs += [
            (name, x.index.get_level_values(levels[name]).to_series())
            for name in set_id
            if name in levels and name not in named
        ]
    elif isinstance(x, Mapping):
        pairs = [(str(name), values) for name, values in x.items()]
    elif isinstance(x, np.ndarray) and x.dtype.names is not None:
        pairs = [(name, x[name]) for name in x.dtype.names]
    else:
        if left := _unnamed_index(x, {*set_id, *named, *drop}):
            drop = {*drop, *left}
        table = _arrow(x)
        if table is None or not pa.types.is_struct(table.type):
            return None
        table = one_chunk(table)
        pairs = [(field.name, values) for field, values in zip(table.type, table.flatten(), strict=True)]
    fields = set(drop).difference(name for name, _ in pairs)  # a name is that of a column, if there is one
    columns: dict[str, Source] = {}
    for column, entries in pairs:
        for name, values in _parts(column, entries, drop):
            check_new(name, columns)
            columns[name] = source(values, name, fields)
    for (a, one), (b, other) in pairwise(columns.items()):
        if len(one) != len(other):
            raise ValueError(
                f"a table expects columns of one length; got {len(one)} rows of {a!r} and {len(other)} of {b!r}. "
                "Give every column a value in each row."
            )
    return columns


def _parts(name: str, values: Any, drop: Collection[str]) -> Iterable[tuple[str, Any]]:
    """Returns a column, or one per field if it holds structs or dicts, with their names; none that ``drop`` names."""
    if name in drop:
        return ()
    structs = None
    if isinstance(values, list | tuple) or (
        isinstance(kind := getattr(values, "dtype", None), np.dtype) and kind == "O"
    ):
        first = next((x for x in values if x is not None and not (isinstance(x, float) and isnan(x))), None)
        if type(first) is dict:  # no Counter, which is a multiset
            with suppress(pa.ArrowException):  # ``source`` has an error for entries of several kinds
                structs = pa.array(list(values), from_pandas=True)
    elif not isinstance(kind, np.dtype) and not isinstance(values, Tensor | Ragged):
        structs = _arrow(values, name)
    return [(name, values)] if structs is None else without_structs(name, structs, drop)


def _unnamed_index(x: Any, named: Collection[str]) -> list[str]:
    """Returns the columns of an Arrow table that were an index and that nobody names. Warns about them."""
    left = []
    if isinstance(x, pa.Table | pa.RecordBatch):
        left = [name for name in index_columns(x.schema) if name not in named]
    if left and len(left) == x.num_columns:  # nothing else was meant
        return []
    if left:
        warn(f"{', '.join(left)} is the index of a pandas frame, and left out. Rename it to use it.", stacklevel=4)
    return left


def list_column(x: Any, drop: Collection[str] = ()) -> Lists | None:
    """Returns a single column of lists, such as an awkward or Arrow array or a Series; None for anything else."""
    if is_of("pandas", x) or _arrow(x) is not None:
        column = source(x, "x", drop)
        return column if isinstance(column, Lists) else None
    return None


def source(values: Any, name: str, drop: Collection[str] = ()) -> Source:
    """Returns one column, of values or of lists. Fields named in ``drop`` are left out of lists of structs.

    Raises: TypeError for an object that is neither.
    """
    if isinstance(values, Ragged):
        return lists_from_ragged(values, name)
    if isinstance(values, Tensor):
        values = to_numpy(values)
    if is_of("pandas", values):
        plain = isinstance(values.dtype, np.dtype)
        values = values.to_numpy() if plain else _arrow(values, name)
    elif not isinstance(values, np.ndarray | list | tuple):
        converted = _arrow(values, name)
        values = np.asarray(values) if converted is None and hasattr(values, "__array__") else converted
    if isinstance(values, list | tuple):
        values = _objects(values)
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise TypeError(
                f"column {name!r} expects one value or one list per row; got an array of shape {values.shape}. "
                "Give each of its columns a name."
            )
        if values.dtype.kind == "O" and _holds_lists(values):
            return _lists(values, name, drop)
        return from_numpy(values, name)
    if values is None:
        raise TypeError(f"column {name!r} expects an array, a list or a column of Arrow; got something else.")
    return lists_from_arrow(values, name, drop) if holds_lists(values.type) else from_arrow(values, name)


def _lists(values: np.ndarray, name: str, drop: Collection[str]) -> Lists:
    """Returns the column of an array of objects, each a list or an array."""
    for row, x in enumerate(values):
        if x is None or isinstance(x, float):
            raise null_list(name, row)
    return lists_from_python(values.tolist(), name, drop)


def _holds_lists(values: np.ndarray) -> bool:
    return isinstance(next((x for x in values if x is not None), None), LISTED)


def _objects(values: list[Any] | tuple[Any, ...]) -> np.ndarray:
    array = np.empty(len(values), object)
    for row, x in enumerate(values):
        array[row] = x
    return array


def _arrow(x: Any, name: str = "x") -> pa.ChunkedArray | pa.Array | None:
    """Returns x as Arrow without a copy of its values, or None if x does not export itself as Arrow."""
    try:
        if isinstance(x, pa.Array | pa.ChunkedArray):
            return x
        if isinstance(x, pa.RecordBatch):
            return x.to_struct_array()
        if isinstance(x, pa.Table):  # whose own method fails without rows in pyarrow 18
            return pa.chunked_array([each.to_struct_array() for each in x.to_batches()], pa.struct(x.schema))
        if is_labelled_array(x):  # it exports itself as one Arrow column, whatever its shape
            return None
        if is_of("pandas", x) or is_of("awkward", x):
            return pa.array(x)
        if hasattr(x, "__arrow_c_stream__"):
            return pa.chunked_array(x)
        return pa.array(x) if hasattr(x, "__arrow_c_array__") else None
    except (ValueError, TypeError, NotImplementedError, pa.ArrowException) as error:
        raise TypeError(
            f"{name!r} expects what Arrow can hold; got {type(x).__name__}. Convert its columns to numbers, text, "
            f"booleans or dates. Arrow says: {str(error).splitlines()[0][:150]}"
        ) from error
