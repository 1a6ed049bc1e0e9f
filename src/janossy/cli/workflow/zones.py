"""Dates with a time zone, which become UTC, and dates without one, which stay as they are."""

from collections.abc import Mapping

import pyarrow as pa

from janossy.tables.lists import holds_lists, storage_type

ZONED, WITHOUT_ZONE = "zoned", "without a zone"


def zones_of(schema: pa.Schema) -> dict[str, str]:
    """Returns if the dates of a column have a time zone, for columns of dates and of lists of dates."""
    found = {}
    for field in schema:
        kind = field.type
        while holds_lists(kind):
            kind = storage_type(kind).value_type
        leaves = list(kind) if pa.types.is_struct(kind) else [field.with_type(kind)]
        for leaf in leaves:
            if pa.types.is_timestamp(leaf.type):
                found[leaf.name] = ZONED if leaf.type.tz else WITHOUT_ZONE
    return found


def zone_notes(schema: pa.Schema, in_fit: Mapping[str, str]) -> list[str]:
    """Returns a line for each column whose dates have a time zone, and had none in training, or the reverse."""
    lines = []
    for name, zone in zones_of(schema).items():
        before = in_fit.get(name, zone)
        if (before, zone) == (ZONED, WITHOUT_ZONE):
            lines.append(f"column {name!r} holds dates without a time zone, and had one in training: taken as UTC.")
        elif (before, zone) == (WITHOUT_ZONE, ZONED):
            lines.append(f"column {name!r} holds dates with a time zone, and had none in training: taken in UTC.")
    return lines
