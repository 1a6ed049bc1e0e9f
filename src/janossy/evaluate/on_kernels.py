"""Whether compiled kernels take these numbers here and now, and how they are called."""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from janossy.compiling import constant_when_compiled
from janossy.kernels import load
from janossy.kernels.limits import LANES

_LANES = {torch.float32: LANES["float32"], torch.float64: LANES["float64"]}


def lanes(x: Tensor) -> int:
    """How many numbers of this precision a vector of the kernels holds; 1 where they take none of it."""
    return _LANES.get(x.dtype, 1)


def on_kernels(x: Tensor) -> bool:
    """Whether the compiled kernels take these numbers."""
    return x.device.type == "cpu" and x.dtype in _LANES and _loaded()


def on_kernels_eagerly(x: Tensor) -> bool:
    """Whether the compiled kernels may take these numbers here and now, past torch's operators.

    They may where nothing traces, maps or follows the numbers.
    """
    return (
        not torch.compiler.is_compiling()
        and not is_in_torch_dispatch_mode()
        and not torch._C._are_functorch_transforms_active()
        and torch.autograd.forward_ad._current_level < 0
        and on_kernels(x)
    )


@constant_when_compiled
def _loaded() -> bool:
    return load() is not None


def on_threads(name: str, *arguments: Any) -> Any:
    """The kernels' function of that name, on as many threads as torch has."""
    num_threads = torch.get_num_threads()
    result = getattr(load(), name)(*arguments, num_threads)
    if torch.get_num_threads() != num_threads:  # numba's OpenMP may be torch's, and sets it as it starts
        torch.set_num_threads(num_threads)
    return result
