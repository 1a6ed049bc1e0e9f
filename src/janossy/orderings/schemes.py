"""Ways to draw several permutations of a set together, so that their mean varies less than that of independent ones.

Each permutation is uniform by itself, so means are unbiased whatever the scheme. Those of one *block* depend on each
other; blocks are independent, and the units of a standard error.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from janossy.orderings.source import Source
from janossy.orderings.templates import MOST_DESIGNED_ELEMENTS, MOST_DESIGNED_ROWS, design


class Scheme(Protocol):
    """A way to draw blocks of permutations."""

    def most(self, n: int) -> int | None:
        """The most permutations of n elements that it draws together; None for any number."""
        ...

    def draw(self, source: Source, num_blocks: int, size: int, n: int) -> Tensor:
        """Blocks of ``size <= most(n)`` uniform permutations of n >= 1 positions, (num_blocks, size, n)."""
        ...


@dataclass(frozen=True)
class Independent:
    """Each permutation by itself: the baseline."""

    def most(self, n: int) -> int | None:
        return 1

    def draw(self, source: Source, num_blocks: int, size: int, n: int) -> Tensor:
        return source.permutations(num_blocks, size, n)


@dataclass(frozen=True)
class Antithetic:
    """Pairs of a permutation and its reverse: what changes sign with the order cancels."""

    def most(self, n: int) -> int | None:
        return 2

    def draw(self, source: Source, num_blocks: int, size: int, n: int) -> Tensor:
        return _with_reverses(source.permutations(num_blocks, 1, n), size)


@dataclass(frozen=True)
class Latin:
    """Rows of a Latin square with random columns and random elements, and their reverses.

    In the n rows of a whole square, every element comes at every position once: what depends on one element's position
    cancels.
    """

    def most(self, n: int) -> int | None:
        return max(2, 2 * n)

    def draw(self, source: Source, num_blocks: int, size: int, n: int) -> Tensor:
        shifts = torch.arange(_half(size), device=source.device)
        square = (source.permutations(num_blocks, 1, n) + shifts[:, None]) % n
        names = source.permutations(num_blocks, 1, n).expand_as(square)
        return _with_reverses(names.gather(-1, square), size)


@dataclass(frozen=True)
class Stratified:
    """Each element's distances from the middle of the order are spread evenly, and the orders come with their reverses.

    A Latin hypercube sample of positions, folded in the middle, as the reverses fill the other half. It costs as much
    as independent permutations, for sets of any size.
    """

    def most(self, n: int) -> int | None:
        return None

    def draw(self, source: Source, num_blocks: int, size: int, n: int) -> Tensor:
        half = _half(size)
        # Positions in (0, 1) as integers; the lower bits of two of them do not tie.
        bits = 61 - half.bit_length()
        noise = source.bits(num_blocks, n, half)
        below = noise % 2**bits + source.permutations(num_blocks, n, half) * 2**bits
        above = 2 * half * 2**bits - 1 - below
        positions = torch.where(noise < 2**61, below, above)
        return _with_reverses(positions.mT.argsort(-1), size)


@dataclass(frozen=True)
class Orthogonal:
    """The orders of the coordinates of orthogonal directions, and their reverses (Mitchell et al., JMLR 2022, Alg. 3).

    Directions are uniform on the sphere of vectors whose coordinates sum to zero; n - 1 of them are orthogonal.
    """

    def most(self, n: int) -> int | None:
        return max(2, 2 * (n - 1))

    def draw(self, source: Source, num_blocks: int, size: int, n: int) -> Tensor:
        normal = source.normal(num_blocks, n, _half(size))
        q, r = torch.linalg.qr(normal - normal.mean(1, keepdim=True))
        # LAPACK chooses the signs; with R's, Q is uniform.
        directions = q * r.diagonal(dim1=1, dim2=2).sign()[:, None]
        return _with_reverses(directions.mT.argsort(-1), size)


@dataclass(frozen=True)
class Sobol:
    """The orders of the coordinates of Sobol points, shifted at random (digitally) in each block."""

    def most(self, n: int) -> int | None:
        return None

    def draw(self, source: Source, num_blocks: int, size: int, n: int) -> Tensor:
        if n > torch.quasirandom.SobolEngine.MAXDIM:
            raise ValueError(
                f"the scheme 'sobol' takes sets of up to {torch.quasirandom.SobolEngine.MAXDIM} elements; got {n}. "
                "Use 'stratified'."
            )
        points = torch.quasirandom.SobolEngine(n).draw(size, dtype=torch.float64)
        digits = (points * 2**30).long().to(source.device) << 32
        # The lower bits are random throughout, so that no two numbers tie.
        lower = source.bits(num_blocks, size, n) % 2**32
        return ((digits ^ source.bits(num_blocks, 1, n)) ^ lower).argsort(-1)


@dataclass(frozen=True)
class Designed:
    """Permutations optimised to make a good mean together, of elements named at random; stratified above 16 elements.

    Found by annealing for the order-sensitivity of trained recurrences (``experiments/sampling/designs.py``), which is
    mostly: which of two elements comes first, which two come last, and how far from the middle an element stands.
    """

    def most(self, n: int) -> int | None:
        return MOST_DESIGNED_ROWS if n <= MOST_DESIGNED_ELEMENTS else None

    def draw(self, source: Source, num_blocks: int, size: int, n: int) -> Tensor:
        if n > MOST_DESIGNED_ELEMENTS:
            return Stratified().draw(source, num_blocks, size, n)
        return source.permutations(num_blocks, n)[:, design(n, size).to(source.device)]


SCHEMES: dict[str, Scheme] = {
    "designed": Designed(),
    "independent": Independent(),
    "antithetic": Antithetic(),
    "latin": Latin(),
    "stratified": Stratified(),
    "orthogonal": Orthogonal(),
    "sobol": Sobol(),
}


FEW = 6
"""Larger designs of so few elements have means of a few values only: several would not show their spread well.

Of 95 % intervals from five blocks of four, 92 and 93.5 % hold at n = 5 and 6 on untrained recurrences; of ten pairs,
94.5 % (experiments/sampling/small.py).
"""


def block_sizes(scheme: str, num: int, n: int, block: int | None) -> list[int]:
    """The sizes of the blocks of num permutations of n elements: as few and as even as the scheme, or block, allows."""
    most = SCHEMES[scheme].most(n) or num
    if scheme == "designed" and n <= FEW and block is not None and block < num:
        block = min(block, 2)
    num_blocks = -(-num // max(1, min(most, num if block is None else block)))
    size = -(-num // num_blocks)
    if size % 2 and size < most and block is None:
        size += 1  # pairs of reverses stay together
    return [min(size, num - begin) for begin in range(0, num, size)]


def draw(scheme: str, source: Source, num_sets: int, sizes: list[int], n: int) -> Tensor:
    """Permutations of n positions in blocks of these sizes, all alike but for the last, (num_sets, Σ sizes, n)."""
    if n == 0:
        return torch.zeros(num_sets, sum(sizes), 0, dtype=torch.long, device=source.device)
    if scheme == "independent":
        return source.permutations(num_sets, len(sizes), n)
    whole = [size for size in sizes if size == sizes[0]]
    drawn = [SCHEMES[scheme].draw(source, num_sets * len(whole), sizes[0], n).reshape(num_sets, sum(whole), n)]
    if len(whole) < len(sizes):
        drawn.append(SCHEMES[scheme].draw(source, num_sets, sizes[-1], n))
    return torch.cat(drawn, 1)


def _half(size: int) -> int:
    return -(-size // 2)


def _with_reverses(permutations: Tensor, size: int) -> Tensor:
    """Each row (…, half, n) and its reverse behind it, size rows in all."""
    return torch.stack((permutations, permutations.flip(-1)), -2).flatten(-3, -2)[..., :size, :]
