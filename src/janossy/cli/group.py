"""janossy group: from tables of one row per element to one row per set, for fits that read a table piece by piece."""

from pathlib import Path
from typing import Annotated

import typer

from janossy.cli.arguments import (
    Decimal,
    Delimiter,
    Encoding,
    NullValues,
    Sheet,
    Thousands,
    check_new,
    dialect,
    levels,
    names,
)
from janossy.cli.door import loading
from janossy.cli.errors import BadArgument


def group(
    tables: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE",
            help="Files with one row per element: Parquet, Arrow, CSV, Excel or JSON lines. Folders of such files, "
            "patterns such as 'part-*.parquet', or addresses such as s3://bucket/folder.",
            show_default=False,
        ),
    ],
    set_id: Annotated[
        list[str],
        typer.Option(
            metavar="COL",
            help="The column that says which set a row belongs to. A plus joins columns that say so together, as in "
            "run+event.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="SETS.parquet", help="The file to write. It must not exist yet.")],
    set_columns: Annotated[
        list[str],
        typer.Option(
            metavar="COL",
            help="Columns with one value per set, such as the target. They do not become lists. Put commas between "
            "several, or repeat the option.",
        ),
    ] = [],  # noqa: B006
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="The memory that DuckDB may use, such as 4GB; what exceeds it is written to disk beside --out. By "
            "default, four fifths of the machine's memory.",
            show_default=False,
        ),
    ] = None,
    decimal: Decimal = ".",
    thousands: Thousands = "",
    delimiter: Delimiter = None,
    null_values: NullValues = [],  # noqa: B006
    encoding: Encoding = None,
    sheet: Sheet = None,
) -> None:
    """Turn tables with one row per element into one row per set.

    All columns become columns of lists, except those of --set-id and --set-columns. Sets are sorted by id. Elements of
    a set keep the order of the tables. The tables may exceed the memory. Two commands read the file piece by piece:
    fit --stream, and predict with a folder as --out.
    """
    if out.suffix != ".parquet":
        raise BadArgument(f"--out expects a file in .parquet; got {out}.")
    check_new(out)
    of_sets, ids = names(set_columns), levels(set_id)
    if len(ids) > 1:
        raise BadArgument(
            f"--set-id expects one id, as sets of sets are not grouped; got {', '.join(ids)}. If their values together "
            f"identify a set, write --set-id {'+'.join(ids)}."
        )
    with loading():
        from janossy.cli.workflow.grouping import group

    how = dialect(decimal, thousands, delimiter, null_values, encoding, "", sheet, tables)
    num_sets = group(tables, ids, of_sets, out, memory, how, print)
    print(f"wrote {out}: {num_sets:,} sets")
