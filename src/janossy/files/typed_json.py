"""Untrusted JSON, decoded within limits and converted to typed structs."""

import re
from typing import Any, TypeVar

try:
    import msgspec
except ImportError as error:
    raise ImportError("janossy reads JSON by msgspec: pip install 'janossy[estimators]'.") from error

T = TypeVar("T")

MAX_BYTES = 64 * 2**20
"""The most bytes of text; parsed, it takes several times as much memory."""
MAX_VALUES = 4_000_000
MAX_CONTAINERS = 500_000
"""The most lists and objects together: an empty one takes two bytes of text and sixty of memory."""

_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""Strings, including one without an end, so that each byte is read once."""


def decode(content: bytes) -> Any:
    """Decodes JSON into plain values.

    Raises: ValueError if a limit above is exceeded, the text is not JSON (NaN is not), or an object has a key twice.
    """
    if len(content) > MAX_BYTES:
        raise ValueError(f"it has {len(content)} bytes, over {MAX_BYTES}")
    marks = _STRINGS.sub(b"", content)
    for what, num, most in (
        ("lists and objects", marks.count(b"[") + marks.count(b"{"), MAX_CONTAINERS),
        ("values", marks.count(b","), MAX_VALUES),
    ):
        if num > most:
            raise ValueError(f"it has {num} {what}, over {most}")
    try:
        value = msgspec.json.decode(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
    if marks.count(b":") != _num_keys(value):
        raise ValueError("an object in it has a key twice")
    return value


def typed(value: Any, kind: type[T]) -> T:
    """Converts plain values to this struct or type.

    Raises: ValueError if they do not fit. The error names the field, what it expects and what it got.
    """
    try:
        return msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `")
        where = place.rstrip("`").removeprefix("$").removeprefix(".")
        raise ValueError(f"{where}: {message}"[:400] if where else message[:400]) from None


def _num_keys(value: Any) -> int:
    """Counts the keys of all objects."""
    num, left = 0, [value]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            num += len(each)
            left.extend(inner for inner in each.values() if isinstance(inner, dict | list))
        elif isinstance(each, list):
            left.extend(inner for inner in each if isinstance(inner, dict | list))
    return num
