"""Tables of sets: a user's own data as columns, codes and numbers (needs the extra ``estimators``)."""

from importlib import import_module
from typing import TYPE_CHECKING

try:
    import pyarrow as _pyarrow  # noqa: F401
except ImportError as error:
    raise ImportError("janossy.tables needs pyarrow: pip install 'janossy[estimators]'") from error

if TYPE_CHECKING:
    from janossy.tables.columns import Column
    from janossy.tables.encoder import Encoded, TableEncoder
    from janossy.tables.forms import as_sets
    from janossy.tables.layout import Layout
    from janossy.tables.stream import SetStream
    from janossy.tables.table import SetTable

__all__ = ["Column", "Encoded", "Layout", "SetStream", "SetTable", "TableEncoder", "as_sets"]

_FILES = {
    "Column": "columns",
    "Encoded": "encoder",
    "Layout": "layout",
    "SetStream": "stream",
    "SetTable": "table",
    "TableEncoder": "encoder",
    "as_sets": "forms",
}
"""Names and their files. These files import torch, which takes seconds and memory, so each is imported on demand."""


def __getattr__(name: str) -> object:
    if name not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_FILES[name]}"), name)
