"""The work of ``janossy group``: from tables of one row per element, in any order, to a file of one row per set."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset, parquet

from janossy.cli.errors import BadArgument
from janossy.cli.workflow.delimited import ANY, Dialect, interruptible
from janossy.cli.workflow.doubtful_ids import doubtful
from janossy.cli.workflow.files_to_group import InMemory, open_any
from janossy.cli.workflow.null_values import without_words
from janossy.cli.workflow.reading import unknown
from janossy.cli.workflow.side_by_side import hint, listed, listed_schema, numbered
from janossy.cli.workflow.sorted_types import converted, fields_of_one_name, sorted_as
from janossy.cli.workflow.wording import in_options
from janossy.files.atomic import beside
from janossy.tables.arrow import without_halves
from janossy.tables.files import Files
from janossy.tables.ids import parts_of
from janossy.tables.sorted_ids import begins, check_types

try:
    import duckdb
except ImportError as error:
    raise ImportError("janossy group needs duckdb: pip install 'janossy[cli]'", name="duckdb") from error

ROW = "janossy_row"
"""The column of row numbers, which keeps the order of the rows of a set. Underscores follow if files have this name."""

BATCH = 2**16
GROUP = 2**17
"""The elements of a row group. A reader of the file holds a few row groups at a time."""


def group(
    paths: Sequence[str],
    set_id: Sequence[str],
    set_columns: Sequence[str],
    out: Path,
    memory: str | None = None,
    dialect: Dialect = ANY,
    tell: Callable[[str], None] = lambda text: None,
    wide: Sequence[str] = (),
) -> int:
    """Writes one row per set in the order of ids: the ids, ``set_columns``, and lists of all other columns.

    With ``wide``, a row is a set already. The columns that these names and numbers give, such as rank1 and rank2,
    become lists. Nothing is sorted.

    DuckDB sorts the rows by id, then by their order in the files. What exceeds ``memory``, such as "4GB" (by default
    four fifths of the machine's), spills to disk beside ``out``. DuckDB's own function that makes lists would not spill
    (https://duckdb.org/docs/stable/guides/performance/how_to_tune_workloads). CSV files are read twice, first for the
    types of their columns. ``tell`` is called with remarks.

    Returns: the number of sets.
    Raises: BadArgument for files that do not exist or differ, unknown columns, or a row without an id. BadArgument for
        a column of the sets that is not constant in a set. OSError. No partial file is left behind.
    """
    with ExitStack() as kept:
        try:
            files = open_any(paths, set_id, dialect, kept, tell, wide)
        except (ValueError, FileNotFoundError) as error:
            raise BadArgument(in_options(error)) from error
        set_id = [each for name in set_id for each in parts_of(name, files.schema.names)]
        if twice := set(set_id) & set(set_columns):
            raise BadArgument(f"--set-id and --set-columns both name {min(twice)!r}. Leave one out.")
        words = dialect.spelling.null_values
        files = _checked(files, {"--set-id": set_id, "--set-columns": set_columns}, tell)
        if wide:
            return _list(files, wide, (*set_id, *set_columns), out, words)
        return _group(files, set_id, set_columns, out, memory, tell, words)


def _checked(files: Files, named: Mapping[str, Sequence[str]], tell: Callable[[str], None]) -> Files:
    """Returns the files without an index that no option names. Raises: BadArgument for a name without a column."""
    if index := [name for name in files.index_columns if not any(name in each for each in named.values())]:
        tell(f"{', '.join(index)} is the index of a pandas frame, and left out.")
        files = replace(files, schema=pa.schema([each for each in files.schema if each.name not in index]))
    for option, names in named.items():
        for name in names:
            if name not in files.schema.names:
                raise unknown(name, option, files.schema.names, files.names[0])
    return files


def _group(
    files: Files,
    set_id: Sequence[str],
    set_columns: Sequence[str],
    out: Path,
    memory: str | None,
    tell: Callable[[str], None],
    words: Sequence[str],
) -> int:
    try:
        check_types(files.schema, set_id)
    except ValueError as error:
        raise BadArgument(in_options(error)) from None
    for field in files.schema:
        if twice := next(fields_of_one_name(field.type), None):
            raise BadArgument(f"{files.names[0]}: column {field.name!r} has two fields called {twice!r}. Rename one.")
        if field.name in set_id and pa.types.is_decimal256(field.type):
            raise BadArgument(
                f"--set-id {field.name} expects numbers of at most 38 digits; got Arrow's {field.type}. Convert it to "
                "text."
            )
    rows = _Rows(files, set_id, words)
    out.parent.mkdir(parents=True, exist_ok=True)
    with beside(out) as part, beside(out) as spilled, interruptible(), duckdb.connect() as connection:
        try:
            with interruptible():
                connection.execute(f"SET temp_directory = {_quoted(spilled, mark=chr(39))}")
                if memory is not None:
                    connection.execute(f"SET memory_limit = {_quoted(memory, mark=chr(39))}")
                num_sets = _write(connection, rows, set_id, set_columns, part)
        except duckdb.Error as error:
            raise BadArgument(f"DuckDB cannot sort the rows: {str(error).splitlines()[0]}") from error
        part.rename(out)
    for note in rows.notes.values():
        tell(note)
    if not rows.several and (line := hint([name for name in rows.files.schema.names if name not in set_id])):
        tell(line)
    if (constant := rows.constant - {""}) and rows.several:
        names = ",".join(sorted(constant))
        tell(f"one value in each set: {names}. --set-columns {names} makes them columns of the sets, as a target is.")
    return num_sets


def _list(files: Files, wide: Sequence[str], named: Sequence[str], out: Path, words: Sequence[str]) -> int:
    """Writes the rows with lists in the place of columns side by side."""
    columns = numbered(files.schema.names, wide, files.names[0])
    schema = listed_schema(files.schema, columns, named, files.names[0])
    num_sets = 0
    out.parent.mkdir(parents=True, exist_ok=True)
    with beside(out) as part:
        with parquet.ParquetWriter(part, schema) as writer:
            for batch in (batch for fragment in files.fragments for batch in _read(files, fragment, words)):
                writer.write_table(listed(batch, columns, schema), max(1, GROUP // max(map(len, columns.values()))))
                num_sets += len(batch)
        if not num_sets:
            raise BadArgument(f"{files.names[0]} has columns but no rows.")
        part.rename(out)
    return num_sets


def _read(files: Files, fragment: Any, words: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a file, without ``words`` that stand for a missing value.

    Raises: BadArgument for a damaged file, whose offsets or text would end the process.
    """
    try:
        for batch in fragment.to_batches(files.schema, batch_size=BATCH, batch_readahead=2):
            batch.validate(full=True)
            if words and isinstance(fragment, dataset.Fragment):  # others know the words themselves
                batch = pa.RecordBatch.from_arrays([without_words(x, words) for x in batch.columns], batch.schema.names)
            yield batch
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0][:150]
        raise BadArgument(f"{fragment.path} cannot be read: it is damaged ({reason}).") from None


class _Rows:
    """The rows of the files, end to end, with their numbers."""

    def __init__(self, files: Files, set_id: Sequence[str], words: Sequence[str]) -> None:
        self.files, self.set_id, self.words = files, set_id, words
        self.row = ROW
        while self.row in files.schema.names:
            self.row += "_"
        self.ends: list[int] = []
        self.wrong: BadArgument | None = None
        """The error that ended the reading. DuckDB would change its words."""
        self.constant = set(files.schema.names) - set(set_id)
        """The columns that have been constant in each set so far."""
        self.notes: dict[str, str] = {}
        """Notes on ids, by column."""
        self.several = False
        """True if some set has several rows."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        row = 0
        for fragment in self.files.fragments:
            begin = row
            for batch in self._read(fragment):
                for name in self.set_id:
                    if (missing := pc.is_null(batch.column(name), nan_is_null=True)).true_count:
                        at = row - begin + int(missing.to_numpy(zero_copy_only=False).argmax())
                        self.wrong = BadArgument(
                            f"--set-id {name} expects an id in every row; got none in {fragment.path}, row {at + 1}."
                        )
                        raise self.wrong
                    if name not in self.notes and not isinstance(fragment, InMemory):  # whose reader says so itself
                        self.notes |= {name: note} if (note := doubtful(batch.column(name), name)) else {}
                columns = [converted(each, sorted_as(each.type)) for each in batch.columns]
                yield pa.RecordBatch.from_arrays(
                    [*columns, pa.array(np.arange(row, row + len(batch)))], schema=self.sorted_as
                )
                row += len(batch)
            self.ends.append(row)

    @property
    def sorted_as(self) -> pa.Schema:
        """The schema for DuckDB, in which a column is called by its number: DuckDB takes x and X for one name."""
        kinds = [*map(sorted_as, self.files.schema.types), pa.int64()]
        return pa.schema([(str(j), kind) for j, kind in enumerate(kinds)])

    def restored(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Yields rows from DuckDB under their names, with their numbers as the last column."""
        for batch in batches:
            kinds = self.files.schema.types
            back = {j: kind for j, kind in enumerate(kinds) if sorted_as(kind) != kind}
            columns = [converted(values, back.get(j, values.type)) for j, values in enumerate(batch.columns)]
            yield pa.table(columns, [*self.files.schema.names, self.row])

    def _read(self, fragment: Any) -> Iterator[pa.RecordBatch]:
        try:
            yield from _read(self.files, fragment, self.words)
        except BadArgument as error:
            self.wrong = error
            raise

    def place(self, row: int) -> str:
        """Names a row in errors, counted from 1."""
        number = int(np.searchsorted(self.ends, row, side="right"))
        return f"{self.files.names[number]}, row {row - (self.ends[number - 1] if number else 0) + 1}"


def _write(connection: Any, rows: _Rows, set_id: Sequence[str], set_columns: Sequence[str], part: Path) -> int:
    table = connection.from_arrow(pa.RecordBatchReader.from_batches(rows.sorted_as, rows.batches()))
    names = [*rows.files.schema.names, rows.row]
    order = ", ".join(_quoted(names.index(name)) for name in (*set_id, rows.row))
    num_sets = 0
    writer: parquet.ParquetWriter | None = None
    try:
        batches = rows.restored(table.order(order).to_arrow_reader(BATCH))
        for sets in _groups(_whole_sets(batches, set_id), rows, set_id, set_columns):
            writer = writer or parquet.ParquetWriter(part, sets.schema)
            writer.write_table(sets)
            num_sets += len(sets)
    except (duckdb.Error, pa.ArrowException) as error:
        raise (rows.wrong or error) from None
    finally:
        if writer is not None:
            writer.close()
    if not num_sets:
        raise BadArgument(f"{rows.files.names[0]} has columns but no rows.")
    return num_sets


def _whole_sets(batches: Iterator[pa.Table], set_id: Sequence[str]) -> Iterator[tuple[pa.Table, np.ndarray]]:
    """Yields the sorted rows in tables of whole sets, with the rows at which sets begin."""
    waiting: list[pa.Table] = []
    for table in batches:
        last = waiting[-1].slice(len(waiting[-1]) - 1) if waiting else table.slice(0, 0)
        firsts = begins(pa.concat_tables([last, table]).select(list(set_id))) - len(last)
        cut = int(firsts[-1])
        if cut > 0 or (cut == 0 and waiting):
            whole = pa.concat_tables([*waiting, table.slice(0, cut)])
            yield whole, begins(whole.select(list(set_id)))
            waiting = []
        waiting.append(table.slice(max(cut, 0)))
    if waiting:
        whole = pa.concat_tables(waiting)
        yield whole, begins(whole.select(list(set_id)))


def _groups(
    pieces: Iterator[tuple[pa.Table, np.ndarray]], rows: _Rows, set_id: Sequence[str], set_columns: Sequence[str]
) -> Iterator[pa.Table]:
    """Yields one row per set, in tables of about the size of a row group."""
    waiting: list[pa.Table] = []
    num = 0
    for table, firsts in pieces:
        waiting.append(_as_lists(table.combine_chunks(), firsts, rows, set_id, set_columns))
        num += len(table)
        if num >= GROUP:
            yield pa.concat_tables(waiting).combine_chunks()
            waiting, num = [], 0
    if waiting:
        yield pa.concat_tables(waiting).combine_chunks()


def _as_lists(
    table: pa.Table, firsts: np.ndarray, rows: _Rows, set_id: Sequence[str], set_columns: Sequence[str]
) -> pa.Table:
    offsets = pa.array(np.append(firsts, len(table)), pa.int32())
    rows.several = rows.several or len(firsts) < len(table)
    columns: dict[str, Any] = {}
    for name in rows.files.schema.names:
        values = table[name].combine_chunks()
        if name in set_columns:
            rows.constant.discard(name)
            _check_constant(values, firsts, name, table, rows, set_id)
        elif name in rows.constant and not _alike(values, firsts).all():
            rows.constant.discard(name)
        one_a_set = name in set_id or name in set_columns
        columns[name] = values.take(pa.array(firsts)) if one_a_set else pa.ListArray.from_arrays(offsets, values)
    return pa.table(columns)


def _check_constant(
    values: pa.Array, firsts: np.ndarray, name: str, table: pa.Table, rows: _Rows, set_id: Sequence[str]
) -> None:
    """Raises a BadArgument, naming two rows, unless the values are constant in each set."""
    alike = _alike(values, firsts)
    if alike.all():
        return
    at = int(np.argmin(alike))
    begin = int(firsts[np.searchsorted(firsts, at, side="right") - 1])
    here, there = (rows.place(table[rows.row][row].as_py()) for row in (begin, at))
    ids = ", ".join(str(table[each][at]) for each in set_id)
    raise BadArgument(
        f"column {name!r} expects one value per set; got {values[begin]} in {here} and {values[at]} in {there}, both "
        f"of set {ids}. Correct the rows, or leave the column out of --set-columns."
    )


def _alike(values: pa.Array, firsts: np.ndarray) -> np.ndarray:
    """Flags values (N,) that equal that of the first row of their set. Types that do not compare give False."""
    values = without_halves(values)
    first = values.take(pa.array(np.repeat(firsts, np.diff(np.append(firsts, len(values))))))
    try:
        equal = pc.equal(values, first)
    except pa.ArrowNotImplementedError:  # lists, structs
        return np.array([one == other for one, other in zip(values.to_pylist(), first.to_pylist(), strict=True)], bool)
    alike = pc.or_(pc.fill_null(equal, False), pc.and_(values.is_null(), first.is_null()))
    if pa.types.is_floating(values.type):
        alike = pc.or_(alike, pc.fill_null(pc.and_(pc.is_nan(values), pc.is_nan(first)), False))
    return cast(np.ndarray, alike.to_numpy(zero_copy_only=False))


def _quoted(text: object, mark: str = '"') -> str:
    return mark + str(text).replace(mark, 2 * mark) + mark
