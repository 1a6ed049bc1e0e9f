"""The source of randomness of orderings: bits, permutations, and arrangements from the digits of a Lehmer code."""

from typing import Any

import torch
from torch import Tensor


class Source:
    """Random tensors, on a device, from a generator or from torch's global one."""

    def __init__(self, device: torch.device, generator: torch.Generator | None) -> None:
        self.device = device
        # torch.compile takes no generator, not even None.
        self.options: dict[str, Any] = {} if generator is None else {"generator": generator}

    def bits(self, *shape: int) -> Tensor:
        """62 random bits each: no two tie, which a sort would order unevenly."""
        return torch.randint(2**62, shape, device=self.device, **self.options)

    def permutations(self, *shape: int) -> Tensor:
        """Uniform and independent, (…, n)."""
        # Integers sort on every device; float64 does not.
        return self.bits(*shape).argsort(-1)

    def normal(self, *shape: int) -> Tensor:
        # Whatever torch's default dtype: seeds fix what is drawn, and half precision has no QR.
        return torch.randn(shape, dtype=torch.float32, device=self.device, **self.options)


def arrangements(digits: Tensor) -> Tensor:
    """From j-th digits below n - j (a Lehmer code), the arrangement of k distinct positions below n; both (k, …).

    In place: the digits are gone.
    """
    for j in range(len(digits) - 2, -1, -1):
        digits[j + 1 :] += digits[j + 1 :] >= digits[j]
    return digits


def check_generator(generator: Any, device: torch.device, owner: str) -> None:
    """Raise a TypeError unless this is a generator or None, and a ValueError if it is of another device."""
    if generator is None:
        return
    if not isinstance(generator, torch.Generator):
        raise TypeError(
            f"{owner} expects generator as a torch.Generator; got {generator!r}. "
            "torch.Generator().manual_seed(0) is one."
        )
    if generator.device.type != device.type:
        raise ValueError(
            f"{owner} expects a generator on {device}, where the sets are; got one on {generator.device}. "
            f"Use torch.Generator({str(device)!r})."
        )
