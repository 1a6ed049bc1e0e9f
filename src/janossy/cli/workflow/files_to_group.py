"""The files of janossy group, of all formats, as fragments that are read batch by batch."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from janossy.cli.errors import BadArgument
from janossy.cli.workflow.delimited import Dialect, open_csv
from janossy.cli.workflow.excel import ENDINGS as WORKBOOKS
from janossy.cli.workflow.local_copies import local_copy
from janossy.cli.workflow.reading import IPC, JSON, LINES, check_sheet, read_tables
from janossy.cli.workflow.text_types import Role
from janossy.tables.files import Files, check_alike, open_files
from janossy.tables.ids import all_names
from janossy.tables.paths import COMPRESSED, FORMATS, ending_of, found_files, is_address, stored_files

READ = FORMATS | dict.fromkeys(IPC, "ipc")
CSV = {inner + ending: "csv" for inner in (".csv", ".tsv") for ending in ("", *COMPRESSED)}
NAMED = {inner + ending: "csv" for inner in (".tab", ".txt") for ending in ("", *COMPRESSED)}
NAMED |= dict.fromkeys(COMPRESSED, "csv") | {JSON + ending: "whole" for ending in ("", *COMPRESSED)}
"""Endings of files that are read if they are named. A folder may hold other files of such endings."""
WHOLE = dict.fromkeys(WORKBOOKS, "whole")
WHOLE |= {inner + ending: "whole" for inner in LINES if inner != JSON for ending in ("", *COMPRESSED)}
"""The formats by the endings of names: of files that are read piece by piece, and of files that are read whole."""


@dataclass(frozen=True, eq=False)
class InMemory:
    """A file whose rows are in memory. They are read batch by batch, as ``pyarrow.dataset`` reads other files."""

    path: str
    table: pa.Table

    @property
    def physical_schema(self) -> pa.Schema:
        return self.table.schema

    def to_batches(self, schema: pa.Schema, batch_size: int, **_: Any) -> list[pa.RecordBatch]:
        """Returns the rows, with the columns of a schema, in its order."""
        return cast("list[pa.RecordBatch]", self.table.select(schema.names).cast(schema).to_batches(batch_size))


def open_any(
    paths: Sequence[str],
    set_id: Sequence[str],
    dialect: Dialect,
    kept: ExitStack,
    tell: Callable[[str], None],
    wide: Sequence[str],
) -> Files:
    """Returns all files, of any formats, with one schema. ``tell`` is called with remarks. ``kept`` closes the files.

    Columns side by side in CSV files, by the names in ``wide``, have one type.
    Raises: BadArgument, ValueError or FileNotFoundError for files that do not exist, are damaged, or differ.
    """
    others: list[str] = []
    copied: list[Path] = []
    for path in paths:
        every = READ | CSV | WHOLE
        if path.lower().endswith(tuple(NAMED)) and not Path(path).is_dir():
            every |= NAMED
        store, _, files = stored_files(path, every) if is_address(path) else (None, *found_files(path, every))
        if any(ending_of(file) in READ for file in files):
            others.append(path)
        for file in files:
            if ending_of(file) not in READ:
                copied.append(
                    Path(file)
                    if store is None
                    else kept.enter_context(local_copy(store, file, f"{path.split('://')[0]}://{file}"))
                )
    check_sheet([*copied, *others], dialect)
    if not copied:
        return open_files(others, READ)
    if len({file.resolve() for file in copied}) < len(copied):
        raise BadArgument(f"expected different files of one table; got {', '.join(map(str, copied))}.")
    roles: dict[str, Role] = {name: "id" for name in all_names(set_id)}
    of_text = [file for file in copied if (CSV | NAMED).get(ending_of(file)) == "csv"]
    fragments: list[Any] = []
    if of_text:
        fragments, taken = open_csv(of_text, dialect, roles, kept, wide)
        for csv in (fragment.csv for fragment in fragments if fragment.csv.has_index):
            tell(f"{csv.file}: column 1 is the index of a frame, and left out.")
        for name, each in taken.items():
            if each.note:
                tell(f"column {name!r} {each.note}.")
    if whole := [file for file in copied if file not in of_text]:
        rows = read_tables(whole, roles, dialect)
        for note in rows.notes:
            tell(note)
        firsts = (0, *rows.ends[:-1])
        fragments += [
            InMemory(str(file), rows.table.slice(begin, end - begin))
            for file, begin, end in zip(rows.files, firsts, rows.ends, strict=True)
        ]
    opened = open_files(others, READ) if others else None
    together = (*(opened.fragments if opened else ()), *fragments)
    schema = opened.schema if opened else fragments[0].physical_schema
    for fragment in fragments:
        check_alike(schema, fragment.physical_schema, together[0].path, fragment.path)
    return Files(together, schema, opened.index_columns if opened else ())
