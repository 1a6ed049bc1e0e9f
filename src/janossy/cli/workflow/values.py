"""What is wrong in the values of a table that was read: infinity, text among numbers."""

from collections.abc import Collection, Iterator
from math import isinf

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from janossy.cli.errors import BadArgument
from janossy.cli.workflow.reading import Rows
from janossy.tables.columns import one_chunk
from janossy.tables.lists import holds_lists

NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)

MOSTLY = 0.9
"""A column of text in which so many values, but not all, are numbers was meant to hold numbers."""


def check_values(
    rows: Rows, numeric: Collection[str], anything: Collection[str], targets: Collection[str] = ()
) -> None:
    """Refuse infinity in numbers, text in a column that is ``numeric``, and among the numbers of one that seems to be.

    ``anything``: columns that may hold it. ``targets``: what errors advise another remedy for.
    Raises: BadArgument, naming the file, the column and the row.
    """
    for name, column in zip(rows.table.column_names, rows.table.columns, strict=True):
        for leaf, values, row_of in leaves(name, one_chunk(column)):
            if leaf in anything or name in anything:
                continue
            if pa.types.is_floating(values.type):
                infinite = np.flatnonzero(np.isinf(values.to_numpy(zero_copy_only=False)))
                if len(infinite):
                    raise BadArgument(
                        f"{rows.place(row_of[infinite[0]])}: column {leaf!r} is infinite. Correct it, or empty it."
                    )
            if is_text(values.type):
                remedy = "--task classification" if name in targets else f"--categorical {leaf}"
                _check_words(rows, leaf, values, row_of, leaf in numeric or name in numeric, remedy)


def check_numbers(rows: Rows, targets: Collection[str]) -> None:
    """Refuse targets that are no numbers, of which there are several. Raises: BadArgument, naming the column."""
    for name in targets:
        kind = rows.table.schema.field(name).type
        if not any(is_it(kind) for is_it in NUMBERS):
            raise BadArgument(
                f"{rows.files[0]}: several targets are to be numbers, and {name!r} holds {kind}. Fit classes one by "
                "one, each with --target and the others in --drop."
            )


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds text."""
    return any(is_it(kind) for is_it in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)) or (
        pa.types.is_dictionary(kind) and is_text(kind.value_type)
    )


def leaves(name: str, values: pa.Array, row_of: np.ndarray | None = None) -> Iterator[tuple[str, pa.Array, np.ndarray]]:
    """The plain columns within a column, which may hold lists and structs: names, values, and the row of each value."""
    row_of = np.arange(len(values)) if row_of is None else row_of
    if isinstance(values, pa.DictionaryArray):
        yield from leaves(name, values.dictionary_decode(), row_of)
    elif holds_lists(values.type):
        parents = pc.list_parent_indices(values).to_numpy()
        yield from leaves(name, pc.list_flatten(values), row_of[parents])
    elif pa.types.is_struct(values.type):
        for field, part in zip(values.type, values.flatten(), strict=True):
            yield from leaves(field.name, part, row_of)
    else:
        yield name, values, row_of


def _check_words(rows: Rows, name: str, values: pa.Array, row_of: np.ndarray, numeric: bool, remedy: str) -> None:
    codes = values.dictionary_encode()
    words = codes.dictionary.to_pylist()
    numbers = np.array([_is_number(word) for word in words], bool)
    there = codes.indices.drop_null().to_numpy()
    share = numbers[there].mean() if len(there) else 1.0
    if share == 1 or not (numeric or share >= MOSTLY):
        return
    places = codes.indices.fill_null(0).to_numpy()
    wrong = int((~numbers[places] & values.is_valid().to_numpy(zero_copy_only=False)).argmax())
    asked = "is numeric" if numeric else f"holds numbers in {share:.1%} of its rows"
    raise BadArgument(
        f"{rows.place(row_of[wrong])}: column {name!r} {asked}, and here the text {words[places[wrong]]!r:.60}. "
        f"Correct it, or leave it empty; {remedy} takes all values as names."
    )


def _is_number(word: str) -> bool:
    try:
        return not isinf(float(word))
    except ValueError:
        return False
