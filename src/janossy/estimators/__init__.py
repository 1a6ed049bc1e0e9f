"""Estimators: from a user's own sets to a trained model (needs the extra ``estimators``)."""

from importlib import import_module
from typing import TYPE_CHECKING

try:
    import pyarrow as _pyarrow  # noqa: F401
except ImportError as error:
    raise ImportError("janossy.estimators needs pyarrow: pip install 'janossy[estimators]'") from error

if TYPE_CHECKING:
    from janossy.estimators.classifier import SetClassifier
    from janossy.estimators.group_rows import GroupRows
    from janossy.estimators.importance import ElementImportance
    from janossy.estimators.regressor import SetRegressor
    from janossy.estimators.saved import load, save
    from janossy.estimators.set_statistics import SetStatistics
    from janossy.estimators.trials import Epoch, NothingTrained, Progress, Trial, UnfinishedTraining

__all__ = [
    "ElementImportance",
    "Epoch",
    "GroupRows",
    "NothingTrained",
    "Progress",
    "SetClassifier",
    "SetRegressor",
    "SetStatistics",
    "Trial",
    "UnfinishedTraining",
    "load",
    "save",
]

_FILES = {
    "ElementImportance": "importance",
    "Epoch": "trials",
    "GroupRows": "group_rows",
    "NothingTrained": "trials",
    "Progress": "trials",
    "SetClassifier": "classifier",
    "SetRegressor": "regressor",
    "SetStatistics": "set_statistics",
    "Trial": "trials",
    "UnfinishedTraining": "trials",
    "load": "saved",
    "save": "saved",
}
"""Names and their files. They import torch or scikit-learn, which takes seconds and memory, so each loads on demand."""


def __getattr__(name: str) -> object:
    if name not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_FILES[name]}"), name)
