"""OnCpu: modules that stay on the CPU beside a device without float64, so that their results keep every bit."""

from collections.abc import Callable
from typing import Any, Self, TypeVar, cast

import torch
from torch import Tensor, nn

from janossy.sets import Ragged
from janossy.sets.transfer import widest

Moved = TypeVar("Moved", Tensor, Ragged, Tensor | None)


class OnCpu(nn.Module):
    """A module with numbers in float64, which stays where it is if it is sent to a device that lacks them."""

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **options: Any) -> Self:
        if lacks_float64(fn(torch.zeros(()))):
            return self
        return cast(Self, super()._apply(fn, *args, **options))  # type: ignore[no-untyped-call]


def lacks_float64(x: Tensor | Ragged) -> bool:
    """Returns True if x is on a device without float64."""
    return widest(x.device) != torch.float64


def with_float64(x: Moved) -> Moved:
    """Returns x, on the CPU if its device lacks float64."""
    return x.cpu() if x is not None and lacks_float64(x) else x
