"""Janossy pooling: learning functions of sets by averaging over orderings (Murphy et al., ICLR 2019).

The names are those of ``janossy.public``, imported when the first of them is asked for (PEP 562): the command line,
which lives in this package too, prints its help and its errors without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from janossy.public import *  # noqa: F403
    from janossy.public import __all__ as __all__

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    public = import_module("janossy.public")
    if name == "__all__" or name in public.__all__:
        globals()[name] = getattr(public, name)
    if name in globals():  # a room of the library, which has been imported by now
        return globals()[name]
    raise AttributeError(f"module 'janossy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
