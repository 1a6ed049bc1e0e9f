"""All increasing k-subsequences of each set in canonical order (Sections 2.1 and 2.2 together)."""

from dataclasses import KW_ONLY, dataclass
from math import comb
from typing import ClassVar

import torch
from torch import Tensor

from janossy.orderings.contract import MAX_ROWS, Orderings, check_budget, check_k, check_max_rows
from janossy.orderings.rows import Rows, build_rows
from janossy.orderings.sorting import (
    Key,
    check_keys_to_sort_by,
    diagnostics_of_ties,
    is_sorted,
    key_name,
    sort_positions,
)
from janossy.orderings.templates import increasing_tuples
from janossy.sets import Ragged


@dataclass(frozen=True)
class Combinations(Orderings):
    """All k-subsets of each set, each in canonical order: the average of the paper's k-ary experiments.

    The set is sorted by ``key`` (lexicographically if None), and f reads its subsequences i_1 < … < i_k.
    A set smaller than k gives one row: all elements, filled up to length k with the zero vector. The key is a column,
    such as 0, or a function or module that maps elements to numbers.

    Shapes: sets.values (N, d) -> rows (T, k), T = Σ_b C(n_b, k); key: (N, d) -> (N,) or (N, j).
    Invariance: exact. Equal keys are ordered lexicographically, so only equal elements tie.
    Cost: T rows and a sort; refuses more than max_rows.
    Raises:
        TypeError: if k or max_rows is not an integer, or key is not a function, module or column.
        ValueError: if k or max_rows is below 1.
        ValueError: on enumeration, if T > max_rows, a column does not exist, or a key is NaN.

    Example:
        >>> Combinations(2).num_rows(5)
        10
    """

    k: int
    _: KW_ONLY
    key: Key | int | None = None
    max_rows: int = MAX_ROWS
    draws: ClassVar[bool] = False
    increasing: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_k(self, self.k)
        check_keys_to_sort_by("Combinations", (self.key,))
        check_max_rows(self, self.max_rows)

    def num_rows(self, n: int) -> int:
        return comb(n, min(n, self.k))

    def row_length(self, n: int) -> int:
        return self.k

    def order(self, keys: Ragged) -> Tensor | None:
        return None if self.key is None and is_sorted(keys) else sort_positions(keys, self.key)

    @property
    def sorted_by(self) -> str | None:
        return None if self.key is None else key_name(self.key)

    def diagnostics(self, keys: Ragged, values: Tensor) -> str | None:
        """Returns the same remark on ties as ``Canonical.diagnostics``."""
        return diagnostics_of_ties(keys, values, self.key)

    def enumerate(self, keys: Ragged, generator: torch.Generator | None = None) -> Rows:
        check_budget(self, keys.sizes, self.max_rows, "n!/(k!(n-k)!) rows", f"Sampled(num, k={self.k}) or a smaller k")
        order, device = self.order(keys), keys.device
        return build_rows(keys, lambda n, _: increasing_tuples(n, int(self.k), device)[None], order, k=self.k)
