"""SetStream: sets in Parquet files, read one row group at a time and never all at once."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast
from warnings import warn

import numpy as np
import pyarrow as pa

from janossy.tables.arrow import without_views
from janossy.tables.columns import Column, Where
from janossy.tables.files import Files, open_files
from janossy.tables.forms import Names, as_sets, names_of
from janossy.tables.grouping import Grouping, group_numbers
from janossy.tables.ids import Ids, only_outer
from janossy.tables.lists import Lists, holds_lists
from janossy.tables.paths import Paths
from janossy.tables.sorted_ids import FileIds, begins, check_apart
from janossy.tables.sources import source
from janossy.tables.table import SetTable, offsets_of
from janossy.tables.targets import check_known, checked_weights


@dataclass(frozen=True)
class FilePiece:
    """Whole sets that are read together: rows of one file.

    They begin at row ``begin`` of the first of the row groups ``groups``. If a row is a set, ``num_elements`` is an
    estimate from the file's metadata of its columns of lists.
    """

    file: int
    groups: tuple[int, ...]
    begin: int
    num_rows: int
    first_row: int
    """The row of the file at which the piece begins."""
    num_sets: int
    num_elements: int


@dataclass(frozen=True, eq=False)
class Labelled:
    """The sets of a piece, their targets, (B,) or (B, t) for several, and their weights (B,); None if there are
    none."""

    sets: SetTable
    targets: np.ndarray | None
    weights: np.ndarray | None = None


class SetStream:
    """Sets in Parquet files that need not fit in memory, for ``fit`` and ``predict`` of the estimators.

    If columns hold lists, as ``janossy group`` writes them, a row is a set. Else ``set_id`` names the columns that
    identify a set, and rows must ascend by it in each file. One row group is read at a time, with whole sets: a set
    that continues in the next row group is read with the first. ``len`` is the number of sets.

    Args:
        paths: a file, a folder, a pattern such as "sets/part-*.parquet", or several. Folders called year=2024 give
            their files a column. ``Files`` that are open are not opened again.
        y: the column of the targets, or several.
        sample_weight: the column of the sets' weights in a fit, numbers >= 0.
        groups: the column of the sets' groups, which validation keeps together.
        set_id, set_columns, numeric, categorical, drop: as in ``as_sets``, but for one id alone.

    Raises: FileNotFoundError if a path has no file. ValueError, naming file, column and row, for:

        - files that are damaged or differ in their columns
        - columns that do not exist
        - rows that do not ascend
        - a set in two files, if ids ascend in each file; other files are not compared

    Shapes: B sets, in ``pieces``.

    Example:
        >>> from pyarrow import parquet, table
        >>> folder = tempfile.mkdtemp()
        >>> parquet.write_table(table({"x": [[1.0, 2.0], [3.0]], "y": [3.0, 3.0]}), f"{folder}/sets.parquet")
        >>> stream = SetStream(folder, "y")
        >>> stream.read(0).sets.sizes, stream.read(0).targets
        (array([2, 1]), array([3., 3.]))
    """

    def __init__(
        self,
        paths: Paths | Files,
        y: Names | None = None,
        *,
        sample_weight: str | int | None = None,
        groups: str | int | None = None,
        set_id: Names | Ids | None = None,
        set_columns: Names | None = None,
        numeric: Names = (),
        categorical: Names = (),
        drop: Names = (),
    ) -> None:
        self.files = paths if isinstance(paths, Files) else open_files(paths)
        self.sample_weight, self.groups = (None if name is None else str(name) for name in (sample_weight, groups))
        names = [str(name) for name in names_of(y)]
        self.y = None if y is None else names[0] if isinstance(y, str | int | np.integer) else names
        ids = set_id if isinstance(set_id, Ids) else [str(name) for name in names_of(set_id)]
        self.set_id = only_outer(ids, self.files.schema.names, "SetStream")
        self.options: dict[str, Any] = {"set_columns": set_columns, "numeric": numeric, "categorical": categorical}
        schema, targets, dropped = self.files.schema, names, {str(name) for name in names_of(drop)}
        self.options["drop"] = dropped.difference(schema.names)  # fields of structs
        of_fits = [name for name in (self.sample_weight, self.groups) if name is not None]
        for name in (*self.set_id, *targets, *of_fits):
            if name not in schema.names:
                known = ", ".join(schema.names[:20]) + (", …" if len(schema) > 20 else "")
                raise ValueError(f"{self.files.names[0]} has no column {name!r}; it has {known}.")
        named = {
            *targets,
            *self.set_id,
            *of_fits,
            *map(str, (*names_of(set_columns), *names_of(numeric), *names_of(categorical))),
        }
        index = set(self.files.index_columns) - named
        if index:
            warn(f"{', '.join(sorted(index))} is the index of a pandas frame, and left out.", stacklevel=2)
        dropped |= index | {name for name in of_fits if name not in self.set_id}
        self.columns = [name for name in schema.names if name not in dropped or name in targets]
        self.of_lists = any(holds_lists(schema.field(name).type) for name in self.columns if name not in targets)
        if self.sample_weight is not None and self.sample_weight not in self.columns:
            self.columns.append(self.sample_weight)
        if not self.of_lists and not self.set_id:
            raise ValueError(
                f"{self.files.names[0]} has no column of lists: set_id= names the column that identifies the set of a "
                "row; janossy group writes lists."
            )
        self.pieces = tuple(self._pieces())
        if not self.pieces:
            raise ValueError(f"{self.files.names[0]} has columns but no rows.")
        self._begins = offsets_of(np.array([piece.num_sets for piece in self.pieces]))

    def __len__(self) -> int:
        return int(self._begins[-1])

    def table(self, i: int, ids: bool = False) -> pa.Table:
        """Returns the rows of a piece as in the file. Ids that only name rows are left out unless ``ids``."""
        without = self.set_id if self.of_lists and not ids else ()
        return self._table(i, [name for name in self.columns if name not in without or name == self.sample_weight])

    def _table(self, i: int, columns: list[str]) -> pa.Table:
        piece = self.pieces[i]
        rows = self.files.fragments[piece.file].subset(row_group_ids=list(piece.groups))
        try:
            table = rows.to_table(self.files.schema, columns=columns)
            table.validate(full=True)
        except (pa.ArrowException, OSError) as error:
            reason = str(error).splitlines()[0][:200]
            raise ValueError(f"{self.files.names[piece.file]} cannot be read: {reason}") from error
        return without_views(table.slice(piece.begin, piece.num_rows))

    def part(self, table: pa.Table, where: Where = "row {}".format) -> Labelled:
        """Returns the sets of the rows of ``table``, with their targets if the stream has any."""
        set_id = tuple(name for name in self.set_id if name in table.column_names)
        weights = None
        if self.sample_weight is not None and self.sample_weight in table.column_names:
            of_rows = checked_weights(self._column(table, self.sample_weight), where)
            weights = self._of_sets(table, Column("numeric", of_rows), self.sample_weight, where).values
        without = [self.sample_weight] if self.sample_weight not in (None, *set_id) else []
        y: Any = self.y
        if isinstance(y, list):  # as_sets reads a list of as many words as rows as targets, not as names
            for name in y:
                check_known(name, dict.fromkeys(each for each in table.column_names if each not in without), "y")
            y = table.select(list(dict.fromkeys(y)))
            without += y.column_names
        found = as_sets(table.drop_columns(without), y, set_id=Ids(set_id), where=where, **self.options)
        sets, targets = found if isinstance(found, tuple) else (found, None)
        if targets is not None and isinstance(self.y, list):
            targets = targets.reshape(len(targets), -1)
        return Labelled(sets, targets, weights)

    def group_numbers(self) -> np.ndarray | None:
        """Returns the group number of each set, in the order of the stream, (B,); None without ``groups``.

        Raises: ValueError, naming file and row, for a set that has no group, or several.
        """
        if (name := self.groups) is None:
            return None
        columns = [name] if self.of_lists else list(dict.fromkeys((*self.set_id, name)))
        tables = (self._table(i, columns) for i in range(len(self.pieces)))
        return group_numbers(
            self._of_sets(table, self._column(table, name), name, self.where(i)) for i, table in enumerate(tables)
        )

    def _column(self, table: pa.Table, name: str) -> Column:
        column = source(table[name], name)
        if isinstance(column, Lists):
            raise ValueError(f"column {name!r} expects one value per set; got lists.")
        return column

    def _of_sets(self, table: pa.Table, column: Column, name: str, where: Where) -> Column:
        """Returns one value per set of a column that is constant in each set.

        Raises: ValueError if it is not constant, or a value is missing.
        """
        if (missing := column.missing()).any():
            row = where(int(missing.argmax()))
            raise ValueError(f"column {name!r} expects a value for every set; got none in {row}. Give it one.")
        if self.of_lists:
            return column
        group = Grouping.by({each: self._column(table, each) for each in self.set_id}, where)
        return group.one_a_set(column, name, where)

    def read(self, i: int, ids: bool = False) -> Labelled:
        """Returns the sets of piece i and their targets, with the sets' ids if ``ids``.

        Raises: ValueError, naming file, row and column, for invalid data.
        """
        return self.part(self.table(i, ids), self.where(i))

    def where(self, i: int) -> Where:
        """Returns a function that names the rows of a piece in errors."""
        piece = self.pieces[i]
        return lambda row: f"{self.files.names[piece.file]}, row {piece.first_row + row + 1}"

    def among(self, numbers: np.ndarray, i: int) -> np.ndarray:
        """Returns the positions in piece i of those of its sets whose numbers in the stream are in ``numbers``.

        ``numbers`` must ascend.
        """
        begin, end = np.searchsorted(numbers, self._begins[i : i + 2])
        return cast(np.ndarray, numbers[begin:end] - self._begins[i])

    def rows(self, table: pa.Table, sets: np.ndarray) -> pa.Table:
        """Returns the rows of these sets of a piece, whose rows are ``table``."""
        if self.of_lists:
            return table.take(pa.array(sets))
        firsts = np.append(begins(table.select(list(self.set_id))), len(table))
        return pa.concat_tables([table.slice(firsts[b], firsts[b + 1] - firsts[b]) for b in sets]).combine_chunks()

    def __iter__(self) -> Iterator[Labelled]:
        return (self.read(i) for i in range(len(self.pieces)))

    def state(self) -> dict[str, Any]:
        """Returns plain data that identifies these files and their columns."""
        rows = [fragment.metadata.num_rows for fragment in self.files.fragments]
        named: dict[str, Any] = {"files": list(self.files.names), "rows": rows}
        named |= {"y": names_of(self.y), "set_id": list(self.set_id)}
        named |= {"sample_weight": self.sample_weight, "groups": self.groups}
        return named | {"columns": self.columns, "options": repr(self.options)}

    def _pieces(self) -> Iterator[FilePiece]:
        schema = self.files.schema
        ids = [FileIds(fragment, schema, self.set_id) for fragment in self.files.fragments] if self.set_id else []
        for file in ids:
            if file.descent is not None and not self.of_lists:
                raise ValueError(
                    f"rows of one element expect ascending ids, {', '.join(self.set_id)}; got a smaller one in "
                    f"{file.fragment.path}, row {file.descent + 1}. Sort the file, or group it with janossy group."
                )
        if ids and all(file.descent is None for file in ids):
            check_apart(ids)
        for number, fragment in enumerate(self.files.fragments):
            yield from self._of_lists(number, fragment) if self.of_lists else _of_rows(number, ids[number])

    def _of_lists(self, number: int, fragment: Any) -> Iterator[FilePiece]:
        row = 0
        for group in range(fragment.num_row_groups):
            about = fragment.metadata.row_group(group)
            num = about.num_rows
            if num:
                values = max(about.column(j).num_values for j in range(about.num_columns))
                yield FilePiece(number, (group,), 0, num, row, num, values)
            row += num


def _of_rows(number: int, ids: FileIds) -> Iterator[FilePiece]:
    """Yields one piece per row group in which sets begin. The piece ends where the next one begins."""
    about = ids.fragment.metadata
    ends = np.cumsum([about.row_group(group).num_rows for group in range(about.num_row_groups)])
    starts = [firsts + ends[g] - about.row_group(g).num_rows for g, firsts in enumerate(ids.firsts)]
    owners = [group for group, firsts in enumerate(starts) if len(firsts)]
    for place, group in enumerate(owners):
        begin = int(starts[group][0])
        stop = int(starts[owners[place + 1]][0] if place + 1 < len(owners) else ends[-1])
        last = int(np.searchsorted(ends, stop - 1, side="right"))
        first = int(ends[group]) - about.row_group(group).num_rows
        groups = tuple(range(group, last + 1))
        yield FilePiece(number, groups, begin - first, stop - begin, begin, len(starts[group]), stop - begin)
