"""Checks and conversions of the inputs of ``Ragged``: tensors, lists, sizes, offsets and indices."""

from collections.abc import Sequence
from itertools import pairwise
from math import inf
from numbers import Real
from operator import index as whole
from typing import Any

import numpy as np
import torch
from torch import Tensor


def checked_sizes(values: Tensor, offsets: Tensor) -> list[int]:
    """Returns the sizes of B sets from offsets (B + 1,). Raises: ValueError unless these rise from 0 to N."""
    if offsets.dim() != 1 or len(offsets) == 0 or not is_integer(offsets):
        raise ValueError(
            "Ragged expects integer offsets of shape (B + 1,), starting with 0; "
            f"got {offsets.dtype} of shape {tuple(offsets.shape)}."
        )
    bounds = offsets.tolist()
    sizes = [end - start for start, end in pairwise(bounds)]
    if bounds[0] != 0 or bounds[-1] != len(values) or min(sizes, default=0) < 0:
        raise ValueError(
            f"Ragged expects offsets that rise from 0 to the number of elements, {len(values)}; "
            f"got {bounds if len(bounds) < 10 else f'{bounds[0]} … {bounds[-1]}'}"
            + (", which falls somewhere." if min(sizes, default=0) < 0 else ".")
        )
    return sizes


def chosen_numbers(key: slice | Sequence[int] | Tensor, num_sets: int) -> Tensor:
    """Returns the numbers of the chosen sets, int64, on the host."""
    if isinstance(key, slice):
        return torch.from_numpy(np.arange(num_sets)[key].copy())
    try:
        flat = as_numbers(key).reshape(-1).cpu()
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(
            f"Ragged is indexed by a set number, a slice, or a list or tensor of set numbers or flags; got {key!r}."
        ) from None
    if flat.dtype == torch.bool:
        if len(flat) != num_sets:
            raise IndexError(f"a bool index of {num_sets} sets needs one flag per set; got {len(flat)}.")
        return flat.nonzero()[:, 0]
    numbers = flat.long()  # smaller types do not hold num_sets
    if not is_integer(flat) or bool(((numbers < -num_sets) | (numbers >= num_sets)).any()):
        got = flat.tolist() if len(flat) < 10 else f"{numbers.min().item()} to {numbers.max().item()}"
        raise IndexError(f"expected set numbers from {-num_sets} to {num_sets - 1}; got {got}.")
    return torch.where(numbers < 0, numbers + num_sets, numbers)


def as_numbers(x: Any) -> Tensor:
    """Returns a tensor, an array or a sequence of numbers as a tensor; without numbers it holds integers."""
    if isinstance(x, Tensor):
        return x
    return torch.as_tensor(
        _readable(np.asarray(x) if hasattr(x, "__array__") else x), dtype=None if len(x) else torch.long, device="cpu"
    )


def _readable(x: Any) -> Any:
    """Returns an array as one that torch reads: with no negative strides, and in the byte order of this machine."""
    if not isinstance(x, np.ndarray) or (x.dtype.isnative and min(x.strides, default=0) >= 0):
        return x
    return x.astype(x.dtype.newbyteorder("="), order="C")


def as_tensors(sets: list[Any]) -> list[Tensor]:
    """Returns these sets as tensors.

    Lists take the dtype and the device of the other sets, and empty lists take their features too.
    """
    given = [x for x in sets if isinstance(x, Tensor | np.ndarray)]
    tensors = [_as_tensor(x, b) for b, x in enumerate(sets)]
    if len(given) == len(sets):
        return tensors
    others = [x for x, given in zip(tensors, sets, strict=True) if not is_empty_list(given)]
    if not others:
        raise ValueError(
            "Ragged.from_sets needs at least one set that is not an empty list, to know the feature shape; "
            f"got {len(sets)} empty lists. Give features=, or tensors (0, *features)."
        )
    if given:
        like = tensors[next(b for b, x in enumerate(sets) if isinstance(x, Tensor | np.ndarray))]
        dtype, device = like.dtype, like.device
    else:
        dtype, device = others[0].dtype, others[0].device
        for x in others:
            dtype = torch.promote_types(dtype, x.dtype)
    for b, x in enumerate(sets):
        if is_empty_list(x):
            tensors[b] = torch.zeros(0, *others[0].shape[1:], dtype=dtype, device=device)
        elif not isinstance(x, Tensor | np.ndarray) and torch.can_cast(tensors[b].dtype, dtype):
            tensors[b] = tensors[b].to(dtype=dtype, device=device)
    return tensors


def _as_tensor(x: Any, b: int) -> Tensor:
    if isinstance(x, Tensor):
        check_tensor(x, "Ragged.from_sets", f"set {b} as (n, *features)", scalar=True)
        return x
    try:
        return torch.tensor(_readable(x))
    except (TypeError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise TypeError(
            f"Ragged.from_sets expects every set as a tensor, an array or a nested list of numbers (n, *features); got "
            f"{type(x).__name__} as set {b}: {reason}. Pass a tensor, an array or a nested list."
        ) from None


def is_empty_list(x: Any) -> bool:
    """Returns True if x is a list or tuple without entries."""
    return isinstance(x, list | tuple) and len(x) == 0


def check_tensor(x: Any, owner: str, expected: str, *, scalar: bool = False, meta: bool = False) -> None:
    """Raises an error unless x is a tensor that holds numbers, of at least one dimension unless ``scalar``."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{owner} expects {expected} as a tensor; got {type(x).__name__}. torch.as_tensor makes one.")
    if x.is_meta and not meta:
        raise ValueError(f"{owner} expects {expected} with numbers; got a meta tensor. Make it on another device.")
    if x.dim() == 0 and not scalar:
        raise ValueError(f"{owner} expects {expected}; got a scalar. x[None] is one element.")


def whole_numbers(numbers: Any, name: str) -> list[int]:
    """Returns these numbers as integers; errors call them ``name``. Raises: TypeError for anything else."""
    try:
        return [whole(n) for n in (numbers.tolist() if isinstance(numbers, Tensor | np.ndarray) else numbers)]
    except (TypeError, RuntimeError):
        raise TypeError(
            f"Ragged expects {name} as a sequence of whole numbers; got {numbers!r}. Ragged.from_ptr takes boundaries, "
            "Ragged.from_index set numbers."
        ) from None


def is_integer(x: Tensor) -> bool:
    """Returns True if the dtype is an integer type; bool is not."""
    return not (x.is_floating_point() or x.is_complex() or x.dtype == torch.bool)


def holds_fractions(dtype: torch.dtype) -> bool:
    """Returns True if the dtype is a real or complex floating-point type."""
    return dtype.is_floating_point or dtype.is_complex


def holds_number(dtype: torch.dtype, given: Any) -> bool:
    """Returns True if tensors of this dtype hold this real number, rounded if it is a fraction."""
    if not isinstance(given, Real):
        return False
    number: Any = given  # of Real, mypy knows no comparison with integers
    if dtype == torch.bool:
        return bool(number in (0, 1))
    if holds_fractions(dtype):
        return not bool(torch.finfo(dtype).max < abs(number) < inf)
    info = torch.iinfo(dtype)
    return bool(info.min <= number <= info.max and number == int(number))


def dims(features: torch.Size) -> str:
    """Returns the dimensions in the form that errors print."""
    return ", ".join(map(str, features))
