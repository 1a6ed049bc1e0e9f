"""The source of randomness of orderings: bits, permutations, arrangements; rows drawn from it, anew or by a seed."""

from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from janossy.orderings.arguments import check_generator
from janossy.orderings.rows import Rows, build_rows
from janossy.orderings.sorting import sort_positions
from janossy.orderings.templates import kept
from janossy.ragged import Ragged


class Source:
    """Random tensors, on a device, from a generator or from torch's global one."""

    def __init__(self, device: torch.device, generator: torch.Generator | None) -> None:
        self.device = device
        # torch.compile takes no generator, not even None.
        self.options: dict[str, Any] = {} if generator is None else {"generator": generator}

    def bits(self, *shape: int) -> Tensor:
        """62 random bits each: no two tie, which a sort would order unevenly."""
        return torch.randint(2**62, shape, device=self.device, **self.options)

    def permutations(self, *shape: int) -> Tensor:
        """Uniform and independent, (…, n)."""
        # Integers sort on every device; float64 does not.
        return self.bits(*shape).argsort(-1)

    def normal(self, *shape: int) -> Tensor:
        # Whatever torch's default dtype: seeds fix what is drawn, and half precision has no QR.
        return torch.randn(shape, dtype=torch.float32, device=self.device, **self.options)


def arrangements(digits: Tensor) -> Tensor:
    """From j-th digits below n - j (a Lehmer code), the arrangement of k distinct positions below n; both (k, …).

    In place: the digits are gone.
    """
    for j in range(len(digits) - 2, -1, -1):
        digits[j + 1 :] += digits[j + 1 :] >= digits[j]
    return digits


class Drawing(Protocol):
    """Orderings whose rows are drawn by the size of the set alone; hashable."""

    @property
    def seed(self) -> int | None: ...

    @property
    def k(self) -> int | None: ...

    def num_rows(self, n: int) -> int: ...

    def row_length(self, n: int) -> int: ...

    def draw(self, source: Source, num_sets: int, n: int) -> Tensor:
        """Rows of positions for sets of n, (num_sets, R, L), filled up with -1."""
        ...


def drawn_rows(orderings: Drawing, keys: Ragged, generator: torch.Generator | None) -> Rows:
    """Their rows for each set, drawn anew; or, with a seed, the same for all sets of one size, which are sorted."""
    owner = type(orderings).__name__
    check_generator(owner, generator, keys.device)
    if orderings.seed is None:
        source = Source(keys.device, generator)
        return build_rows(keys, lambda n, num_sets: orderings.draw(source, num_sets, n), k=orderings.k)
    if generator is not None:
        raise ValueError(f"{owner} got both seed= and a generator; drop one: the seed fixes every permutation.")
    return build_rows(keys, lambda n, _: _seeded(orderings, n), sort_positions(keys), k=orderings.k)


def _seeded(orderings: Drawing, n: int) -> Tensor:
    """Rows of every set of n sorted elements, (1, R, L)."""
    return kept(orderings.num_rows(n) * orderings.row_length(n), _draw_seeded, orderings, n)


def _draw_seeded(orderings: Drawing, n: int) -> np.ndarray:
    state = np.random.SeedSequence((orderings.seed or 0, n)).generate_state(1, np.uint64)
    source = Source(torch.device("cpu"), torch.Generator().manual_seed(int(state[0] >> 1)))
    return orderings.draw(source, 1, n).contiguous().numpy()  # as torch.compile takes a constant to be
