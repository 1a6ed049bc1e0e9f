"""Arrow's types and schemas: which of them are text, and which columns hold a pandas index."""

import json
import re
from collections.abc import Collection, Iterator

import pyarrow as pa

UUIDS = "arrow.uuid"
"""The name of Arrow's type of UUIDs."""


def one_chunk(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Returns the values in one array. They are copied only if there are several chunks."""
    if not isinstance(values, pa.ChunkedArray):
        return values
    return values.chunk(0) if values.num_chunks == 1 else values.unify_dictionaries().combine_chunks()


def without_structs(
    name: str, values: pa.Array | pa.ChunkedArray, drop: Collection[str] = ()
) -> Iterator[tuple[str, pa.Array | pa.ChunkedArray]]:
    """Yields a column, or if it holds structs one column per field, at any depth, such as "customer.age".

    Columns and structs named in ``drop`` are left out.
    """
    if name in drop:
        return
    if pa.types.is_struct(values.type):
        for field, part in zip(values.type, values.flatten(), strict=True):
            yield from without_structs(f"{name}.{field.name}", part, drop)
    else:
        yield name, values


def flat_table(table: pa.Table) -> pa.Table:
    """Returns the table with one column per field in the place of structs, and without metadata."""
    columns = zip(table.column_names, table.columns, strict=True)
    parts = [each for name, values in columns for each in without_structs(name, values)]
    return pa.Table.from_arrays([values for _, values in parts], [name for name, _ in parts])


def without_halves(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Returns 16-bit floats as 32-bit ones, with which every version of Arrow computes; other values as they are."""
    return values.cast(pa.float32()) if pa.types.is_float16(values.type) else values


def has_items(kind: pa.DataType) -> bool:
    """Returns True for lists, large lists and lists of one size, which ``list_type`` and ``with_items`` take."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def list_type(kind: pa.DataType, item: pa.DataType) -> pa.DataType:
    """Returns the type of lists, large lists or lists of one size, as ``kind`` is one, with items of another type."""
    if item == kind.value_type:
        return kind
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(item, kind.list_size)
    return (pa.list_ if pa.types.is_list(kind) else pa.large_list)(item)


def with_items(lists: pa.Array, items: pa.Array) -> pa.Array:
    """Returns lists of any of the kinds of ``list_type``, with other items in the place of ``lists.values``.

    Arrow's own function refuses slices with nulls.
    """
    kind = list_type(lists.type, items.type)
    buffers = lists.buffers()[: 1 if pa.types.is_fixed_size_list(kind) else 2]
    return pa.Array.from_buffers(kind, len(lists), buffers, lists.null_count, lists.offset, [items])


def is_text(kind: pa.DataType) -> bool:
    """Returns True for a type of text, in any of Arrow's storage forms except dictionaries."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_binary(kind: pa.DataType) -> bool:
    """Returns True for a type of bytes, or of UUIDs."""
    return (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
        or (isinstance(kind, pa.BaseExtensionType) and kind.extension_name == UUIDS)
    )


def without_views(table: pa.Table) -> pa.Table:
    """Returns the table with views of text and bytes as plain types, from which Arrow can take rows."""
    fields = [each.with_type(_plain_type(each.type)) for each in table.schema]
    schema = pa.schema(fields, table.schema.metadata)
    return table if schema.equals(table.schema) else table.cast(schema)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return list_type(kind, _plain_type(kind.value_type))
    if pa.types.is_struct(kind):
        fields = [each.with_type(_plain_type(each.type)) for each in kind]
        return kind if fields == list(kind) else pa.struct(fields)
    return kind


def index_columns(schema: pa.Schema) -> list[str]:
    """Returns the columns that hold the index of a pandas frame, by the table's metadata or by their names."""
    names = {name for name in schema.names if re.fullmatch(r"__index_level_\d+__", name)}
    try:
        about = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
        names |= {name for name in about.get("index_columns", ()) if isinstance(name, str)}
    except (ValueError, AttributeError, TypeError):  # metadata from another writer
        pass
    return [name for name in schema.names if name in names]
