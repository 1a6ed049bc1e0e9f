"""Random orderings of each set (π-SGD, Def. 2.3), or the first k elements of them."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from janossy.orderings.rows import MAX_ROWS, Rows, build_rows, check_budget, check_k
from janossy.orderings.sorting import sort_positions
from janossy.orderings.templates import seeded_permutations
from janossy.ragged import Ragged

SCHEMES = ("independent",)


@dataclass(frozen=True)
class Sampled:
    """``num`` random permutations of each set, drawn anew at every call (π-SGD, Def. 2.3).

    With ``k``, only the first k elements of each (π-SGD with k-ary dependencies); smaller sets are filled up to
    length k with the zero vector. With ``seed``, each set is sorted lexicographically and then permuted by fixed
    permutations that depend on the seed and the size alone: the result is a deterministic function of the multiset.

    Shapes: sets.values (N, d) -> rows (num, n_b) for set b, or (num, k).
    Invariance: unbiased for the mean over all permutations; exact with a seed.
    Cost: num·B rows; refuses more than max_rows.
    Raises: ValueError if num < 1, k < 1, seed < 0 or the scheme is unknown; on enumeration if num·B > max_rows, or if
        both a seed and a generator are given.

    Example:
        >>> Sampled(20, seed=0).num_rows(5)
        20
    """

    num: int = 1
    k: int | None = None
    scheme: str = "independent"
    seed: int | None = None
    max_rows: int = MAX_ROWS

    def __post_init__(self) -> None:
        if self.num < 1:
            raise ValueError(f"Sampled expects num >= 1 permutations; got num={self.num}.")
        if self.k is not None:
            check_k(self, self.k)
        if self.seed is not None and self.seed < 0:
            raise ValueError(f"Sampled expects seed >= 0; got seed={self.seed}.")
        if self.scheme not in SCHEMES:
            raise ValueError(f"Sampled expects a scheme among {', '.join(SCHEMES)}; got {self.scheme!r}.")

    def num_rows(self, n: int) -> int:
        return self.num

    def row_length(self, n: int) -> int:
        return n if self.k is None else self.k

    def enumerate(self, keys: Ragged, generator: torch.Generator | None = None) -> Rows:
        check_budget(self, keys.sizes, self.max_rows, "num rows a set", "smaller batches or a smaller num")
        if self.seed is None:
            return build_rows(keys, lambda n, s: self._prefix(_permutations(s, self.num, n, keys, generator)), k=self.k)
        if generator is not None:
            raise ValueError("Sampled got both seed= and a generator; drop one: the seed fixes every permutation.")
        order, seed = sort_positions(keys), self.seed
        return build_rows(
            keys, lambda n, _: self._prefix(seeded_permutations(seed, self.num, n)[None]), order, k=self.k
        )

    def _prefix(self, permutations: Tensor) -> Tensor:
        if self.k is None:
            return permutations
        missing = max(0, self.k - permutations.shape[2])
        return torch.nn.functional.pad(permutations[:, :, : self.k], (0, missing), value=-1)


def _permutations(num_sets: int, num: int, n: int, keys: Ragged, generator: torch.Generator | None) -> Tensor:
    # torch.compile takes no generator, not even None.
    source: dict[str, Any] = {} if generator is None else {"generator": generator}
    # 62 random bits: no two tie, which a sort would order unevenly. Integers sort on every device; float64 does not.
    return torch.randint(2**62, (num_sets, num, n), device=keys.device, **source).argsort(-1)
