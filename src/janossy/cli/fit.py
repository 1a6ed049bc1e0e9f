"""janossy fit: from tables to a trained model."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from janossy.cli.arguments import (
    Decimal,
    Delimiter,
    Encoding,
    ListSeparator,
    NullValues,
    Sheet,
    Thousands,
    check_new,
    check_tables,
    dialect,
    levels,
    names,
    places,
    seconds,
)
from janossy.cli.door import load_torch, loading
from janossy.cli.errors import BadArgument

COLUMNS = "Put commas between several, or repeat the option."
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
        list[str],
        typer.Argument(
            metavar="TABLE",
            help="Files with the same columns: Parquet, CSV, Arrow, Excel or JSON, or addresses such as "
            "s3://bucket/table.csv. They have one row per element, or one row per set with lists. With --stream: "
            "Parquet files, folders of them, or patterns such as 'part-*.parquet'.",
            show_default=False,
        ),
    ],
    target: Annotated[
        list[str],
        typer.Option(
            metavar="COL",
            help="The column to predict. It has one value per set, or a list of labels. Repeat the option to predict "
            "several columns of numbers or, with --task classification, of classes.",
        ),
    ],
    out: Annotated[
        Path, typer.Option(metavar="MODEL", help="The folder for the model and its report. It must not exist yet.")
    ],
    set_id: Annotated[
        list[str],
        typer.Option(
            metavar="COL",
            help="The column that says which set a row belongs to. Two options are for sets of sets, such as orders of "
            "customers, the outer id first. A plus joins columns that say so together, as in run+event. "
            "Not needed if a row is a whole set.",
            show_default=False,
        ),
    ] = [],  # noqa: B006
    numeric: Annotated[list[str], typer.Option(metavar="COL", help=f"Columns to read as amounts. {COLUMNS}")] = [],  # noqa: B006
    categorical: Annotated[
        list[str],
        typer.Option(metavar="COL", help=f"Columns to read as names or codes, also if they hold numbers. {COLUMNS}"),
    ] = [],  # noqa: B006
    set_columns: Annotated[
        list[str],
        typer.Option(
            metavar="COL",
            help=f"Columns that describe a whole set, such as a customer's age. They have one value per set. {COLUMNS}",
        ),
    ] = [],  # noqa: B006
    drop: Annotated[
        list[str],
        typer.Option(
            metavar="COL", help=f"Columns, or fields of a list's objects, that the model must not read. {COLUMNS}"
        ),
    ] = [],  # noqa: B006
    weight: Annotated[
        str | None,
        typer.Option(
            metavar="COL",
            help="The column with the weight of each set, a number >= 0. The model does not read it.",
            show_default=False,
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="COL",
            help="A column such as the patient. Sets with the same value are never split between training and "
            "validation. The model does not read it.",
            show_default=False,
        ),
    ] = None,
    task: Annotated[
        Literal["classification", "regression"] | None,
        typer.Option(
            help="Predict classes (classification) or numbers (regression). By default, the target's values decide."
        ),
    ] = None,
    loss: Annotated[
        Literal["squared_error", "huber", "poisson", "gamma", "quantile", "cox"] | None,
        typer.Option(
            help="The loss if the target is a number. squared_error is the default. Others: huber if there are "
            "outliers, poisson for counts, gamma for amounts above 0, quantile for intervals, cox for times with "
            "--event."
        ),
    ] = None,
    event: Annotated[
        str | None,
        typer.Option(
            metavar="COL",
            help="If the target is a time: the column that says how it ended. 1 is an event at that time. 0 is the end "
            "of the observation, without an event so far.",
            show_default=False,
        ),
    ] = None,
    quantiles: Annotated[
        str | None,
        typer.Option(
            metavar="LEVELS",
            help="The levels of --loss quantile, ascending. 0.05,0.5,0.95 gives the median and an interval of 90 %.",
            show_default=False,
        ),
    ] = None,
    strategy: Annotated[
        str,
        typer.Option(
            help=f"The kind of model. auto tries several. Or one or more, with commas: {', '.join(STRATEGIES)}."
        ),
    ] = "auto",
    preset: Annotated[
        Literal["fast", "balanced", "best"],
        typer.Option(help="The longest time of training: 30 seconds, 10 minutes, or an hour."),
    ] = "balanced",
    time_budget: Annotated[
        str | None,
        typer.Option(
            help="The longest time of training, instead of a preset. Examples: 90s, 10m, 1h30m.", show_default=False
        ),
    ] = None,
    max_epochs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="The largest number of epochs per network. By default, it depends on the number of sets.",
            show_default=False,
        ),
    ] = None,
    validation: Annotated[
        str | None,
        typer.Option(
            metavar="PART|FOLDS",
            help="The fraction of the sets for validation, such as 0.2, or the number of folds, such as 5. By default, "
            "5 folds for up to 2000 sets, and a tenth for more. With up to 10,000, time that is left goes to four more "
            "tenths.",
            show_default=False,
        ),
    ] = None,
    balanced: Annotated[
        bool, typer.Option("--balanced", help="Give rare classes the same weight as frequent ones.")
    ] = False,
    ordinal: Annotated[bool, typer.Option("--ordinal", help="The classes are ordered, as grades are.")] = False,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            help="Read Parquet files piece by piece, so that they may exceed the memory. One network is trained. If "
            "torchrun starts several processes, they train it together.",
        ),
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="The folder in which to save the state of training. If the fit is killed, the same command continues "
            "it.",
            show_default=False,
        ),
    ] = None,
    decimal: Decimal = ".",
    thousands: Thousands = "",
    delimiter: Delimiter = None,
    null_values: NullValues = [],  # noqa: B006
    encoding: Encoding = None,
    list_separator: ListSeparator = "",
    sheet: Sheet = None,
    drop_ids: Annotated[
        bool, typer.Option("--drop-ids", help="Leave out columns that only number or identify the rows or sets.")
    ] = False,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="The number of threads. By default, one for small batches, and one per core for others.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="The seed of the random numbers.")] = 0,
    device: Annotated[str, typer.Option(help="The device to train on: cpu or cuda.")] = "cpu",
) -> None:
    """Fit a model to the sets in tables, and write it with a report.

    Several kinds of models are tried; the best few are averaged. The command first prints how it reads each column, and
    if the target is a class or a number. Options overrule that. Ctrl-C ends the fit, and keeps the best model so far.
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
            raise BadArgument(f"{option} applies to classes; leave it out of a regression.")
    if (event is None and loss == "cox") or (event is not None and loss not in (None, "cox")):
        raise BadArgument("--loss cox and --event COL go together: a time as --target, and its event.")
    if event is not None:
        loss = "cox"
        if len(target) > 1:
            raise BadArgument(f"--event expects one --target, a time; got {', '.join(target)}.")
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
    files = places(tables)
    if stream:
        if isinstance(settings["validation"], int):
            raise BadArgument("--stream leaves out a part of the sets, such as --validation 0.1, and no folds.")
    else:
        check_tables(files)
    check_new(out)
    if len(target) > 1 and ordinal:
        raise BadArgument("--ordinal expects one --target; fit several one by one.")
    if ordinal:
        task = "classification"
    set_ids = levels(set_id)
    columns = [set_ids[:1], tuple(dict.fromkeys(target))]
    columns += [names(each) for each in (set_columns, numeric, categorical, drop)]
    with loading():
        load_torch()
        from janossy.cli.workflow.fitting import Request, fit
        from janossy.cli.workflow.record import Recipe

    parquet_by = "--stream" if stream else ""
    how = dialect(decimal, thousands, delimiter, null_values, encoding, list_separator, sheet, files, parquet_by)
    columns.append(how.spelling.null_values)
    columns += [() if name is None else (name,) for name in (weight, groups, event)]
    recipe = replace(Recipe(*columns), inner_id=set_ids[1:])
    fit(Request(tuple(files), recipe, out, task, balanced, settings, stream, how, drop_ids, of_numbers, ordinal))


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
