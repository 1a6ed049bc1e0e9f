"""janossy group: from tables of one row per element to one row per set, for fits that read a table piece by piece."""

from pathlib import Path
from typing import Annotated

import typer

from janossy.cli.arguments import Decimal, Delimiter, Encoding, NullValues, Thousands, check_new, dialect, names
from janossy.cli.door import loading
from janossy.cli.errors import BadArgument


def group(
    tables: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE",
            help="Parquet, Arrow or CSV files with one row per element, folders of them, or patterns such as "
            "'part-*.parquet'.",
            show_default=False,
        ),
    ],
    set_id: Annotated[
        list[str],
        typer.Option(metavar="COL", help="Rows of one id are a set. Repeat the option for ids of several columns."),
    ],
    out: Annotated[Path, typer.Option(metavar="SETS.parquet", help="The file that is written; it must not be there.")],
    set_columns: Annotated[
        list[str],
        typer.Option(metavar="COL", help="Columns that are constant in each set, such as the target."),
    ] = [],  # noqa: B006
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Memory that DuckDB may take, such as 4GB, before it spills to disk beside --out."
        ),
    ] = None,
    decimal: Decimal = ".",
    thousands: Thousands = "",
    delimiter: Delimiter = None,
    null_values: NullValues = [],  # noqa: B006
    encoding: Encoding = None,
) -> None:
    """Group the rows of tables of any length into one row per set, with columns of lists, once for all that follows.

    Sets stand in the order of their ids, elements as in the tables.
    """
    if out.suffix != ".parquet":
        raise BadArgument(f"--out expects a file in .parquet; got {out}.")
    check_new(out)
    of_sets = names(set_columns)
    if twice := set(of_sets) & set(set_id):
        raise BadArgument(f"--set-id and --set-columns both name {min(twice)!r}. Leave one out.")
    with loading():
        from janossy.cli.workflow.grouping import group

    how = dialect(decimal, thousands, delimiter, null_values, encoding, "")
    num_sets = group(tables, tuple(dict.fromkeys(set_id)), of_sets, out, memory, how, print)
    print(f"wrote {out}: {num_sets:,} sets")
