"""Descriptions of the columns of sets and of the target, for the screen and the report."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from janossy.tables import Column, SetTable

SHOWN = 4
"""The number of categories that are named."""

MAX_NAME = 40
"""The number of characters of a category that are shown."""

FEW = 20
"""The most different whole numbers that may be codes or classes, and the fewest names that are ids if all differ."""

FEWEST_DAYS = 3
"""The fewest different whole numbers that are told of as dates."""

SENTINELS = [sign * (10**digits - 1) for digits in range(2, 7) for sign in (-1, 1)]
"""Numbers by which tables often mark missing values: 99, -99, 999 and so on."""

FEWEST_SENTINELS = 3
"""The fewest times that such a number occurs if it marks missing values."""

LAST_YEAR = np.datetime64("9999", "Y")
"""The year by which tables mark missing dates. Nanoseconds do not reach it."""

EXCEL_DAYS = 30_000, 60_000
"""The range of Excel's numbers of days that are told of as dates: 1982 to 2064."""


@dataclass(frozen=True)
class Described:
    """A column in words: its owner (elements or sets), its kind with the reason, its values, a hint, and an option.

    ``option``: the option of ``janossy fit`` that follows the hint if it names the column, or "".
    """

    name: str
    owner: str
    kind: str
    values: str
    missing: int
    hint: str = ""
    option: str = ""
    reason: str = ""


def describe(sets: SetTable, reasons: Mapping[str, str] = MappingProxyType({})) -> Iterator[Described]:
    """Yields the columns of the elements, then those of the sets.

    ``reasons``: by column, the reason for the kind of a file's text.
    """
    for owner, columns in (("element", sets.elements), ("set", sets.context)):
        for name, column in columns.items():
            hint, option = "", ""
            if column.kind == "numeric" and _are_days(column):
                hint = "dates as whole numbers, taken as amounts: write 20240131 as 2024-01-31"
            elif column.kind == "numeric" and re.search("(?i)date|day|time", name) and _are_excel_days(column):
                hint = "dates as day numbers of Excel, taken as amounts: write 45321 as 2024-01-30"
            elif column.kind == "numeric" and (what := hint_of_missing(column.values[~column.missing()])):
                hint = what
            elif column.kind == "date" and (column.values.astype("M8[Y]") >= LAST_YEAR).any():
                hint = (
                    "dates of the year 9999 for missing values: empty them, or name them as in --null-values 9999-12-31"
                )
            elif owner == "element" and _is_constant(column, sets):
                hint, option = "one value in each set", "--set-columns"
                if column.kind == "categorical" and FEW <= len(sets) == len(np.unique(column.values)):
                    hint, option = "another value in each set, as ids do", "--drop"
            elif column.kind == "numeric" and _num_codes(column) is not None:
                hint, option = "few different whole numbers, tried as amounts and as codes", "--categorical"
            elif column.kind == "categorical":
                hint, option = ("", "") if name in reasons else _spelled(column)  # a reader has notes on its text
                hint = hint or hint_of_case(column.categories)
            reason = reasons.get(name) or REASONS[column.kind]
            missing = int(column.missing().sum())
            yield Described(name, owner, column.kind, values_of(column), missing, hint, option, reason)


REASONS = {"numeric": "numbers", "categorical": "text, or named", "boolean": "true and false", "date": "dates"}
"""The reason for a column's kind, if no text file gives another."""

SPELLED = {
    r"[+-]?((0|[1-9]\d*)\.?\d*|\.\d+)([eE][+-]?\d+)?": ("amounts as text", "--numeric"),
    r"[+-]?[\d.,\s]*\d[.,]\d+": ("numbers of another convention, as text: write them with a point", ""),
    r"\d{4}-\d{2}-\d{2}.*|\d{1,2}[/.]\d{1,2}[/.]\d{4}.*": (
        "dates as text, taken as names: convert the column to dates",
        "",
    ),
    r"\[.*\]": ("lists as text, taken as names: convert the column to lists", ""),
}
"""The spellings of other things as text, each with a hint and an option as in ``Described``."""


def _spelled(column: Column) -> tuple[str, str]:
    """Returns the hint and the option for the spelling of nearly all categories of text, or "" for plain names."""
    words = [x for x in column.categories if isinstance(x, str)]
    if len(words) < len(column.categories) or len(words) < 2:
        return "", ""
    for pattern, what in SPELLED.items():
        if sum(re.fullmatch(pattern, word.strip()) is not None for word in words) >= MOSTLY * len(words):
            return what
    return "", ""


MOSTLY = 0.9


def _shortened(name: str) -> str:
    return name if len(name) <= MAX_NAME else name[:MAX_NAME] + "…"


def values_of(column: Column) -> str:
    """Returns a short description of a column's values."""
    there = column[~column.missing()]
    if len(there) == 0:
        return "all missing"
    if column.kind == "categorical":
        counts = np.bincount(there.values, minlength=len(column.categories))
        names = [_shortened(str(column.categories[code])) for code in np.argsort(-counts, kind="stable")[:SHOWN]]
        more = ", …" if (counts > 0).sum() > SHOWN else ""
        return f"{(counts > 0).sum():,} different: {', '.join(names)}{more}"
    if column.kind == "boolean":
        return f"{there.numbers().mean():.1%} true"
    if column.kind == "date":
        return f"{there.values.min().astype('datetime64[s]')} to {there.values.max().astype('datetime64[s]')}"
    different = _num_codes(column)
    whole = f", {different} different" if different else ""
    return f"{there.values.min():.6g} to {there.values.max():.6g}{whole}"


def sizes_of(sets: SetTable) -> str:
    """Returns a short description of the number and sizes of sets."""
    sizes = sets.sizes
    low, middle, high = sizes.min(), np.median(sizes), sizes.max()
    each = f"{low:,} each" if low == high else f"{low:,} to {high:,}, median {middle:,.0f}"
    if (num_inner := sets.num_inner) is not None:
        each = f"{each}, in {num_inner.sum():,} inner sets, {num_inner.min():,} to {num_inner.max():,} each"
    return f"{len(sets):,} sets of {sets.num_elements:,} elements: {each}"


def _num_codes(column: Column) -> int | None:
    """Returns the number of different values in a column of few whole numbers, or None for other columns."""
    values = column.values[~column.missing()]
    if column.kind != "numeric" or len(values) == 0 or not np.array_equal(values, np.round(values)):
        return None
    different = len(np.unique(values))
    return different if 2 < different <= FEW else None


def _are_days(column: Column) -> bool:
    """Returns True for several different whole numbers that are all days of 1900 to 2100, such as 20240131."""
    values = column.values[~column.missing()]
    if len(values) == 0 or values.min() < 19000101 or values.max() > 21001231 or (values != np.round(values)).any():
        return False
    days = np.unique(values).astype(np.int64)
    months, in_month = days // 100 % 100, days % 100
    if len(days) < FEWEST_DAYS or not ((months >= 1) & (months <= 12) & (in_month >= 1)).all():
        return False
    begins = (days // 10000 - 1970).astype("datetime64[Y]").astype("datetime64[M]") + (months - 1)
    return bool((in_month <= ((begins + 1).astype("datetime64[D]") - begins.astype("datetime64[D]")).astype(int)).all())


def _are_excel_days(column: Column) -> bool:
    """Returns True for several different numbers that are all in the range of ``EXCEL_DAYS``."""
    values, (low, high) = column.values[~column.missing()], EXCEL_DAYS
    return len(values) > 0 and bool(low <= values.min() <= values.max() <= high) and len(set(values)) >= FEWEST_DAYS


def hint_of_missing(values: np.ndarray) -> str:
    """Returns a hint on numbers (N,) if some of ``SENTINELS`` are repeated in them, far from all others; or ""."""
    if not len(values) or not {float(values.min()), float(values.max())} & set(SENTINELS):
        return ""
    others = values[~np.isin(values, SENTINELS)].astype(np.float64)
    if not len(others) or (width := np.ptp(others)) == 0:
        return ""
    far = [x for x in SENTINELS if x < others.min() - width or x > others.max() + width]
    found = [str(x) for x in far if (values == x).sum() >= FEWEST_SENTINELS]
    marks, listed = " and ".join(found), ",".join(found)
    return f"{marks} for missing values, taken as amounts: --null-values {listed}?" if found else ""


def hint_of_case(names: Iterable[object]) -> str:
    """Returns a hint on names of several letters that differ only by case, as US and us do; or ""."""
    found: dict[str, str] = {}
    for name in names:
        if isinstance(name, str) and len(name) > 1 and (other := found.setdefault(name.casefold(), name)) != name:
            pair = f"{_shortened(other)} and {_shortened(name)}"
            return f"one name in several cases, taken as different: {pair}"
    return ""


def _is_constant(column: Column, sets: SetTable) -> bool:
    """Returns True if each set has only one value, some set has it repeatedly, and sets differ."""
    sizes = sets.sizes
    if sizes.max() < 2 or len(column) == 0:
        return False
    first = column.values[np.repeat(sets.offsets[:-1], sizes)]
    missing = column.missing()
    return bool((column.values == first)[~missing].all() and (column.values != column.values[0])[~missing].any())
