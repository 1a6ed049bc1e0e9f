"""All n! orderings of each set (Eq. 3)."""

from dataclasses import KW_ONLY, dataclass
from math import factorial
from typing import ClassVar

import torch

from janossy.orderings.contract import MAX_ROWS, Orderings, check_budget, check_max_rows
from janossy.orderings.rows import Rows, build_rows
from janossy.orderings.templates import injective_tuples
from janossy.sets import Ragged


@dataclass(frozen=True)
class AllPermutations(Orderings):
    """All n! orderings of each set (Eq. 3).

    Shapes: sets.values (N, d) -> rows (n_b!, n_b) for set b. An empty set has one row, of length 0.
    Invariance: exact.
    Cost: Σ_b n_b! rows; refuses more than max_rows.
    Raises: TypeError if max_rows is not an integer; ValueError if it is below 1, or exceeded on enumeration.

    Example:
        >>> AllPermutations().num_rows(5)
        120
    """

    _: KW_ONLY
    max_rows: int = MAX_ROWS
    draws: ClassVar[bool] = False
    averages: ClassVar[str] = "all orderings"
    increasing: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_max_rows(self, self.max_rows)

    def num_rows(self, n: int) -> int:
        return factorial(n)

    def row_length(self, n: int) -> int:
        return n

    def order(self, keys: Ragged) -> None:
        return None

    def enumerate(self, keys: Ragged, generator: torch.Generator | None = None) -> Rows:
        check_budget(self, keys.sizes, self.max_rows, "n! rows", "Sampled or Tuples(2)")
        return build_rows(keys, lambda n, _: injective_tuples(n, n, keys.device)[None])
