"""Groups of the rows of a long table, one row per element: one group per set."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, cast

import numpy as np
import pyarrow as pa
import torch

from janossy.tables.category import category_of
from janossy.tables.columns import Column, Where
from janossy.tables.table import offsets_of, set_name, tuples


@dataclass(frozen=True, eq=False)
class Grouping:
    """The rows of each set. Sets are in the order in which their ids first appear, rows in the order of the table.

    ``order`` (N,) lists the rows set by set; it is a slice of all rows if they are in that order already.

    Shapes: order (N,), offsets (B + 1,), ids (B,).
    """

    order: np.ndarray | slice
    offsets: np.ndarray
    ids: np.ndarray

    @classmethod
    def by(cls, columns: Mapping[str, Column], where: Where) -> "Grouping":
        """Groups rows by columns of ids: numbers, text or dates. Rows that agree in all of them are a set.

        Raises: ValueError for a missing id, naming its row.
        """
        codes, first = _numbered(columns, where)
        ids = ids_of([column[first] for column in columns.values()])
        in_order = bool((codes[1:] >= codes[:-1]).all())
        # torch sorts whole numbers four times as fast as numpy does.
        order = slice(None) if in_order else torch.tensor(codes).argsort(stable=True).numpy()
        return cls(order, offsets_of(np.bincount(codes, minlength=len(ids))), ids)

    @property
    def sizes(self) -> np.ndarray:
        """The number of rows of each set (B,)."""
        return np.diff(self.offsets)

    def inner_numbers(self, columns: Mapping[str, Column], where: Where) -> np.ndarray:
        """Numbers the inner sets of each set from 0 on, in the order in which their ids first appear in it.

        Equal ids in different sets are different inner sets. Shapes: columns (N,) -> (N,), in the order of the sets.
        Raises: ValueError for a missing id, naming its row.
        """
        codes, _ = _numbered(columns, where)
        owners = np.repeat(np.arange(len(self.ids)), self.sizes)
        pairs = _both(owners, codes[self.order])
        first = pairs[self.offsets[:-1]]  # a set's first row has its smallest number
        return cast(np.ndarray, pairs - np.repeat(first, self.sizes))

    def one_a_set(self, column: Column, name: str, where: Where) -> Column:
        """Returns the single value per set of a column that is constant in each set.

        Raises: ValueError, naming the set and two rows, if it is not constant.
        """
        keys = column.keys()
        values, missing = keys[self.order], column.missing()[self.order]
        first = np.repeat(self.offsets[:-1], self.sizes)
        differs = (values != values[first]) & ~(missing & missing[first])
        if differs.any():
            places = [first[int(differs.argmax())], int(differs.argmax())]
            rows = np.arange(len(column))[self.order][places].tolist()
            here, there = _named_values(column[rows]).tolist()
            b = int(np.searchsorted(self.offsets, places[1], side="right")) - 1
            raise ValueError(
                f"column {name!r} expects one value per set; got {here!r} in {where(rows[0])} and {there!r} in "
                f"{where(rows[1])}, both of set {set_name(self.ids[b])}. Correct the rows, or leave the column out of "
                "set_columns and y."
            )
        return column[np.arange(len(column))[self.order][self.offsets[:-1]]]


def group_numbers(columns: Iterable[Column]) -> np.ndarray:
    """Returns the number of each set's group, for several columns end to end. Equal values are one group.

    Raises: ValueError for a missing value.
    """
    known: dict[Any, int] = {}
    parts = []
    for column in columns:
        if (missing := column.missing()).any():
            raise ValueError(
                f"groups expects a group for every set; got none for set {int(missing.argmax())}. Give it one."
            )
        codes, first = _numbered({"groups": column}, "row {}".format)
        values = listed(ids_of([column[first]]))
        places = [known.setdefault(category_of(value), len(known)) for value in values]
        parts.append(np.array(places, np.int64)[codes])
    return np.concatenate(parts)


def unique_ids(columns: Mapping[str, Column], where: Where) -> np.ndarray:
    """Returns the ids of a table with one row per set.

    Raises: ValueError for an id that is missing, or occurs twice.
    """
    codes, first = _numbered(columns, where)
    ids = ids_of(list(columns.values()))
    again = first[codes] != np.arange(len(codes))
    if again.any():
        row = int(first[codes[again.argmax()]])
        raise ValueError(
            f"set_id={_named(columns)} expects a different id in each row, because rows with lists are sets; got "
            f"{set_name(ids[row])} twice, first in {where(row)}. If rows are elements, make each number of "
            "their lists a column, or let janossy group make sets of them."
        )
    return ids


def ids_of(columns: Sequence[Column]) -> np.ndarray:
    """Returns ids as numbers, text or dates, or as tuples of these if there are several columns."""
    values = [_named_values(column) for column in columns]
    return values[0] if len(values) == 1 else tuples(zip(*map(listed, values), strict=True))


def _named_values(column: Column) -> np.ndarray:
    """Returns the values of one column of ids.

    Exact values become int64, or numbers and text. Dates become microseconds, unless that loses digits.
    """
    if column.kind == "date":
        rounded = column.values.astype("datetime64[us]")
        return rounded if np.array_equal(rounded, column.values, equal_nan=True) else column.values
    values = (column if column.exact is None else column.to_kind("categorical", "")).decoded()
    if column.exact is not None and all(isinstance(x, int) and abs(x) < 2**63 for x in values):
        return values.astype(np.int64)
    return values


def listed(values: np.ndarray) -> list[Any]:
    """Returns the values as Python objects; nanoseconds, which Python does not have, stay numpy's."""
    return list(values) if values.dtype == "datetime64[ns]" else values.tolist()


def _numbered(columns: Mapping[str, Column], where: Where) -> tuple[np.ndarray, np.ndarray]:
    """Returns each row's set number (N,) and each set's first row (B,). Sets are numbered as they first appear.

    Raises: ValueError, naming the row, if an id is missing.
    """
    for name, column in columns.items():
        if (missing := column.missing()).any():
            raise ValueError(
                f"set_id={name!r} expects an id in every row; got none in {where(int(missing.argmax()))}. "
                "Drop the row, or give it an id."
            )
    codes = reduce(_both, (_codes(column.keys()) for column in columns.values()))
    first = np.empty(codes.max(initial=-1) + 1, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # the last value written for a code stays: its first row
    return codes, first


def _codes(values: np.ndarray) -> np.ndarray:
    """Numbers the values in the order in which they first appear, as Arrow does."""
    if values.dtype == np.float16:  # pyarrow numbers these from version 26 on
        values = values.astype(np.float32)
    return cast(np.ndarray, pa.array(values).dictionary_encode().indices.to_numpy())


def _both(codes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Numbers the pairs of two arrays of codes."""
    return _codes(codes.astype(np.int64) * (int(others.max(initial=0)) + 1) + others)  # NumPy 1 would keep int32


def _named(columns: Mapping[str, Column]) -> str:
    return repr("+".join(columns))
