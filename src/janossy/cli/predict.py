"""janossy predict: a model's predictions for the sets of tables."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from janossy.cli.arguments import (
    Decimal,
    Delimiter,
    Encoding,
    ListSeparator,
    NullValues,
    Sheet,
    Thousands,
    check_model,
    check_new,
    check_tables,
    dialect,
    levels,
    places,
)
from janossy.cli.door import load_torch, loading
from janossy.cli.errors import BadArgument

ENDINGS = (".parquet", ".csv", ".arrow", ".feather")


def predict(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A folder that janossy fit wrote.", show_default=False)
    ],
    tables: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE",
            help="Files that have the columns of training, in any order, or their addresses. If --out is a folder: "
            "Parquet files with one row per set, folders of them, or patterns such as 'part-*.parquet'.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE|FOLDER",
            help=f"The file to write, with one row per set: {', '.join(ENDINGS)}. A name without an ending is a folder "
            "of parts. If a run into a folder ends early, the same command writes the parts that are missing.",
        ),
    ],
    set_id: Annotated[
        list[str],
        typer.Option(
            metavar="COL",
            help="The column that says which set a row belongs to. Two options are for sets of sets, such as orders of "
            "customers, the outer id first. A plus joins columns that say so together, as in run+event. "
            "By default, the columns of training. If --out is a folder: the columns to write beside the predictions.",
            show_default=False,
        ),
    ] = [],  # noqa: B006
    num_permutations: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="The number of random orders to average, if the model reads random orders. By default, the "
            "model's own number: 20 if janossy fit wrote it.",
            show_default=False,
        ),
    ] = None,
    mark_far: Annotated[
        bool,
        typer.Option(
            "--mark-far",
            help="Add the column far_values: the number of values in the set that lie far outside the range of "
            "training. Far is more than the width of that range.",
        ),
    ] = False,
    decimal: Decimal = ".",
    thousands: Thousands = "",
    delimiter: Delimiter = None,
    null_values: NullValues = [],  # noqa: B006
    encoding: Encoding = None,
    list_separator: ListSeparator = "",
    sheet: Sheet = None,
    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(
            help="The machines of the workers, if --out is a folder: this one (local), or a Ray cluster. ray needs the "
            "extra ray."
        ),
    ] = "local",
    workers: Annotated[
        int,
        typer.Option(
            min=1,
            help="The number of workers, if --out is a folder. 1 is this process with all its threads. More are "
            "processes of one thread each.",
        ),
    ] = 1,
) -> None:
    """Predict the class or value of every set in the tables.

    Probabilities of the classes are written too, and how much random orders matter. If the tables hold the target, the
    score is printed. A folder as --out is for many files; no score is printed for it.
    """
    files = places(tables)
    if not out.suffix:
        if mark_far:
            raise BadArgument(f"--mark-far expects an --out that is a file; got {out}.")
        parquet_by = "a folder as --out"
        dialect(decimal, thousands, delimiter, null_values, encoding, list_separator, sheet, files, parquet_by)
        check_model(model)
        with loading():
            load_torch()
            from janossy.cli.workflow.predicting_parts import predict_parts

        predict_parts(model, files, out, tuple(dict.fromkeys(set_id)), num_permutations, engine, workers)
        return
    if engine != "local" or workers > 1:
        raise BadArgument(f"--engine and --workers expect an --out that is a folder; got {out}.")
    if out.suffix not in ENDINGS:
        raise BadArgument(f"--out expects a file in {', '.join(ENDINGS)}, or a folder; got {out}.")
    ids = levels(set_id)
    check_model(model)
    check_tables(files)
    check_new(out)
    with loading():
        load_torch()
        from janossy.cli.workflow.predicting import predict

    how = dialect(decimal, thousands, delimiter, null_values, encoding, list_separator, sheet, files)
    predict(model, files, out, ids, num_permutations, how, mark_far)
