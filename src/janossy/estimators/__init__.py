"""From a user's own sets to a trained model (needs the extra ``estimators``)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

try:
    import pyarrow as _pyarrow  # noqa: F401
except ImportError as error:
    raise ImportError("janossy.estimators needs pyarrow: pip install 'janossy[estimators]'") from error

if TYPE_CHECKING:
    from janossy.estimators.classifier import SetClassifier
    from janossy.estimators.columns import Column
    from janossy.estimators.encoder import Encoded, TableEncoder
    from janossy.estimators.forms import as_sets
    from janossy.estimators.group_rows import GroupRows
    from janossy.estimators.importance import ElementImportance
    from janossy.estimators.layout import Layout
    from janossy.estimators.regressor import SetRegressor
    from janossy.estimators.saved import load, save
    from janossy.estimators.streams.stream import SetStream
    from janossy.estimators.table import SetTable
    from janossy.estimators.trials import Epoch, Progress, Trial

__all__ = [
    "Column",
    "ElementImportance",
    "Encoded",
    "Epoch",
    "GroupRows",
    "Layout",
    "Progress",
    "SetClassifier",
    "SetRegressor",
    "SetStream",
    "SetTable",
    "TableEncoder",
    "Trial",
    "as_sets",
    "load",
    "save",
]

_FILES = {
    "Column": "columns",
    "ElementImportance": "importance",
    "Encoded": "encoder",
    "Epoch": "trials",
    "GroupRows": "group_rows",
    "Layout": "layout",
    "Progress": "trials",
    "SetClassifier": "classifier",
    "SetRegressor": "regressor",
    "SetStream": "streams.stream",
    "SetTable": "table",
    "TableEncoder": "encoder",
    "Trial": "trials",
    "as_sets": "forms",
    "load": "saved",
    "save": "saved",
}
"""Names whose files import torch, scikit-learn or skorch, which take seconds and memory: imported when asked for."""


def __getattr__(name: str) -> Any:
    if name not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_FILES[name]}"), name)
