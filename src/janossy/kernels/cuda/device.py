"""Questions to a CUDA device as kernels are started on it; none of them waits for the device."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
from torch import Tensor

PROGRAMS_OF_A_PROCESSOR = 16
"""Warps that keep a streaming multiprocessor busy."""


def on_device_of(x: Tensor) -> AbstractContextManager[None]:
    """Makes the device of x the one that kernels are started on."""
    return torch.cuda.device_of(x)


def programs_wanted(x: Tensor) -> int:
    """Returns the number of programs of one warp that keeps the device of x busy."""
    if not x.is_cuda:
        return 1  # Triton's interpreter
    return PROGRAMS_OF_A_PROCESSOR * torch.cuda.get_device_properties(x.device).multi_processor_count


def zeros(x: Tensor, *shape: int) -> Tensor:
    """Zeros in float32 beside x, to add up in."""
    return _made(x, shape, x.new_zeros)


def empty(x: Tensor, *shape: int) -> Tensor:
    """Memory for numbers in float32 beside x."""
    return _made(x, shape, x.new_empty)


def _made(x: Tensor, shape: tuple[int, ...], make: Callable[..., Tensor]) -> Tensor:
    """A tensor beside x; torch.OutOfMemoryError says what it was for."""
    try:
        return make(shape, dtype=torch.float32)
    except torch.OutOfMemoryError as error:
        num, k, width = x.shape
        size = 4 * torch.Size(shape).numel() / 2**20
        raise torch.OutOfMemoryError(
            f"pooling expects another {size:,.0f} MiB on {x.device}, for sums beside {num} elements at {k} positions "
            f"and {width} hidden units, and they are not free. Pool fewer sets at once; for one set that is too "
            "large, take fewer hidden units, or the CPU."
        ) from error
