"""Values of text read in the type that text_types has chosen for their column."""

import ast
import json
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from janossy.cli.errors import BadArgument
from janossy.cli.workflow.text_types import (
    CONTRADICTIONS,
    INTEGER,
    LISTS,
    MISSING,
    NUMBER,
    SEPARATED,
    TO_NANOSECONDS,
    Spelling,
    contradicts,
)
from janossy.tables.objects import from_json


def cast(values: pa.Array, kind: str, spelling: Spelling) -> pa.Array:
    """Returns the values of a column in the type of ``taken_as_type``.

    Raises: ArrowInvalid for a date that does not exist, or text that is not a list.
    """
    values = spelling.trimmed(values)
    if kind == "text":
        return values
    for of_parts, separated in SEPARATED.items():
        if kind == separated:
            return _separated(values, of_parts, spelling)
    plain = spelling.plain(values)
    plain = pc.if_else(pc.is_in(plain, pa.array(MISSING, plain.type)), pa.scalar(None, plain.type), plain)
    if kind == "mostly numbers":
        return plain
    if kind == "null":
        return pa.nulls(len(values))
    if kind in ("int64", "float64"):
        return pc.replace_substring_regex(plain, r"^\+", "").cast(pa.int64() if kind == "int64" else pa.float64())
    if kind == "bool":
        return plain.cast(pa.bool_())
    if kind in LISTS:
        return _lists(plain, kind == "text list")
    if kind == "time":
        padded = pc.replace_substring_regex(plain, r"^(\d):", r"0\1:")
        padded = pc.replace_substring_regex(padded, r"^(\d{2}:\d{2})$", r"\1:00")
        return (
            pc.binary_join_element_wise(pa.scalar("1970-01-01", padded.type), padded, pa.scalar(" ", padded.type))
            .cast(pa.timestamp("ns"))
            .cast(pa.time64("ns"))
        )
    unit = "ns" if kind.endswith(TO_NANOSECONDS) else "us"
    kind = kind.removesuffix(TO_NANOSECONDS)
    if kind == "year first":
        plain = pc.replace_substring_regex(plain, r"^(\d{4})[/.-](\d{1,2})[/.-](\d{1,2})", r"\1-\2-\3")
    if kind == "day first":
        plain = pc.replace_substring_regex(plain, r"^(\d{1,2})[/.-](\d{1,2})[/.-](\d{4})", r"\3-\2-\1")
    if kind == "month first":
        plain = pc.replace_substring_regex(plain, r"^(\d{1,2})[/.-](\d{1,2})[/.-](\d{4})", r"\3-\1-\2")
    plain = pc.replace_substring_regex(plain, r"^(\d{4})-(\d)-", r"\1-0\2-")
    plain = pc.replace_substring_regex(plain, r"^(\d{4}-\d{2})-(\d)([ T]|$)", r"\1-0\2\3")
    plain = pc.replace_substring_regex(plain, r"T", " ")
    plain = pc.replace_substring_regex(plain, r" (\d):", r" 0\1:")
    plain = pc.replace_substring_regex(plain, r"(:\d{2}\.\d{6})0+", r"\1") if unit == "us" else plain
    return plain.cast(pa.timestamp(unit, "UTC" if kind == "zoned" else None))


def check_dates(file: object, name: str, values: pa.Array, before: str) -> None:
    """Raises a BadArgument, naming the row, for a trimmed date whose day and month are not in the order of training."""
    if before in CONTRADICTIONS and (row := pc.index(contradicts(values, before), True).as_py()) >= 0:
        raise BadArgument(
            f"{file}, row {row + 1}: column {name!r} expects dates with the {before}, as in training; got "
            f"{values[row]}. Correct it, or write all dates as 2024-01-31."
        )


def _lists(values: pa.Array, are_words: bool) -> pa.Array:
    """Returns lists from JSON or Python's notation. Whole numbers among words are codes, and become text.

    Raises: ArrowInvalid for any other text.
    """
    lists = [None if text is None else _list(text) for text in values.to_pylist()]
    if are_words:
        lists = [items and [str(x) if type(x) is int else x for x in items] for items in lists]
    return from_json(lists)


def _list(text: str) -> list[Any]:
    text = text.strip()
    text = f"[{text[1:-1]}]"  # of a tuple or a set of Python, or an array of PostgreSQL
    try:
        items: list[Any] = json.loads(text)
    except ValueError:
        try:
            items = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            items = _numbers(text)
    return items


def _numbers(text: str) -> list[Any]:
    """Returns a list of numbers as NumPy prints them, between spaces, or with Python's nan."""
    words = re.split(r"\s*,\s*|\s+", text[1:-1].strip())
    if not all(word == "nan" or re.match(NUMBER, word) for word in words):
        raise pa.ArrowInvalid(f"no list: {text[:40]}")
    return [None if word == "nan" else int(word) if re.match(INTEGER, word) else float(word) for word in words]


def _separated(values: pa.Array, kind: str, spelling: Spelling) -> pa.Array:
    """Returns lists whose parts are read as this kind. An empty cell is an empty list."""
    parts = pc.split_pattern(pc.fill_null(values, ""), spelling.list_separator)
    flat = pc.utf8_trim_whitespace(parts.flatten())
    sizes = np.where(
        pc.equal(pc.fill_null(values, ""), "").to_numpy(zero_copy_only=False), 0, pc.list_value_length(parts)
    )
    kept = flat.filter(pc.not_equal(flat, "")) if (sizes == 0).any() else flat
    if len(kept) != sizes.sum():
        raise pa.ArrowInvalid("an empty part of a list")
    offsets = pa.array(np.concatenate(([0], np.cumsum(sizes))), pa.int32())
    return pa.ListArray.from_arrays(offsets, cast(kept, kind, spelling.of_parts))


def type_of(kind: str) -> pa.DataType:
    """Returns the Arrow type of ``cast``'s result, except for lists, whose type follows from their values."""
    return {
        "text": pa.large_string(),
        "mostly numbers": pa.large_string(),
        "null": pa.null(),
        "int64": pa.int64(),
        "float64": pa.float64(),
        "bool": pa.bool_(),
        "time": pa.time64("ns"),
        "zoned": pa.timestamp("us", "UTC"),
        "zoned" + TO_NANOSECONDS: pa.timestamp("ns", "UTC"),
    }.get(kind, pa.timestamp("ns" if kind.endswith(TO_NANOSECONDS) else "us"))
