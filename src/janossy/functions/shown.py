"""The arguments of a layer as its ``repr`` shows them."""

from collections.abc import Mapping, Sequence
from inspect import Parameter, signature
from typing import Any

from torch import Tensor, nn

PLACE = ("device", "dtype")
"""Arguments of a constructor that say where the weights are, and of which kind."""


def arguments_shown(module: nn.Module, **others: Any) -> str:
    """Returns the constructor's arguments by name, without modules, which torch shows, and without defaults.

    They are those of ``config()``, if the module has it, else attributes of the same name. ``others`` come before both.
    """
    parameters = signature(type(module)).parameters
    config = getattr(type(module), "config", None)
    given: Mapping[str, Any] = config(module) if callable(config) else vars(module)
    shown = []
    for name, parameter in parameters.items():
        if name in PLACE or (name not in others and name not in given):
            continue
        value = others[name] if name in others else given[name]
        if not _is_made_of_modules(value) and not _is_default(value, parameter.default):
            shown.append(f"{name}={_short(value)}")
    return ", ".join(shown)


def _is_default(value: Any, default: Any) -> bool:
    if value is default:
        return True
    if default is Parameter.empty or isinstance(value, Tensor):
        return False
    if isinstance(value, Sequence | Mapping) and not value:
        return not default
    return type(value) is type(default) and bool(value == default)


def _is_made_of_modules(value: Any) -> bool:
    several = isinstance(value, list | tuple) and bool(value)
    return isinstance(value, nn.Module) or (several and all(isinstance(each, nn.Module) for each in value))


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, nn.Module):
        return f"{type(value).__name__}({value.extra_repr()})"
    if isinstance(value, tuple) and any(isinstance(each, nn.Module) for each in value):
        return "(" + ", ".join(map(_short, value)) + ")"
    return getattr(value, "__name__", None) or repr(value)
