"""Tables as files: Parquet, CSV, Arrow; several of one schema, whose rows know the file that they are from."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv, ipc, parquet

from janossy.refusal import BadArgument

MAGIC = b"ARROW1"
"""An Arrow file begins with it; a stream does not."""

SEPARATORS = ",;\t|"
"""What may stand between the columns of a CSV file: that of them which its header has the most of."""

ROW_OF_CSV = re.compile(r"Row #(\d+): ([^:]*)")
"""What Arrow says of a row of a CSV file, whose header it counts."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of one file after those of another. ``ends``: the number of rows up to the end of each file."""

    table: pa.Table
    files: tuple[Path, ...]
    ends: np.ndarray

    def place(self, row: int) -> str:
        """What a row is called in errors: its file, and its number there, from 1 on and without a header."""
        number = int(np.searchsorted(self.ends, row, side="right"))
        begin = self.ends[number - 1] if number else 0
        return f"{self.files[number]}, row {row - begin + 1}"


def read_tables(files: Sequence[Path]) -> Rows:
    """The rows of these files, by what their names end in: .parquet, .csv, .tsv, .arrow or .feather.

    They must have the same columns, in whatever order. Whole numbers and others go together, text and numbers do not.

    Raises: BadArgument, naming the file, for one that is not there, empty, damaged or of another kind, and, naming also
        the column, for two columns of one name, and schemas that differ.
    """
    if len({file.resolve() for file in files}) < len(files):
        raise BadArgument(f"the tables are to be different files; got {', '.join(map(str, files))}.")
    tables = [_read(file) for file in files]
    first = tables[0].column_names
    for file, table in zip(files, tables, strict=True):
        names = table.column_names
        if twice := [name for name in names if names.count(name) > 1]:
            raise BadArgument(f"{file}: two columns are called {twice[0]!r}. Rename one.")
        if set(names) != set(first):
            there, lacking = (file, files[0]) if set(names) - set(first) else (files[0], file)
            name = sorted(set(names) ^ set(first))[0]
            raise BadArgument(
                f"{lacking} has no column {name!r}, which {there} has. Tables that are read together have the same "
                "columns."
            )
        if table.num_rows == 0:
            raise BadArgument(f"{file} has columns, and no row.")
    tables = [table.select(first) for table in tables]
    try:
        table = pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException:
        raise _differing(files, tables) from None
    return Rows(table, tuple(files), np.cumsum([len(table) for table in tables]))


def _read(file: Path) -> pa.Table:
    if not file.exists():
        raise BadArgument(f"there is no file {file}.")
    if not file.is_file():
        raise BadArgument(f"{file} is no file. Name the files in it.")
    readers = {".parquet": _parquet, ".pq": _parquet, ".csv": _csv, ".tsv": _csv} | dict.fromkeys(
        (".arrow", ".feather", ".ipc"), _arrow
    )
    if file.suffix.lower() not in readers:
        raise BadArgument(f"{file}: a table is a file in {', '.join(readers)}; got {file.suffix or 'no such ending'}.")
    if file.stat().st_size == 0:
        raise BadArgument(f"{file} is empty.")
    try:
        return readers[file.suffix.lower()](file)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0].rstrip(".")[:200] if str(error) else type(error).__name__
        if found := ROW_OF_CSV.search(reason):
            raise BadArgument(
                f"{file}, row {int(found[1]) - 1}: {found[2]}. Correct it; at the end, the file may be cut short."
            ) from None
        raise BadArgument(
            f"{file} cannot be read: it is damaged, cut short, or no {file.suffix} file ({reason})."
        ) from None


def _parquet(file: Path) -> pa.Table:
    with parquet.ParquetFile(file) as opened:
        return opened.read()


def _arrow(file: Path) -> pa.Table:
    with pa.OSFile(str(file)) as opened:
        is_file = opened.read(len(MAGIC)) == MAGIC
    with pa.memory_map(str(file)) as opened:
        return (ipc.open_file if is_file else ipc.open_stream)(opened).read_all()


def _csv(file: Path) -> pa.Table:
    """The columns of a CSV file, with the types that all their values have."""
    header, last = _ends(file)
    if last.count(b'"') % 2:
        raise BadArgument(f"{file} ends within quotes: it is cut short.")
    separator = max(SEPARATORS, key=lambda mark: header.count(mark.encode()))
    table = csv.read_csv(
        file,
        # One thread, as only so the parser's errors name the row.
        read_options=csv.ReadOptions(use_threads=False),
        parse_options=csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        convert_options=csv.ConvertOptions(strings_can_be_null=True),
    )
    for field in table.schema:
        if pa.types.is_binary(field.type):
            raise BadArgument(f"{file}: column {field.name!r} is not in UTF-8. Convert the file.")
    return table


def _ends(file: Path) -> tuple[bytes, bytes]:
    """The first line of a file, and its last one."""
    with file.open("rb") as opened:
        header = opened.readline(2**16)
        opened.seek(max(0, file.stat().st_size - 2**16))
        lines = opened.read().splitlines()
    return header, lines[-1] if lines else b""


def _differing(files: Sequence[Path], tables: Sequence[pa.Table]) -> BadArgument:
    """Which column has other types in another file than in the first."""
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
