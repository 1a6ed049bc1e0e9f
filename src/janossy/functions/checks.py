"""Checks of the arguments of functions, and of the rows that functions are called with."""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor, nn


def check_widths(module: nn.Module, *, several: str | None = None, **widths: Any) -> None:
    """Raises an error unless all these arguments are integers >= 1.

    ``several`` names the argument that may be a sequence of integers.

    Raises: TypeError for a value that is not an integer (True is not), ValueError for one below 1, or for None.
    """
    names = " and ".join(filter(None, (", ".join(list(widths)[:-1]), list(widths)[-1])))
    for name, width in widths.items():
        each = width if name == several and isinstance(width, Sequence) and not isinstance(width, str) else (width,)
        if not all(isinstance(w, Integral) and not isinstance(w, bool) for w in each):
            raise TypeError(f"{type(module).__name__} expects {names} as integers; got {name}={width!r}.")
        if not each or min(each) < 1:
            got = ", ".join(f"{name}={width}" for name, width in widths.items())
            raise ValueError(f"{type(module).__name__} expects {names}, all >= 1; got {got}.")


def check_dropout(module: nn.Module, dropout: Any) -> None:
    """Raises a TypeError unless this is a number, a ValueError unless it is a probability."""
    if not isinstance(dropout, Real) or isinstance(dropout, bool):
        raise TypeError(f"{type(module).__name__} expects dropout as a number in [0, 1]; got {dropout!r}.")
    if not 0 <= float(dropout) <= 1:
        raise ValueError(f"{type(module).__name__} expects dropout in [0, 1]; got dropout={dropout}.")


def check_flags(owner: Any, **flags: Any) -> None:
    """Raises a TypeError unless all these arguments are True or False."""
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise TypeError(f"{type(owner).__name__} expects {name} as True or False; got {flag!r}.")


def check_rows(module: Any, x: Any) -> None:
    """Raises a TypeError unless x is a tensor, a ValueError unless it is (T, k, in_features) of the module."""
    if module.k is None:
        raise ValueError(f"this {type(module).__name__} expects k; got none. Give k=, or JanossyPooling(f, Tuples(2)).")
    _check_tensor(module, x, f"rows of shape (T, {module.k}, {module.in_features})")
    _check_row_shape(module, tuple(x.shape))


def check_elements(module: Any, elements: Tensor) -> None:
    """Raises a ValueError unless k of these elements (N, *features) make a row of the module."""
    _check_row_shape(module, (elements.shape[0], module.k, *elements.shape[1:]))


def _check_row_shape(module: Any, shape: tuple[int, ...]) -> None:
    if shape[1:] != (module.k, module.in_features):
        raise ValueError(
            f"this {type(module).__name__} expects rows of shape (T, {module.k}, {module.in_features}); got {shape}. "
            "Match its k to the orderings' k, and its in_features to the elements'."
        )


def _check_tensor(module: Any, x: Any, expected: str) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(
            f"this {type(module).__name__} expects {expected} as a tensor; got {type(x).__name__}. "
            "JanossyPooling applies it to sets."
        )


def check_sequences(module: Any, x: Any) -> None:
    """Raises a TypeError or ValueError unless these are rows (T, L, in_features) of the module."""
    _check_tensor(module, x, f"rows of shape (T, L, {module.in_features})")
    if x.dim() != 3 or x.shape[2] != module.in_features:
        raise ValueError(
            f"this {type(module).__name__} expects rows of shape (T, L, {module.in_features}); got {tuple(x.shape)}."
        )
    check_dtype(module, x)


def check_mask(module: nn.Module, x: Tensor, mask: Any) -> None:
    """Raises a TypeError unless the mask is a tensor, a ValueError unless it is bool of the shape (T, L) of x."""
    expected = f"this {type(module).__name__} expects a mask of shape {tuple(x.shape[:2])} and dtype torch.bool"
    if not isinstance(mask, Tensor):
        raise TypeError(f"{expected}; got {type(mask).__name__}. Give it as a tensor.")
    if mask.shape != x.shape[:2] or mask.dtype != torch.bool:
        raise ValueError(f"{expected}; got {tuple(mask.shape)} and {mask.dtype}.")


def check_dtype(module: Any, x: Tensor, weight: Tensor | None = None) -> None:
    """Raises a ValueError unless x has the dtype of this weight, or autocast converts it.

    ``weight`` defaults to the module's first parameter.
    """
    weight = next(module.parameters(), None) if weight is None else weight
    if weight is None or x.dtype == weight.dtype:
        return
    if x.is_floating_point() and torch.is_autocast_enabled(x.device.type):
        return
    raise ValueError(
        f"this {type(module).__name__} expects elements in {weight.dtype}, as its weights are; got {x.dtype}. "
        f"Convert the sets with .to({weight.dtype}), or the module with .to()."
    )
