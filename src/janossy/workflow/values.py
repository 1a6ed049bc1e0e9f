"""What is wrong in the values of a table that was read: infinity, text among numbers."""

from collections.abc import Collection, Iterator
from math import isinf

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from janossy.estimators.columns import one_chunk
from janossy.estimators.lists import holds_lists
from janossy.refusal import BadArgument
from janossy.workflow.reading import Rows

MOSTLY = 0.9
"""A column of text in which so many values, but not all, are numbers was meant to hold numbers."""


def check_values(rows: Rows, numeric: Collection[str], categorical: Collection[str]) -> None:
    """Refuse infinity in numbers, text in a column that is ``numeric``, and among the numbers of one that seems to be.

    ``categorical`` columns may hold anything.
    Raises: BadArgument, naming the file, the column and the row.
    """
    for name, column in zip(rows.table.column_names, rows.table.columns, strict=True):
        for leaf, values, row_of in leaves(name, one_chunk(column)):
            if leaf in categorical or name in categorical:
                continue
            if pa.types.is_floating(values.type):
                infinite = np.flatnonzero(np.isinf(values.to_numpy(zero_copy_only=False)))
                if len(infinite):
                    raise BadArgument(
                        f"{rows.place(row_of[infinite[0]])}: column {leaf!r} is infinite. Correct it, or empty it."
                    )
            if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
                _check_words(rows, leaf, values, row_of, leaf in numeric or name in numeric)


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


def _check_words(rows: Rows, name: str, values: pa.Array, row_of: np.ndarray, numeric: bool) -> None:
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
        f"Correct it, or leave it empty; --categorical {name} takes all values as names."
    )


def _is_number(word: str) -> bool:
    try:
        return not isinf(float(word))
    except ValueError:
        return False
