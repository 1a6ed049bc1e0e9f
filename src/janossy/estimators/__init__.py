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
from janossy.estimators.table import SetTable

if TYPE_CHECKING:
    from janossy.estimators.group_rows import GroupRows

__all__ = ["Column", "Encoded", "GroupRows", "Layout", "SetTable", "TableEncoder", "as_sets"]

_LATER = {"GroupRows": "group_rows"}
"""Names whose files import scikit-learn, which takes a second: imported when asked for."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
