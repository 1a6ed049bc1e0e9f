"""The arguments that build a part again: by its own ``config()``, or as its constructor names them."""

from dataclasses import fields, is_dataclass
from functools import cache
from inspect import Parameter, signature
from typing import Any


def config_of(part: Any) -> dict[str, Any]:
    """Returns the arguments that build the part again.

    A class says them by a method ``config()``. Without one, each argument of its constructor is an attribute of the
    same name.

    Raises: TypeError if neither is so.
    """
    said = getattr(type(part), "config", None)
    if callable(said):
        found = said(part)
        if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
            raise TypeError(
                f"{type(part).__name__}.config() expects to return a dict of arguments by name; got {found!r}."
            )
        return found
    kind: type = type(part)
    names = arguments_of(kind)
    if missing := [name for name in names if not hasattr(part, name)]:
        raise TypeError(
            f"{type(part).__name__} expects a method config() that returns its arguments, or an attribute for each of "
            f"them; {', '.join(missing)} is none. Write config()."
        )
    return {name: getattr(part, name) for name in names}


@cache
def arguments_of(kind: type) -> tuple[str, ...]:
    """Returns the names of a constructor's arguments."""
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind) if field.init)
    if kind.__init__ is object.__init__:  # type: ignore[misc]
        return ()
    several = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return tuple(name for name, each in signature(kind).parameters.items() if each.kind not in several)
