"""The problem that an evaluator solves."""

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TypeVar

import torch
from torch import Tensor

from janossy.functions.structure import Structure, structure
from janossy.orderings.contract import Orderings
from janossy.orderings.rows import Rows
from janossy.sets import Ragged

Function = Callable[[Tensor], Tensor]
"""The type of f, which maps rows (T, L, *features) to (T, c); usually an ``nn.Module``."""

MEMORY_BUDGET = 2**30
"""The default budget, in bytes, for the tensors that an evaluator holds at once."""

R = TypeVar("R", Tensor, Ragged, Tensor | Ragged)
S = TypeVar("S", bound=Structure)


@dataclass(frozen=True, eq=False)
class Problem:
    """An average to compute: f over the orderings of the elements (Eq. 3).

    Shapes: elements of B sets, values (N, d). With a ``table`` (U, d) of elements that sets share, the values are int64
        places in it, (N,).

    - ``keys`` are the same sets with other elements, from which canonical and seeded orders are made. They default to
      the elements.
    - ``reduce=None`` asks for the rows.
    - ``generator`` is the source of the permutations, for orderings that draw them.
    - ``memory_budget`` is in bytes. A computation that needs more runs in chunks, and again in backward.
    """

    f: Function
    orderings: Orderings
    elements: Ragged
    _: KW_ONLY
    keys: Ragged = None  # type: ignore[assignment]
    reduce: str | None = "mean"
    generator: torch.Generator | None = None
    memory_budget: int = MEMORY_BUDGET
    table: Tensor | None = None
    structure: Structure | None = field(init=False)
    """The structure that f declares; None without one."""

    def __post_init__(self) -> None:
        if self.keys is None:
            object.__setattr__(self, "keys", self.gathered)
        # If the offsets are the same, as with_values keeps them, torch.compile need not look at the sizes.
        if self.keys.offsets is not self.elements.offsets and self.keys.sizes != self.elements.sizes:
            raise ValueError(
                f"keys is expected to have the sizes of the sets; got {self.keys!r} for {self.elements!r}. Give the "
                "same sets, of other elements."
            )
        object.__setattr__(self, "structure", structure(self.f))

    @property
    def values(self) -> Tensor:
        """Returns the distinct elements: the elements (N, d), or the table (U, d)."""
        return self.elements.values if self.table is None else self.table

    @property
    def gathered(self) -> Ragged:
        """The sets with the elements themselves, (N, d)."""
        if self.table is None:
            return self.elements
        return self.elements.with_values(self.table.index_select(0, self.elements.values))

    def rows(self) -> Rows:
        """Returns the rows as positions in ``values``."""
        rows = self.orderings.enumerate(self.keys, self.generator)
        if self.table is None:
            return rows
        places = self.elements.values
        buckets = (
            replace(bucket, order=places if bucket.order is None else places[bucket.order]) for bucket in rows.buckets
        )
        return replace(rows, buckets=tuple(buckets))

    def check_rows(self) -> None:
        """Raises the error of the orderings if there are too many rows to enumerate."""
        num_rows = sum(self.orderings.num_rows(n) for n in self.elements.sizes)
        if num_rows > self.orderings.max_rows:
            self.orderings.enumerate(self.keys, self.generator)  # raises its own error

    def declared(self, kind: type[S]) -> S:
        """Returns the structure of f, which the applying evaluator has checked to be of this kind."""
        assert isinstance(self.structure, kind)
        return self.structure

    def lacks(self, kind: type[Structure]) -> str | None:
        """Returns the reason why f has no structure of this kind; None if it has one."""
        if isinstance(self.structure, kind):
            return None
        name = type(self.f).__name__
        if self.structure is not None or not hasattr(type(self.f), "structure"):
            return f"{name} declares no {kind.title}"
        return f"{name} has a hook, or a forward or layer of its own, that would not run or would run otherwise"


def reaching(result: R, problem: Problem) -> R:
    """Returns the result; without elements, with gradients of 0 for all parameters of f, and for the elements.

    A layer with nothing to compute gives no gradients. Code that waits for every gradient, such as
    ``DistributedDataParallel``, would then wait for ever.
    """
    if len(problem.elements.values) or not torch.is_grad_enabled():
        return result
    parameters: Iterable[Tensor] = problem.f.parameters() if isinstance(problem.f, torch.nn.Module) else ()
    learnt = [x for x in (problem.values, *parameters) if x.requires_grad]
    if not learnt:
        return result
    nothing = torch.stack([x.flatten()[:0].sum().float() for x in learnt]).sum()
    if isinstance(result, Ragged):
        return result.with_values(result.values + nothing.to(result.dtype))
    return result + nothing.to(result.dtype)
