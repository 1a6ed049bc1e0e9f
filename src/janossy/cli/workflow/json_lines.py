"""Tables from JSON, and their columns in the types that a model was trained with."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa

from janossy.cli.errors import BadArgument
from janossy.cli.workflow.delimited import Dialect, plain_text
from janossy.cli.workflow.excel import as_text
from janossy.cli.workflow.text_casts import cast, check_dates
from janossy.cli.workflow.text_types import AS_TEXT, Facts, Role, Spelling, taken_as_type
from janossy.tables.arrow import is_text, one_chunk, with_items
from janossy.tables.objects import from_json

TYPED = ("numeric", "date", "boolean", "target")
"""Roles of columns whose text is read like that of CSV files, if a model determines them. JSON has no dates."""


def json_lines(file: Path, dialect: Dialect, of_model: Collection[str] = ()) -> pa.Table:
    """Returns the table of a file with one object per line, or with one list of objects. Numbers keep all their digits.

    Values of several kinds in a column ``of_model`` become text, which ``as_in_training`` reads.
    Raises: BadArgument, naming the line or the column.
    """
    columns: dict[str, list[Any]] = {}
    num = 0
    with ExitStack() as kept, plain_text(file, dialect.encoding, kept).open(encoding="utf-8-sig") as lines:
        for place, row in _entries(file, lines):
            if not isinstance(row, dict):
                raise BadArgument(f'{file}, {place}: expected an object, such as {{"a": 1}}; got {row!s:.40}.')
            for name in row:
                columns.setdefault(name, [None] * num)
            num += 1
            for name, values in columns.items():
                values.append(row.get(name))
    if num == 1 and len(columns) > 1 and _are_columns([values[0] for values in columns.values()]):
        raise BadArgument(
            f"{file}: expected one object per row; got one object of columns, as pandas writes it. Write it with "
            'orient="records".'
        )
    if not columns:
        raise BadArgument(f"{file} is empty.")
    if words := set(dialect.spelling.null_values):  # before values of several kinds are refused
        columns = {
            name: [None if isinstance(x, str) and x in words else x for x in values] for name, values in columns.items()
        }
    return pa.table({name: _column(file, name, values, name in of_model) for name, values in columns.items()})


def _entries(file: Path, lines: TextIO) -> Iterator[tuple[str, Any]]:
    """Yields the values of the lines, or those of a list in the whole file, each with its place."""
    is_first = True
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        is_list, is_first = is_first and line.lstrip().startswith("["), False
        try:
            values = json.loads(line + lines.read() if is_list else line)
        except json.JSONDecodeError as error:
            place = f"line {number + error.lineno - 1 if is_list else number}"
            if line.strip() == "{":
                raise BadArgument(
                    f"{file}, {place}: expected one object per line, or a list of objects; got an object over several "
                    "lines. Write it in one."
                ) from None
            raise BadArgument(f"{file}, {place}: {error.msg}. Correct it; the file may be cut short.") from None
        if is_list:
            yield from ((f"entry {entry}", value) for entry, value in enumerate(values, 1))
        else:
            yield f"line {number}", values


def _are_columns(values: Sequence[Any]) -> bool:
    """Returns True for objects with the same names, of which each is a column by row."""
    return all(isinstance(value, dict) and value.keys() == values[0].keys() for value in values)


def _column(file: Path, name: str, values: list[Any], of_model: bool) -> pa.Array:
    try:
        return from_json(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        if of_model and not any(isinstance(value, dict | list) for value in values):
            return as_text(values)
        reason = str(error).splitlines()[0].rstrip(".")
        raise BadArgument(
            f"{file}: the column {name!r} expects values of one kind; got several ({reason}). Write all alike."
        ) from None


def as_in_training(
    file: object, table: pa.Table, roles: Mapping[str, Role], kinds: Mapping[str, str], spelling: Spelling
) -> tuple[pa.Table, list[str]]:
    """Returns the table with its columns in the types of a model's roles, as far as they can be read, and notes.

    Text of other roles stays as it is, because a model of JSON lines knows its white space.
    Raises: BadArgument, naming the row, for a date whose day and month are not in the order of training.
    """
    notes: list[str] = []

    def typed(values: pa.Array, name: str) -> pa.Array:
        if pa.types.is_list(values.type):
            return with_items(values, typed(values.values, name))
        if pa.types.is_struct(values.type):
            names = [field.name for field in values.type]
            parts = [typed(values.field(j), each) for j, each in enumerate(names)]
            return pa.StructArray.from_arrays(parts, names, mask=values.is_null())
        role, before = roles.get(name), kinds.get(name, "")
        if role in AS_TEXT and not is_text(values.type) and values.null_count < len(values):
            return as_text(values.to_pylist())
        if role not in TYPED or not is_text(values.type):
            return values
        facts, values = Facts(), values.cast(pa.large_string())
        facts.add(values, spelling)
        taken = taken_as_type(facts, role, before)
        try:
            read = cast(values, taken.kind, spelling)
        except pa.ArrowException:  # the check of values names it
            return values
        notes.extend([f"column {name!r} {taken.note}."] if taken.note else [])
        return read

    for place, name in enumerate(table.column_names):
        values = one_chunk(table[name])
        if is_text(values.type):
            check_dates(file, name, spelling.trimmed(values), kinds.get(name, ""))
        table = table.set_column(place, name, typed(values, name))
    return table, notes
