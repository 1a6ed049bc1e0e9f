"""Categories: the values by which ids and categories are named."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np

Category = str | int | float | bool

DIGITS = 76
"""The number of digits of Arrow's longest decimals."""

HEXADECIMAL = "\\x"
"""The prefix of bytes that are written in hexadecimal, as in PostgreSQL and DuckDB."""


def category_of(x: Any) -> Any:
    """Returns the value by which ids and categories name x. Different values have different names.

    - Days become their midnight. Dates with a time zone become UTC. Dates with nanoseconds become text.
    - Decimals become numbers if float64 or int holds them, else text.
    - UUIDs and bytes become text. Bytes that are not UTF-8 become hexadecimal digits.
    """
    if isinstance(x, tuple):
        return tuple(map(category_of, x))
    if hasattr(x, "to_datetime64"):  # pandas'
        x = x.to_datetime64()
    if isinstance(x, np.datetime64):
        rounded = x.astype("datetime64[us]")
        return rounded.item() if rounded == x else str(x)
    if isinstance(x, datetime) and x.tzinfo is not None:
        return x.astimezone(UTC).replace(tzinfo=None)
    if isinstance(x, date) and not isinstance(x, datetime):
        return datetime(x.year, x.month, x.day)
    if isinstance(x, np.generic) and not isinstance(x, np.timedelta64):
        x = x.item()
    if isinstance(x, int) and abs(x) >= 10**DIGITS:
        return str(x)
    if isinstance(x, Decimal) and x.is_finite():
        if x == x.to_integral_value():
            return int(x)
        number = float(x)
        return number if Decimal(repr(number)) == x else f"{x.normalize():f}"
    if isinstance(x, UUID):
        return str(x)
    if isinstance(x, bytes):
        try:
            text = x.decode()
        except UnicodeDecodeError:
            return HEXADECIMAL + x.hex()
        return HEXADECIMAL + x.hex() if text.startswith(HEXADECIMAL) else text
    return x
