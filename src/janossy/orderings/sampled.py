"""Random orderings of each set (π-SGD, Def. 2.3), or the first k elements of them."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from math import inf, perm
from typing import ClassVar, Self

import torch
from torch import Tensor

from janossy.checks import check_integer
from janossy.orderings.contract import MAX_ROWS, check_budget, check_k, check_max_rows
from janossy.orderings.rows import Rows
from janossy.orderings.schemes import SCHEMES, block_sizes, draw, draw_together
from janossy.orderings.source import Drawing, Source, drawn_rows
from janossy.orderings.templates import injective_tuples
from janossy.sets import Ragged

CHOICES = ("auto", *SCHEMES)


@dataclass(frozen=True)
class Sampled(Drawing):
    """``num_permutations`` random permutations of each set, drawn anew at every call (π-SGD, Def. 2.3).

    Args:
        num_permutations: permutations per set.
        k: keep only the first k elements of each (π-SGD with k-ary dependencies). Smaller sets are filled up to length
            k with the zero vector.
        scheme: the way in which the permutations of one set are drawn together. Each permutation is uniform by itself,
            so the scheme changes no mean, only its variance. The schemes are "independent", "antithetic" (a
            permutation and its reverse), "latin", "stratified", "orthogonal", "sobol" and "designed" (see
            ``schemes.py``). "auto" takes the best measured one (docs/sampling.md): "designed" for whole orders and
            "latin" for k. To draw without replacement use ``Distinct``.
        block: the most permutations that may depend on each other. Blocks are independent, and the unit of a standard
            error. By default a block is as large as the scheme allows, which gives the best mean. With "designed", if
            there are several blocks, those of sets of up to six elements are pairs.
        exact_last: the number of last positions of each permutation that are averaged exactly (Rao–Blackwell). Every
            order of the elements there is a row. With k, every choice of the elements not yet placed is a row.
        exhaust: the most permutations of a set (with k, k-tuples; with exact_last, beginnings) that are all taken,
            once each, instead of num_permutations draws. The mean is then exact. 0 never takes all. None takes all
            only in evaluation, for sets of no more than num_permutations, or than ``predict`` is asked for.
        seed: the number that fixes the permutations of lexicographically sorted sets, together with their size. The
            result is then a deterministic function of the multiset.

    Shapes: sets.values (N, d) -> rows (m, n_b) for set b, or (m, k), m = num_permutations; more with exact_last.
    Invariance: unbiased for the mean over all permutations (or k-tuples), whatever the scheme; exact with a seed.
    Cost: m·B rows, times exact_last! (with k: times (n - k + j)!/(n - k)!, j = exact_last); refuses more than
        max_rows. Drawing is a sort of n numbers per permutation; "designed", one sort per block of up to 32.
    Raises:
        TypeError: if a number is not an integer.
        ValueError: if num_permutations, k, block or max_rows is below 1, or seed below 0.
        ValueError: if exact_last is below 0 or above k, or the scheme is unknown.
        ValueError: on enumeration, for more than max_rows rows, or for both a seed and a generator.

    Example:
        >>> Sampled(20, seed=0).num_rows(5)
        20
    """

    num_permutations: int = 1
    _: KW_ONLY
    k: int | None = None
    scheme: str = "auto"
    seed: int | None = None
    block: int | None = None
    exact_last: int = 0
    exhaust: int | None = None
    max_rows: int = MAX_ROWS
    averages: ClassVar[str] = "all orderings"

    def __post_init__(self) -> None:
        check_integer("Sampled", "num_permutations", self.num_permutations, 1, "permutations")
        if self.k is not None:
            check_k(self, self.k)
        check_integer("Sampled", "seed", self.seed, 0, optional=True)
        if self.scheme == "distinct":
            raise ValueError(
                "Sampled expects a scheme of permutations that may come again; got scheme='distinct'. "
                f"Write Distinct({self.num_permutations}, k={self.k}), which draws them without replacement."
            )
        if self.scheme not in CHOICES:
            raise ValueError(f"Sampled expects a scheme among {', '.join(CHOICES)}; got {self.scheme!r}.")
        check_integer("Sampled", "block", self.block, 1, "permutations", optional=True)
        bound = "" if self.k is None else f" and at most k={self.k}"
        check_integer("Sampled", "exact_last", self.exact_last, 0, f"positions{bound}")
        if self.k is not None and self.exact_last > self.k:
            raise ValueError(f"Sampled expects exact_last >= 0 positions{bound}; got exact_last={self.exact_last}.")
        check_integer("Sampled", "exhaust", self.exhaust, 0, "permutations", optional=True)
        check_max_rows(self, self.max_rows)

    def num_rows(self, n: int) -> int:
        length, last = self._length(n), self._last(n)
        return perm(n, length) if self._takes_all(n) else self.num_permutations * perm(n - length + last, last)

    def row_length(self, n: int) -> int:
        return n if self.k is None else self.k

    def blocks(self, n: int) -> list[int]:
        """Returns the sizes of the blocks of rows, in order. Rows of different blocks are independent."""
        if self._takes_all(n):
            return [self.num_rows(n)]
        each = self.num_rows(n) // self.num_permutations
        return [each * size for size in self._block_sizes(n)]

    def population(self, n: int) -> float:
        return float(self.num_rows(n)) if self._takes_all(n) else inf

    def redrawn(self, num_permutations: int, *, block: int | None = None, seed: int | None = None) -> Self:
        block = self.block if block is None else block
        return replace(self, num_permutations=num_permutations, block=block, seed=self.seed if seed is None else seed)

    def exhausting(self, max_permutations: int | None = None) -> Self:
        most = max(self.num_permutations, max_permutations or 0)
        return self if self.exhaust is not None or most == 1 else replace(self, exhaust=most)

    def enumerate(self, keys: Ragged, generator: torch.Generator | None = None) -> Rows:
        check_budget(self, keys.sizes, self.max_rows, "num_permutations rows per set", "a smaller num_permutations")
        return drawn_rows(self, keys, generator)

    def draw(self, source: Source, num_sets: int, n: int) -> Tensor:
        """Returns rows of positions (num_sets, R, L), filled up with -1."""
        if self._takes_all(n):
            return self._all(source, n)
        return self._rows(draw(self._scheme(), source, num_sets, self._block_sizes(n), n), n)

    def draw_together(self, source: Source, counts: Mapping[int, int]) -> dict[int, Tensor]:
        drawn = {n: num_sets for n, num_sets in counts.items() if not self._takes_all(n)}
        permutations = draw_together(self._scheme(), source, drawn, self._block_sizes)
        return {n: self._rows(permutations[n], n) if n in drawn else self._all(source, n) for n in counts}

    def _all(self, source: Source, n: int) -> Tensor:
        return injective_tuples(n, self.row_length(n), source.device)[None]

    def _rows(self, permutations: Tensor, n: int) -> Tensor:
        """Returns the rows (S, R, L) from permutations (S, m, n): cut to k, with every end of ``exact_last``."""
        length = self._length(n)
        if length == permutations.shape[2] == self.row_length(n) and not self.exact_last:
            return permutations
        rows = _every_end(permutations, length, self._last(n)) if self.exact_last else permutations[:, :, :length]
        missing = self.row_length(n) - length
        return torch.nn.functional.pad(rows, (0, missing), value=-1) if missing else rows

    def _block_sizes(self, n: int) -> Sequence[int]:
        return block_sizes(self._scheme(), self.num_permutations, n, self.block)

    def _scheme(self) -> str:
        if self.scheme != "auto":
            return self.scheme
        return "designed" if self.k is None else "latin"

    def _length(self, n: int) -> int:
        """Returns the number of elements in a row."""
        return n if self.k is None else min(n, self.k)

    def _last(self, n: int) -> int:
        """Returns the number of positions that are averaged exactly."""
        return min(self.exact_last, self._length(n))

    def _takes_all(self, n: int) -> bool:
        if not self.exhaust:
            return False
        count = 1
        for j in range(self._length(n) - self._last(n)):  # n! itself may have thousands of digits
            if (count := count * (n - j)) > self.exhaust:
                return False
        return count <= self.exhaust


def _every_end(permutations: Tensor, length: int, last: int) -> Tensor:
    """Returns each permutation with every choice for the ``last`` of its first ``length`` positions.

    Shapes: permutations (S, m, n) -> (S, m·r, length).
    """
    begun, rest = permutations[:, :, : length - last], permutations[:, :, length - last :]
    ends = rest[:, :, injective_tuples(rest.shape[2], last, rest.device)]
    begun = begun[:, :, None].expand(-1, -1, ends.shape[2], -1)
    return torch.cat((begun, ends), -1).flatten(1, 2)
