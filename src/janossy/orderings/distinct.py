"""Random orderings of each set without replacement, or their first k elements: no two rows are the same."""

from dataclasses import KW_ONLY, dataclass, replace
from math import perm
from typing import ClassVar, Self

import torch
from torch import Tensor

from janossy.checks import check_integer
from janossy.orderings.contract import MAX_ROWS, check_budget, check_k, check_max_rows
from janossy.orderings.rows import Rows
from janossy.orderings.source import Drawing, Source, arrangements, drawn_rows
from janossy.sets import Ragged

MAX_RANKS = 2**62
"""The largest population in which repeats are looked for. Beyond it two arrangements agree in < 1 of 2^63 pairs."""


@dataclass(frozen=True)
class Distinct(Drawing):
    """``num_permutations`` distinct permutations of each set, or k-tuples of its elements, drawn anew at every call.

    The rows are a simple random sample without replacement, of all n! permutations or, with k, of all n!/(n - k)!
    tuples (an incomplete U-statistic; Blom, Biometrika 1976). If num_permutations is at least the population, each
    row comes once, and the mean is exact. The mean's variance is that of independent rows times the share that is not
    drawn, 1 - num_permutations/population.

    Args:
        num_permutations: the most rows per set.
        k: the number of elements of a row. Smaller sets are filled up to length k with the zero vector.
        seed: the number that fixes the rows of lexicographically sorted sets, as in ``Sampled``.

    Shapes: sets.values (N, d) -> rows (min(m, n_b!), n_b) for set b, or (min(m, n_b!/(n_b - k)!), k),
        m = num_permutations.
    Invariance: unbiased for the mean over all permutations (or k-tuples); exact with a seed, or if all are taken.
    Cost: m·B rows; refuses more than max_rows.
    Raises:
        TypeError: if an argument is not an integer.
        ValueError: if num_permutations < 1, k < 1, seed < 0 or max_rows < 1.
        ValueError: on enumeration, for more than max_rows rows, or for both a seed and a generator.

    Example:
        >>> Distinct(20, k=2).num_rows(5), Distinct(20, k=2).num_rows(4)
        (20, 12)
    """

    num_permutations: int
    _: KW_ONLY
    k: int | None = None
    seed: int | None = None
    max_rows: int = MAX_ROWS
    averages: ClassVar[str] = "all orderings"

    def __post_init__(self) -> None:
        check_integer("Distinct", "num_permutations", self.num_permutations, 1, "permutations")
        if self.k is not None:
            check_k(self, self.k)
        check_integer("Distinct", "seed", self.seed, 0, optional=True)
        check_max_rows(self, self.max_rows)

    def num_rows(self, n: int) -> int:
        return min(self.num_permutations, self._num_arrangements(n))

    def row_length(self, n: int) -> int:
        return n if self.k is None else self.k

    def population(self, n: int) -> float:
        """Returns the number of rows to draw from: n! orders of a set, or n!/(n - k)! k-tuples."""
        return float(min(self._num_arrangements(n), 10**300))

    def redrawn(self, num_permutations: int, *, block: int | None = None, seed: int | None = None) -> Self:
        if block not in (None, 1):
            raise ValueError(f"Distinct draws its rows one by one; got block={block}. Leave it out.")
        return replace(self, num_permutations=num_permutations, seed=self.seed if seed is None else seed)

    def enumerate(self, keys: Ragged, generator: torch.Generator | None = None) -> Rows:
        check_budget(self, keys.sizes, self.max_rows, "num_permutations rows per set", "a smaller num_permutations")
        return drawn_rows(self, keys, generator)

    def draw(self, source: Source, num_sets: int, n: int) -> Tensor:
        """Returns rows of positions (num_sets, R, L), filled up with -1."""
        length = self._length(n)
        rows = distinct_arrangements(source, num_sets, self.num_rows(n), n, length)
        return torch.nn.functional.pad(rows, (0, self.row_length(n) - length), value=-1)

    def _num_arrangements(self, n: int) -> int:
        return perm(n, self._length(n))

    def _length(self, n: int) -> int:
        """Returns the number of elements in a row."""
        return n if self.k is None else min(n, self.k)


def distinct_arrangements(source: Source, num_sets: int, num: int, n: int, k: int) -> Tensor:
    """Returns a simple random sample of arrangements without replacement, in random order.

    Shapes: (num_sets, num, k), num <= n!/(n - k)!.
    """
    population = perm(n, k)
    if population > MAX_RANKS:
        digits = [source.bits(num_sets, num) % (n - j) for j in range(k)]
        return arrangements(torch.stack(digits)).movedim(0, -1)
    ranks = _distinct_numbers(source, num_sets, num, population)
    digits = []
    for j in range(k):
        digits.append(ranks % (n - j))
        ranks = ranks // (n - j)
    return arrangements(torch.stack(digits)).movedim(0, -1) if k else ranks.new_zeros(num_sets, num, 0)


def _distinct_numbers(source: Source, num_sets: int, num: int, population: int) -> Tensor:
    """Returns a simple random sample of numbers below ``population`` per set, (num_sets, num)."""
    if 2 * num >= population:
        return source.permutations(num_sets, population)[:, :num]
    numbers = _below(population, source, num_sets, num)
    while True:
        # To draw repeated numbers again amounts to drawing one number after the other, each until it is new.
        order = numbers.argsort(dim=1, stable=True)
        sorted_numbers = numbers.gather(1, order)
        again = torch.zeros_like(numbers, dtype=torch.bool)
        again.scatter_(1, order[:, 1:], sorted_numbers[:, 1:] == sorted_numbers[:, :-1])
        num_again = int(again.sum())
        if num_again == 0:
            return numbers
        numbers[again] = _below(population, source, num_again)


def _below(population: int, source: Source, *shape: int) -> Tensor:
    """Returns uniform numbers below population <= 2^62.

    A remainder alone would favour the smaller numbers if the population is large.
    """
    whole = MAX_RANKS // population * population
    numbers = source.bits(*shape)
    while (over := numbers >= whole).any():
        numbers[over] = source.bits(int(over.sum()))
    return numbers % population
