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
    Thousands,
    check_model,
    check_new,
    check_tables,
    dialect,
)
from janossy.cli.door import loading
from janossy.cli.errors import BadArgument

ENDINGS = (".parquet", ".csv", ".arrow", ".feather")


def predict(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="The model that janossy fit wrote.", show_default=False)
    ],
    tables: Annotated[
        list[Path],
        typer.Argument(
            metavar="TABLE",
            help="Files with the columns of training; if --out is a folder, also folders and patterns.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE|FOLDER",
            help=f"The predictions, one row per set: {', '.join(ENDINGS)}. Or a folder of parts, from Parquet files of "
            "one row per set (janossy group); a later run goes on with it.",
        ),
    ],
    set_id: Annotated[
        list[str],
        typer.Option(
            metavar="COL", help="Rows of one id are a set: by default the columns of training.", show_default=False
        ),
    ] = [],  # noqa: B006
    num_permutations: Annotated[
        int | None, typer.Option(min=1, help="Orders to average, if the model draws them; by default as in training.")
    ] = None,
    mark_far: Annotated[
        bool,
        typer.Option(
            "--mark-far",
            help="Add a column far_values: how many of a set's values lie far outside the range of training, by more "
            "than its width.",
        ),
    ] = False,
    decimal: Decimal = ".",
    thousands: Thousands = "",
    delimiter: Delimiter = None,
    null_values: NullValues = [],  # noqa: B006
    encoding: Encoding = None,
    list_separator: ListSeparator = "",
    engine: Annotated[
        Literal["local", "ray"], typer.Option(help="The engine of the workers of a folder; ray needs the extra ray.")
    ] = "local",
    workers: Annotated[
        int, typer.Option(min=1, help="Workers for a folder: 1 is this process, more are others, of one thread each.")
    ] = 1,
) -> None:
    """Predict every set in the tables: value or class, class probabilities, and the uncertainty due to random orders.

    If the tables have the target, it is compared with the predictions, and the score is printed, except for a folder.
    """
    ids = tuple(dict.fromkeys(set_id))
    if not out.suffix:
        if mark_far:
            raise BadArgument(f"--mark-far expects an --out that is a file; got {out}.")
        check_model(model)
        with loading():
            from janossy.cli.workflow.predicting_parts import predict_parts

        predict_parts(model, tables, out, ids, num_permutations, engine, workers)
        return
    if engine != "local" or workers > 1:
        raise BadArgument(f"--engine and --workers expect an --out that is a folder; got {out}.")
    if out.suffix not in ENDINGS:
        raise BadArgument(f"--out expects a file in {', '.join(ENDINGS)}, or a folder; got {out}.")
    check_model(model)
    check_tables(tables)
    check_new(out)
    with loading():
        from janossy.cli.workflow.predicting import predict

    how = dialect(decimal, thousands, delimiter, null_values, encoding, list_separator)
    predict(model, tables, out, ids, num_permutations, how, mark_far)
