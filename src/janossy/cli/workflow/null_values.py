"""Words of --null-values in columns with types: they become missing values, as in CSV files."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from janossy.tables.arrow import has_items, is_text, list_type, with_items, without_halves


def without_words(values: pa.Array, words: Sequence[str]) -> pa.Array:
    """Returns the values, and null for those that are one of these words, or the number that it spells."""
    kind = values.type
    if has_items(kind):
        lists = with_items(values, without_words(values.values, words))
        item = kind.value_field.with_type(lists.type.value_type).with_nullable(True)  # which keeps its name
        return lists.cast(list_type(kind, item))
    if pa.types.is_struct(kind):
        parts = [without_words(values.field(j), words) for j in range(kind.num_fields)]
        return pa.StructArray.from_arrays(parts, [field.name for field in kind], mask=values.is_null())
    if pa.types.is_dictionary(kind):
        rows = without_words(values.dictionary_decode(), words)
        indices = pc.if_else(rows.is_valid(), values.indices, pa.scalar(None, kind.index_type))
        return pa.DictionaryArray.from_arrays(indices, values.dictionary, ordered=kind.ordered)
    values = without_halves(values)
    if not len(found := _spelt(words, values.type)):
        return values
    return pc.if_else(pc.is_in(values, found), pa.scalar(None, values.type), values)


def table_without_words(table: pa.Table, words: Sequence[str]) -> pa.Table:
    """Returns a table without these words in any column."""
    for place, name in enumerate(table.column_names if words else ()):
        chunks = [without_words(chunk, words) for chunk in table[name].chunks]
        if chunks:
            table = table.set_column(place, name, pa.chunked_array(chunks))
    return table


def _spelt(words: Sequence[str], kind: pa.DataType) -> pa.Array:
    """Returns the words in a type, as far as they are values of it: text and numbers."""
    found = []
    if is_text(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        for word in words:
            try:
                found.append(pa.scalar(word).cast(kind))
            except pa.ArrowInvalid:  # no number, or one out of range
                continue
    return pa.array([each.as_py() for each in found], kind)
