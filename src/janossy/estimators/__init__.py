"""From a user's own sets to a trained model (needs the extra ``estimators``)."""

try:
    import pyarrow as _pyarrow  # noqa: F401
    import sklearn as _sklearn  # noqa: F401
except ImportError as error:
    raise ImportError("janossy.estimators needs the extra estimators: pip install 'janossy[estimators]'") from error

from janossy.estimators.columns import Column
from janossy.estimators.encoder import Encoded, TableEncoder
from janossy.estimators.forms import as_sets
from janossy.estimators.group_rows import GroupRows
from janossy.estimators.layout import Layout
from janossy.estimators.table import SetTable

__all__ = ["Column", "Encoded", "GroupRows", "Layout", "SetTable", "TableEncoder", "as_sets"]
