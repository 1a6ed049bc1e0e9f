"""Sheets of Excel workbooks (.xlsx) by openpyxl: typed cells as columns of one type each."""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, time, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import pyarrow as pa

from janossy.cli.errors import BadArgument
from janossy.cli.workflow.frame_index import INDEX, are_rising, with_index

ENDINGS = (".xlsx", ".xlsm")

MAX_BYTES = 2**30
"""Bytes of an unpacked workbook."""

MAX_RATIO = 200
"""Unpacked bytes per packed byte, from ``FROM`` bytes on: workbooks have 5 to 30."""

FROM = 2**26

MAX_ROWS = 2**20
"""Rows of a sheet in Excel."""

ERRORS = ("#N/A", "#DIV/0!", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!")
"""The values of formulas that fail, which are missing."""

TYPES = {
    frozenset({bool}): pa.bool_(),
    frozenset({int}): pa.int64(),
    frozenset({float}): pa.float64(),
    frozenset({int, float}): pa.float64(),
    frozenset({datetime}): pa.timestamp("us"),
    frozenset({time}): pa.time64("us"),
    frozenset({timedelta}): pa.duration("us"),
}
"""The types of columns by those of their cells; text for any others."""


def is_workbook(file: Path) -> bool:
    """Returns True for a workbook, whatever its name."""
    try:
        with ZipFile(file) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except (BadZipFile, OSError):
        return False


def read_sheet(file: Path, sheet: str | None, null_values: Collection[str] = ()) -> pa.Table:
    """Returns the rows of a sheet, by default the first. The first row that is not empty names the columns.

    A formula has the value with which the workbook was saved.
    Raises: BadArgument for a damaged or too large workbook, a sheet that is not there, and a column without a name;
        ImportError without openpyxl.
    """
    try:
        openpyxl = import_module("openpyxl")
    except ImportError as error:
        raise ImportError(f"{file} needs openpyxl: pip install 'janossy[excel]'", name="openpyxl") from error
    try:
        _check_size(file)
        with file.open("rb") as opened:  # opened here, because openpyxl refuses some names
            workbook = openpyxl.load_workbook(opened, read_only=True, data_only=True, keep_links=False)
            chosen = _sheet(file, workbook, sheet)
            rows = list(_rows(file, chosen, null_values))
            others = [each.title for each in workbook.worksheets if each.title != chosen.title]
    except BadArgument:
        raise
    except Exception as error:  # openpyxl raises errors of many types for damaged workbooks
        reason = str(error).splitlines()[0].rstrip(".")[:200] if str(error) else type(error).__name__
        raise BadArgument(f"{file} cannot be read: it is damaged, or no workbook in .xlsx ({reason}).") from None
    if not rows:
        raise BadArgument(f"{file} is empty.")
    if len(rows) == 1 and others and sheet is None:
        raise BadArgument(
            f"{file}: the sheet {chosen.title!r} has no rows below the names of its columns. --sheet names another of "
            f"{', '.join(map(repr, others))}."
        )
    width = max(map(len, rows))
    header, *rest = [[*row, *[None] * (width - len(row))] for row in rows]
    columns: dict[str, pa.Array] = {}
    has_index = header[0] is None and any(header) and are_rising([row[0] for row in rest])
    for j, name in enumerate([INDEX, *header[1:]] if has_index else header):
        values = [row[j] for row in rest]
        if name is None and any(value is not None for value in values):
            raise BadArgument(
                f"{file}: column {j + 1} has no name in the first row that has a cell, which begins with "
                f"{spelt(next(filter(None, header), ''))!r:.40}. Give it one, or remove what stands above the names. "
                "If it is the index of a frame, write the file without it."
            )
        if name is not None:
            if (text := spelt(name).strip()) in columns:
                raise BadArgument(f"{file}: two columns are called {text!r}. Rename one.")
            columns[text] = _column(values)
    return with_index(pa.table(columns)) if has_index else pa.table(columns)


def _check_size(file: Path) -> None:
    """Raises a BadArgument for a workbook that unpacks to more than memory should hold."""
    with ZipFile(file) as archive:
        parts = archive.infolist()
    unpacked, packed = sum(part.file_size for part in parts), sum(part.compress_size for part in parts)
    if unpacked > MAX_BYTES or (unpacked > FROM and unpacked > MAX_RATIO * packed):
        raise BadArgument(
            f"{file} unpacks to {unpacked / 2**20:,.0f} MiB, from {packed / 2**20:,.1f}. Save it as CSV or Parquet."
        )


def _sheet(file: Path, workbook: Any, name: str | None) -> Any:
    sheets = {each.title: each for each in workbook.worksheets}
    if not sheets or (name is not None and name not in sheets):
        raise BadArgument(f"{file} has no sheet {name or ''!r}; it has {', '.join(map(repr, sheets)) or 'none'}.")
    sheet = sheets[name] if name is not None else next(iter(sheets.values()))
    sheet.reset_dimensions()  # some programs write them wrong
    return sheet


def _rows(file: Path, sheet: Any, null_values: Collection[str]) -> Iterator[list[Any]]:
    """Yields the rows that are not empty. A cell with an error is not empty."""
    absent = {*ERRORS, *null_values}
    for number, row in enumerate(sheet.iter_rows(values_only=True)):
        if number >= MAX_ROWS:
            raise BadArgument(f"{file} has more than {MAX_ROWS:,} rows in a sheet. Save it as CSV or Parquet.")
        cells = [None if cell == "" else cell for cell in row]
        if any(cell is not None for cell in cells):
            yield [None if _spelt(cell) in absent else cell for cell in cells]


def _spelt(cell: Any) -> str | None:
    """Returns the text of a cell of text, or of a number as a sheet shows it, -999.0 as -999."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell) if isinstance(cell, str | int | float) and not isinstance(cell, bool) else None


def _column(values: list[Any]) -> pa.Array:
    """Returns cells of one type as such, whole numbers and others as numbers, and any others as text."""
    found = frozenset(type(value) for value in values if value is not None)
    if not found:
        return pa.nulls(len(values))
    try:
        if kind := TYPES.get(found):
            return pa.array(values, kind)
    except (OverflowError, pa.ArrowException):  # whole numbers beyond 64 bits
        pass
    return as_text(values)


def as_text(values: Iterable[Any]) -> pa.Array:
    """Returns the values of cells as a reader of the sheet would write them."""
    plain = values.to_pylist() if isinstance(values, pa.ChunkedArray) else values
    return pa.array([None if value is None else spelt(value) for value in plain], pa.large_string())


def spelt(value: Any) -> str:
    """Returns a cell as a reader of the sheet would write it: 7 for 7.0, and true."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)
