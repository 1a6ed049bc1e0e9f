"""Prediction in data engines: one callable from Arrow to Arrow, and engines that drive it (docs/batch.md).

``on_ray``, ``on_daft``, ``on_spark`` and ``on_dask`` each need the extra of that name.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from janossy.batch.daft import on_daft
    from janossy.batch.dask import on_dask
    from janossy.batch.predictor import SetPredictor
    from janossy.batch.ray import on_ray
    from janossy.batch.spark import on_spark

__all__ = ["SetPredictor", "on_daft", "on_dask", "on_ray", "on_spark"]


def __getattr__(name: str) -> Any:
    # Each name imports only what it needs: its engine, or the extra ``estimators``. Workers need neither.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    file = "predictor" if name == "SetPredictor" else name.removeprefix("on_")
    return getattr(import_module(f"{__name__}.{file}"), name)
