"""Options that several commands share, checked with the standard library alone."""

import codecs
import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from zipfile import is_zipfile

import typer

from janossy.cli.errors import BadArgument

if TYPE_CHECKING:
    from janossy.cli.workflow.delimited import Dialect

SECONDS = {"s": 1, "m": 60, "h": 3600}


def seconds(option: str, text: str) -> float:
    """Returns the seconds of a time such as 90, 90s, 10m or 1h30m. Raises: BadArgument for any other text, or 0."""
    parts = re.findall(r"(\d+(?:\.\d+)?)([smh]?)", text)
    total = sum(float(number) * SECONDS[unit or "s"] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text or not 0 < total < 1e9:
        raise BadArgument(f"{option} expects a time such as 90s, 10m or 1h30m; got {text!r}.")
    return total


def names(listed: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of a repeated or comma-separated option. Quotes protect a comma in a name."""
    cells = (name.strip() for row in csv.reader(listed, skipinitialspace=True) for name in row)
    return tuple(dict.fromkeys(name for name in cells if name))


def levels(set_id: Sequence[str]) -> tuple[str, ...]:
    """Returns the id of sets, and that of inner sets if there is one. Raises: BadArgument for more, or one id twice."""
    ids = tuple(dict.fromkeys(set_id))
    if twice := [name for name in ids if set_id.count(name) > 1]:
        raise BadArgument(f"--set-id expects different columns; got {twice[0]!r} twice. Leave one out.")
    if len(ids) > 2:
        raise BadArgument(
            f"--set-id expects one id, or two for sets of sets; got {', '.join(ids)}. If their values together "
            f"identify a set, write --set-id {'+'.join(ids)}."
        )
    return ids


Decimal = Annotated[str, typer.Option(metavar="MARK", help="The decimal mark in CSV files: a point or a comma.")]
Thousands = Annotated[
    str,
    typer.Option(
        metavar="MARK",
        help="The mark between thousands in CSV files: the comma of 1,234. By default there is no such mark.",
        show_default=False,
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        metavar="MARK",
        help="The mark between columns in CSV files, such as ';' or tab. By default it is detected.",
        show_default=False,
    ),
]
NullValues = Annotated[
    list[str],
    typer.Option(
        metavar="WORD",
        help="A word or number for a missing value, such as -999. Put commas between several, or repeat the "
        "option. Empty cells are always missing.",
        show_default=False,
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The encoding of CSV files, such as cp1252. By default it is UTF-8, or UTF-16 if the file begins with its "
        "mark.",
        show_default=False,
    ),
]
Sheet = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The sheet of Excel workbooks; by default the first.", show_default=False),
]
ListSeparator = Annotated[
    str,
    typer.Option(
        metavar="MARK",
        help="The mark between elements in CSV cells that hold a list: the semicolon of 1;2;3.",
        show_default=False,
    ),
]


def dialect(
    decimal: str,
    thousands: str,
    delimiter: str | None,
    null_values: Sequence[str],
    encoding: str | None,
    list_separator: str,
    sheet: str | None,
    files: Sequence[Path | str],
    parquet_by: str = "",
) -> "Dialect":
    """Returns the dialect of CSV files. ``parquet_by`` is the option with which all files are Parquet, if any.

    Raises: BadArgument for marks or an encoding that do not exist, and for options that none of these files needs.
    """
    if delimiter in ("tab", "\\t"):
        delimiter = "\t"
    if decimal not in (".", ","):
        raise BadArgument(f"--decimal expects . or ,; got {decimal!r}.")
    if len(thousands) > 1 or thousands == decimal or thousands.isalnum():
        raise BadArgument(f"--thousands expects one mark, another than --decimal; got {thousands!r}.")
    if delimiter is not None and (len(delimiter) != 1 or delimiter.isalnum() or delimiter in '"\r\n'):
        raise BadArgument(f"--delimiter expects one mark, such as ';' or tab; got {delimiter!r}.")
    if encoding is not None:
        try:
            codecs.lookup(encoding)
        except LookupError:
            raise BadArgument(f"--encoding expects a name such as latin-1 or cp1252; got {encoding!r}.") from None
    from janossy.cli.workflow.delimited import Dialect
    from janossy.cli.workflow.reading import LINES, TYPED
    from janossy.cli.workflow.text_types import Spelling
    from janossy.tables.paths import COMPRESSED

    given = {
        "--decimal": decimal != ".",
        "--thousands": thousands,
        "--delimiter": delimiter,
        "--null-values": null_values,
        "--encoding": encoding,
        "--list-separator": list_separator,
        "--sheet": parquet_by and sheet is not None,
    }
    for option in (option for option, value in given.items() if value):
        if parquet_by:
            remedy = "Leave it out" + ", and give it to janossy group" * (option == "--null-values")
            raise BadArgument(f"{option} has no effect with {parquet_by}, which reads Parquet files. {remedy}.")
        if option == "--null-values":
            continue
        typed = TYPED if option == "--encoding" else (*TYPED, *LINES, *(a + b for a in LINES for b in COMPRESSED))
        if all(str(file).lower().endswith(typed) for file in files):
            raise BadArgument(
                f"{option} is for files whose values are text; got {files[0]}, whose values have types. Leave it out."
            )
    return Dialect(Spelling(decimal, thousands, names(null_values), list_separator), delimiter, encoding, sheet)


def places(tables: Sequence[str]) -> list[Path | str]:
    """Returns the paths of local tables; addresses, such as s3://bucket/table.csv, stay text."""
    return [table if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]+://", table) else Path(table) for table in tables]


def check_tables(tables: Sequence[Path | str]) -> None:
    """Raises a BadArgument if a local table is not a file."""
    for table in tables:
        if isinstance(table, str):
            continue
        if not table.exists():
            raise BadArgument(f"there is no file {table}.")
        if not table.is_file():
            raise BadArgument(f"{table} is not a file. Name the files in it.")


def check_new(out: Path) -> None:
    """Raises a BadArgument if ``out`` exists, or its folder cannot be made."""
    if out.exists() or out.is_symlink():
        raise BadArgument(f"{out} exists. Give another --out, or remove it.")
    parent = next((each for each in out.parents if each.exists()), None)
    if parent is not None and not parent.is_dir():
        raise BadArgument(f"--out {out} cannot be made: {parent} is a file.")


def check_model(model: Path) -> None:
    """Raises a BadArgument if the model does not exist, or is a file that is no zip."""
    if not model.exists():
        raise BadArgument(f"there is no model {model}; give the --out of a janossy fit.")
    if model.is_file() and not is_zipfile(model):
        raise BadArgument(f"{model} is not a model, or is damaged. Give the --out of a janossy fit.")
