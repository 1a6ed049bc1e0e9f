"""The predictions of a fitted model as a table, whose columns and types do not depend on the sets."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from janossy.estimators.ensemble import Outcome, check_outputs_finite
from janossy.estimators.networks import SEED
from janossy.estimators.predictor import AnyPredictor, ClassPredictor, NumberPredictor
from janossy.tables.forms import as_sets
from janossy.tables.table import SetTable


def num_target_names(model: AnyPredictor) -> int:
    """Returns the number of target names in the columns of predictions: 0 for one class or for labels."""
    if isinstance(model, NumberPredictor):
        return len(model.mean)
    return len(model.known.classes) if model.known.kind == "columns" else 0


def prediction_schema(model: AnyPredictor, targets: Sequence[str] = ()) -> pa.Schema:
    """Returns the schema of ``predictions``."""
    if isinstance(model, ClassPredictor):
        return pa.schema([field for field, _ in _of_classes(model, targets, None)])
    names = [""] if model.flat else [f"_{name}" for name in targets or range(len(model.mean))]
    kinds = ["prediction", "standard_error", *(f"quantile_{level:g}" for level in model.task.quantiles)]
    return pa.schema({f"{kind}{name}": pa.float64() for name in names for kind in kinds})


def predictions(model: AnyPredictor, sets: SetTable, targets: Sequence[str] = (), seed: int = SEED) -> pa.Table:
    """Returns the predictions, one row per set.

    ``targets`` are the names of several targets. ``seed`` is that of the sampled orders.
    Raises: FloatingPointError if a prediction is not finite.
    """
    outcome = model.outcome(as_sets(sets, **model.columns), seed)
    check_outputs_finite(outcome.mean, model.owner)
    if isinstance(model, ClassPredictor):
        found = list(_of_classes(model, targets, outcome))
        arrays = [pa.array(values, field.type) for field, values in found]
        return pa.Table.from_arrays(arrays, schema=pa.schema([field for field, _ in found]))
    means, errors = model.in_units(outcome)
    middle, columns = model.task.middle, []
    for j in range(means.shape[1]):
        columns += [means[:, j, middle], errors[:, j, middle], *(means[:, j].T if model.task.quantiles else ())]
    arrays = [pa.array(column, pa.float64()) for column in columns]
    return pa.Table.from_arrays(arrays, schema=prediction_schema(model, targets))


def _of_classes(
    model: ClassPredictor, targets: Sequence[str], outcome: Outcome | None
) -> Iterator[tuple[pa.Field, np.ndarray | None]]:
    """Yields the columns of a classifier's predictions, with their values if there is an outcome.

    - One class: the class, all probabilities, and the standard error and probability of change of the class.
    - Several columns: for each column, the class, all probabilities and the standard error.
    - Labels: the list of labels with a probability above 1/2, and for each label its probability and standard error.
    """
    known, task = model.known, model.task
    single, labels = known.kind == "one", known.kind == "labels"
    codes = means = errors = None
    if outcome is not None:
        codes = task.codes(outcome.mean)
        errors = task.chosen(outcome.standard_error, codes).numpy()
        means = [part.numpy() for part in task.parts(outcome.mean)]
    decoded = None if codes is None else known.decoded(codes.numpy())

    def number(name: str, values: np.ndarray | None) -> tuple[pa.Field, np.ndarray | None]:
        return pa.field(name, pa.float32()), values

    if labels:
        yield pa.field("prediction", pa.list_(pa.array(known.classes[0]).type)), decoded
        for j, label in enumerate(known.classes[0]):
            yield number(f"probability_{label}", None if means is None else means[j][:, 1])
            yield number(f"standard_error_{label}", None if errors is None else errors[:, j])
        return
    suffixes = [""] if single else [f"_{name}" for name in targets or range(len(known.classes))]
    for j, (suffix, classes) in enumerate(zip(suffixes, known.classes, strict=True)):
        kind = pa.array(classes).type
        yield pa.field(f"prediction{suffix}", kind), None if codes is None else classes[codes[:, j].numpy()]
        for c, label in enumerate(classes):
            yield number(f"probability{suffix}_{label}", None if means is None else means[j][:, c])
        yield number(f"standard_error{suffix}", None if errors is None else errors[:, j])
    if single:
        yield number("change_probability", None if outcome is None else outcome.change_probability.numpy())


def beside_ids(ids: pa.Schema, predicted: pa.Schema) -> pa.Schema:
    """Returns both schemas, ids first. A column of ids with the name of a prediction gets an underscore."""
    taken, fields = set(predicted.names), []
    for field in ids:
        name = field.name
        while name in taken:
            name += "_"
        taken.add(name)
        fields.append(field.with_name(name))
    return pa.schema([*fields, *predicted])
