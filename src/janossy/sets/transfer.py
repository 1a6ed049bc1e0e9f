"""Transfer of numbers from the host to a device: without a wait, once if they are kept, constant when compiled."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import is_in_torch_dispatch_mode


def upload(x: Tensor | np.ndarray, device: torch.device) -> Tensor:
    """Returns x on this device.

    To CUDA it goes through page-locked memory, as an ordinary copy waits for all work before it.

    Raises: RuntimeError while a CUDA graph is recorded: the graph would read that memory after it is freed.
    """
    x = torch.from_numpy(x) if isinstance(x, np.ndarray) else x
    if device.type != "cuda" or x.device == device or torch.compiler.is_compiling() or is_in_torch_dispatch_mode():
        return x.to(device)
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError(
            "recording a CUDA graph expects all sets to be of one size, and a step of that size before it, so that "
            "nothing is sent from the host; got numbers to send. See docs/gpu.md."
        )
    if x.device.type != "cpu":  # from another GPU
        return x.to(device, non_blocking=True)
    return x.pin_memory().to(device, non_blocking=True)


def widest(device: torch.device) -> torch.dtype:
    """Returns the most precise type of real numbers on this device: float64, which Apple's MPS lacks."""
    return torch.float32 if device.type == "mps" else torch.float64


def keep(sent: dict[torch.device, Tensor], device: torch.device, build: Callable[[], np.ndarray]) -> Tensor:
    """Returns ``build()`` on this device; on CUDA it is kept in ``sent``, and not sent again."""
    if device.type != "cuda" or torch.compiler.is_compiling() or is_in_torch_dispatch_mode():
        return upload(build(), device)
    if device not in sent:
        with torch.inference_mode(False):  # else it could never enter an autograd graph
            sent[device] = upload(build(), device)
    return sent[device]


def constant(device: torch.device, build: Callable[..., np.ndarray], *arguments: Any) -> Tensor:
    """Returns ``build(*arguments)`` on this device; on CUDA it is kept there."""
    return keep(_sent(build, *arguments), device, lambda: build(*arguments))


@lru_cache(maxsize=256)
def _sent(build: Callable[..., np.ndarray], *arguments: Any) -> dict[torch.device, Tensor]:
    return {}


F = TypeVar("F", bound=Callable[..., Any])


def constant_when_compiled(function: F) -> F:
    """Marks the function's result as a constant for torch.compile.

    ``torch.compiler.assume_constant_result`` does the same (tests/test_compile.py compares them), but imports all of
    ``torch._dynamo`` first. That takes a second, even for those who compile nothing.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function
