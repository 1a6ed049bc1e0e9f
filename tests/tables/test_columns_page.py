"""The table of docs/sets.md, "What becomes of your column": each cell is run, and says what was found."""

import datetime as dt
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest

from janossy.tables import as_sets
from tests.tables.forms import array_of

PAGE = (Path(__file__).parents[2] / "docs" / "sets.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Row:
    """A type of column, two different values of it that a careless reader confuses, and the number of each, if any."""

    name: str
    kind: pa.DataType
    values: tuple[Any, Any]
    number: Callable[[Any], float] | None = float


DAY = dt.datetime(1970, 1, 1)
ROWS = (
    Row("whole numbers", pa.int64(), (2**53, 2**53 + 1)),
    Row("whole numbers beyond 64 bits", pa.decimal128(38, 0), (Decimal(10**30), Decimal(10**30 + 1))),
    Row("floats", pa.float64(), (0.5, 2.5)),
    Row("decimals", pa.decimal128(38, 2), (Decimal("1e20") + Decimal("0.01"), Decimal("1e20") + Decimal("0.02"))),
    Row("text", pa.string(), ("NA", "null"), None),
    Row("text of digits", pa.string(), ("007", "7")),
    Row("a dictionary of text", pa.dictionary(pa.int8(), pa.string()), ("b", "a"), None),
    Row("bytes", pa.binary(), (b"\xff", b"\xfe"), None),
    Row("UUIDs", pa.uuid(), (UUID(int=1), UUID(int=2)), None),
    Row("true and false", pa.bool_(), (True, False)),
    Row("dates", pa.date32(), (dt.date(2024, 1, 31), dt.date(2024, 2, 1)), lambda x: (x - DAY.date()).days),
    Row(
        "dates with times",
        pa.timestamp("us"),
        (dt.datetime(2024, 1, 31, 12), dt.datetime(2024, 1, 31, 18)),
        lambda x: (x - DAY).total_seconds() / 86_400,
    ),
    Row(
        "dates with times and a zone",
        pa.timestamp("us", "Europe/Paris"),
        (dt.datetime(2024, 1, 31, 12, tzinfo=dt.UTC), dt.datetime(2024, 1, 31, 18, tzinfo=dt.UTC)),
        lambda x: (x.astimezone(dt.UTC).replace(tzinfo=None) - DAY).total_seconds() / 86_400,
    ),
    Row("times of day", pa.time64("us"), (dt.time(1, 0, 5), dt.time(2)), lambda x: x.hour * 3600 + x.second),
    Row("durations", pa.duration("s"), (dt.timedelta(0, 5), dt.timedelta(1)), lambda x: x.total_seconds()),
    Row("structs", pa.struct([("a", pa.int64())]), ({"a": 1}, {"a": 2}), None),
    Row("maps", pa.map_(pa.string(), pa.int64()), ([("a", 1)], [("a", 2)]), None),
    Row("lists of lists, of several lengths", pa.list_(pa.list_(pa.float64())), ([[1.0], [2.0, 3.0]], [[4.0]]), None),
)
ROLES = ("unnamed", "id", "category", "number", "target")
REFUSED = "refused"


def column(row: Row) -> pa.Array:
    values = [row.values[0], row.values[1], row.values[0]]
    return array_of(values, row.kind)


def names_of(values: Any) -> str:
    """Returns the type of values that are told apart, in a word or two."""
    listed = values.tolist() if isinstance(values, np.ndarray) else list(values)
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        return "dates"
    kinds = {bool: "true, false", int: "whole numbers", float: "numbers", str: "text"}
    (found,) = {kinds[type(x)] for x in listed}
    return found


def distinct(values: Any) -> bool:
    """Returns two values, of which the first comes back."""
    first, second, third = list(values)
    return bool(first == third and first != second)


def cell(row: Row, role: str) -> str:
    """Returns what becomes of the column in this role, after a check that nothing was confused."""
    values, x = column(row), pa.array([1.0, 2.0, 3.0])
    try:
        if role == "id":
            sets = as_sets(pa.table({"c": values, "x": x}), set_id="c")
            assert sets.sizes.tolist() == [2, 1], row
            return names_of(sets.ids)
        if role == "target":
            targets = as_sets(pa.table({"c": values, "x": pa.array([[1.0], [], [2.0]])}), "c")[1]
            assert distinct(targets) or row.name in ROUNDED, row
            return names_of(targets)
        options = {"category": {"categorical": "c"}, "number": {"numeric": "c"}}.get(role, {})
        sets = as_sets(pa.table({"s": pa.array([0, 0, 0]), "c": values, "x": x}), set_id="s", **options)
        if role == "unnamed" and set(sets.elements) == {"c.a", "x"}:
            return "a column per field"
        found = sets.elements["c"]
        if role == "unnamed":
            return found.kind
        if role == "category":
            assert found.kind == "categorical" and distinct(found.values.tolist()), row
            return names_of(found.categories)
        numbers = found.numbers()
        assert row.number is not None and numbers.tolist() == [float(row.number(x)) for x in values.to_pylist()], row
        units = {
            "date": "days since 1970",
            "time": "seconds",
            "durat": "seconds",
            "true": "0 and 1",
            "text": "as spelt",
        }
        return next((text for begin, text in units.items() if row.name.startswith(begin)), "as they are")
    except (TypeError, ValueError, KeyError):
        return REFUSED


ROUNDED = ("whole numbers beyond 64 bits", "decimals")
"""The notes on targets that are numbers: float64 is all that a regression uses."""


def table() -> list[str]:
    head = ["| column of | unnamed | as id | as category | as number | as target |", "|---|---|---|---|---|---|"]
    return head + [f"| {row.name} | " + " | ".join(cell(row, role) for role in ROLES) + " |" for row in ROWS]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_page_says_what_becomes_of_it(row):
    with warnings.catch_warnings(action="ignore"):
        line = f"| {row.name} | " + " | ".join(cell(row, role) for role in ROLES) + " |"
    assert line in PAGE.splitlines()
    assert REFUSED not in line or row.number is None


if __name__ == "__main__":
    print("\n".join(table()))
