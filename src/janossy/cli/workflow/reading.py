"""Tables as files: Parquet, CSV, Arrow; several of one schema, whose rows know the file that they are from."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc, parquet

from janossy.cli.errors import BadArgument
from janossy.cli.workflow.delimited import COMPRESSIONS, read_csv

MAGIC = b"ARROW1"
"""An Arrow file begins with it; a stream does not."""

CSV = (".csv", ".tsv")
ENDINGS = (".parquet", ".pq", *CSV, ".arrow", ".feather", ".ipc")

WHOLE = r"^(0|-?[1-9]\d{0,17})$"
"""Whole numbers that are written in one way only."""


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


def read_tables(files: Sequence[Path], ids: Collection[str] = (), text_ids: Collection[str] = ()) -> Rows:
    """The rows of these files, by what their names end in: .parquet, .csv, .csv.gz, .tsv, .arrow or .feather.

    They must have the same columns, in whatever order. Whole numbers and others go together, text and numbers do not.
    ``ids`` may hold anything: what CSV files have there is text, unless all of it is whole numbers that are written in
    one way only, without leading zeros. ``text_ids``: those that are text in any case.

    Raises: BadArgument, naming the file, for one that is not there, empty, damaged or of another kind, and, naming also
        the column, for two columns of one name, and schemas that differ.
    """
    if len({file.resolve() for file in files}) < len(files):
        raise BadArgument(f"the tables are to be different files; got {', '.join(map(str, files))}.")
    tables = [_read(file, ids) for file in files]
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
    for name in [name for name in ids if name in first]:
        tables = _alike(tables, name, [_ending(file) in CSV for file in files], name in text_ids)
    try:
        table = pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException:
        raise _differing(files, tables) from None
    return Rows(table, tuple(files), np.cumsum([len(table) for table in tables]))


def _ending(file: Path) -> str:
    """What tells its kind: .csv for a .csv.gz."""
    ending = file.suffix.lower()
    inner = Path(file.stem).suffix.lower()
    return inner if ending in COMPRESSIONS and inner in CSV else ending


def _read(file: Path, ids: Collection[str]) -> pa.Table:
    if not file.exists():
        raise BadArgument(f"there is no file {file}.")
    if not file.is_file():
        raise BadArgument(f"{file} is no file. Name the files in it.")
    ending = _ending(file)
    if ending not in ENDINGS:
        raise BadArgument(
            f"{file}: a table is a file in {', '.join(ENDINGS)}, or a CSV file in {', '.join(COMPRESSIONS)} too; got "
            f"{ending or 'no such ending'}."
        )
    if file.stat().st_size == 0:
        raise BadArgument(f"{file} is empty.")
    try:
        if ending in CSV:
            return read_csv(file, ids)
        return _parquet(file) if ending in (".parquet", ".pq") else _arrow(file)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0].rstrip(".")[:200] if str(error) else type(error).__name__
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


def _alike(tables: Sequence[pa.Table], name: str, from_csv: Sequence[bool], text: bool) -> list[pa.Table]:
    """The same tables, with ids of one type: those of CSV files, which are text, made whole numbers if they can be."""
    columns = [table[name] for table in tables]
    read = [column for column, is_read in zip(columns, from_csv, strict=True) if is_read]
    given = [column.type for column, is_read in zip(columns, from_csv, strict=True) if not is_read]
    kind = None
    if text or read:
        kind = pa.large_string()
    if read and not text and all(map(_is_whole, read)) and all(map(pa.types.is_integer, given)):
        kind = pa.int64()
    if kind is None:
        return list(tables)
    place = tables[0].column_names.index(name)
    return [table.set_column(place, name, column.cast(kind)) for table, column in zip(tables, columns, strict=True)]


def _is_whole(column: pa.ChunkedArray) -> bool:
    return bool(pc.all(pc.match_substring_regex(column, WHOLE)).as_py())


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
