"""Targets: one or several per set, given row by row, by id, or as columns of the table itself."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from typing import Any
from warnings import warn

import numpy as np
import pyarrow as pa
from torch import Tensor

from janossy.tables.category import category_of
from janossy.tables.columns import FLOAT_WHOLE, Column, Where
from janossy.tables.grouping import ids_of, listed
from janossy.tables.lists import Lists, array_columns, to_numpy
from janossy.tables.sources import Source, is_of, named_columns, source
from janossy.tables.table import SetTable, set_name, tuples

WEIGHTS = (1e-18, 1e18)
"""The least and the largest weight beside 0. Training divides them by their mean, in float32."""

DATES = (date, time, timedelta, np.datetime64, np.timedelta64)
"""Types whose numbers have a unit, which predictions would lose. pandas' periods are beside them."""


@dataclass(frozen=True, eq=False)
class Targets:
    """Columns of targets.

    ``flat`` is True for one target that was not given as a matrix. ``ids`` are the sets' ids if targets are given by
    id.
    """

    columns: dict[str, Column]
    flat: bool
    ids: list[Any] | None = None

    def check_length(self, num: int, what: str) -> None:
        """Raises a ValueError unless there are ``num`` targets."""
        for column in self.columns.values():
            if len(column) != num:
                raise ValueError(f"y expects one target per {what} of X, which has {num}; got {len(column)}.")


def as_array(y: Any) -> Any:
    """Returns a tensor as an array, and a masked array as objects, of which those masked are None. Others stay."""
    if isinstance(y, Tensor):
        return to_numpy(y)
    if isinstance(y, np.ma.MaskedArray):
        mask, values = np.ma.getmaskarray(y), y.data.astype(object)
        values[mask] = None
        return values if mask.any() else y.data
    return y


def check_known(name: str, columns: Mapping[str, Any], owner: str) -> None:
    """Raises a ValueError if there is no column of this name."""
    if name not in columns:
        names = ", ".join(list(columns)[:20]) + (", …" if len(columns) > 20 else "")
        raise ValueError(f"{owner} expects the name of a column; got {name!r}. X has {names}.")


def taken_by_name(y: Any, columns: dict[str, Source], num_rows: int) -> Targets | None:
    """Returns the columns that y names, and takes them out of the table. Returns None if y does not name columns.

    A list of as many words as the table has rows is data, not names.
    """
    names = [y] if isinstance(y, str | int | np.integer) else y
    if not isinstance(names, list | tuple) or not names:
        return None
    if names is y and len(names) == num_rows:
        return None
    if not all(isinstance(name, str) or (_is_whole(name) and str(name) in columns) for name in names):
        return None
    known = dict.fromkeys(map(str, names))
    for name in known:
        check_known(name, columns, "y")
    flat = isinstance(y, str | int | np.integer)
    return Targets({name: _plain(columns.pop(name), name) for name in known}, flat)


def _is_whole(name: Any) -> bool:
    return isinstance(name, int | np.integer) and not isinstance(name, bool)


def targets_of(y: Any, set_id: Sequence[str], X: Any, num_rows: int) -> Targets:
    """Returns targets from data, given row by row or by id.

    Targets are given by id in these forms:

    - a dict
    - a table with the columns ``set_id``
    - a pandas Series or frame whose index is named like ``set_id``, or neither is X's index nor counts X's rows

    Raises: TypeError for an object that does not hold values.
    """
    if set_id and isinstance(y, Mapping) and not any(name in y for name in set_id):
        return Targets({"y": _column(list(y.values()))}, True, list(y))
    if isinstance(y, str):
        raise TypeError(f"y expects values, as X is not a table with column names; got {y!r}. Give one for each set.")
    ids, of_x = None, False
    if is_of("pandas", y) and hasattr(y, "index"):
        index = y.index
        counts = len(index) == num_rows and getattr(index, "start", None) == 0 and getattr(index, "step", None) == 1
        of_x = is_of("pandas", X) and index.equals(X.index)
        named = sorted(map(str, index.names)) == sorted(set_id)
        if named and not (of_x and list(index.names) == list(X.index.names)):
            ids = (index.reorder_levels(_levels(index, set_id)) if len(set_id) > 1 else index).tolist()
        elif set_id and not counts and not of_x:
            ids = index.tolist()
        if not hasattr(y, "columns"):
            return Targets({"y": _column(y)}, True, ids)
    columns = named_columns(y, () if of_x else set_id)  # an index that is X's own is no column of ids
    if columns is not None:
        if set_id and all(name in columns for name in set_id):
            ids = listed(ids_of([_plain(columns.pop(name), name) for name in set_id]))
        targets = {name: _plain(column, name) for name, column in columns.items()}
        if not targets:
            raise ValueError("y expects a column of targets beside that of ids; got none.")
        return Targets(targets, len(targets) == 1, ids)
    y = as_array(y)
    if getattr(y, "ndim", 1) == 2:
        return Targets(array_columns(np.asarray(y), "y"), False)
    return Targets({"y": _column(y)}, True)


def check_outer(targets: Targets, outer: Sequence[str], inner: Sequence[str]) -> None:
    """Raises a ValueError for targets that are given by the ids of inner sets too."""
    if not inner or targets.ids is None:
        return
    both = (*outer, *inner)
    as_ids = any(isinstance(name, tuple) and len(name) == len(both) for name in targets.ids[:1])
    if as_ids or set(inner) & set(targets.columns):
        raise ValueError(
            f"y expects one target per set, by {'+'.join(outer)}; got targets by {', '.join(both)}. Leave the inner id "
            f"out of y. If each inner set has a target of its own, write set_id={'+'.join(both)!r}."
        )


def with_targets(sets: SetTable, targets: Targets, add: bool, where: Where) -> tuple[SetTable, np.ndarray]:
    """Returns the sets, and the targets in their order, (B,), or (B, t) for several.

    Args:
        add: True appends sets that only the targets have. They are empty, and their own columns are missing.
        where: a function that names the row of a set.

    Raises: ValueError for a set without a target.
    """
    ids: list[Any] = list(range(len(sets))) if sets.ids is None else listed(sets.ids)
    columns = targets.columns
    if targets.ids is None:
        targets.check_length(len(sets), "set")
    else:
        places = {category_of(name): row for row, name in enumerate(targets.ids)}
        if len(places) < len(targets.ids):
            twice = next(name for row, name in enumerate(targets.ids) if places[category_of(name)] != row)
            raise ValueError(f"y expects one target per set; got two for set {set_name(twice)}. Drop one.")
        rows = [places.pop(category_of(name), -1) for name in ids]
        if -1 in rows:
            raise without_target(ids[rows.index(-1)])
        if add and places:
            sets, ids, rows = _followed_by(sets, list(places)), [*ids, *places], [*rows, *places.values()]
        columns = {name: column[np.array(rows)] for name, column in columns.items()}
    for column in columns.values():
        if column.missing().any():
            b = int(column.missing().argmax())
            raise without_target(ids[b], where(b) if targets.ids is None else None)
    dates = [name for name, column in columns.items() if column.kind == "date"]
    if dates and len(dates) < len(columns):
        raise ValueError(f"y expects numbers or text in several columns; got dates in {dates[0]!r}. Convert them.")
    arrays = [column.decoded() for column in columns.values()]
    joined = arrays[0] if targets.flat else np.stack(arrays, 1)
    for (name, column), values in zip(columns.items(), arrays, strict=True):
        if column.is_rounded() or (joined.dtype.kind == "f" and _become_equal(values)):
            warn(
                f"column {name!r} holds targets with more digits than float64 has, and some that differ become equal. "
                "Convert the column to text if they are classes.",
                stacklevel=3,
            )
    return sets, joined


def _become_equal(values: np.ndarray) -> bool:
    """Returns True if float64 makes two different whole numbers equal."""
    if values.dtype.kind not in "iu" or max(-int(values.min()), int(values.max())) <= FLOAT_WHOLE:
        return False
    return len(np.unique(values.astype(np.float64))) < len(np.unique(values))


def _followed_by(sets: SetTable, new: list[Any]) -> SetTable:
    warn(
        f"y has targets for {len(new):,} sets without elements in X, such as set {set_name(new[0])}: they are taken as "
        "empty sets. Drop them from y if they are not empty.",
        stacklevel=4,
    )
    if sets.ids is not None and sets.ids.dtype == "datetime64[ns]":  # new names with nanoseconds are text
        new = list(np.array(new, sets.ids.dtype))
    ids = [*([] if sets.ids is None else listed(sets.ids)), *new]
    return SetTable(
        np.concatenate((sets.offsets, np.full(len(new), sets.num_elements))),
        sets.elements,
        {name: column.followed_by_missing(len(new)) for name, column in sets.context.items()},
        tuples(ids) if isinstance(ids[0], tuple) else ids_of([_column(ids)]),
        sets.inner,
    )


def check_none_missing(y: np.ndarray) -> None:
    """Raises a ValueError if one of these targets is None or NaN."""
    if y.dtype.kind in "Of" and (missing := _column(y).missing()).any():
        raise without_target(int(missing.argmax()))


def columns_in_frame(y: Any) -> list[Any] | None:
    """Returns the columns of a polars frame or an Arrow table, whose arrays would hold dates as numbers."""
    if isinstance(y, pa.Table):
        return list(y.columns)
    return list(y.get_columns()) if is_of("polars", y) and hasattr(y, "get_columns") else None


def check_no_dates(y: Any, classes: bool) -> None:
    """Raises a ValueError if one of these targets is a date, a time or a duration."""
    found: Any = None
    for values in map(np.asarray, columns_in_frame(y) or [y]):
        if values.dtype.kind in "Mm" and values.size:
            found = values.flat[0]
        elif values.dtype == object:
            found = next((x for x in values.flat if isinstance(x, DATES) or hasattr(x, "to_timestamp")), None)
        if found is not None:
            expected = (
                "SetRegressor expects numbers",
                "SetClassifier expects classes that are text, numbers or booleans",
            )
            remedy = "numbers, such as days", "text"
            raise ValueError(f"{expected[classes]} in y; got {found!r:.60}. Convert them to {remedy[classes]}.")


def without_target(name: Any, place: str | None = None) -> ValueError:
    """Returns the error for a set without a target, with its row in the table if it is known."""
    row = "" if place is None else f", in {place}"
    return ValueError(
        f"y expects a target for every set; got none for set {set_name(name)}{row}. Give it one, or drop the set."
    )


def checked_weights(column: Column, where: Where) -> np.ndarray:
    """Returns the weights of sets (B,), float64.

    Raises: ValueError, naming the row, as ``check_weights`` does.
    """
    weights = column.to_kind("numeric", "sample_weight", where).values.astype(np.float64)
    check_weights("sample_weight", weights, lambda row: f"in {where(row)}")
    return weights


def check_weights(name: str, weights: np.ndarray, place: Callable[[int], str]) -> None:
    """Raises a ValueError for a weight that is negative or not finite, or whose ratios float32 may not hold.

    ``place`` says where the weight with this number is.
    """
    least, largest = WEIGHTS
    wrong = ~((weights == 0) | ((weights >= least) & (weights <= largest)))  # also NaN
    if not wrong.any():
        return
    i = int(wrong.argmax())
    remedy = " Divide all by one number." if 0 < weights[i] < np.inf else ""
    raise ValueError(f"{name} expects 0, or numbers from {least} to {largest}; got {weights[i]} {place(i)}.{remedy}")


def _levels(index: Any, names: Sequence[str]) -> list[int]:
    """Returns the positions of the levels with these names in an index."""
    levels = list(map(str, index.names))
    return [levels.index(name) for name in names]


def _column(y: Any) -> Column:
    return _plain(source(y, "y"), "y")


def _plain(column: Source, name: str) -> Column:
    if isinstance(column, Lists):
        raise TypeError(f"y expects one value per set; got lists in {name!r}. Give several targets as columns.")
    return column
