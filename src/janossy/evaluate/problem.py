"""What an evaluator is given."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from janossy.functions.structure import Additive, Product, Recurrent, additive, product, recurrent
from janossy.orderings.rows import Orderings
from janossy.ragged import Ragged

Function = Callable[[Tensor], Tensor]
"""f, mapping rows (T, L, *features) to (T, c); usually an ``nn.Module``."""


@dataclass(frozen=True, eq=False)
class Problem:
    """An average to compute: f over the orderings of the elements (Eq. 3).

    ``keys`` are the same sets of other elements, which canonical and seeded orders look at; the elements themselves if
    not given. ``generator`` is the source of the permutations, for orderings that draw them.
    """

    f: Function
    orderings: Orderings
    elements: Ragged
    keys: Ragged = None  # type: ignore[assignment]
    reduce: str | None = "mean"
    generator: torch.Generator | None = None
    additive: Additive = field(init=False)
    product: Product = field(init=False)
    recurrent: Recurrent = field(init=False)
    """The structures that f declares; None where it does not. An evaluator that applies has seen that it does."""

    def __post_init__(self) -> None:
        if self.keys is None:
            object.__setattr__(self, "keys", self.elements)
        if self.keys.sizes != self.elements.sizes:
            raise ValueError(f"keys must have the sizes of the sets; got {self.keys!r} for {self.elements!r}.")
        object.__setattr__(self, "additive", additive(self.f))
        object.__setattr__(self, "product", product(self.f))
        object.__setattr__(self, "recurrent", recurrent(self.f))
