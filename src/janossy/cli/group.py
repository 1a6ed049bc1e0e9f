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
            help="Files with one row per element, or per set with --wide: Parquet, Arrow, CSV, Excel or JSON. "
            "Folders of such files, patterns such as 'part-*.parquet', or addresses such as s3://bucket/folder.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="SETS.parquet", help="The file to write. It must not exist yet.")],
    set_id: Annotated[
        list[str],
        typer.Option(
            metavar="COL",
            help="The column that says which set a row belongs to. A plus joins columns that say so together, as in "
            "run+event. Not needed with --wide.",
            show_default=False,
        ),
    ] = [],  # noqa: B006
    set_columns: Annotated[
        list[str],
        typer.Option(
            metavar="COL",
            help="Columns with one value per set, such as the target. They do not become lists. Put commas between "
            "several, or repeat the option.",
        ),
    ] = [],  # noqa: B006
    wide: Annotated[
        list[str],
        typer.Option(
            metavar="NAME",
            help="If a row is a whole set, with its elements side by side: the name of their columns without numbers, "
            "such as rank for rank1, rank2, rank3. Put commas between several, or repeat the option.",
            show_default=False,
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
    """Turn tables with one row per element, or with elements side by side, into one row per set with lists.

    All columns become columns of lists, except those of --set-id and --set-columns. Sets are sorted by id. Elements of
    a set keep the order of the tables. The tables may exceed the memory. Two commands read the file piece by piece:
    fit --stream, and predict with a folder as --out. With --wide, rows and their other columns stay as they are.
    """
    if out.suffix != ".parquet":
        raise BadArgument(f"--out expects a file in .parquet; got {out}.")
    check_new(out)
    of_sets, ids, side_by_side = names(set_columns), levels(set_id), names(wide)
    if not ids and not side_by_side:
        raise BadArgument(
            "group expects --set-id COL if rows are elements, or --wide NAME if they are sets; got neither. Add one."
        )
    if len(ids) > 1:
        raise BadArgument(
            f"--set-id expects one id, as sets of sets are not grouped; got {', '.join(ids)}. If their values together "
            f"identify a set, write --set-id {'+'.join(ids)}."
        )
    with loading():
        from janossy.cli.workflow.grouping import group

    how = dialect(decimal, thousands, delimiter, null_values, encoding, "", sheet, tables)
    num_sets = group(tables, ids, of_sets, out, memory, how, print, side_by_side)
    print(f"wrote {out}: {num_sets:,} sets")
