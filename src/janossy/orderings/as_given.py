"""The given order of each set's elements: for sequences, and as the control in experiments."""

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import torch

from janossy.orderings.contract import MAX_ROWS, Orderings, check_budget, check_k, check_max_rows
from janossy.orderings.rows import Rows, whole_sets
from janossy.sets import Ragged


@dataclass(frozen=True)
class AsGiven(Orderings):
    """The given order of each set's elements: f reads them as a sequence.

    Use it

    - for sequences;
    - as the control that shows what an order is worth;
    - for an f that is itself invariant, or equivariant in ``JanossyEquivariant``, such as attention without positions.

    Args:
        k: keep only the first k elements of each; smaller sets are filled up to length k with the zero vector.

    Shapes: sets.values (N, *features) -> one row (1, n_b) for set b, or (1, k).
    Invariance: only that of f, as another order of the elements is another row.
    Cost: B rows; refuses more than max_rows.
    Raises: TypeError if k or max_rows is not an integer; ValueError if either is below 1, or on enumeration if
        B > max_rows.

    Example:
        >>> AsGiven().num_rows(5)
        1
    """

    _: KW_ONLY
    k: int | None = None
    max_rows: int = MAX_ROWS
    draws: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_max_rows(self, self.max_rows)
        if self.k is not None:
            check_k(self, self.k)

    def num_rows(self, n: int) -> int:
        return 1

    def row_length(self, n: int) -> int:
        return n if self.k is None else self.k

    def enumerate(self, keys: Ragged, generator: torch.Generator | None = None) -> Rows:
        check_budget(self, keys.sizes, self.max_rows, "1 row per set")
        return whole_sets(keys, None, self.k)
