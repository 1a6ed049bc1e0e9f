"""Types of columns that DuckDB sorts and gives back, in the place of those that it lacks or changes."""

from collections.abc import Iterator

import pyarrow as pa

from janossy.tables.arrow import has_items, list_type, with_items, without_halves


def sorted_as(kind: pa.DataType) -> pa.DataType:
    """Returns the type in which DuckDB sorts a column and gives it back unchanged.

    - Durations would become intervals, which Parquet lacks. They are sorted as whole numbers.
    - DuckDB has no 16-bit floats, and decimals of 38 digits at most. Longer ones are text, so they cannot be ids.
    - Time zones would become that of the machine. Times are sorted as those of UTC.
    - Fields of structs are named by their numbers. DuckDB names a field without a name.
    """
    if pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_decimal256(kind):
        return pa.large_string()
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit)
    if has_items(kind):
        return list_type(kind, sorted_as(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(str(j), sorted_as(each.type)) for j, each in enumerate(kind)])
    return kind


def converted(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns a column in its type for DuckDB, or back in its own type. 16-bit floats stay 32-bit.

    Text that was stored as a dictionary stays plain.
    """
    if values.type == kind or pa.types.is_float16(kind) or pa.types.is_dictionary(kind):
        return without_halves(values)
    if pa.types.is_struct(kind):
        parts = [converted(values.field(j), field.type) for j, field in enumerate(kind)]
        fields = [field.with_type(part.type) for field, part in zip(kind, parts, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=values.is_null())
    if has_items(kind):
        return with_items(values, converted(values.values, kind.value_type))
    return values.cast(kind)


def fields_of_one_name(kind: pa.DataType) -> Iterator[str]:
    """Yields the names that two fields of a struct share, in a column of this type."""
    names = [field.name for field in kind] if pa.types.is_struct(kind) else []
    yield from (name for j, name in enumerate(names) if name in names[:j])
    for j in range(kind.num_fields):
        yield from fields_of_one_name(kind.field(j).type)
