"""Validation of the inputs of layers, and explanations of torch's errors."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from janossy.sets import Ragged, check_ragged


def check_function(f: Any, owner: str, outputs: str) -> None:
    """Raises a TypeError unless f is callable."""
    if not callable(f) or isinstance(f, type):
        raise TypeError(f"{owner} expects f to be a module that maps rows (T, L, d) to {outputs}; got {f!r}.")


def check_sets(sets: Any, owner: str) -> None:
    """Raises a TypeError unless these are sets, a ValueError if they hold no numbers."""
    check_ragged(sets, owner)
    if sets.values.is_meta:
        raise ValueError(f"{owner} expects sets on a device that holds numbers; got 'meta'. Use .to('cpu').")


def check_keys(keys: Any, sets: Ragged, owner: str) -> None:
    """Raises a TypeError unless the keys are sets, a ValueError if they are not on the sets' device."""
    if getattr(keys, "offsets", None) is not sets.offsets:  # else with_values made one from the other
        check_ragged(keys, f"{owner}(keys=)")
    if keys.device != sets.device:
        raise ValueError(
            f"{owner} expects keys on the sets' device, {sets.device}; got {keys.device}. Move them with .to()."
        )


def check_context(context: Any, sets: Ragged, owner: str) -> None:
    """Raises a TypeError unless the context is a tensor, a ValueError unless it has one row per set.

    The sets have been checked.
    """
    if context is None:
        return
    expected = f"{owner} expects context (B, *any)"
    if not isinstance(context, Tensor):
        raise TypeError(f"{expected} as a tensor; got {type(context).__name__}. torch.as_tensor makes one.")
    if context.dim() == 0 or len(context) != len(sets):
        raise ValueError(
            f"{expected}, a row for each of these {len(sets)} sets; got {tuple(context.shape)}. Give one for every set."
        )
    if context.device != sets.device:
        raise ValueError(f"{expected} on the sets' device, {sets.device}; got {context.device}. Move it with .to().")


def errors_explained(
    name: str, module: Any, elements: Tensor, memory_budget: int | None = None
) -> AbstractContextManager[None]:
    """Returns a context in which torch's errors about dtype, device and memory say what to change.

    An error is explained if the elements have another dtype or device than the module's weights. With a
    ``memory_budget``, so is too little memory on a GPU.
    """
    # torch.compile cannot look into an error.
    return nullcontext() if torch.compiler.is_compiling() else _Explained(name, module, elements, memory_budget)


@dataclass
class _Explained:  # contextlib's generators take twice as long, in every call of a layer
    name: str
    module: Any
    elements: Tensor
    memory_budget: int | None

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, RuntimeError):
            _explain(error, self.name, self.module, self.elements, self.memory_budget)


def _explain(error: RuntimeError, name: str, module: Any, elements: Tensor, memory_budget: int | None) -> None:
    """Raises the error with an explanation, if there is one."""
    if isinstance(error, torch.OutOfMemoryError):
        if memory_budget is None:
            return
        raise torch.OutOfMemoryError(
            f"pooling by {name}, a {type(module).__name__}, expects room on {elements.device} for what it computes at "
            f"once, an estimate of memory_budget={memory_budget} bytes, and for its results; got too little. Give a "
            f"smaller memory_budget, smaller batches, or orderings of fewer rows, such as Sampled. torch says: {error}"
        ) from error
    weights = list(module.parameters()) if isinstance(module, nn.Module) else []
    devices = {weight.device for weight in weights}
    dtypes = {weight.dtype for weight in weights}
    what = f"{name}, a {type(module).__name__},"
    if weights and elements.device not in devices:
        raise ValueError(
            f"{what} expects elements on {', '.join(map(str, devices))}, where its weights are; got "
            f"{elements.device}. Move the sets, or {name}, with .to()."
        ) from error
    if isinstance(module, nn.Embedding) and elements.dtype not in (torch.int64, torch.int32):
        raise ValueError(
            f"{what} expects ids in torch.int64 or torch.int32; got {elements.dtype}. Convert the sets with "
            ".to(torch.int64)."
        ) from error
    of_dtypes = "type" in str(error) or isinstance(error, NotImplementedError)
    if weights and elements.dtype not in dtypes and of_dtypes:
        raise ValueError(
            f"{what} expects elements in {', '.join(map(str, dtypes))}, as its weights are; got {elements.dtype}. "
            f"Convert the sets, or {name}, with .to()."
        ) from error
