"""The random source of orderings: bits, permutations and arrangements, and rows drawn anew or from a seed."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch
from torch import Tensor

from janossy.checks import check_generator
from janossy.orderings.contract import RandomOrderings
from janossy.orderings.rows import Rows, build_rows
from janossy.orderings.sorting import sort_positions
from janossy.orderings.templates import kept
from janossy.sets import Ragged
from janossy.sets.transfer import widest

_drawing_anew: ContextVar[str | None] = ContextVar("drawing_anew", default=None)
"""The function that needs new rows at every call, if there is one."""


@contextmanager
def drawing_anew(owner: str) -> Iterator[None]:
    """Refuses seeds meanwhile, in this thread: calls with one seed do not differ, so they tell nothing of an error."""
    token = _drawing_anew.set(owner)
    try:
        yield
    finally:
        _drawing_anew.reset(token)


class Source:
    """Random tensors, on a device, from a generator or from torch's global one.

    Raises: TypeError or ValueError unless the generator is on this device; the error names ``owner``.
    """

    def __init__(self, device: torch.device, generator: torch.Generator | None, owner: str = "Source") -> None:
        check_generator(owner, generator, device)
        self.device = device
        # torch.compile takes no generator, not even None.
        self.options: dict[str, Any] = {} if generator is None else {"generator": generator}

    def bits(self, *shape: int) -> Tensor:
        """Returns 62 random bits per entry, so many that no two entries tie; a sort would order ties unevenly."""
        return torch.randint(2**62, shape, device=self.device, **self.options)

    def permutations(self, *shape: int, lengths: Tensor | None = None) -> Tensor:
        """Returns uniform and independent permutations (…, n).

        With lengths (B,), entry b of (B, …, n) permutes its first lengths[b] positions.
        """
        return ordered(self.bits(*shape), lengths)

    def normal(self, *shape: int) -> Tensor:
        # Not torch's default dtype: seeds fix what is drawn, and half precision has no QR.
        return torch.randn(shape, dtype=torch.float32, device=self.device, **self.options)


def gumbel(source: Source, shape: torch.Size) -> Tensor:
    """Returns Gumbel noise in float64, or on MPS in float32.

    Log-weights plus this noise, when sorted, give a Plackett–Luce order.
    """
    bits = source.bits(*shape)
    # In (0, 1], and fine near 0, where the first elements of a row come from, so that no logarithm is of 0.
    return -torch.log(-torch.log1p(-(bits.to(widest(source.device)) + 1) / 2**62))


def ordered(keys: Tensor, lengths: Tensor | None) -> Tensor:
    """Returns the order of integer keys (B, …, n).

    With lengths (B,), the order is that of the first lengths[b] keys, and the places behind it are arbitrary.
    """
    if lengths is not None:
        beyond = torch.arange(keys.shape[-1], device=keys.device) >= lengths.view(-1, *(1,) * (keys.dim() - 1))
        keys = keys.masked_fill(beyond, torch.iinfo(keys.dtype).max)
    if keys.shape[-1] > SHORT and _is_plain(keys):
        return torch.from_numpy(keys.numpy().argsort(-1))
    # Integers sort on every device; float64 does not.
    return keys.argsort(-1)


SHORT = 12
"""The longest rows that torch sorts. Numpy sorts longer ones two to four times as fast; no two of their keys tie."""


def _is_plain(x: Tensor) -> bool:
    """Returns True if this is a tensor of numbers on the CPU that nothing traces or maps."""
    mapped = torch._C._are_functorch_transforms_active()
    return type(x) is Tensor and x.device.type == "cpu" and not mapped and not torch.compiler.is_compiling()


def arrangements(digits: Tensor) -> Tensor:
    """Returns the arrangement of k distinct positions below n from Lehmer digits: the j-th is below n - j.

    Both are (k, …). The digits are overwritten.
    """
    for j in range(len(digits) - 2, -1, -1):
        digits[j + 1 :] += digits[j + 1 :] >= digits[j]
    return digits


class Drawing(RandomOrderings):
    """The base class of hashable orderings whose rows are drawn by the size of the set alone."""

    @abstractmethod
    def draw(self, source: Source, num_sets: int, n: int) -> Tensor:
        """Returns rows of positions for sets of n elements, (num_sets, R, L), filled up with -1."""

    def draw_together(self, source: Source, counts: Mapping[int, int]) -> dict[int, Tensor]:
        """Returns ``draw`` per size for these numbers of sets. Override it if fewer steps can draw all."""
        return {n: self.draw(source, counts[n], n) for n in sorted(counts)}


def drawn_rows(orderings: Drawing, keys: Ragged, generator: torch.Generator | None) -> Rows:
    """Returns the rows of each set, drawn anew.

    With a seed, the sets are sorted, and all sets of one size have the same rows.
    """
    owner = type(orderings).__name__
    if orderings.seed is None:
        source, counts = Source(keys.device, generator, owner), Counter(keys.sizes)
        if len(counts) > 1 and not torch.compiler.is_compiling():
            drawn = orderings.draw_together(source, counts)
            return build_rows(keys, lambda n, _: drawn[n], k=orderings.k)
        return build_rows(keys, lambda n, num_sets: orderings.draw(source, num_sets, n), k=orderings.k)
    if generator is not None:
        check_generator(owner, generator, keys.device)
        raise ValueError(f"{owner} got both seed= and a generator; drop one: the seed fixes every permutation.")
    if not torch.compiler.is_compiling() and (passes := _drawing_anew.get()) is not None:
        raise ValueError(
            f"{passes} expects orderings that draw anew at every pass, for the error bar; got {orderings}, whose seed "
            "fixes them. Leave the seed, or fixed_in_eval, out."
        )
    return build_rows(keys, lambda n, _: _seeded(orderings, n, keys.device), sort_positions(keys), k=orderings.k)


def _seeded(orderings: Drawing, n: int, device: torch.device) -> Tensor:
    """Returns the rows of every set of n sorted elements, (1, R, L)."""
    return kept(orderings.num_rows(n) * orderings.row_length(n), _draw_seeded, orderings, n, device=device)


def _draw_seeded(orderings: Drawing, n: int) -> np.ndarray:
    state = np.random.SeedSequence((orderings.seed or 0, n)).generate_state(1, np.uint64)
    source = Source(torch.device("cpu"), torch.Generator().manual_seed(int(state[0]) >> 1))
    return orderings.draw(source, 1, n).contiguous().numpy()  # as torch.compile takes a constant to be
