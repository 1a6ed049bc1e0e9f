"""The work of ``janossy fit``: from tables to a model's folder with a report."""

import os
import platform
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from math import isfinite
from pathlib import Path
from time import monotonic
from typing import Any, Literal
from warnings import catch_warnings, simplefilter

import numpy as np
import torch
import typer
from rich.console import Console

from janossy.cli.errors import BadArgument
from janossy.cli.workflow.delimited import ANY, Dialect
from janossy.cli.workflow.describing import describe, hint_of_case, hint_of_missing, sizes_of
from janossy.cli.workflow.display import FitDisplay, duration, say, say_hint, screen, show_columns, warnings_said
from janossy.cli.workflow.evaluation import Estimator, evaluate
from janossy.cli.workflow.reading import File
from janossy.cli.workflow.record import NAME, Recipe, Record, TaskName, in_words
from janossy.cli.workflow.scoring import scores
from janossy.cli.workflow.sets_of_rows import Read
from janossy.cli.workflow.sets_to_fit import no_regression, sets_to_fit, stream_to_fit
from janossy.cli.workflow.values import is_text, taken_as
from janossy.cli.workflow.wording import in_options
from janossy.estimators import NothingTrained, SetClassifier, SetRegressor, save
from janossy.estimators.interrupts import Interrupts
from janossy.estimators.processes import Processes
from janossy.estimators.threads import usable_threads
from janossy.estimators.trials import OF_LARGER
from janossy.files.atomic import ClaimedByAnother, beside, claimed, write_whole
from janossy.saving.reading import digest, version_of
from janossy.tables.encoder import far_columns

FOLDS = 5
"""The number of folds for few sets, unless ``validation`` gives another."""

LARGEST = 1e30
"""The largest target. Predictions are float32, and errors are squared."""


@dataclass(frozen=True)
class Request:
    """The arguments of a ``janossy fit``."""

    files: tuple[File, ...]
    recipe: Recipe
    out: Path
    task: TaskName | None
    balanced: bool
    settings: dict[str, Any]
    """The settings of the estimator."""
    stream: bool = False
    """True if the files are read piece by piece."""
    dialect: Dialect = ANY
    """The dialect of CSV files."""
    drop_ids: bool = False
    """True if columns that only identify rows or sets are left out."""
    of_numbers: Mapping[str, Any] = field(default_factory=dict)
    """The settings of a regressor only: its loss."""
    ordinal: bool = False
    """True if the classes ascend."""


def fit(request: Request) -> None:
    """Reads the tables, fits, and writes the model's folder, whole or not at all.

    After Ctrl-C or SIGTERM the best model so far is written. Nothing is written if there is no model yet, or after a
    second signal.

    Raises: BadArgument for invalid tables. OSError. FloatingPointError if training diverges. typer.Exit with 130 after
        Ctrl-C, and with 143 after SIGTERM.
    """
    rank = Processes.found(request.settings["device"]).rank if request.stream else 0
    console = screen() if rank == 0 else Console(quiet=True)
    _check_device(request.settings["device"])
    request.out.parent.mkdir(parents=True, exist_ok=True)
    interrupts = Interrupts(signal.SIGINT, signal.SIGTERM, patient=False)
    with interrupts, _exit_by(interrupts), _place(request.out, rank == 0) as part:
        read, targets, task = _read(request, console)
        request = replace(request, recipe=read.recipe)
        interrupts.check()
        interrupts.patient = True
        written = _written(request, read, targets, task, part, console, interrupts, rank == 0)
    if written is None:
        return
    record, place = written
    say(console, f"{in_words(record.scores)}, on {record.num_judged:,} validation sets.")
    say(console, f"wrote {place}, with {place / 'report.html'}")
    if interrupts.came:
        say(console, "Stopped before the end: this is the best so far.")
        raise typer.Exit(128 + interrupts.number)


@contextmanager
def _exit_by(interrupts: Interrupts) -> Iterator[None]:
    """Ends with the exit code of the signal that ended the work."""
    try:
        yield
    except (KeyboardInterrupt, Exception) as error:
        if isinstance(error, KeyboardInterrupt) or interrupts.ends:
            raise typer.Exit(128 + interrupts.number) from None
        raise


def _written(
    request: Request,
    read: Read,
    targets: np.ndarray,
    task: TaskName,
    part: Path,
    console: Console,
    interrupts: Interrupts,
    writes: bool,
) -> tuple[Record, Path] | None:
    """Fits, and writes the model if this process ``writes``. Returns the record and the place of the model."""
    sets = read.sets
    model, seconds, outlook = _trained(request, read, targets, task, console)
    if not writes:
        return None
    about = sets.num_elements, int(sets.sizes.min()), int(sets.sizes.max())
    num_sets, schema = len(sets), read.ids.schema
    if read.stream is not None:
        scan, sets, labelled = model.scan_, model.validation_sets_.sets, model.validation_sets_.targets
        assert labelled is not None
        targets = labelled if task == "classification" else labelled.astype(np.float64)
        sizes = (*sets.sizes, scan.smallest, scan.largest)
        about = scan.num_elements + sets.num_elements, int(min(sizes)), int(max(sizes))
        num_sets, schema = len(read.stream), read.stream.files.schema
        if far := far_columns(model.encoder_, sets):
            line = f"values far outside the range of training in {far}, in sets of validation."
            say(console, line, style="yellow")
    interrupts.came = interrupts.came or model.interrupted_
    if interrupts.came:
        say(console, "Stopped; the best so far is being written. Ctrl-C again leaves at once.")
    evaluation = evaluate(model, targets, request.recipe.target)
    found = scores(evaluation.targets, evaluation.predictions, task, evaluation.names) | evaluation.coverage()
    record = Record(
        request.recipe,
        task,
        tuple(_as_unicode(str(file)) for file in request.files),
        num_sets,
        *about,
        len(evaluation.sets),
        {name: value if isfinite(value) else None for name, value in found.items()},
        seconds,
        datetime.now(UTC).isoformat(timespec="seconds"),
        _as_unicode(shlex.join(["janossy", *sys.argv[1:]])),
        tuple(name for name in request.recipe.ids if name in schema.names and is_text(schema.field(name).type)),
        dict(read.kinds),
    )
    folder = save(model, part / "model")
    record = replace(record, model=digest(folder))
    write_whole(folder / NAME, record.to_json())
    try:
        from janossy.cli.workflow.report import report  # imports plots, which a fit need not wait for

        by = "SIGTERM" if interrupts.number == signal.SIGTERM else "Ctrl-C"
        metadata = {"ended": f"by {by}, with the best so far"} if interrupts.came else {}
        with catch_warnings():
            simplefilter("ignore", UserWarning)  # the report predicts a few sets one by one, and each would warn
            page = report(model, sets, evaluation, record, metadata | _metadata(model), read.reasons, outlook)
        write_whole(folder / "report.html", page)
    finally:  # a model without a report is better than none
        place = _move(folder, request.out, console)
    return record, place


@contextmanager
def _place(out: Path, writes: bool) -> Iterator[Path]:
    """Gives a new folder beside ``out`` before training, and keeps other fits away from it until the end.

    Raises: BadArgument if another fit is writing there.
    """
    try:
        with claimed(out) if writes else beside(out) as part:
            if writes:
                part.mkdir()
            yield part
    except ClaimedByAnother:
        raise BadArgument(f"another janossy fit is writing to {out} now. Give another --out, or wait for it.") from None


def _move(folder: Path, out: Path, console: Console) -> Path:
    """Moves the model to ``out``, or beside it if something has appeared there meanwhile. Returns its place."""
    if not out.exists() and not out.is_symlink():
        folder.rename(out)
        return out
    free = next(place for i in count(2) if not (place := out.with_name(f"{out.name}-{i}")).exists())
    folder.rename(free)
    say(console, f"{out} was created meanwhile: the model is in {free}.", style="yellow")
    return free


def _read(request: Request, console: Console) -> tuple[Read, np.ndarray, TaskName]:
    """Returns the sets, their targets, and the task, and prints them.

    Raises: BadArgument for tables or targets that cannot be learnt.
    """
    if request.stream:
        read = stream_to_fit(request.files, request.recipe)
    else:
        read = sets_to_fit(request.files, request.recipe, request.task, request.dialect, request.drop_ids)
    names, files = request.recipe.targets, ", ".join(map(str, request.files))
    targets, task = read.targets, request.task
    assert targets is not None
    if read.sets.num_elements == 0:
        raise BadArgument(f"{files}: all sets are empty. Are these the right columns of lists?")
    taken = taken_as(targets)
    if targets.dtype.kind == "M":
        raise BadArgument(
            f"{files}: the target {names[0]!r} holds dates. Convert them to numbers, such as days, or to text."
        )
    if task == "regression" and targets.dtype.kind not in "iufb":
        raise no_regression(files, names[0])
    piece = "" if read.stream is None else f"{len(read.stream):,} sets, of which the first "
    say(console, f"{files}: {piece}{sizes_of(read.sets)}")
    show_columns(console, list(describe(read.sets, read.reasons)))
    for note in read.notes:
        say(console, f"  {note}", style="yellow")
    reason = "because of --task" if task else f"{taken.reason}; --task overrules it"
    task = task or taken.task
    columns = dict(zip(names, targets.reshape(len(targets), -1).T, strict=True))
    for name, values in columns.items():
        if read.stream is None and name not in request.recipe.event and (values == values[0]).all():
            raise BadArgument(f"{files}: the target {name!r} has one value only, {values[0]}. Is it the right column?")
    for option, given in {"--balanced": request.balanced, "--ordinal": request.ordinal}.items():
        if task == "regression" and given:
            raise BadArgument(
                f"{option} applies to classes, and the target {names[0]!r} is taken as numbers, {reason}."
            )
    _check_enough(request.settings.get("validation"), read, files)
    if task == "classification":
        for name, values in columns.items():
            if values.dtype.kind == "f" and (values != np.round(values)).any():
                raise BadArgument(
                    f"{files}: the target {name!r} holds numbers such as {values[values != np.round(values)][0]:.6g}, "
                    "which are not classes. Leave --task out, or round them."
                )
            _show_classes(console, name, values, reason)
        return read, targets, task
    for name, values in columns.items():
        if (largest := np.abs(values.astype(np.float64)).max()) > LARGEST:
            raise BadArgument(f"{files}: the target {name!r} has values as large as {largest:.3g}. Divide them.")
        say(console, f"target {name}: numbers from {values.min():.6g} to {values.max():.6g}, {reason}")
        if what := hint_of_missing(values.astype(np.float64)):
            say_hint(console, [name], what)
    return read, targets.astype(np.float64), task


def _as_unicode(text: str) -> str:
    """Returns text with bytes that are not UTF-8 as escapes, since JSON holds only Unicode."""
    return text.encode(errors="backslashreplace").decode()


def _show_classes(console: Console, name: str, values: np.ndarray, reason: str) -> None:
    """Prints the number of classes or labels of a target, and the rare ones."""
    are_labels = isinstance(values[0], frozenset)
    everything = [label for each in values for label in each] if are_labels else values
    different, counts = np.unique(np.array(everything), return_counts=True)
    say(console, f"target {name}: {len(different)} {'labels' if are_labels else 'classes'}, {reason}")
    if what := hint_of_case(different.tolist()):
        say_hint(console, [name], what)
    rare = [str(each) for each, count in zip(different, counts, strict=True) if count < FOLDS]
    if rare:
        say(console, f"  fewer than {FOLDS} sets are of {', '.join(rare[:10])}", style="yellow")


def _check_device(name: str) -> None:
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise BadArgument(f"--device {name} is not available: {str(error).splitlines()[0]}") from None


def _check_enough(validation: float | int | None, read: Read, files: str) -> None:
    num_sets = len(read.sets if read.stream is None else read.stream)
    by_default = FOLDS if validation is None and read.stream is None else 2
    folds = validation if isinstance(validation, int) else by_default
    if num_sets < folds:
        raise BadArgument(f"{files}: {folds} folds of validation need {folds} sets or more; got {num_sets}.")


def _trained(
    request: Request, read: Read, targets: np.ndarray, task: TaskName, console: Console
) -> tuple[Estimator, float, str]:
    """Returns the fitted model, its seconds, and what more time may bring; "" after an interrupt."""
    model: Estimator
    if task == "classification":
        weight: Literal["balanced"] | None = "balanced" if request.balanced else None
        model = SetClassifier(**request.settings, class_weight=weight, ordinal=request.ordinal)
    else:
        model = SetRegressor(**request.settings, **request.of_numbers)
    began = monotonic()
    with warnings_said(console), FitDisplay(console, _score_name(request, task)) as display:
        model.set_params(progress=display)
        try:
            if read.stream is None:
                model.fit(read.sets, targets, sample_weight=read.weights, groups=read.groups)
            else:
                model.fit(read.stream)
        except NothingTrained:
            raise BadArgument("--time-budget was over before the first step of training. Give more.") from None
        except (TypeError, ValueError) as error:
            raise BadArgument(in_options(error)) from error
        except FloatingPointError as error:
            raise FloatingPointError(in_options(error)) from error
    model.set_params(progress=None)
    used = [str(trial) for trial in model.trials_ if trial.weight]
    say(console, f"{' and '.join(used)}, after {duration(monotonic() - began)}")
    sentences = [_of_larger_sets(model), "" if model.interrupted_ else display.outlook(model.trials_)]
    outlook = " ".join(filter(None, sentences))
    if outlook:
        say(console, outlook)
    return model, monotonic() - began, outlook


def _of_larger_sets(model: Estimator) -> str:
    """Returns a sentence on what predicts sets larger than in training, if that is something else; else ""."""
    if model.ensemble_.larger is None:
        return ""
    names = [str(trial) for trial in model.trials_ if trial.note == OF_LARGER]
    size = model.ensemble_.larger.size
    return f"Sets of more than {size} elements, which training has none of, are predicted by {' and '.join(names)}."


def _score_name(request: Request, task: TaskName) -> str:
    if task == "classification":
        return "accuracy"
    return "concordance" if request.of_numbers.get("loss") == "cox" else "R²"


def _metadata(model: Estimator) -> dict[str, str]:
    """Returns settings and versions for the report."""
    settings = {
        name: str(value)
        for name, value in model.get_params().items()
        if value is not None and value != () and name != "verbose"
    }
    settings["threads"] = f"{model.num_threads_} of {usable_threads()}"
    versions = {name: version_of(name) for name in ("janossy", "torch", "scikit-learn", "numpy", "pyarrow")}
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    return settings | versions | {"machine": machine}
