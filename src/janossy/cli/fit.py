"""janossy fit: from tables to a trained model."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from janossy.cli.arguments import (
    Decimal,
    Delimiter,
    Encoding,
    ListSeparator,
    NullValues,
    Thousands,
    check_new,
    check_tables,
    dialect,
    names,
    seconds,
)
from janossy.cli.door import loading
from janossy.cli.errors import BadArgument

COLUMNS = "Several with commas between, or the option again."
CLASSICAL = ("linear", "trees", "forest")
NETWORKS = (
    "k1",
    "k2",
    "k3",
    "k2+features",
    "k3+features",
    "sum",
    "max",
    "attention",
    "set-transformer",
    "set-transformer+features",
    "induced",
    "relations",
    "gru",
    "lstm",
)
STRATEGIES = (*CLASSICAL, *NETWORKS)
"""The strategies of the estimators, whose module loads torch."""

PRESETS = {"fast": 30.0, "balanced": 600.0, "best": 3600.0}
"""Seconds of training."""


def fit(
    tables: Annotated[
        list[Path],
        typer.Argument(
            metavar="TABLE",
            help="Parquet, CSV, Arrow or JSON lines files with the same columns; one row per element, or one per set "
            "with lists. With --stream, Parquet files, folders of them, or patterns such as 'part-*.parquet'.",
            show_default=False,
        ),
    ],
    target: Annotated[
        list[str],
        typer.Option(
            metavar="COL",
            help="The column to predict: one value per set, or a list of labels. Repeat the option for several "
            "numbers, or, with --task classification, several classes.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="MODEL", help="The folder to write. It must not exist yet.")],
    set_id: Annotated[
        list[str],
        typer.Option(
            metavar="COL",
            help="The column that names the set of a row. Repeat it for several. Not needed if rows hold lists.",
            show_default=False,
        ),
    ] = [],  # noqa: B006
    numeric: Annotated[list[str], typer.Option(metavar="COL", help=f"Columns of amounts. {COLUMNS}")] = [],  # noqa: B006
    categorical: Annotated[list[str], typer.Option(metavar="COL", help="Columns of codes or names.")] = [],  # noqa: B006
    set_columns: Annotated[
        list[str], typer.Option(metavar="COL", help="Columns that describe a whole set: they have one value per set.")
    ] = [],  # noqa: B006
    drop: Annotated[list[str], typer.Option(metavar="COL", help="Columns to leave out.")] = [],  # noqa: B006
    weight: Annotated[
        str | None, typer.Option(metavar="COL", help="The weight of each set: a number >= 0.", show_default=False)
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="COL",
            help="A column, such as the patient: sets with the same value are never in both training and validation.",
            show_default=False,
        ),
    ] = None,
    task: Annotated[
        Literal["classification", "regression"] | None,
        typer.Option(help="The kind of the target, if its values suggest another."),
    ] = None,
    loss: Annotated[
        Literal["squared_error", "huber", "poisson", "gamma", "quantile", "cox"] | None,
        typer.Option(
            help="The loss of a target that is a number: huber for outliers, poisson for counts, gamma for amounts, "
            "cox for a time with --event."
        ),
    ] = None,
    event: Annotated[
        str | None,
        typer.Option(
            metavar="COL",
            help="If the target is a time: a column that is 1 for an event then, 0 for the end of observation.",
            show_default=False,
        ),
    ] = None,
    quantiles: Annotated[
        str | None,
        typer.Option(
            metavar="LEVELS",
            help="The levels of --loss quantile, such as 0.05,0.5,0.95. These give an interval of 90 %.",
            show_default=False,
        ),
    ] = None,
    strategy: Annotated[
        str,
        typer.Option(help=f"auto tries several. Or some of {', '.join(STRATEGIES)}."),
    ] = "auto",
    preset: Annotated[
        Literal["fast", "balanced", "best"],
        typer.Option(help="The length of training: 30 seconds, 10 minutes or an hour at most."),
    ] = "balanced",
    time_budget: Annotated[
        str | None,
        typer.Option(
            help="The longest time of training, instead of the preset's: 90s, 10m, 1h30m.", show_default=False
        ),
    ] = None,
    max_epochs: Annotated[
        int | None, typer.Option(min=1, help="The most epochs of training; by default what suits the number of sets.")
    ] = None,
    validation: Annotated[
        str | None,
        typer.Option(
            metavar="PART|FOLDS",
            help="The validation sets: a fraction such as 0.2, or a number of folds. By default 5 folds for up to 2000 "
            "sets, and a tenth for more.",
            show_default=False,
        ),
    ] = None,
    balanced: Annotated[bool, typer.Option("--balanced", help="Weigh all classes alike, however rare.")] = False,
    ordinal: Annotated[bool, typer.Option("--ordinal", help="The classes ascend, as grades do.")] = False,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            help="Read Parquet files piece by piece, as they may exceed the memory; one network learns, by as many "
            "processes as torchrun has started.",
        ),
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="The folder in which training is saved, so that a fit that was killed can continue."
        ),
    ] = None,
    decimal: Decimal = ".",
    thousands: Thousands = "",
    delimiter: Delimiter = None,
    null_values: NullValues = [],  # noqa: B006
    encoding: Encoding = None,
    list_separator: ListSeparator = "",
    drop_ids: Annotated[
        bool, typer.Option("--drop-ids", help="Leave out columns that only count rows or sets, or tell them apart.")
    ] = False,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1, help="Threads of training: by default one if a step is small, else one per core.", show_default=False
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="The seed of the random numbers.")] = 0,
    device: Annotated[str, typer.Option(help="The device to train on: cpu, cuda.")] = "cpu",
) -> None:
    """Fit a model to sets in tables: the best of several kinds of networks, with a report.

    Kinds of columns, and whether the target is a class or a number, are inferred, printed and can be overruled.
    Ctrl-C ends the search, and keeps the best so far.
    """
    settings: dict[str, Any] = {
        "strategy": _strategy(strategy),
        "time_budget": PRESETS[preset] if time_budget is None else seconds("--time-budget", time_budget),
        "max_epochs": max_epochs,
        "validation": None if validation is None else _validation(validation),
        "random_state": seed,
        "device": device,
        "checkpoint": checkpoint,
        "num_threads": threads,
    }
    for option, given in {"--balanced": balanced, "--ordinal": ordinal}.items():
        if given and task == "regression":
            raise BadArgument(f"{option} is of classes; leave it out of a regression.")
    if (event is None and loss == "cox") or (event is not None and loss not in (None, "cox")):
        raise BadArgument("--loss cox and --event COL go together: a time as --target, and its event.")
    if event is not None:
        loss = "cox"
        if len(target) > 1:
            raise BadArgument(f"--event is of one --target, a time; got {', '.join(target)}.")
    of_numbers: dict[str, Any] = {}
    if loss is not None or quantiles is not None:
        if task == "classification" or balanced or ordinal:
            raise BadArgument("--loss, --event and --quantiles expect a target that is a number; got a classification.")
        if quantiles is not None and loss not in (None, "quantile"):
            raise BadArgument(f"--quantiles expects --loss quantile; got --loss {loss}.")
        task, of_numbers = "regression", {"loss": loss or "quantile"}
        if quantiles is not None:
            of_numbers["quantiles"] = _levels(quantiles)
    if out.suffix == ".zip":
        raise BadArgument(f"--out is a folder, as a report goes with the model; got {out}.")
    if stream:
        if isinstance(settings["validation"], int):
            raise BadArgument("--stream leaves out a part of the sets, such as --validation 0.1, and no folds.")
    else:
        check_tables(tables)
    check_new(out)
    if len(target) > 1 and ordinal:
        raise BadArgument("--ordinal is of one --target; fit several one by one.")
    if ordinal:
        task = "classification"
    columns = [tuple(dict.fromkeys(each)) for each in (set_id, target)]
    columns += [names(each) for each in (set_columns, numeric, categorical, drop)]
    with loading():
        from janossy.cli.workflow.fitting import Request, fit
        from janossy.cli.workflow.record import Recipe

    how = dialect(decimal, thousands, delimiter, null_values, encoding, list_separator)
    columns.append(how.spelling.null_values)
    recipe = Recipe(*columns, *((() if name is None else (name,)) for name in (weight, groups, event)))
    fit(Request(tuple(tables), recipe, out, task, balanced, settings, stream, how, drop_ids, of_numbers, ordinal))


def _strategy(text: str) -> str | list[str]:
    listed = names([text])
    if listed != ("auto",) and (not listed or not set(listed) <= set(STRATEGIES)):
        raise BadArgument(f"--strategy expects auto, or some of {', '.join(STRATEGIES)}; got {text!r}.")
    return listed[0] if len(listed) == 1 else list(listed)


def _levels(text: str) -> tuple[float, ...]:
    try:
        levels = tuple(map(float, text.split(",")))
    except ValueError:
        levels = ()
    if not levels or list(levels) != sorted(set(levels)) or not 0 < levels[0] <= levels[-1] < 1:
        raise BadArgument(
            f"--quantiles expects levels between 0 and 1, ascending, such as 0.05,0.5,0.95; got {text!r}."
        )
    return levels


def _validation(text: str) -> float | int:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if 0 < number < 1:
        return number
    if number >= 2 and number == int(number):
        return int(number)
    raise BadArgument(
        f"--validation expects a part of the sets such as 0.2, or a number of folds from 2 on; got {text!r}."
    )
