"""Long tables, one row an element: which rows make each set."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch

from janossy.estimators.columns import Column, Where
from janossy.estimators.table import offsets_of


@dataclass(frozen=True, eq=False)
class Grouping:
    """The rows of each set, sets in the order in which their ids appear first, rows in theirs.

    ``order`` (N,) lists the rows set by set, or is a slice of all where they are so already; ``ids`` (B,).
    """

    order: np.ndarray | slice
    offsets: np.ndarray
    ids: np.ndarray

    @classmethod
    def by(cls, column: Column, name: str, where: Where) -> "Grouping":
        """Group by a column of ids: numbers, text or dates.

        Raises: ValueError for a missing id, naming its row.
        """
        check_present(column, name, where)
        # Arrow numbers values in the order in which they appear first.
        found = pa.array(column.values).dictionary_encode()
        codes, first = found.indices.to_numpy(), found.dictionary.to_numpy(zero_copy_only=False)
        ids = ids_of(Column(column.kind, first, column.categories))
        in_order = bool((codes[1:] >= codes[:-1]).all())
        # torch sorts whole numbers four times as fast as numpy.
        order = slice(None) if in_order else torch.tensor(codes).argsort(stable=True).numpy()
        return cls(order, offsets_of(np.bincount(codes, minlength=len(ids))), ids)

    @property
    def sizes(self) -> np.ndarray:
        """The number of rows of each set (B,)."""
        return np.diff(self.offsets)

    def one_a_set(self, column: Column, name: str, where: Where) -> Column:
        """A column that is constant in each set, as one value a set.

        Raises: ValueError, naming the set and two rows, where it is not.
        """
        values, missing = column.values[self.order], column.missing()[self.order]
        first = np.repeat(self.offsets[:-1], self.sizes)
        differs = (values != values[first]) & ~(missing & missing[first])
        if differs.any():
            places = [first[int(differs.argmax())], int(differs.argmax())]
            here, there = Column(column.kind, values[places], column.categories).decoded().tolist()
            rows = np.arange(len(column))[self.order][places].tolist()
            b = int(np.searchsorted(self.offsets, places[1], side="right")) - 1
            raise ValueError(
                f"column {name!r} expects one value a set; got {here!r} in {where(rows[0])} and {there!r} in "
                f"{where(rows[1])}, both of set {self.ids[b]!s}. Correct the rows, or leave the column out of "
                "set_columns and y."
            )
        return Column(column.kind, values[self.offsets[:-1]], column.categories)


def unique_ids(column: Column, name: str, where: Where) -> np.ndarray:
    """The ids of a table of one row a set.

    Raises: ValueError for an id that is missing, or occurs twice.
    """
    check_present(column, name, where)
    first, counts = np.unique(column.values, return_index=True, return_counts=True)[1:]
    if (counts > 1).any():
        row = int(first[(counts > 1).argmax()])
        raise ValueError(
            f"set_id={name!r} expects an id of its own in each row, as the rows hold lists and are sets; got "
            f"{ids_of(column)[row]!s} twice, first in {where(row)}. Without lists, rows of one id would be a set."
        )
    return ids_of(column)


def ids_of(column: Column) -> np.ndarray:
    """Ids as numbers, text or, to the microsecond, dates."""
    values = column.decoded()
    return values.astype("datetime64[us]") if column.kind == "date" else values


def check_present(column: Column, name: str, where: Where) -> None:
    """Raise a ValueError, naming the row, where an id is missing."""
    missing = column.missing()
    if missing.any():
        raise ValueError(
            f"set_id={name!r} expects an id in every row; got none in {where(int(missing.argmax()))}. "
            "Drop the row, or give it an id."
        )
