"""The work of ``janossy predict``: from a model and tables to a table of predictions."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv, feather, parquet

from janossy.cli.errors import BadArgument
from janossy.cli.workflow.delimited import ANY, Dialect
from janossy.cli.workflow.display import say, screen, warnings_said
from janossy.cli.workflow.reading import File
from janossy.cli.workflow.record import Recipe, Record, TaskName, in_words
from janossy.cli.workflow.scoring import label_flags, scores
from janossy.cli.workflow.sets_to_predict import sets_to_predict
from janossy.cli.workflow.wording import in_options
from janossy.estimators.predictions import beside_ids, predictions
from janossy.estimators.predictor import AnyPredictor, ClassPredictor
from janossy.estimators.saved_predictor import read_predictor
from janossy.files.atomic import beside
from janossy.saving import SavedModelError
from janossy.tables import SetTable
from janossy.tables.arrow import is_binary
from janossy.tables.category import category_of


def load_model(folder: Path) -> AnyPredictor:
    """Returns the model in a folder or zip. Raises: BadArgument if there is no model, or it is damaged."""
    try:
        return read_predictor(folder)[1]
    except SavedModelError as error:
        raise BadArgument(str(error)) from None


def _write_csv(table: pa.Table, path: str) -> None:
    """Writes a CSV file. Lists are JSON text, which ``janossy fit`` reads as lists. UUIDs and bytes are text too."""
    for number, field in enumerate(table.schema):
        is_list = pa.types.is_list(field.type)
        if is_list or is_binary(field.type):
            values = table[number].to_pylist()
            texts = [json.dumps(each, ensure_ascii=False) if is_list else category_of(each) for each in values]
            table = table.set_column(number, field.name, pa.array(texts, pa.string()))
    csv.write_csv(table, path)


WRITERS = {
    ".parquet": parquet.write_table,
    ".csv": _write_csv,
    ".arrow": feather.write_feather,
    ".feather": feather.write_feather,
}


def predict(
    folder: Path,
    files: Sequence[File],
    out: Path,
    set_id: tuple[str, ...],
    num_permutations: int | None,
    dialect: Dialect = ANY,
    mark_far: bool = False,
) -> None:
    """Reads a model and tables, predicts each set, and writes the predictions, whole or not at all.

    Raises: BadArgument for invalid tables or an invalid model; OSError.
    """
    console = screen()
    model, record = load_model(folder), Record.read(folder)
    if num_permutations is not None:
        model = replace(model, num_permutations=num_permutations)
    recipe = Recipe() if record is None else record.recipe
    out.parent.mkdir(parents=True, exist_ok=True)
    with warnings_said(console):
        text_ids, kinds = ((), {}) if record is None else (record.text_ids, record.kinds)
        read = sets_to_predict(files, model.encoder, recipe, set_id, text_ids, dialect, _are_text(model), kinds)
        try:
            columns = predictions(model, read.sets, recipe.target)
            if mark_far:
                columns = columns.append_column("far_values", pa.array(model.far_values(read.sets)))
        except ValueError as error:
            raise BadArgument(f"{', '.join(map(str, files))}: {in_options(error)}") from error
    for note in (*read.notes, *_empty_columns(model, read.sets)):
        say(console, note, style="yellow")
    ids = read.ids if read.ids.num_columns else pa.table({"set": np.arange(len(read.sets))})
    table = pa.Table.from_arrays([*ids.columns, *columns.columns], schema=beside_ids(ids.schema, columns.schema))
    with beside(out) as part:
        WRITERS[out.suffix](table, str(part))
        part.rename(out)
    say(console, f"wrote {out}: {len(read.sets):,} sets, columns {', '.join(table.column_names)}")
    if read.targets is not None:
        names = " and ".join(map(repr, recipe.target))
        several = "s" if len(recipe.target) > 1 else ""
        columns_of = [columns[name] for name in columns.column_names if name.startswith("prediction")]
        predicted = np.stack([column.to_numpy() for column in columns_of], 1)
        predicted = predicted[:, 0] if len(columns_of) == 1 else predicted
        of = ""
        if read.labelled is not None:
            predicted = predicted[read.labelled]
            of = f", of the {len(predicted):,} sets of {len(read.sets):,} that have a target"
        compared = _compared(read.targets, predicted, model, recipe)
        say(console, f"compared with the column{several} {names}: {compared}{of}")


def _empty_columns(model: AnyPredictor, sets: SetTable) -> list[str]:
    """Returns a line for each column that has rows, but no value in any."""
    of_both = ((model.encoder.elements, sets.elements), (model.encoder.context, sets.context))
    named = {code.name: columns[code.name].missing() for codes, columns in of_both for code in codes}
    return [
        f"column {name!r} is empty in these tables: predictions are made without it."
        for name, missing in named.items()
        if len(missing) and missing.all()
    ]


def _are_text(model: AnyPredictor) -> bool:
    """Returns True if all classes are text. Those of a CSV file are then read as text too."""
    return isinstance(model, ClassPredictor) and all(classes.dtype.kind in "OU" for classes in model.known.classes)


def _compared(targets: np.ndarray, predicted: np.ndarray, model: AnyPredictor, recipe: Recipe) -> str:
    """Returns the scores as text, or the reason for having no scores."""
    task: TaskName = "classification" if isinstance(model, ClassPredictor) else "regression"
    if isinstance(model, ClassPredictor) and model.known.kind == "labels":
        if not isinstance(targets[0], frozenset):
            return f"it holds no lists of labels, as in training, but {targets[0]!s}"
        known = model.known.classes[0]
        true, said = (label_flags(known, values) for values in (targets, predicted))
        return in_words(scores(true, said, task, [str(label) for label in known]))
    like, kinds = (targets.dtype.kind, predicted.dtype.kind), ("biuf", "OU")
    if not any(set(like) <= set(kind) for kind in kinds):
        return f"it holds other values than in training, as {targets[0]!s}"
    return in_words(scores(targets, predicted, task, recipe.target))
