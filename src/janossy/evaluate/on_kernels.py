"""The calls of compiled kernels, and the conditions under which kernels take numbers."""

import warnings
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import cache, wraps
from typing import Any, cast

import torch
from torch import Tensor
from torch._C._functorch import is_legacy_batchedtensor
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from janossy.evaluate.loading import LOADING
from janossy.functions.structure import Recurrent
from janossy.kernels import KernelsOnCuda, load
from janossy.kernels.compilation import NotCompiled, waiting
from janossy.kernels.limits import CELL_KINDS, LANES, LEAST_CAPABILITY, MAX_POSITIONS_ON_CUDA, NUMBERS_KEPT
from janossy.sets.transfer import constant_when_compiled

Backward = Callable[..., "tuple[Tensor | None, ...]"]

_LANES = {torch.float32: LANES["float32"], torch.float64: LANES["float64"]}
_ON_CUDA = (torch.float32, torch.bfloat16)


def lanes(x: Tensor) -> int:
    """Returns how many numbers of this dtype a vector of the kernels holds; 1 if the kernels do not take it."""
    return _LANES.get(x.dtype, 1)


def on_kernels(x: Tensor) -> bool:
    """Returns True if the compiled kernels for the CPU take these numbers."""
    if x.device.type != "cpu" or x.dtype not in _LANES:
        return False
    return _loaded() if torch.compiler.is_compiling() else LOADING.begins() or load() is not None


def on_kernels_eagerly(x: Tensor) -> bool:
    """Returns True if compiled kernels may take these numbers directly, past torch's operators.

    They may if nothing traces, maps or records the numbers.
    """
    return _is_untraced() and torch.autograd.forward_ad._current_level < 0 and on_kernels(x)


def takes_gradients() -> bool:
    """Returns True if compiled kernels may take a gradient in backward: nothing maps it, or differentiates it again."""
    return not torch.is_grad_enabled() and torch.autograd.forward_ad._current_level < 0 and _is_untraced()


def one_by_one(backward: Backward) -> Backward:
    """Makes a Function's backward take the gradients of ``autograd.grad(is_grads_batched=True)`` one by one.

    Such a batch, which ``functional.jacobian(vectorize=True)`` makes too, has no numbers that a kernel could read.
    """

    @wraps(backward)
    def of_batch(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        if not any(x is not None and is_legacy_batchedtensor(x) for x in gradients):
            return backward(ctx, *gradients)
        level = torch._C._vmapmode_increment_nesting() - 1
        torch._C._vmapmode_decrement_nesting()
        unbound = {
            i: torch._remove_batch_dim(x, level, 1, 0).unbind()
            for i, x in enumerate(gradients)
            if x is not None and is_legacy_batchedtensor(x)
        }
        found = [
            backward(ctx, *(mapped.get(i, x) for i, x in enumerate(gradients)))
            for mapped in (dict(zip(unbound, of_one, strict=True)) for of_one in zip(*unbound.values(), strict=True))
        ]
        joined = (None if each[0] is None else torch.stack(each) for each in zip(*found, strict=True))
        return tuple(x if x is None else torch._add_batch_dim(x, 0, level) for x in joined)

    return of_batch


def may_look(x: Tensor) -> bool:
    """Returns True if a look at these numbers neither waits for a device nor ends a trace or a map."""
    return x.device.type == "cpu" and _is_untraced()


def _is_untraced() -> bool:
    return not (
        torch.compiler.is_compiling() or is_in_torch_dispatch_mode() or torch._C._are_functorch_transforms_active()
    )


def takes_cells(structure: Recurrent, x: Tensor) -> bool:
    """Returns True if compiled kernels run these cells on these numbers directly."""
    return structure.kind in CELL_KINDS and not structure.unrolled and on_kernels_eagerly(x)


def takes_half_cells(structure: Recurrent, inputs: Tensor) -> bool:
    """Returns True if compiled kernels run these cells depth by depth on bfloat16 projections, as autocast makes them.

    Shapes: inputs (N, gates·H).
    """
    if inputs.dtype != torch.bfloat16 or structure.layers[0][0].weight_hh.shape[1] < LANES["float32"]:
        return False
    return takes_cells(structure, inputs.new_empty(0, dtype=torch.float32))


def numbers_kept(structure: Recurrent) -> int:
    """Returns how many numbers per hidden unit a compiled cell keeps for backward, beside its state."""
    return NUMBERS_KEPT[structure.kind]


def takes_means(name: str, p: Tensor) -> bool:
    """Returns True if the kernels on the device have this function for these elements (N, k, H)."""
    if p.is_cuda:
        fits = name in KernelsOnCuda._fields and p.dtype in _ON_CUDA and p.shape[1] <= MAX_POSITIONS_ON_CUDA
        return fits and _loaded_on(p.device.index or 0)
    return on_kernels(p)


def means_and_slopes(name: str, p: Tensor, offsets: Tensor, *parameters: Any) -> tuple[Tensor, Tensor]:
    """Calls the kernels' function ``name`` on p (N, k, H), on p's device; returns means and slopes."""
    if p.device != offsets.device:
        raise ValueError(
            f"janossy::{name} expects elements and offsets on one device; got them on {p.device} and {offsets.device}. "
            "Move the sets by .to(device)."
        )
    p = p.detach().contiguous()
    if p.is_cuda:
        return cast("tuple[Tensor, Tensor]", getattr(load("cuda"), name)(p, offsets, *parameters))
    means, slopes = on_threads(name, p.numpy(), offsets.numpy(), *parameters)
    return torch.from_numpy(means), torch.from_numpy(slopes)


@constant_when_compiled
def _loaded() -> bool:
    LOADING.wait()
    return load() is not None


@constant_when_compiled
def _loaded_on(device: int) -> bool:
    return load("cuda") is not None and is_new_enough(device)


@cache
def is_new_enough(device: int) -> bool:
    """Returns True if the kernels support this CUDA device; for an old one False, with one warning."""
    capability = torch.cuda.get_device_capability(device)
    if capability >= LEAST_CAPABILITY:
        return True
    name, (major, minor) = torch.cuda.get_device_name(device), capability
    warnings.warn(
        f"pooling on cuda:{device} runs in torch operations, which is slower: {name} has compute capability "
        f"{major}.{minor}, and the kernels expect {LEAST_CAPABILITY[0]}.{LEAST_CAPABILITY[1]} (A100) or newer.",
        RuntimeWarning,
        stacklevel=2,
    )
    return False


def unless_compiling() -> suppress:
    """Returns a context that ends, without an error, at a kernel that another process compiles, or a thread loads.

    Torch operations that stand behind the context then take the place of those inside.
    """
    return suppress(NotCompiled)


def on_threads(name: str, *arguments: Any) -> Any:
    """Calls the kernels' function ``name`` on as many threads as torch has.

    Raises: NotCompiled while a process compiles the kernel, or a thread loads it, unless torch is to be deterministic.
    """
    num_threads = torch.get_num_threads()
    with waiting() if torch.are_deterministic_algorithms_enabled() else nullcontext():
        if LOADING.goes_without():
            raise NotCompiled(name)
        LOADING.wait()
        result = getattr(load(), name)(*arguments, num_threads)
    if torch.get_num_threads() != num_threads:  # numba's OpenMP may be torch's, and sets the number as it starts
        torch.set_num_threads(num_threads)
    return result
