"""Elements of sets in an order that depends on each multiset alone, so that sums over them do too."""

from dataclasses import dataclass

import torch
from torch import Tensor

from janossy.sets import Ragged

MULTIPLIER = -7046029254386353131
"""An odd 64-bit integer, 2^64 divided by the golden ratio, whose products spread over all bits."""


@dataclass(frozen=True, eq=False)
class SortedSets:
    """The elements of B sets, those of each set ordered by a hash of their columns.

    Elements with one hash are equal, except for collisions of 64 bits. So a sum in this order has the same bits for
    every order of the input, and in every batch.

    In sets of sets, ``inner`` is the number of each element's inner set. The order does not depend on it.

    Shapes: codes (N, k) int64, numbers (N, m) float64, sizes and starts (B,), owners (N,), context (B, e) or None,
        inner (N,) int64 or None.
    """

    codes: Tensor
    numbers: Tensor
    sizes: Tensor
    context: Tensor | None
    inner: Tensor | None = None

    @classmethod
    def of(cls, sets: Ragged, num_codes: int, context: Tensor | None = None, *, inner: bool = False) -> "SortedSets":
        """Sorts encoded sets, whose first ``num_codes`` columns are codes; the last is ``inner`` if that is True."""
        values = sets.values.double() + 0.0  # -0.0 is 0.0; float32 would round integers
        numbers_of_inner = values[:, -1].long() if inner else None
        values = values[:, :-1] if inner else values
        sizes = sets.offsets.diff()
        owners = torch.arange(len(sizes), device=sizes.device).repeat_interleave(sizes)
        order = hashes(values).argsort(stable=True)
        order = order[owners[order].argsort(stable=True)]
        values = values[order]
        codes, numbers = values[:, :num_codes].long(), values[:, num_codes:]
        return cls(codes, numbers, sizes, context, None if numbers_of_inner is None else numbers_of_inner[order])

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def owners(self) -> Tensor:
        """The set of each element, (N,)."""
        return torch.arange(len(self), device=self.sizes.device).repeat_interleave(self.sizes)

    @property
    def starts(self) -> Tensor:
        """The place of each set's first element, (B,)."""
        return self.sizes.cumsum(0) - self.sizes

    def reduced(self, values: Tensor, reduction: str) -> Tensor:
        """Returns the "sum", "min" or "max" over each set of values (N, m): (B, m); 0 for empty sets."""
        if not len(values) or not values.shape[1]:
            return values.new_zeros(len(self), values.shape[1])
        found = torch.segment_reduce(values, reduction, lengths=self.sizes, unsafe=True)
        return found.where(self.sizes[:, None] > 0, 0.0)

    def means(self, values: Tensor) -> Tensor:
        """Returns the mean over each set of values (N, m): (B, m); 0 for empty sets."""
        return self.reduced(values, "sum") / self.sizes.clamp_min(1)[:, None]


def hashes(values: Tensor) -> Tensor:
    """Returns a 64-bit hash of each row of values (N, c), as int64: (N,)."""
    bits = values.double().view(torch.int64)
    found = torch.zeros(len(values), dtype=torch.int64, device=values.device)
    for column in bits.unbind(1):
        found = (found ^ column) * MULTIPLIER
        found = found ^ (found >> 31)
    return found
