"""Types of columns that files hold as text, from the spellings of all values and the role of the column."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from janossy.cli.workflow.spellings import ALIKE, CLOCK, OTHER_NUMBERS, UNKNOWN, YEAR_LAST

MARKS = ("?", "-", "--", ".")
"""Marks of a missing value in tables that people type. A note says that they are taken as missing."""

MISSING = (
    *("#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA", "NULL"),
    *("NaN", "None", "n/a", "nan", "null", "<NA>", "NaT", "\\N", "(null)", *MARKS),
    *("#DIV/0!", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!"),
)
"""Words for a missing value among numbers, booleans and dates. In a column of text each is a value."""

WHOLE = r"^(0|-?[1-9]\d{0,17})$"
"""Whole numbers with a single spelling."""

CODE = r"^[+-]?(0\d+|\d{19,})$"
"""Digits that a number would lose: leading zeros, and more digits than 64 bits hold."""

INTEGER = r"^[+-]?\d{1,18}$"
NUMBER = r"^([+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|Inf|INF|infinity|Infinity))$"
FLAG = r"^(?i:true|false)$"
TIME = r"^([01]?\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,9})?)?$"
ISO = rf"^\d{{4}}-\d{{2}}-\d{{2}}{CLOCK}(Z|[+-]\d{{2}}:?\d{{2}})?$"
ZONED = r"(Z|[+-]\d{2}:?\d{2})$"
YEAR_FIRST = rf"^\d{{4}}[/.-]\d{{1,2}}[/.-]\d{{1,2}}{CLOCK}$"

FINE = r":\d{2}\.\d{6}\d*[1-9]"
"""Times of day that microseconds do not hold."""

DAY_FIRST = r"^(1[3-9]|2\d|3[01])[/.-]|^\d{1,2}[.]"
MONTH_FIRST = r"^\d{1,2}[/-](1[3-9]|2\d|3[01])[/-]"
LIST = r"(?s)^\s*(\[.*\]|\([^()]*,[^()]*\)|\{[^{}:]*\})\s*$"

FEWEST = 3
"""The number of values from which all that have three digits behind a mark are not so by chance."""

MOSTLY = 0.9
"""The share of values of one kind from which a column was meant to be of this kind."""

HALF = 0.5
"""The share of numbers from which a line tells of text that holds amounts."""

DATE_FORMATS = ("zoned", "year first", "year last", "dates in words, without days, or with years of two digits")
"""Spellings of dates, no two of which a value has."""

Role = Literal[
    "plain", "id", "text id", "categorical", "words", "text", "numeric", "target", "class", "boolean", "date"
]
"""The use of a column, from options or from the model."""

AS_TEXT = ("text", "text id", "words")
"""Roles whose values are text, however they are spelt, but that "words" may be lists of text."""

OF_ELEMENTS = ("plain", "categorical", "words", "numeric", "boolean", "date")
"""Roles of columns whose cells may hold the values of all elements of a set, as lists."""


@dataclass(frozen=True)
class Spelling:
    """The convention by which files write numbers, missing values and lists."""

    decimal: str = "."
    thousands: str = ""
    null_values: tuple[str, ...] = ()
    list_separator: str = ""

    @property
    def of_parts(self) -> "Spelling":
        """The spelling of the parts of a list."""
        return replace(self, list_separator="")

    def trimmed(self, values: pa.Array) -> pa.Array:
        """Returns text without white space around it, and null for blank text and null values."""
        values = pc.utf8_trim_whitespace(values)
        empty = pc.is_in(values, pa.array(("", *self.null_values), values.type))
        return pc.if_else(empty, pa.scalar(None, values.type), values)

    def plain(self, values: pa.Array) -> pa.Array:
        """Returns trimmed numbers with a point and without thousands separators. Other text is unchanged."""
        if self.decimal == "." and not self.thousands:
            return values
        point, marks = re.escape(self.decimal), re.escape(ALIKE.get(self.thousands, self.thousands))
        mark = f"[{marks}]" if marks else ""
        whole = rf"(\d{{1,3}}({mark}\d{{3}})+|\d+)" if mark else r"\d+"
        numbers = pc.match_substring_regex(values, rf"^[+-]?({whole}({point}\d*)?|{point}\d+)([eE][+-]?\d+)?$")
        bare = pc.replace_substring_regex(values, mark, "") if mark else values
        return pc.if_else(numbers, pc.replace_substring(bare, self.decimal, "."), values)


@dataclass
class Facts:
    """Counts of the spellings of a column's values, over any number of its pieces."""

    num: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    decimal: str = "."
    parts: "Facts | None" = None
    """The facts of the parts between separators of lists, if there is a separator."""

    def add(self, values: pa.Array, spelling: Spelling) -> None:
        """Counts the values of a piece, without empty cells."""
        given, values = values, spelling.trimmed(values)
        self._count("padded", pc.not_equal(values, given))
        values = values.drop_null()
        self.num += len(values)
        if len(values) == 0:
            return
        self._count_parts(values, spelling)
        plain = spelling.plain(values)
        missing = pc.is_in(plain, pa.array(MISSING, plain.type))
        self._count("missing", missing)
        self._count("mark", pc.is_in(plain.filter(missing), pa.array(MARKS, plain.type)))
        number = pc.match_substring_regex(plain, NUMBER)
        self._count("number", number)
        self._count("whole", pc.match_substring_regex(values, WHOLE))
        if pc.any(number).as_py():
            self._count("integer", pc.match_substring_regex(plain, INTEGER))
            self._count("code", pc.match_substring_regex(plain, CODE))
            self._count_thousands(values, spelling)
        if pc.all(pc.or_(number, missing)).as_py():
            return
        self._count("flag", pc.match_substring_regex(plain, FLAG))
        self._count_dates(plain.filter(pc.match_substring_regex(plain, r"^\d")))
        with_digits = values.filter(pc.match_substring_regex(values, r"\d"))  # as all of them are, but lists of words
        for name, (pattern, _) in OTHER_NUMBERS.items():
            self._count(name, pc.match_substring_regex(values if name == "lists" else with_digits, pattern))
        self._count("unknown", pc.and_not(pc.match_substring_regex(values, UNKNOWN), missing))
        self._count("list", pc.match_substring_regex(values, LIST))
        self._count("object", pc.starts_with(values, '{"'))

    def _count_dates(self, plain: pa.Array) -> None:
        """Counts dates and times, which begin with a digit."""
        for name, pattern in {"time": TIME, "iso": ISO, "year first": YEAR_FIRST, "year last": YEAR_LAST}.items():
            self._count(name, pc.match_substring_regex(plain, pattern))
        self._count("zoned", pc.and_(pc.match_substring_regex(plain, ISO), pc.match_substring_regex(plain, ZONED)))
        self._count("fine", pc.match_substring_regex(plain, FINE))
        if self.counts["year last"]:
            of_dates = plain.filter(pc.match_substring_regex(plain, YEAR_LAST))
            self._count("day first", pc.match_substring_regex(of_dates, DAY_FIRST))
            self._count("month first", pc.match_substring_regex(of_dates, MONTH_FIRST))

    def _count_thousands(self, values: pa.Array, spelling: Spelling) -> None:
        """Counts numbers whose decimal mark may separate thousands."""
        self.decimal = spelling.decimal
        self._count("long", pc.match_substring_regex(values, r"^[+-]?\d{4,}$"))
        for mark in {".", spelling.decimal} if not spelling.thousands else ():
            self._count(f"with {mark}", pc.match_substring(values, mark))
            self._count(f"triple {mark}", pc.match_substring_regex(values, rf"^[+-]?[1-9]\d{{0,2}}[{mark}]\d{{3}}$"))

    def thousands(self) -> str:
        """Returns the mark that probably separates thousands, although it was read as a decimal mark, or ""."""
        for mark in (".", self.decimal):
            num = self.counts.get(f"triple {mark}", 0)
            beside = mark != self.decimal or (self.counts.get("integer", 0) and not self.counts.get("long", 0))
            if num >= FEWEST and num == self.counts[f"with {mark}"] and beside:
                return mark
        return ""

    def add_lists(self, values: pa.Array, spelling: Spelling) -> None:
        """Counts the lists of a piece alone, for a column whose other values are text."""
        values = spelling.trimmed(values).drop_null()
        self.num += len(values)
        self._count("list", pc.match_substring_regex(values, LIST))
        self._count_parts(values, spelling)

    def _count_parts(self, values: pa.Array, spelling: Spelling) -> None:
        if spelling.list_separator:
            self._count("separated", pc.match_substring(values, spelling.list_separator))
            self.parts = self.parts or Facts()
            self.parts.add(pc.split_pattern(values, spelling.list_separator).flatten(), spelling.of_parts)

    def _count(self, name: str, flags: pa.Array) -> None:
        self.counts[name] = self.counts.get(name, 0) + flags.true_count

    def all(self, *names: str) -> bool:
        """Returns True if each value is missing or has one of these spellings, and some value is not missing."""
        num = sum(self.counts.get(name, 0) for name in names)
        return num > 0 and num + self.counts.get("missing", 0) == self.num

    def share(self, name: str) -> float:
        """Returns the share of values with this spelling, among those that are not missing."""
        there = self.num - self.counts.get("missing", 0)
        return self.counts.get(name, 0) / there if there > 0 else 0.0


SEPARATED = {"int64": "separated int64", "float64": "separated float64", "text": "separated text"}
"""The kinds of columns of lists by a separator, by the kind of their parts. All others are text."""


LISTS = ("list", "text list")
"""The kinds of columns of lists in JSON or Python's notation."""


@dataclass(frozen=True)
class Taken:
    """The type as which a column of text is read, with the reason. ``kind`` is one that ``text_casts.cast`` reads."""

    kind: str
    reason: str
    note: str = ""


DATES = ("date", "zoned", "year first", "day first", "month first")
TO_NANOSECONDS = " to nanoseconds"
"""The ending of kinds of dates that microseconds do not hold."""

AMBIGUOUS = ("day first", "month first", *SEPARATED.values())
"""Kinds that some values of a column show and others leave open. Files of one model are read alike."""

CONTRADICTIONS = {"day first": MONTH_FIRST, "month first": DAY_FIRST}
"""Dates that are not of a kind."""


def contradicts(values: pa.Array, kind: str) -> pa.Array:
    """Flags trimmed dates whose day and month are not in the order of this kind."""
    are_dates = pc.match_substring_regex(values, YEAR_LAST)
    return pc.and_(are_dates, pc.match_substring_regex(values, CONTRADICTIONS[kind]))


def taken_as_type(facts: Facts, role: Role, before: str = "") -> Taken:
    """Returns the type of a column. Codes stay text unless the role or all values are numbers.

    ``before`` is the kind of the column in training if it is one of ``AMBIGUOUS``.
    """
    taken = _taken(facts, role, before)
    if taken.kind in DATES and facts.counts.get("fine", 0):
        return replace(taken, kind=taken.kind + TO_NANOSECONDS)
    if (num := facts.counts.get("padded", 0)) and taken.kind == "text" and not taken.note:
        return replace(taken, note=f"has white space around values ({num:,}), which is left out")
    if taken.kind == "float64" and (mark := facts.thousands()):
        return replace(
            taken,
            note=f"has whole numbers, and three digits behind each {mark!r}, read as decimals. If these are thousands, "
            f"give --thousands {mark}{' --decimal ,' if mark == '.' else ''}",
        )
    as_they_are = ("text", "mostly numbers", *SEPARATED.values())
    if (num := facts.counts.get("mark", 0)) and taken.kind not in as_they_are and not taken.note:
        return replace(taken, note=f"holds {' or '.join(MARKS)} ({num:,}), taken as missing")
    return taken


def _taken(facts: Facts, role: Role, before: str = "") -> Taken:
    counts = facts.counts
    if role in OF_ELEMENTS and facts.all("list"):
        return Taken("text list" if role == "words" else "list", "lists")
    if role in OF_ELEMENTS and (counts.get("separated", 0) or before in SEPARATED.values()):
        of_parts = _taken(facts.parts or Facts(), role).kind
        return Taken(SEPARATED.get(of_parts, SEPARATED["text"]), "lists, by --list-separator")
    if role in AS_TEXT:
        return Taken("text", "text in training")
    if role in ("id", "categorical", "class"):
        num_missing = counts.get("missing", 0) if role == "class" else 0
        whole = 0 < counts.get("whole", 0) == facts.num - num_missing
        mixed = role == "id" and facts.all("number") and 0 < counts.get("integer", 0) < counts["number"]
        note = "holds whole numbers and decimals, taken as text: 6 and 6.0 are two ids" if mixed else ""
        return Taken("int64" if whole else "text", "named as codes", note)
    if facts.num == counts.get("missing", 0):
        return Taken("null", "no values")
    if facts.all("time"):
        return Taken("time", "times of day, in seconds")
    numeric = role == "numeric"
    if numeric or facts.all("number"):
        if not facts.all("number"):
            return Taken("mostly numbers", "text, where numbers are asked for")
        if counts.get("code", 0) and not numeric:
            return Taken(
                "text",
                "digits with zeros in front, or more than a number holds",
                "is digits with zeros in front, or too long for numbers: taken as codes. --numeric takes amounts",
            )
        return Taken("int64" if facts.all("integer") else "float64", "numbers")
    if facts.all("flag"):
        return Taken("bool", "true and false")
    if facts.all("iso") and 0 < counts["zoned"] < counts["iso"]:
        return Taken(
            "text", "text", "holds dates with a time zone and without one, and is taken as text: write all alike"
        )
    if facts.all("iso"):
        return Taken("zoned" if counts["zoned"] else "date", "dates")
    if facts.all("year first"):
        return Taken("year first", "dates")
    if facts.all("year last") and before in CONTRADICTIONS:
        return Taken(before, "dates")
    if facts.all("year last") and bool(counts.get("day first")) != bool(counts.get("month first")):
        return Taken("day first" if counts["day first"] else "month first", "dates")
    if facts.share("number") >= MOSTLY:
        return Taken("mostly numbers", "text", _mixed(facts))
    return Taken("text", "text", _note(facts))


def look_of_text(facts: Facts) -> str:
    """Returns a description of text in a file with types, or an empty text if it looks like words or codes."""
    if facts.all("number"):
        return "" if facts.counts.get("code", 0) else "is text that spells numbers: --numeric takes it as such"
    if facts.all("iso") or facts.all("year first") or facts.all("year last"):
        return "is text that looks like dates, and is taken as categories: convert it to dates"
    if facts.all("list"):
        return "is text that looks like lists, and is taken as categories: convert it to lists"
    spelt = any(facts.share(name) + facts.share("number") >= MOSTLY for name in OTHER_NUMBERS)
    doubtful = spelt or facts.share("object") >= MOSTLY or _are_partly_amounts(facts)
    return _note(facts, has_types=True) if doubtful else ""


def _are_partly_amounts(facts: Facts) -> bool:
    """Returns True for numbers beside words for a missing value, or if half of the values are numbers.

    In the second case, some are no whole ones, which may be codes as 10, J, Q are.
    """
    counts, share = facts.counts, facts.share("number")
    if not share or counts.get("code", 0):
        return False
    whole = counts.get("integer", 0) == counts["number"]
    return share + facts.share("unknown") >= MOSTLY or (share >= HALF and not whole)


def _mixed(facts: Facts) -> str:
    part = f"{100 * facts.share('number'):.0f} %"
    return f"holds numbers ({part}) and other text, and is taken as text: --null-values reads words as missing"


def _note(facts: Facts, has_types: bool = False) -> str:
    """Returns a note on values that are read as text but look like something else.

    Options for spellings do not apply to a file with types.
    """
    if facts.share("list") >= MOSTLY:
        return f"looks like lists{'' if facts.all('list') else ', but for some values'}: taken as text"
    if facts.share("object") >= MOSTLY:
        return "looks like objects of JSON, and is taken as text: columns of their fields would be read"
    if facts.counts.get("flag", 0) and facts.all("flag", "number"):
        return "holds true and false, and numbers, and is taken as text: write all alike"
    formats = [share for name in DATE_FORMATS if (share := facts.share(name))]
    if len(formats) > 1 and sum(formats) >= MOSTLY:
        return "looks like dates of several formats, and is taken as text: dates as 2024-01-31 would read it"
    for name, (_, remedy) in OTHER_NUMBERS.items():
        if facts.share(name) > 0 and facts.share(name) + facts.share("number") >= MOSTLY:
            if has_types and remedy.startswith("--"):
                what = "lists" if name == "lists" else "numbers"
                return f"looks like {name}, and is taken as text: convert it to {what}"
            return f"looks like {name}, and is taken as text: {remedy} would read it"
    if _are_partly_amounts(facts):
        return _mixed(facts)
    if 0 < facts.counts.get("missing", 0) < facts.num:
        return (
            f"holds words or marks such as NA, ? or - ({facts.counts['missing']:,}), taken as values: --null-values NA"
        )
    return ""


def roles_of(
    ids: Collection[str],
    text_ids: Collection[str] = (),
    categorical: Iterable[str] = (),
    numeric: Iterable[str] = (),
    targets: Iterable[str] = (),
    classes: bool = False,
) -> dict[str, Role]:
    """Returns the roles of the columns that a command's options name."""
    roles: dict[str, Role] = {}
    for name in targets:
        roles[name] = "text" if classes else "target"
    for name in categorical:
        roles[name] = "categorical"
    for name in numeric:
        roles[name] = "numeric"
    for name in ids:
        roles[name] = "text id" if name in text_ids else "id"
    return roles
