"""Elements side by side: one row per set, with columns such as rank1, suit1, rank2, suit2. They become lists."""

import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from janossy.cli.errors import BadArgument
from janossy.tables.arrow import without_halves

NUMBERED = r"(.*?)[ _.-]?(\d+)"
"""The names of such columns: what they hold, perhaps a mark, and the number of the element."""

FEWEST = 3
"""The number of columns from which they are told of. Two, such as x1 and x2, are often two different things."""


def hint(names: Collection[str]) -> str:
    """Returns a line on columns that look like elements side by side, or ""."""
    found: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        if (parts := re.fullmatch(NUMBERED, name)) and parts[1]:
            found.setdefault(parts[1], []).append((int(parts[2]), name))
    ends: list[str] = []
    stems: list[str] = []
    for stem, listed in found.items():
        numbers = sorted(number for number, _ in listed)
        if len(numbers) >= FEWEST and numbers in (list(range(len(numbers))), list(range(1, len(numbers) + 1))):
            ends.append(f"{min(listed)[1]} to {max(listed)[1]}")
            stems.append(f"--wide {stem!r}" if re.search(r"\W", stem) else f"--wide {stem}")
    if not stems:
        return ""
    return (
        f"columns {', '.join(ends)} look like elements side by side: janossy group {' '.join(stems)} makes lists of "
        "them."
    )


def numbered(names: Sequence[str], wide: Sequence[str], file: object) -> dict[str, dict[int, str]]:
    """Returns, for each name in ``wide``, its columns by their numbers: rank1 and rank_1 are the first of rank.

    Raises: BadArgument for a name with fewer than two columns, or with two of one number.
    """
    found: dict[str, dict[int, str]] = {}
    for stem in wide:
        columns = found[stem] = dict[int, str]()
        for name in names:
            parts = re.fullmatch(NUMBERED, name)
            if parts is None or stem not in (parts[1], name.removesuffix(parts[2])):
                continue
            if (number := int(parts[2])) in columns:
                raise BadArgument(
                    f"{file}: --wide {stem} expects one column per number; got {columns[number]!r} and {name!r}. "
                    "Rename one."
                )
            columns[number] = name
        if len(columns) < 2:
            raise BadArgument(
                f"{file}: --wide {stem} expects columns such as {stem}1 and {stem}2; got {', '.join(names)}. Name "
                "what stands before the numbers."
            )
    return found


def listed_schema(
    schema: pa.Schema, wide: Mapping[str, Mapping[int, str]], named: Collection[str], file: object
) -> pa.Schema:
    """Returns the schema with one column of lists for the columns of each name in ``wide``, behind all others.

    Raises: BadArgument for columns of different types, for a column that has such a name already, and for a column that
        two names in ``wide``, or other options, name too.
    """
    taken = [name for columns in wide.values() for name in columns.values()]
    if twice := [name for name in taken if name in named or taken.count(name) > 1]:
        raise BadArgument(f"--wide names the column {twice[0]!r}, and another option does so too. Leave one out.")
    fields = [field for field in schema if field.name not in taken]
    for stem, columns in wide.items():
        if stem in {field.name for field in fields}:
            raise BadArgument(f"{file}: --wide {stem} makes a column {stem!r}, which is there already. Rename it.")
        kinds = {name: _plain(schema.field(name).type) for name in columns.values()}
        try:
            each = [pa.schema([("x", kind)]) for kind in kinds.values()]
            fields.append(pa.field(stem, pa.list_(pa.unify_schemas(each, promote_options="permissive").field(0).type)))
        except pa.ArrowException:
            (one, kind), (name, other) = _two_kinds(kinds)
            raise BadArgument(
                f"{file}: --wide {stem} expects columns of one type; got {kind} in {one!r} and {other} in {name!r}. "
                "Write them alike."
            ) from None
    return pa.schema(fields)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else pa.float32() if pa.types.is_float16(kind) else kind


def _two_kinds(kinds: Mapping[str, pa.DataType]) -> list[tuple[str, pa.DataType]]:
    """Returns two columns of different types."""
    first, *others = ((name, kind) for name, kind in kinds.items() if not pa.types.is_null(kind))
    return [first, next(each for each in others if each[1] != first[1])]


def listed(batch: pa.RecordBatch, wide: Mapping[str, Mapping[int, str]], schema: pa.Schema) -> pa.Table:
    """Returns the rows with lists in the place of columns side by side. Elements without any value are left out."""
    numbers = sorted({number for columns in wide.values() for number in columns})
    rows, width = len(batch), len(numbers)
    in_rows = pa.array(np.arange(rows * width).reshape(width, rows).T.ravel())
    there = np.zeros(rows * width, bool)
    elements: dict[str, pa.Array] = {}
    for stem, columns in wide.items():
        kind = schema.field(stem).type.value_type
        parts = [
            without_halves(batch.column(columns[number])).cast(kind) if number in columns else pa.nulls(rows, kind)
            for number in numbers
        ]
        elements[stem] = pa.concat_arrays(parts).take(in_rows)
        there |= ~pc.is_null(elements[stem], nan_is_null=True).to_numpy(zero_copy_only=False)
    sizes = there.reshape(rows, width).sum(1)
    offsets = pa.array(np.concatenate(([0], np.cumsum(sizes))), pa.int32())
    columns_of = {name: batch.column(name) for name in schema.names if name not in wide}
    for stem, values in elements.items():
        columns_of[stem] = pa.ListArray.from_arrays(offsets, values.filter(pa.array(there)))
    return pa.table([columns_of[name] for name in schema.names], schema=schema)
