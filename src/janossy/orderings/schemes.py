"""Schemes that draw several permutations of a set together, so that their mean varies less than if independent.

Each permutation is uniform by itself, so means are unbiased whatever the scheme. The permutations of one *block*
depend on each other. Blocks are independent, and the units of a standard error.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from janossy.orderings.source import Source, ordered
from janossy.orderings.templates import MAX_DESIGNED_ELEMENTS, MAX_DESIGNED_ROWS, design, designs
from janossy.sets.transfer import upload


class Scheme(Protocol):
    """A way to draw blocks of permutations."""

    def max_permutations(self, n: int) -> int | None:
        """Returns the most permutations of n elements that are drawn together; None for any number."""
        ...

    def group(self, n: int) -> int:
        """Returns the number of a group of sizes. Sets of one group are drawn together, with lengths."""
        ...

    def draw(self, source: Source, num_blocks: int, size: int, n: int, lengths: Tensor | None = None) -> Tensor:
        """Returns blocks of ``size <= max_permutations(n)`` uniform permutations of n >= 1 positions.

        With lengths (num_blocks,), a block permutes that many positions <= n, and the places behind them are arbitrary.

        Shapes: (num_blocks, size, n).
        """
        ...


@dataclass(frozen=True)
class Independent:
    """Independent permutations: the baseline."""

    def max_permutations(self, n: int) -> int | None:
        return 1

    def group(self, n: int) -> int:
        return _much_alike(n)

    def draw(self, source: Source, num_blocks: int, size: int, n: int, lengths: Tensor | None = None) -> Tensor:
        return source.permutations(num_blocks, size, n, lengths=lengths)


@dataclass(frozen=True)
class Antithetic:
    """Pairs of a permutation and its reverse: terms that change sign with the order cancel."""

    def max_permutations(self, n: int) -> int | None:
        return 2

    def group(self, n: int) -> int:
        return _much_alike(n)

    def draw(self, source: Source, num_blocks: int, size: int, n: int, lengths: Tensor | None = None) -> Tensor:
        return with_reverses(source.permutations(num_blocks, 1, n, lengths=lengths), size, lengths)


@dataclass(frozen=True)
class Latin:
    """Rows of a Latin square with random columns and random elements, and their reverses.

    In the n rows of a whole square, every element comes at every position once. So effects of one element's position
    cancel.
    """

    def max_permutations(self, n: int) -> int | None:
        return max(2, 2 * n)

    def group(self, n: int) -> int:
        return _much_alike(n)

    def draw(self, source: Source, num_blocks: int, size: int, n: int, lengths: Tensor | None = None) -> Tensor:
        shifts = torch.arange(_half(size), device=source.device)
        columns = source.permutations(num_blocks, 1, n, lengths=lengths)
        square = (columns + shifts[:, None]) % (n if lengths is None else lengths[:, None, None])
        names = source.permutations(num_blocks, 1, n, lengths=lengths).expand_as(square)
        return with_reverses(names.gather(-1, square), size, lengths)


@dataclass(frozen=True)
class Stratified:
    """Orders, and their reverses, in which each element's distances from the middle are spread evenly.

    They are a Latin hypercube sample of positions, folded in the middle, as the reverses fill the other half. The
    cost is that of independent permutations, for sets of any size.
    """

    def max_permutations(self, n: int) -> int | None:
        return None

    def group(self, n: int) -> int:
        return _much_alike(n)

    def draw(self, source: Source, num_blocks: int, size: int, n: int, lengths: Tensor | None = None) -> Tensor:
        half = _half(size)
        # Positions in (0, 1) as integers, whose lower bits make sure that no two tie.
        bits = 61 - half.bit_length()
        noise = source.bits(num_blocks, n, half)
        below = (noise & (2**bits - 1)) + source.permutations(num_blocks, n, half) * 2**bits
        above = 2 * half * 2**bits - 1 - below
        positions = torch.where(noise < 2**61, below, above)
        return with_reverses(ordered(positions.mT, lengths), size, lengths)


@dataclass(frozen=True)
class Orthogonal:
    """The orders of the coordinates of orthogonal directions, and their reverses (Mitchell et al., JMLR 2022, Alg. 3).

    Directions are uniform on the sphere of vectors whose coordinates sum to zero; n - 1 of them are orthogonal.
    """

    def max_permutations(self, n: int) -> int | None:
        return max(2, 2 * (n - 1))

    def group(self, n: int) -> int:
        return n

    def draw(self, source: Source, num_blocks: int, size: int, n: int, lengths: Tensor | None = None) -> Tensor:
        normal = source.normal(num_blocks, n, _half(size))
        q, r = torch.linalg.qr(normal - normal.mean(1, keepdim=True))
        # LAPACK chooses the signs; with R's, Q is uniform.
        directions = q * r.diagonal(dim1=1, dim2=2).sign()[:, None]
        return with_reverses(directions.mT.argsort(-1), size)


@dataclass(frozen=True)
class Sobol:
    """The orders of the coordinates of Sobol points, shifted at random (digitally) in each block."""

    def max_permutations(self, n: int) -> int | None:
        return None

    def group(self, n: int) -> int:
        return n

    def draw(self, source: Source, num_blocks: int, size: int, n: int, lengths: Tensor | None = None) -> Tensor:
        if n > torch.quasirandom.SobolEngine.MAXDIM:
            raise ValueError(
                f"the scheme 'sobol' takes sets of up to {torch.quasirandom.SobolEngine.MAXDIM} elements; got {n}. "
                "Use 'stratified'."
            )
        points = torch.quasirandom.SobolEngine(n).draw(size, dtype=torch.float64)
        digits = upload((points * 2**30).long(), source.device) << 32
        # The lower bits are random throughout, so that no two numbers tie.
        lower = source.bits(num_blocks, size, n) % 2**32
        return ((digits ^ source.bits(num_blocks, 1, n)) ^ lower).argsort(-1)


@dataclass(frozen=True)
class Designed:
    """Permutations optimised to make a good mean together, of elements named at random; stratified above 16 elements.

    They were found by annealing for the order-sensitivity of trained recurrences
    (``studies/experiments/sampling/designs.py``). That sensitivity is mostly to three things:

    - which of two elements comes first;
    - which two come last;
    - how far from the middle an element is.
    """

    def max_permutations(self, n: int) -> int | None:
        return MAX_DESIGNED_ROWS if n <= MAX_DESIGNED_ELEMENTS else None

    def group(self, n: int) -> int:
        return _much_alike(n)

    def draw(self, source: Source, num_blocks: int, size: int, n: int, lengths: Tensor | None = None) -> Tensor:
        if n > MAX_DESIGNED_ELEMENTS:
            return Stratified().draw(source, num_blocks, size, n, lengths)
        names = source.permutations(num_blocks, n, lengths=lengths)
        if lengths is None:
            return names[:, design(n, size, source.device)]
        places = designs(n, size, source.device)[lengths - 1]
        return names[:, None].expand_as(places).gather(-1, places)


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
"""The most elements whose designs are cut to pairs if several blocks are asked for.

The mean of a larger design of so few elements takes few values, so several blocks show their variance badly. From five
blocks of four, 92 and 93.5 % of 95 % intervals hold at n = 5 and 6 on untrained recurrences. From ten pairs, 94.5 % do
(studies/experiments/sampling/small.py).
"""


@lru_cache(maxsize=1024)
def block_sizes(scheme: str, num: int, n: int, block: int | None) -> tuple[int, ...]:
    """Returns the sizes of the blocks of ``num`` permutations of n elements.

    They are as few and as even as the scheme, or ``block``, allows.
    """
    most = SCHEMES[scheme].max_permutations(n) or num
    if scheme == "designed" and n <= FEW and block is not None and block < num:
        block = min(block, 2)
    num_blocks = -(-num // max(1, min(most, num if block is None else block)))
    size = -(-num // num_blocks)
    if size % 2 and size < most and block is None:
        size += 1  # pairs of reverses stay together
    return tuple(min(size, num - begin) for begin in range(0, num, size))


def draw(
    scheme: str, source: Source, num_sets: int, sizes: Sequence[int], n: int, lengths: Tensor | None = None
) -> Tensor:
    """Returns permutations of n positions in blocks of these sizes, which are equal but for the last.

    With lengths (num_sets,), a set permutes that many positions <= n, and the places behind them are arbitrary.

    Shapes: (num_sets, Σ sizes, n).
    """
    if n == 0:
        return torch.zeros(num_sets, sum(sizes), 0, dtype=torch.long, device=source.device)
    if scheme == "independent":
        return source.permutations(num_sets, len(sizes), n, lengths=lengths)
    whole = [size for size in sizes if size == sizes[0]]
    of_blocks = None if lengths is None else lengths.repeat_interleave(len(whole))
    drawn = SCHEMES[scheme].draw(source, num_sets * len(whole), sizes[0], n, of_blocks)
    drawn = drawn.reshape(num_sets, sum(whole), n)
    if len(whole) == len(sizes):
        return drawn
    return torch.cat((drawn, SCHEMES[scheme].draw(source, num_sets, sizes[-1], n, lengths)), 1)


def draw_together(
    scheme: str, source: Source, counts: Mapping[int, int], sizes_of: Callable[[int], Sequence[int]]
) -> dict[int, Tensor]:
    """Returns ``draw`` for these numbers of sets per size n, in blocks of ``sizes_of(n)``.

    Sets of similar size are drawn at once.
    """
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for n in sorted(counts):
        groups[SCHEMES[scheme].group(n) if n else -1, *sizes_of(n)].append(n)
    drawn: dict[int, Tensor] = {}
    for group in groups.values():
        num, most = [counts[n] for n in group], group[-1]
        lengths = None
        if len(group) > 1:
            lengths = upload(np.repeat(group, num), source.device)
        rows = draw(scheme, source, sum(num), sizes_of(most), most, lengths)
        drawn |= {n: drawn_rows[..., :n] for n, drawn_rows in zip(group, rows.split(num), strict=True)}
    return drawn


def _much_alike(n: int) -> int:
    """Returns a group of sizes up to four times the smallest, from 17 on; smaller ones cost next to nothing."""
    return (max(n - 1, MAX_DESIGNED_ELEMENTS - 1).bit_length() + 1) // 2


def _half(size: int) -> int:
    return -(-size // 2)


def with_reverses(permutations: Tensor, size: int, lengths: Tensor | None = None) -> Tensor:
    """Returns each row (B, half, n) with its reverse behind it, ``size`` rows in all.

    With lengths (B,), the reverse is that of the row's beginning.
    """
    if lengths is None:
        reverses = permutations.flip(-1)
    else:
        back = lengths[:, None, None] - 1 - torch.arange(permutations.shape[-1], device=lengths.device)
        reverses = permutations.gather(-1, back.clamp(min=0).expand_as(permutations))
    return torch.stack((permutations, reverses), -2).flatten(-3, -2)[..., :size, :]
