"""GroupImages: the images of a tuple under a group, as orderings."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch

from janossy.nn.groups.group import Group
from janossy.orderings.contract import Orderings
from janossy.orderings.rows import Bucket, Rows
from janossy.sets import Ragged


@dataclass(frozen=True)
class GroupImages(Orderings):
    """The images x_g of tuples under the members g of a group, each with its sign as weight.

    It is for ``JanossyPooling`` on "sets" that are tuples of k elements: f̄(x) = 1/|G| Σ_g χ(g) f(x_g).

    Shapes: T sets of k elements -> rows (T, |G|, k).
    Invariance: exact under the members of the group, up to their signs: f̄(x_h) = χ(h) f̄(x). None under others.
    Cost: |G| rows per tuple.
    Raises: TypeError if ``group`` is not a ``Group``; on enumeration, ValueError for sets that do not have k elements.

    Example:
        >>> pooling = JanossyPooling(TupleMLP(2, 3, 8), GroupImages(reversal(2)))
        >>> pooling(Ragged.from_sets([torch.randn(2, 3), torch.randn(2, 3)])).shape
        torch.Size([2, 8])
    """

    group: Group
    k: int = field(init=False, repr=False)
    draws: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.group, Group):
            raise TypeError(
                f"GroupImages expects a Group; got {self.group!r}, of type {type(self.group).__name__}. Write "
                "reversal(k), cyclic(k), dihedral(k), improper(centre), or Group(permutations)."
            )
        object.__setattr__(self, "k", self.group.k)

    @property
    def weighs_rows(self) -> bool:
        return self.group.signs is not None

    def num_rows(self, n: int) -> int:
        return len(self.group)

    def row_length(self, n: int) -> int:
        return self.k

    def enumerate(self, keys: Ragged, generator: torch.Generator | None = None) -> Rows:
        if others := set(keys.sizes) - {self.k}:
            raise ValueError(
                f"GroupImages of {self.k} positions expects tuples of {self.k} elements; got one of {min(others)}. "
                "Give tuples of each length to a group of their own."
            )
        images = torch.tensor(self.group.permutations, device=keys.device)[None]
        signs = None
        if self.group.signs is not None:
            signs = torch.tensor(self.group.signs, device=keys.device).expand(len(keys), -1)
        return Rows((Bucket(images, None, keys.offsets[:-1], None, padded=False, weights=signs),), len(keys))
