"""The header of a CSV file: the lines before it, and the delimiter."""

import csv as standard
import re
from collections.abc import Iterable

SEPARATORS = ",;\t|"
"""Candidates for the delimiter, if no option names it."""

LINES = 50
"""The number of rows whose cells are counted to find the delimiter."""


def preamble(text: str) -> tuple[int, str | None]:
    """Counts the lines before the header (empty lines, comments, ``sep=;``), and returns the separator of ``sep=``."""
    mark = None
    lines = text.splitlines()
    for number, line in enumerate(lines):
        bare = line.strip()
        if bare.lower().startswith("sep=") and len(bare) == 5:
            mark = bare[4]
        elif bare.startswith("#") and not _is_header(lines[number:]):
            continue
        elif bare:
            return number, mark
    return len(lines), mark


def _is_header(lines: list[str]) -> bool:
    """Returns True if a line that begins with # names the columns of the next line, as #chrom does."""
    if len(lines) < 2 or lines[0].startswith("# ") or lines[1].startswith("#"):
        return False
    mark = separator(lines[:2])
    return mark in lines[0] and lines[0].count(mark) == lines[1].count(mark)


def separator(lines: list[str]) -> str:
    """Returns the delimiter that gives the first rows equally many cells, and the most of them."""
    best, found = 1, ""
    for mark in SEPARATORS:
        try:
            rows = [cells for cells in standard.reader(lines[:LINES], delimiter=mark) if cells]
        except standard.Error:
            continue
        widths = {len(cells) for cells in rows[: max(2, len(rows) - 1)]}
        if len(widths) == 1 and (width := widths.pop()) > best:
            best, found = width, mark
    header = next(line for line in lines if line.strip())
    return found or max(SEPARATORS, key=header.count)


def no_header(names: Iterable[str]) -> str:
    """Returns a remedy for a row in the place of the header if a name is a decimal number, or ""."""
    if not any(re.fullmatch(r"-?\d+[.,]\d+", name) for name in names):
        return ""
    return " If line 1 is a row and no header, write one above it."
