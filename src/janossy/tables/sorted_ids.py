"""Ids of sets in files: checks that they ascend, positions where sets begin, and checks that no set is in two files."""

from collections.abc import Iterator, Sequence
from functools import reduce
from heapq import merge
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def check_types(schema: pa.Schema, set_id: Sequence[str]) -> None:
    """Raises a ValueError if a column of ids holds lists, structs or intervals, which have no order."""
    for name in set_id:
        kind = schema.field(name).type
        while isinstance(kind, pa.BaseExtensionType | pa.DictionaryType):
            kind = kind.value_type if isinstance(kind, pa.DictionaryType) else kind.storage_type
        if (pa.types.is_nested(kind) and not pa.types.is_run_end_encoded(kind)) or pa.types.is_interval(kind):
            raise ValueError(
                f"set_id={name!r} expects a column of numbers, text or dates; got Arrow's {kind}. Name another column."
            )


def begins(ids: pa.Table) -> np.ndarray:
    """Returns the rows whose id differs from the row before, with the first row."""
    if len(ids) == 0:
        return np.zeros(0, np.int64)
    columns = [_plain(column) for column in ids.columns]
    differ = (pc.not_equal(column.slice(1), column.slice(0, len(ids) - 1)) for column in columns)
    flags = (pc.fill_null(each, True).to_numpy() for each in differ)
    return np.concatenate(([0], np.flatnonzero(reduce(np.logical_or, flags)) + 1))


def first_descent(ids: pa.Table) -> int | None:
    """Returns the first row whose id is less than the id before it, or None if ids ascend."""
    less, equal = np.zeros(max(0, len(ids) - 1), bool), np.ones(max(0, len(ids) - 1), bool)
    for column in map(_plain, ids.columns):
        before, after = column.slice(0, len(less)), column.slice(1)
        less |= equal & pc.less(after, before).to_numpy()
        equal &= pc.equal(after, before).to_numpy()
    return int(less.argmax()) + 1 if less.any() else None


class FileIds:
    """The ids of one file, read one row group at a time."""

    def __init__(self, fragment: Any, schema: pa.Schema, set_id: Sequence[str]) -> None:
        self.fragment, self.schema, self.set_id = fragment, schema, list(set_id)
        self.firsts: list[np.ndarray] = []
        """For each row group, its rows at which a set begins."""
        self.first: tuple[Any, ...] | None = None
        self.last: tuple[Any, ...] | None = None
        self.descent: int | None = None
        """A row of the file whose id is less than the id before it."""
        check_types(schema, set_id)
        self._index()

    def _index(self) -> None:
        before, row = None, 0
        for table in self._groups():
            for name in self.set_id:
                if (missing := pc.is_null(table[name], nan_is_null=True).combine_chunks()).true_count:
                    at = row + int(missing.to_numpy(zero_copy_only=False).argmax())
                    raise ValueError(
                        f"set_id={name!r} expects an id in every row; got none in {self.fragment.path}, row {at + 1}."
                    )
            joined = table if before is None else pa.concat_tables([before, table])
            added = len(joined) - len(table)
            firsts = begins(joined) - added
            self.firsts.append(firsts[firsts >= 0] if before is None else firsts[1:])
            descent = first_descent(joined)
            if self.descent is None and descent is not None:
                self.descent = row + descent - added
            if len(table):
                before, row = table.slice(len(table) - 1), row + len(table)
                self.first = self.first or _row(table, 0)
                self.last = _row(before, 0)

    def _groups(self) -> Iterator[pa.Table]:
        for group in range(self.fragment.num_row_groups):
            try:
                table = self.fragment.subset(row_group_ids=[group]).to_table(self.schema, columns=self.set_id)
                table.validate(full=True)
            except (pa.ArrowException, OSError) as error:
                raise ValueError(f"{self.fragment.path} cannot be read: {str(error).splitlines()[0][:200]}") from error
            yield pa.table({name: _plain(table[name]) for name in self.set_id})

    def sets(self) -> Iterator[tuple[tuple[Any, ...], str]]:
        """Yields the id of each set with the name of the file, in order."""
        for table, firsts in zip(self._groups(), self.firsts, strict=True):
            columns = (column.to_pylist() for column in table.take(pa.array(firsts)).columns)
            yield from ((name, self.fragment.path) for name in zip(*columns, strict=True))


def check_apart(files: Sequence[FileIds]) -> None:
    """Raises a ValueError if two of these files hold one set. Ids must ascend in each file.

    If the ranges of the files' ids do not overlap, nothing is read. Else all ids are read and merged.
    """
    known = sorted((file for file in files if file.first is not None), key=lambda file: (file.first, file.last))
    if all(one.last < other.first for one, other in pairwise(known)):  # type: ignore[operator]
        return
    for (name, file), (other, other_file) in pairwise(merge(*(file.sets() for file in known))):
        if name == other and file != other_file:
            text = ", ".join(map(str, name))
            raise ValueError(
                f"set {text} is in {file} and in {other_file}; a set must be in one file, because files are read "
                "separately. janossy group makes one file of them."
            )


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns keys that Arrow can compare: text for its codes, UUIDs as stored, and 32-bit floats."""
    kind = column.type
    if pa.types.is_null(kind):
        return column.cast(pa.bool_())
    if pa.types.is_run_end_encoded(kind):
        return _plain(pa.chunked_array([pc.run_end_decode(each) for each in column.chunks], kind.value_type))
    if pa.types.is_dictionary(kind):
        return _plain(column.cast(kind.value_type))
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(column.cast(kind.storage_type))
    return column.cast(pa.float32()) if pa.types.is_float16(kind) else column


def _row(table: pa.Table, row: int) -> tuple[Any, ...]:
    return tuple(column[row].as_py() for column in table.columns)
