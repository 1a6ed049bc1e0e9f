"""All orderings of k distinct elements of each set (Def. 2.2, Prop. 2.1)."""

from dataclasses import KW_ONLY, dataclass
from math import perm
from typing import ClassVar

import torch

from janossy.orderings.contract import MAX_ROWS, Orderings, check_budget, check_k, check_max_rows
from janossy.orderings.rows import Rows, build_rows
from janossy.orderings.templates import injective_tuples
from janossy.sets import Ragged


@dataclass(frozen=True)
class Tuples(Orderings):
    """All orderings of k distinct elements of each set (Def. 2.2, Prop. 2.1); k = 1 is DeepSets.

    A set smaller than k gives its n! orderings, each filled up to length k with the zero vector.

    Shapes: sets.values (N, d) -> rows (T, k), T = Σ_b n_b! / (n_b - k)!
    Invariance: exact.
    Cost: T rows; refuses more than max_rows.
    Raises: TypeError if k or max_rows is not an integer; ValueError if either is below 1, or on enumeration if
        T > max_rows.

    Example:
        >>> Tuples(2).num_rows(5)
        20
    """

    k: int
    _: KW_ONLY
    max_rows: int = MAX_ROWS
    draws: ClassVar[bool] = False
    averages: ClassVar[str] = "all orderings"
    increasing: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_k(self, self.k)
        check_max_rows(self, self.max_rows)

    def num_rows(self, n: int) -> int:
        return perm(n, min(n, self.k))

    def row_length(self, n: int) -> int:
        return self.k

    def order(self, keys: Ragged) -> None:
        return None

    def enumerate(self, keys: Ragged, generator: torch.Generator | None = None) -> Rows:
        check_budget(self, keys.sizes, self.max_rows, "n!/(n-k)! rows", f"Sampled(num, k={self.k}) or a smaller k")
        return build_rows(keys, lambda n, _: injective_tuples(n, int(self.k), keys.device)[None], k=self.k)
