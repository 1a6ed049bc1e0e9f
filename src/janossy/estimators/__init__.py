"""From a user's own sets to a trained model (needs the extra ``estimators``)."""

try:
    import pyarrow as _pyarrow  # noqa: F401
    import safetensors as _safetensors  # noqa: F401
    import sklearn as _sklearn  # noqa: F401
    import skorch as _skorch  # noqa: F401
except ImportError as error:
    raise ImportError("janossy.estimators needs the extra estimators: pip install 'janossy[estimators]'") from error

from janossy.estimators.classifier import SetClassifier
from janossy.estimators.columns import Column
from janossy.estimators.encoder import Encoded, TableEncoder
from janossy.estimators.forms import as_sets
from janossy.estimators.group_rows import GroupRows
from janossy.estimators.importance import ElementImportance
from janossy.estimators.layout import Layout
from janossy.estimators.regressor import SetRegressor
from janossy.estimators.saved import load, save
from janossy.estimators.table import SetTable
from janossy.estimators.trials import Progress, Trial

__all__ = [
    "Column",
    "ElementImportance",
    "Encoded",
    "GroupRows",
    "Layout",
    "Progress",
    "SetClassifier",
    "SetRegressor",
    "SetTable",
    "TableEncoder",
    "Trial",
    "as_sets",
    "load",
    "save",
]
