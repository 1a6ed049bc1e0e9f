"""janossy predict: a model's predictions for the sets of tables."""

from pathlib import Path
from typing import Annotated

import typer

from janossy.cli.arguments import check_model, check_new, check_tables
from janossy.refusal import BadArgument

ENDINGS = (".parquet", ".csv", ".arrow", ".feather")


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="What janossy fit wrote.", show_default=False)],
    tables: Annotated[
        list[Path],
        typer.Argument(metavar="TABLE", help="Files with the columns of training.", show_default=False),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help=f"The predictions, a row a set: {', '.join(ENDINGS)}.")],
    set_id: Annotated[
        list[str],
        typer.Option(
            metavar="COL", help="Rows of one id are a set: by default the columns of training.", show_default=False
        ),
    ] = [],  # noqa: B006
    num_permutations: Annotated[
        int | None, typer.Option(min=1, help="Orders averaged, of a model that draws them: by default as in training.")
    ] = None,
) -> None:
    """Predict sets: of each its prediction, the probabilities of classes, and how much random orders matter.

    The target, if the tables have it, is compared with the predictions, and the score printed.
    """
    if out.suffix not in ENDINGS:
        raise BadArgument(f"--out expects a file in {', '.join(ENDINGS)}; got {out}.")
    check_model(model)
    check_tables(tables)
    check_new(out)
    from janossy.workflow.predicting import predict

    predict(model, tables, out, tuple(dict.fromkeys(set_id)), num_permutations)
