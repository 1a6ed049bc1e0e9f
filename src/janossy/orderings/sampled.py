"""Random orderings of each set (π-SGD, Def. 2.3), or the first k elements of them."""

from dataclasses import dataclass
from math import perm

import numpy as np
import torch
from torch import Tensor

from janossy.orderings.distinct import distinct_arrangements
from janossy.orderings.rows import MAX_ROWS, Rows, build_rows, check_budget, check_k
from janossy.orderings.schemes import SCHEMES, block_sizes, draw
from janossy.orderings.sorting import sort_positions
from janossy.orderings.source import Source
from janossy.orderings.templates import injective_tuples, kept
from janossy.ragged import Ragged

CHOICES = ("auto", *SCHEMES, "distinct")


@dataclass(frozen=True)
class Sampled:
    """``num`` random permutations of each set, drawn anew at every call (π-SGD, Def. 2.3).

    Args:
        num: permutations of each set.
        k: keep only the first k elements of each (π-SGD with k-ary dependencies); smaller sets are filled up to length
            k with the zero vector.
        scheme: how those of one set are drawn together. Each is uniform by itself, so the scheme changes no mean, only
            its variance: "independent"; "antithetic" (a permutation and its reverse); "latin"; "stratified";
            "orthogonal"; "sobol"; "designed" (see ``schemes.py``). "distinct" is a sample without replacement of all
            permutations, or of all k-tuples (an incomplete U-statistic); where num is more than all of them, each comes
            once. "auto" takes what measures best (docs/sampling.md): "designed" for whole orders and "latin" for k.
        block: the most permutations that may depend on each other. Blocks are independent, and the unit of a standard
            error; by default as large as the scheme allows, which gives the best mean. Several blocks of up to four
            elements are pairs if "designed".
        exact_last: average exactly over the last so many positions of each permutation (Rao–Blackwell): every order of
            what stands there is a row; with k, every choice of all elements that do not come before.
        seed: sort each set lexicographically and permute it by fixed permutations, a function of the seed and the size
            alone: the result is a deterministic function of the multiset.

    Shapes: sets.values (N, d) -> rows (num, n_b) for set b, or (num, k); more with exact_last, fewer if "distinct".
    Invariance: unbiased for the mean over all permutations (or k-tuples), whatever the scheme; exact with a seed.
    Cost: num·B rows, times exact_last! (with k: times (n - k + j)!/(n - k)!, j = exact_last); refuses more than
        max_rows. Drawing is a sort of n numbers a permutation; "designed", one sort a block of up to 32.
    Raises: ValueError if num < 1, k < 1, seed < 0, block < 1, exact_last < 0 or above k, the scheme is unknown, or
        "distinct" is to be exact in its last positions or to come in blocks; on enumeration if there are more than
        max_rows rows, or if both a seed and a generator are given.

    Example:
        >>> Sampled(20, seed=0).num_rows(5)
        20
    """

    num: int = 1
    k: int | None = None
    scheme: str = "auto"
    seed: int | None = None
    block: int | None = None
    exact_last: int = 0
    max_rows: int = MAX_ROWS

    def __post_init__(self) -> None:
        if self.num < 1:
            raise ValueError(f"Sampled expects num >= 1 permutations; got num={self.num}.")
        if self.k is not None:
            check_k(self, self.k)
        if self.seed is not None and self.seed < 0:
            raise ValueError(f"Sampled expects seed >= 0; got seed={self.seed}.")
        if self.scheme not in CHOICES:
            raise ValueError(f"Sampled expects a scheme among {', '.join(CHOICES)}; got {self.scheme!r}.")
        if self.block is not None and self.block < 1:
            raise ValueError(f"Sampled expects block >= 1 permutations; got block={self.block}.")
        if self.exact_last < 0 or (self.k is not None and self.exact_last > self.k):
            bound = "" if self.k is None else f" and at most k={self.k}"
            raise ValueError(f"Sampled expects exact_last >= 0 positions{bound}; got exact_last={self.exact_last}.")
        if self.scheme == "distinct" and (self.exact_last or self.block is not None):
            raise ValueError(
                "Sampled draws 'distinct' rows one by one, all of a set depending on each other; got "
                f"exact_last={self.exact_last} and block={self.block}. Leave them out, or choose another scheme."
            )

    def num_rows(self, n: int) -> int:
        if self.scheme == "distinct":
            return min(self.num, self.num_orderings(n))
        length = self._length(n)
        last = min(self.exact_last, length)
        return self.num * perm(n - length + last, last)

    def row_length(self, n: int) -> int:
        return n if self.k is None else self.k

    def num_orderings(self, n: int) -> int:
        """Of those that the rows are drawn from: all n! of a set, or all its n!/(n - k)! k-tuples."""
        return perm(n, self._length(n))

    def blocks(self, n: int) -> list[int]:
        """The numbers of rows, in order, that depend on each other; those of different blocks are independent.

        Of "distinct" rows each is a block, whose dependence is that of any sample without replacement.
        """
        if self.scheme == "distinct":
            return [1] * self.num_rows(n)
        each = self.num_rows(n) // self.num
        return [each * size for size in block_sizes(self._scheme(), self.num, n, self.block)]

    def enumerate(self, keys: Ragged, generator: torch.Generator | None = None) -> Rows:
        check_budget(self, keys.sizes, self.max_rows, "num rows a set", "smaller batches or a smaller num")
        if self.seed is None:
            source = Source(keys.device, generator)
            return build_rows(keys, lambda n, s: self._draw(source, s, n), k=self.k)
        if generator is not None:
            raise ValueError("Sampled got both seed= and a generator; drop one: the seed fixes every permutation.")
        return build_rows(keys, lambda n, _: _seeded(self, n), sort_positions(keys), k=self.k)

    def _scheme(self) -> str:
        if self.scheme != "auto":
            return self.scheme
        return "designed" if self.k is None else "latin"

    def _length(self, n: int) -> int:
        """Of the elements of a row."""
        return n if self.k is None else min(n, self.k)

    def _draw(self, source: Source, num_sets: int, n: int) -> Tensor:
        """(num_sets, R, L), filled up with -1."""
        length = self._length(n)
        if self.scheme == "distinct":
            rows = distinct_arrangements(source, num_sets, self.num_rows(n), n, length)
        else:
            rows = draw(self._scheme(), source, num_sets, block_sizes(self._scheme(), self.num, n, self.block), n)
            if self.exact_last:
                rows = _every_end(rows, length, min(self.exact_last, length))
        return torch.nn.functional.pad(rows[:, :, :length], (0, self.row_length(n) - length), value=-1)


def _every_end(permutations: Tensor, length: int, last: int) -> Tensor:
    """Each permutation (S, m, n) with every choice for the last of its first ``length`` positions: (S, m·r, length)."""
    begun, rest = permutations[:, :, : length - last], permutations[:, :, length - last :]
    ends = rest[:, :, injective_tuples(rest.shape[2], last).to(rest.device)]
    begun = begun[:, :, None].expand(-1, -1, ends.shape[2], -1)
    return torch.cat((begun, ends), -1).flatten(1, 2)


def _seeded(orderings: Sampled, n: int) -> Tensor:
    """Rows of every set of n sorted elements, (1, R, L)."""
    return kept(orderings.num_rows(n) * orderings.row_length(n), _draw_seeded, orderings, n)


def _draw_seeded(orderings: Sampled, n: int) -> np.ndarray:
    state = np.random.SeedSequence((orderings.seed or 0, n)).generate_state(1, np.uint64)
    source = Source(torch.device("cpu"), torch.Generator().manual_seed(int(state[0] >> 1)))
    return orderings._draw(source, 1, n).numpy()
