"""CSV files, compressed or not: their columns with the types that all their values have."""

import csv as standard
import re
from collections.abc import Collection
from io import TextIOWrapper
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from janossy.cli.errors import BadArgument

COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}

SEPARATORS = ",;\t|"
"""What may stand between the columns: that of them which the header has the most of."""

ROW = re.compile(r"Row #(\d+): ([^:]*)")
"""What Arrow says of a row, of which the header is one."""

UTF_16 = (b"\xff\xfe", b"\xfe\xff")
PIECE = 2**24


def read_csv(file: Path, ids: Collection[str] = ()) -> pa.Table:
    """The columns of a CSV file; those called ``ids`` are text, in which nothing but an empty cell is missing.

    Raises: BadArgument, naming the file and, where there is one, the row or the column; ArrowException or OSError for
        what cannot be decompressed.
    """
    content = _content(file)
    header = bytes(content[: 2**16]).lstrip(b"\r\n").partition(b"\n")[0]
    if not header.strip():
        raise BadArgument(f"{file} is empty.")
    if header.startswith(UTF_16):
        raise BadArgument(f"{file} is in UTF-16. Convert it to UTF-8.")
    separator = max(SEPARATORS, key=lambda mark: header.count(mark.encode()))
    _check_quotes(file, content, separator)
    table = _parsed(file, content, separator, csv.ConvertOptions(strings_can_be_null=True))
    texts = [name for name in table.column_names if name.strip() in ids]
    if len(set(table.column_names)) == table.num_columns and texts:
        types = dict.fromkeys(texts, pa.large_string())
        options = csv.ConvertOptions(
            include_columns=texts, column_types=types, null_values=[""], strings_can_be_null=True
        )
        read = _parsed(file, content, separator, options)
        for name in texts:
            table = table.set_column(table.column_names.index(name), name, read[name])
    for field in table.schema:
        if pa.types.is_binary(field.type):
            raise BadArgument(f"{file}: column {field.name!r} is not in UTF-8. Convert the file.")
    return _named(file, table)


def _content(file: Path) -> pa.Buffer:
    if file.suffix.lower() in COMPRESSIONS:
        with pa.input_stream(str(file), compression=COMPRESSIONS[file.suffix.lower()]) as opened:
            return opened.read_buffer()
    with pa.memory_map(str(file)) as mapped:
        return mapped.read_buffer()


def _parsed(file: Path, content: pa.Buffer, separator: str, options: csv.ConvertOptions) -> pa.Table:
    try:
        return csv.read_csv(
            pa.BufferReader(content),
            # One thread, as only so the parser's errors name the row.
            read_options=csv.ReadOptions(use_threads=False),
            parse_options=csv.ParseOptions(delimiter=separator, newlines_in_values=True),
            convert_options=options,
        )
    except pa.ArrowInvalid as error:
        if not (found := ROW.search(str(error))):
            raise
        raise BadArgument(
            f"{file}, row {int(found[1]) - 1}: {found[2]}. Correct it; at the end, the file may be cut short."
        ) from None


def _named(file: Path, table: pa.Table) -> pa.Table:
    """The same columns, without spaces around their names; what has no name must have no values."""
    names = [name.strip() for name in table.column_names]
    for place, name in enumerate(names):
        if not name and table.column(place).null_count < table.num_rows:
            raise BadArgument(
                f"{file}: column {place + 1} has no name. Give it one, or, if it is the index of a frame, write the "
                "file without it."
            )
    return table.rename_columns(names).select([place for place, name in enumerate(names) if name])


def _check_quotes(file: Path, content: pa.Buffer, separator: str) -> None:
    """Refuse a value whose quotes do not end, which Arrow takes as it is. Quotes within values may be odd in number."""
    num = sum(bytes(content[begin : begin + PIECE]).count(b'"') for begin in range(0, content.size, PIECE))
    if num % 2 == 0:
        return
    text = TextIOWrapper(pa.BufferReader(content), encoding="utf-8", errors="replace", newline="")
    limit = standard.field_size_limit(max(content.size, 2**17))
    row = -1
    try:
        for cells in standard.reader(text, delimiter=separator, strict=True):
            row += bool(cells)
    except standard.Error as error:
        if "unexpected end of data" in str(error):
            raise BadArgument(
                f"{file}, row {row + 1}: quotes begin here and do not end. Correct it; the file may be cut short."
            ) from None
    finally:
        standard.field_size_limit(limit)
