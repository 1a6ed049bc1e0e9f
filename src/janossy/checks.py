"""Checks of arguments: integers, numbers, flags, functions and generators."""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import torch


def check_integer(
    owner: str, name: str, value: Any, at_least: int | None = None, unit: str = "", *, optional: bool = False
) -> None:
    """Raises a TypeError unless value is an integer (a bool is not), a ValueError if it is below ``at_least``.

    ``unit`` names what is counted. With ``optional`` None is accepted too.
    """
    if optional and value is None:
        return
    bound = name if at_least is None else f"{name} >= {at_least}"
    unit = f" {unit}" if unit else ""
    if not isinstance(value, Integral) or isinstance(value, bool):
        nothing = ", or None" if optional else ""
        raise TypeError(
            f"{owner} expects {bound}{unit}, an integer{nothing}; got {name}={value!r}, of type "
            f"{type(value).__name__}. Write {name}={1 if at_least is None else at_least}, or more."
        )
    if at_least is not None and value < at_least:
        raise ValueError(f"{owner} expects {bound}{unit}; got {name}={value}.")


def check_number(owner: str, name: str, value: Any, example: float) -> None:
    """Raises a TypeError unless value is a real number (a bool is not)."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(
            f"{owner} expects a number as {name}; got {name}={value!r}, of type {type(value).__name__}. "
            f"Write {name}={example}."
        )


def check_flag(owner: str, name: str, value: Any) -> None:
    """Raises a TypeError unless value is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{owner} expects {name} as True or False; got {value!r}.")


def check_function(owner: str, name: str, value: Callable[..., Any] | None, instead: str) -> None:
    """Raises a TypeError unless value is a function or None; a class is neither. ``instead`` says what to write."""
    if value is not None and (not callable(value) or isinstance(value, type)):
        raise TypeError(
            f"{owner} expects a function as {name}, or None; got {name}={value!r}, of type {type(value).__name__}. "
            f"{instead}"
        )


def check_generator(owner: str, generator: Any, device: torch.device) -> None:
    """Raises a TypeError unless it is a torch.Generator or None, a ValueError if it is on another device."""
    if generator is None:
        return
    if not isinstance(generator, torch.Generator):
        raise TypeError(
            f"{owner} expects a torch.Generator as generator; got {generator!r}, of type {type(generator).__name__}. "
            "Write torch.Generator().manual_seed(0)."
        )
    if generator.device.type != device.type:
        raise ValueError(
            f"{owner} expects a generator on the sets' device, {device}; got one on {generator.device}. "
            f"Write torch.Generator({str(device)!r})."
        )
