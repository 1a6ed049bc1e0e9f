"""One canonical ordering of each set (Section 2.1)."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from janossy.orderings.rows import MAX_ROWS, Rows, build_rows, check_budget, check_key, check_max_rows
from janossy.orderings.sorting import Key, sort_positions
from janossy.ragged import Ragged


@dataclass(frozen=True)
class Canonical:
    """One canonical ordering of each set: sorted by ``key``, or lexicographically if None (Section 2.1).

    Shapes: sets.values (N, d) -> rows (1, n_b) for set b; key: (N, d) -> (N,) or (N, j).
    Invariance: exact. Equal keys are ordered lexicographically, so only equal elements tie.
    Cost: B rows and a sort; refuses more than max_rows.
    Raises: TypeError if key is no function or max_rows no integer; ValueError if max_rows < 1, or, on enumeration, if
        B > max_rows.

    Example:
        >>> Canonical(key=lambda x: -x[:, 0]).num_rows(5)
        1
    """

    key: Key | None = None
    max_rows: int = MAX_ROWS
    draws: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_key(self, self.key)
        check_max_rows(self, self.max_rows)

    def num_rows(self, n: int) -> int:
        return 1

    def row_length(self, n: int) -> int:
        return n

    def enumerate(self, keys: Ragged, generator: torch.Generator | None = None) -> Rows:
        check_budget(self, keys.sizes, self.max_rows, "1 row a set")
        order = sort_positions(keys, self.key)
        return build_rows(keys, lambda n, _: torch.arange(n)[None, None], order)
