"""From a user's own sets to a trained model (needs the extra ``estimators``)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

try:
    import pyarrow as _pyarrow  # noqa: F401
except ImportError as error:
    raise ImportError("janossy.estimators needs pyarrow: pip install 'janossy[estimators]'") from error

from janossy.estimators.columns import Column
from janossy.estimators.encoder import Encoded, TableEncoder
from janossy.estimators.forms import as_sets
from janossy.estimators.layout import Layout
from janossy.estimators.streams.stream import SetStream
from janossy.estimators.table import SetTable

if TYPE_CHECKING:
    from janossy.estimators.classifier import SetClassifier
    from janossy.estimators.group_rows import GroupRows
    from janossy.estimators.importance import ElementImportance
    from janossy.estimators.regressor import SetRegressor
    from janossy.estimators.saved import load, save
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

_LATER = {
    "ElementImportance": "importance",
    "Epoch": "trials",
    "GroupRows": "group_rows",
    "Progress": "trials",
    "SetClassifier": "classifier",
    "SetRegressor": "regressor",
    "Trial": "trials",
    "load": "saved",
    "save": "saved",
}
"""Names whose files import scikit-learn or skorch, which take seconds: imported when asked for."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
