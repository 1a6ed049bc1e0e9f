"""Tables from files: Parquet, Arrow, CSV, Excel and JSON. Several files with one schema are one table."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc, parquet

from janossy.cli.errors import BadArgument
from janossy.cli.workflow.csv_header import no_header
from janossy.cli.workflow.delimited import ANY, CsvFile, Dialect
from janossy.cli.workflow.doubtful_ids import doubtful, have_twins
from janossy.cli.workflow.excel import ENDINGS as WORKBOOKS
from janossy.cli.workflow.excel import as_text, is_workbook, read_sheet
from janossy.cli.workflow.json_lines import as_in_training, json_lines
from janossy.cli.workflow.local_copies import local_copy
from janossy.cli.workflow.null_values import table_without_words
from janossy.cli.workflow.text_casts import cast, check_dates
from janossy.cli.workflow.text_types import (
    AS_TEXT,
    LISTS,
    SEPARATED,
    Facts,
    Role,
    Spelling,
    Taken,
    look_of_text,
    taken_as_type,
)
from janossy.tables.arrow import flat_table, index_columns, is_text, one_chunk, without_views
from janossy.tables.paths import COMPRESSED, FORMATS, stored_files

File = Path | str
"""A local file, or the address of one in a store."""

PARQUET, ARROW, ZIP = b"PAR1", b"ARROW1", b"PK\x03\x04"
"""The first bytes of these formats, whatever the files are called."""

CSV = (".csv", ".tsv", ".tab", ".txt")
JSON = ".json"
LINES = (".jsonl", ".ndjson", JSON)
IPC = (".arrow", ".feather", ".ipc")
TYPED = (*FORMATS, *IPC)
"""Endings of files whose columns have types."""

ENDINGS = (*FORMATS, *CSV, *LINES, *IPC, *WORKBOOKS)


OTHER_ENDINGS = dict.fromkeys((".xls", ".xlsb", ".ods"), " Save it as .xlsx or CSV.")
"""Endings of files that are not read, with remedies."""


@dataclass(frozen=True, eq=False)
class TableRows:
    """The rows of several files, end to end.

    - ``ends``: the number of rows up to the end of each file.
    - ``taken``: the types as which columns of text were read.
    - ``notes``: lines for the user.
    """

    table: pa.Table
    files: tuple[File, ...]
    ends: np.ndarray
    taken: Mapping[str, Taken] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def place(self, row: int) -> str:
        """Names a row in errors: its file, and its number there, from 1 on and without a header."""
        number = int(np.searchsorted(self.ends, row, side="right"))
        begin = self.ends[number - 1] if number else 0
        return f"{self.files[number]}, row {row - begin + 1}"

    def some(self, rows: np.ndarray) -> "TableRows":
        """Returns some of the rows, which ascend. They keep their places in the files."""
        return _SomeRows(self.table.take(pa.array(rows)), self.files, self.ends, self.taken, self.notes, rows)


@dataclass(frozen=True, eq=False)
class _SomeRows(TableRows):
    """A selection of rows. ``numbers``: their positions among all rows."""

    numbers: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def place(self, row: int) -> str:
        return super().place(int(self.numbers[row]))


def read_tables(
    files: Sequence[File],
    roles: Mapping[str, Role] | None = None,
    dialect: Dialect = ANY,
    kinds: Mapping[str, str] | None = None,
    named: Collection[str] = (),
) -> TableRows:
    """Returns the rows of these files, whose formats are known from their first bytes and their names.

    The files must have the same columns, in any order. Whole numbers and other numbers can be mixed; text and numbers
    cannot. A column has one type in all CSV files. It follows from ``roles`` and from all values, or from Parquet and
    Arrow files beside them. ``kinds`` are the kinds of columns in training, as far as they are ``AMBIGUOUS``. Columns
    of text in workbooks are treated like those of CSV files. So are those of JSON lines if a model gives ``kinds``.
    Columns that were the index of a pandas frame are left out unless they are in ``roles`` or ``named``.

    Raises: BadArgument, naming the file, for one that does not exist, or is empty, damaged or of another format. For
    two
        columns of one name, and for schemas that differ, it also names the column.
    """
    roles = roles or {}
    if len({file.resolve() if isinstance(file, Path) else file for file in files}) < len(files):
        raise BadArgument(f"expected tables in different files; got {', '.join(map(str, files))}.")
    check_sheet(files, dialect)
    of_model = roles if kinds is not None else {}
    read = [_read_stored(x, dialect, of_model) if isinstance(x, str) else _read(x, dialect, of_model) for x in files]
    words = dialect.spelling.null_values
    tables = [table if is_untyped else table_without_words(table, words) for table, is_untyped in read]
    notes: list[str] = []
    for number, table in enumerate(tables):
        left = [name for name in index_columns(table.schema) if name not in roles and name not in named]
        tables[number] = flat_table(table.drop_columns(left))
        if left:
            notes.append(f"{files[number]}: {', '.join(left)} is the index of a pandas frame, and left out.")
    first = tables[0].column_names
    for file, table in zip(files, tables, strict=True):
        names = table.column_names
        if twice := [name for name in names if names.count(name) > 1]:
            raise BadArgument(f"{file}: two columns are called {twice[0]!r}. Rename one.{no_header(twice)}")
        if set(names) != set(first):
            there, lacking = (file, files[0]) if set(names) - set(first) else (files[0], file)
            name = sorted(set(names) ^ set(first))[0]
            raise BadArgument(
                f"{lacking} has no column {name!r}, which {there} has. Tables that are read together have the same "
                f"columns.{' If they have the same ids, join them into one table.' if set(names) & set(first) else ''}"
            )
        if table.num_rows == 0:
            raise BadArgument(f"{file} has columns but no rows.")
    tables = [table.select(first) for table in tables]
    are_lines = [kinds is not None and ending_of(Path(file)) in LINES for file in files]
    spelling = Spelling(null_values=words)
    for number, (file, is_it) in enumerate(zip(files, are_lines, strict=True)):
        if is_it:
            tables[number], more = as_in_training(file, tables[number], roles, kinds or {}, spelling)
            notes += more
    taken: dict[str, Taken] = {}
    for name in first:
        untyped = [is_untyped for _, is_untyped in read]
        of_text = _texts_of_cells(tables, name, untyped, roles.get(name) in AS_TEXT)
        if any(of_text):
            before = (kinds or {}).get(name, "")
            for file, table, is_read in zip(files, tables, of_text, strict=True):
                if is_read:
                    check_dates(file, name, dialect.spelling.trimmed(one_chunk(table[name])), before)
            taken[name] = _typed(tables, name, of_text, roles.get(name), dialect.spelling, before)
        elif roles.get(name, "target") == "target" and (note := _look(tables, name)):
            taken[name] = Taken("text", "text", note)
        if roles.get(name) in ("id", "text id"):
            _make_alike(tables, name, of_text, roles[name] == "text id" or _are_mixed(tables, name, are_lines))
    notes += [f"column {name!r} {each.note}." for name, each in taken.items() if each.note]
    try:
        table = pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException:
        raise _differing(files, tables) from None
    ids = [name for name, role in roles.items() if role in ("id", "text id") and name in first]
    notes += [note for name in ids for each in tables if (note := doubtful(each[name], name))]
    ends = np.cumsum([len(table) for table in tables])
    return TableRows(table, tuple(files), ends, taken, tuple(dict.fromkeys(notes)))


def unknown(name: str, owner: str, known: Sequence[str], file: File) -> BadArgument:
    """Returns the error for a column that the file lacks and ``owner`` names, with the nearest name that it has."""
    near = [each for each in known if each.lower() == name.lower()] or get_close_matches(name, known, 1)
    meant = f" Did you mean {near[0]!r}?" if near else ""
    names = ", ".join(known[:20]) + (", …" if len(known) > 20 else "")
    title = no_header(known)
    if len(known) == 1 and ending_of(Path(file)) in CSV:
        title = " If this is a title, delete its line; else --delimiter names what stands between columns."
    return BadArgument(f"{file} has no column {name!r}, which {owner} names.{meant} It has {names}.{title}")


def check_sheet(files: Sequence[File], dialect: Dialect) -> None:
    """Raises a BadArgument if a sheet is named and none of these files is a workbook."""
    if dialect.sheet is not None and not any(map(_has_sheets, files)):
        raise BadArgument(f"--sheet is for Excel workbooks; got {files[0]}. Leave it out.")


def _has_sheets(file: File) -> bool:
    return str(file).lower().endswith(WORKBOOKS) or (isinstance(file, Path) and is_workbook(file))


def ending_of(file: Path) -> str:
    """Returns the ending that shows the format: .csv for .csv.gz, and for .gz without another ending."""
    ending = file.suffix.lower()
    inner = Path(file.stem).suffix.lower()
    if ending not in COMPRESSED or inner in set(ENDINGS) - {*CSV, *LINES}:
        return ending
    return inner if inner in LINES else ".csv"


def _read_stored(address: str, dialect: Dialect, of_model: Collection[str]) -> tuple[pa.Table, bool]:
    """Reads a file in a store as ``_read`` reads a local file."""
    try:
        store, folder, files = stored_files(address, dict.fromkeys(_compressed(ENDINGS), ""))
        if folder is not None:
            raise BadArgument(f"{address} is not a file. Name the files in it.")
        with local_copy(store, files[0], address) as copy:
            return _read(copy, dialect, of_model)
    except (ValueError, OSError) as error:
        raise BadArgument(str(error)) from None


def _compressed(endings: Sequence[str]) -> list[str]:
    """Returns these endings, and those of compressed text."""
    return [*endings, *COMPRESSED, *(inner + outer for inner in (*CSV, *LINES) for outer in COMPRESSED)]


def _read(file: Path, dialect: Dialect, of_model: Collection[str]) -> tuple[pa.Table, bool]:
    """Returns the table, and True if its columns of text have types that are not known yet."""
    if not file.exists():
        raise BadArgument(f"there is no file {file}.")
    if not file.is_file():
        raise BadArgument(f"{file} is not a file. Name the files in it.")
    ending = ending_of(file)
    if ending not in ENDINGS:
        raise BadArgument(
            f"{file}: expected a file in {', '.join(ENDINGS)}, or a CSV file in {', '.join(COMPRESSED)}; got "
            f"{ending or 'no such ending'}.{OTHER_ENDINGS.get(ending, '')}"
        )
    with file.open("rb") as opened:
        start = opened.read(len(ARROW))
    if not start:
        raise BadArgument(f"{file} is empty.")
    try:
        if start.startswith(PARQUET) or ending in FORMATS:
            return _validated(_parquet(file)), False
        if start == ARROW or ending not in (*CSV, *LINES, *WORKBOOKS):
            return _validated(_arrow(file, start == ARROW)), False
        if ending in LINES:
            return json_lines(file, dialect, of_model), False
        if ending in WORKBOOKS or (start.startswith(ZIP) and is_workbook(file)):
            return read_sheet(file, dialect.sheet, dialect.spelling.null_values), True
        with CsvFile(file, dialect) as opened_csv:
            return opened_csv.table(), True
    except (pa.ArrowException, OSError, EOFError, ValueError) as error:
        reason = str(error).splitlines()[0].rstrip(".")[:200] if str(error) else type(error).__name__
        raise BadArgument(
            f"{file} cannot be read: it is damaged, cut short, or no {file.suffix} file ({reason})."
        ) from None


def _parquet(file: Path) -> pa.Table:
    with parquet.ParquetFile(file) as opened:
        return opened.read()


def _arrow(file: Path, is_file: bool) -> pa.Table:
    """Returns the table in memory. Another program could change the values of a file that is mapped."""
    with pa.OSFile(str(file)) as opened:
        return (ipc.open_file if is_file else ipc.open_stream)(opened).read_all()


def _validated(table: pa.Table) -> pa.Table:
    """Returns the table after a check. Raises: ArrowInvalid for damaged offsets or text, which would crash later."""
    table.validate(full=True)
    return without_views(table)


def _typed(
    tables: list[pa.Table], name: str, of_text: Sequence[bool], role: Role | None, spelling: Spelling, before: str
) -> Taken:
    """Gives a column one type in all tables from CSV files, in place, and returns that type."""
    given = [table.schema.field(name).type for table, is_read in zip(tables, of_text, strict=True) if not is_read]
    texts = [one_chunk(table[name]) for table, is_read in zip(tables, of_text, strict=True) if is_read]
    facts = Facts()
    for text in texts:
        if role == "words":
            facts.add_lists(text, spelling)
        elif role not in AS_TEXT:
            facts.add(text, spelling)
    if role is None and given:
        role = "numeric" if all(map(_is_number, given)) else "text" if any(map(_is_words, given)) else "plain"
    taken = taken_as_type(facts, role or "plain", before)
    if (
        role == "categorical"
        and taken.kind == "text"
        and facts.num
        and all(_are_whole(text, spelling) for text in texts)
    ):
        taken = replace(taken, kind="float64")
    if role == "id" and facts.counts.get("code", 0) and facts.counts.get("whole", 0) and have_twins(texts, spelling):
        note = "holds ids with and without zeros in front, taken as text: 1 and 01 are two ids"
        taken = replace(taken, note=note)
    place = tables[0].column_names.index(name)
    while True:
        try:
            columns = _cast(texts, taken.kind, spelling)
            break
        except pa.ArrowException as error:  # such as a day that does not exist, or an unclosed list
            what = "lists" if taken.kind in (*LISTS, *SEPARATED.values()) else "dates and times"
            reason = str(error).splitlines()[0][:80]
            taken = Taken("text", "text", f"looks like {what}, and not all can be read: taken as text ({reason})")
    for number, column in zip(np.flatnonzero(of_text), columns, strict=True):
        tables[number] = tables[number].set_column(place, name, column)
    return taken


def _are_whole(text: pa.Array, spelling: Spelling) -> bool:
    """Returns True if all values are as 1.0, which pandas writes for whole numbers if some are missing."""
    return bool(pc.all(pc.match_substring_regex(spelling.trimmed(text), r"^(0|-?[1-9]\d{0,14})\.0$")).as_py())


def _cast(texts: Sequence[pa.Array], kind: str, spelling: Spelling) -> list[pa.Array]:
    """Returns the values of several files in one type. That of lists follows from the values of all files."""
    if kind not in LISTS:
        return [cast(text, kind, spelling) for text in texts]
    values = cast(pa.concat_arrays(texts), kind, spelling)
    ends = np.cumsum([len(text) for text in texts])
    return [values.slice(end - len(text), len(text)) for text, end in zip(texts, ends, strict=True)]


SAMPLE = 2**16
"""The number of rows that show how a column of text looks."""


def _look(tables: Sequence[pa.Table], name: str) -> str:
    """Returns a description of text that looks like numbers, dates or lists, and an empty text for any other column."""
    column = tables[0][name].slice(0, SAMPLE)
    if not _is_words(column.type):
        return ""
    facts = Facts()
    facts.add(one_chunk(column).cast(pa.large_string()).unique(), Spelling())
    return look_of_text(facts)


def _texts_of_cells(tables: list[pa.Table], name: str, untyped: Sequence[bool], text: bool) -> list[bool]:
    """Converts a column of workbooks to text, in place, if it is text in one of them or if ``text`` is True.

    Returns, for each table, True where the column is text that has no type yet.
    """
    kinds = [table.schema.field(name).type for table in tables]
    text = text or any(each and is_text(kind) for each, kind in zip(untyped, kinds, strict=True))
    place = tables[0].column_names.index(name)
    for number, kind in enumerate(kinds):
        if untyped[number] and text and not is_text(kind):
            tables[number] = tables[number].set_column(place, name, as_text(tables[number][name]))
    return [each and text for each in untyped]


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_words(kind: pa.DataType) -> bool:
    return is_text(kind) or (pa.types.is_dictionary(kind) and is_text(kind.value_type))


def _are_mixed(tables: Sequence[pa.Table], name: str, are_lines: Sequence[bool]) -> bool:
    """Returns True if ids are text in some files of JSON lines and not in others."""
    kinds = [table.schema.field(name).type for table, is_it in zip(tables, are_lines, strict=True) if is_it]
    return len(set(map(is_text, kinds))) > 1


def _make_alike(tables: list[pa.Table], name: str, from_csv: Sequence[bool], text: bool) -> None:
    """Gives a column of ids one type in all tables, in place: text if some are text, or ``text`` is True."""
    kinds = [table.schema.field(name).type for table in tables]
    if not text and (not any(from_csv) or all(map(pa.types.is_integer, kinds))):
        return
    place = tables[0].column_names.index(name)
    for number, table in enumerate(tables):
        tables[number] = table.set_column(place, name, table[name].cast(pa.large_string()))


def _differing(files: Sequence[File], tables: Sequence[pa.Table]) -> BadArgument:
    """Returns the error for the first column whose type differs from that in the first file."""
    for file, table in zip(files, tables, strict=True):
        for ours, theirs in zip(table.schema, tables[0].schema, strict=True):
            try:
                pa.unify_schemas([pa.schema([theirs]), pa.schema([ours])], promote_options="permissive")
            except pa.ArrowException:
                return BadArgument(
                    f"{file}: column {ours.name!r} is {ours.type}, and in {files[0]} {theirs.type}. Give it one type "
                    "in all files."
                )
    return BadArgument(f"{', '.join(map(str, files))} have columns of different types.")
