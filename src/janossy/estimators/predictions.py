"""The predictions of a fitted estimator, as a table: of the same columns and types whatever the sets."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from janossy.estimators.classifier import SetClassifier
from janossy.estimators.networks import SEED
from janossy.estimators.regressor import SetRegressor
from janossy.tables.table import SetTable


def prediction_schema(model: SetClassifier | SetRegressor, targets: Sequence[str] = ()) -> pa.Schema:
    """The columns of ``predictions``."""
    if isinstance(model, SetClassifier):
        names = [f"probability_{name}" for name in model.classes_] + ["standard_error", "change_probability"]
        return pa.schema({"prediction": pa.array(model.classes_).type} | dict.fromkeys(names, pa.float32()))
    names = [""] if model._flat else [f"_{name}" for name in targets or range(len(model.y_mean_))]
    kinds = ["prediction", "standard_error", *(f"quantile_{level:g}" for level in model.task_.quantiles)]
    return pa.schema({f"{kind}{name}": pa.float64() for name in names for kind in kinds})


def predictions(
    model: SetClassifier | SetRegressor, sets: SetTable, targets: Sequence[str] = (), seed: int = SEED
) -> pa.Table:
    """The predictions, one row per set. ``targets``: the names of several; ``seed``: of the orders that are drawn."""
    schema = prediction_schema(model, targets)
    if isinstance(model, SetClassifier):
        outcome = model._outcome(sets, seed)
        probabilities, errors = outcome.mean.numpy(), outcome.standard_error.numpy()
        best = probabilities.argmax(1)
        of_best = errors[np.arange(len(best)), best]
        columns = [model.classes_[best], *probabilities.T, of_best, outcome.change_probability.numpy()]
    else:
        means, errors = model._in_units(sets, seed)
        middle, columns = model.task_.middle, []
        for j in range(means.shape[1]):
            columns += [means[:, j, middle], errors[:, j, middle], *(means[:, j].T if model.task_.quantiles else ())]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def beside_ids(ids: pa.Schema, predicted: pa.Schema) -> pa.Schema:
    """Both, one after the other; a column of ids that has the name of a prediction gets an underscore."""
    taken, fields = set(predicted.names), []
    for field in ids:
        name = field.name
        while name in taken:
            name += "_"
        taken.add(name)
        fields.append(field.with_name(name))
    return pa.schema([*fields, *predicted])
