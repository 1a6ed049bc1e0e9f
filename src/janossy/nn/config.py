"""The constructor arguments of a part, and the difference of two parts by their arguments."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from inspect import Parameter, ismethod, signature
from typing import Any

import numpy as np
from torch import Tensor, nn


def _same(*names: str) -> Callable[[nn.Module], dict[str, Any]]:
    """Returns a function that reads the arguments that a module keeps as attributes of the same name."""
    return lambda module: {name: getattr(module, name) for name in names}


def _and_bias(*names: str) -> Callable[[nn.Module], dict[str, Any]]:
    return lambda module: {**_same(*names)(module), "bias": module.bias is not None}


TORCH: dict[type, Callable[[Any], dict[str, Any]]] = {
    nn.Sequential: lambda module: {"modules": list(module)},
    nn.Linear: _and_bias("in_features", "out_features"),
    nn.Bilinear: _and_bias("in1_features", "in2_features", "out_features"),
    nn.Embedding: _same(
        "num_embeddings", "embedding_dim", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse"
    ),
    nn.LayerNorm: _and_bias("normalized_shape", "eps", "elementwise_affine"),
    nn.BatchNorm1d: _same("num_features", "eps", "momentum", "affine", "track_running_stats"),
    nn.Dropout: _same("p", "inplace"),
    nn.Flatten: _same("start_dim", "end_dim"),
    nn.Identity: _same(),
    nn.ReLU: _same("inplace"),
    nn.LeakyReLU: _same("negative_slope", "inplace"),
    nn.ELU: _same("alpha", "inplace"),
    nn.GELU: _same("approximate"),
    nn.SiLU: _same("inplace"),
    nn.Sigmoid: _same(),
    nn.Softplus: _same("beta", "threshold"),
    nn.Tanh: _same(),
}
"""The arguments of torch's modules, which have no ``config()``."""


PLACE = ("device", "dtype")
"""The arguments that weights carry themselves."""


def config_of(part: Any) -> dict[str, Any]:
    """Returns the constructor arguments that build the part again.

    A class gives them by a method ``config()``. torch's modules are in a table. Otherwise each argument of the
    constructor must be an attribute of the same name.

    Raises: TypeError if an argument is missing.
    """
    if type(part) in TORCH:
        return TORCH[type(part)](part)
    said = getattr(type(part), "config", None)
    if callable(said):
        arguments = said(part)
        if not isinstance(arguments, dict) or not all(isinstance(name, str) for name in arguments):
            raise TypeError(
                f"{type(part).__name__}.config() expects to return a dict of arguments by name; got {arguments!r}."
            )
        return arguments
    kind: type = type(part)
    names = [name for name in arguments_of(kind) if name not in PLACE]
    if missing := [name for name in names if not hasattr(part, name) or ismethod(getattr(part, name))]:
        raise TypeError(
            f"{type(part).__name__} expects a method config() that returns its arguments, or an attribute for each of "
            f"them; it has no {', '.join(missing)}. Write config()."
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


def difference(one: Any, other: Any, place: str = "") -> str | None:
    """Returns the first argument in which two parts differ, with both values; None without a difference.

    Weights are not compared. A module without ``config()`` is compared by its modules and its ``extra_repr`` too.
    """
    if one is other or (isinstance(one, Tensor) and isinstance(other, Tensor)):
        return None
    if type(one) is not type(other):
        return _both(place, one, other)
    if isinstance(one, Mapping):
        pairs = {str(name): (one.get(name, "none"), other.get(name, "none")) for name in dict.fromkeys((*one, *other))}
    elif isinstance(one, Sequence) and not isinstance(one, str):
        if len(one) != len(other):
            return _both(place, one, other)
        pairs = {str(i): pair for i, pair in enumerate(zip(one, other, strict=True))}
    elif (arguments := _arguments(one)) is not None and (others := _arguments(other)) is not None:
        pairs = {name: (arguments.get(name), others.get(name)) for name in dict.fromkeys((*arguments, *others))}
    else:
        return None if _is_equal(one, other) else _both(place, one, other)
    differences = (difference(*pair, f"{place}.{name}" if place else name) for name, pair in pairs.items())
    return next((each for each in differences if each is not None), None)


def _arguments(part: Any) -> dict[str, Any] | None:
    """Returns the arguments of a part, plus its modules if it has no ``config()``; None for a plain value."""
    if part is None or isinstance(part, bool | int | float | complex | str | bytes | type) or hasattr(part, "__code__"):
        return None
    says = type(part) in TORCH or callable(getattr(type(part), "config", None))
    arguments: dict[str, Any] | None
    try:
        arguments = config_of(part)
    except TypeError:
        arguments = None
    if says or not isinstance(part, nn.Module):
        return arguments
    return {**(arguments or {}), **dict(part.named_children()), "extra_repr": part.extra_repr()}


def _is_equal(one: Any, other: Any) -> bool:
    """Returns True if plain values are equal; NaN equals NaN."""
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    return bool(one == other or (one != one and other != other))


def _both(place: str, one: Any, other: Any) -> str:
    first, second = (type(each).__name__ if isinstance(each, nn.Module) else repr(each) for each in (one, other))
    return f"{place or 'the part'}={second}, where the first has {first}"
