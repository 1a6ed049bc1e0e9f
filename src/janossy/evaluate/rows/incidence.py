"""Rows that sets share: each distinct tuple once, and the list of those that every set has."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor

from janossy.orderings.rows import Bucket, Rows, by_size
from janossy.orderings.templates import increasing_tuples, injective_tuples
from janossy.sets import Ragged

MAX_CODES = 2**62
"""The bound of the number that identifies a tuple."""

FEW_CODES = 2**16
"""The most codes that are counted rather than sorted; also a few codes per occurrence are."""

LANES = 16
"""Columns are filled up to a multiple of this: 32 columns are added up nearly twice as fast as 30."""


@dataclass(frozen=True, eq=False)
class Incidence:
    """A list of rows for each of L owners, end to end: ``rows[starts[i] : starts[i + 1]]`` is that of ``owners[i]``.

    Shapes: rows (E,), from 0 to num_rows - 1. starts (L,). owners (L,), the numbers from 0 to L - 1 in any order; None
        if they are in rising order.
    """

    rows: Tensor
    starts: Tensor
    owners: Tensor | None
    num_rows: int

    @cached_property
    def places(self) -> Tensor | None:
        """Returns the places of the owners' lists, (L,)."""
        return None if self.owners is None else self.owners.argsort()

    @cached_property
    def lengths(self) -> Tensor:
        """Returns the lengths of the owners' lists, (L,)."""
        with torch.inference_mode(False):  # the first call may be in inference mode
            lengths = self._lengths()
            return lengths if self.places is None else lengths[self.places]

    @cached_property
    def transposed(self) -> "Incidence":
        """The list of owners per row: those whose lists hold the row, as often as they hold it."""
        lengths, owners = self._lengths(), self.owners
        owners = torch.arange(len(lengths), device=lengths.device) if owners is None else owners
        of_entries = owners.to(self.rows.dtype).repeat_interleave(lengths, output_size=len(self.rows))
        counts = torch.bincount(self.rows, minlength=self.num_rows)
        starts = (counts.cumsum(0) - counts).to(self.starts.dtype)
        incidence = Incidence(of_entries[self.rows.argsort(stable=True)], starts, None, len(lengths))
        vars(incidence)["transposed"] = self
        return incidence

    def sums(self, x: Tensor) -> Tensor:
        """Returns the sum of x (num_rows, c) over each owner's list, (L, c); differentiable any number of times."""
        padded = torch.nn.functional.pad(x, (0, -x.shape[1] % LANES))
        return cast(Tensor, _Sums.apply(padded, self)[:, : x.shape[1]])  # type: ignore[no-untyped-call]

    def _lengths(self) -> Tensor:
        return torch.cat((self.starts, self.starts.new_tensor([len(self.rows)]))).diff()


class _Sums(torch.autograd.Function):
    """``Incidence.sums``, which is linear; its gradient is the sums over the transposed lists."""

    @staticmethod
    def forward(x: Tensor, incidence: Incidence) -> Tensor:
        sums = torch.nn.functional.embedding_bag(incidence.rows, x.detach().contiguous(), incidence.starts, mode="sum")
        return sums if incidence.places is None else sums.index_select(0, incidence.places)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Incidence], output: Tensor) -> None:
        ctx.incidence = inputs[1]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _Sums.apply(gradient, ctx.incidence.transposed), None  # type: ignore[no-untyped-call]

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> Tensor:
        return cast(Tensor, _Sums.apply(tangent, ctx.incidence))  # type: ignore[no-untyped-call]

    @staticmethod
    def vmap(info: Any, dims: tuple[int, None], x: Tensor, incidence: Incidence) -> tuple[Tensor, int]:
        stacked = x.movedim(dims[0], 1)
        return _Sums.apply(stacked.flatten(1), incidence).unflatten(1, stacked.shape[1:]), 1  # type: ignore[no-untyped-call]


def distinct_tuples(places: Ragged, k: int, increasing: bool, num_values: int) -> tuple[Rows, Incidence]:
    """Returns the distinct k-tuples of sets of places below num_values, and the list of every set's tuples.

    The tuples are all injective ones, or those with i_1 < … < i_k. The tuples of a smaller set are filled up with -1.
    In the rows returned, each tuple is the only row of a "set".
    """
    base = num_values + 1  # the zero vector has the last digit
    digits, device = places.values.to(torch.int32 if base**k < 2**31 else torch.int64), places.device
    codes, lengths, owners = [], [], []
    for n, sets in by_size(places.sizes):
        members = torch.arange(len(places), device=device) if sets is None else torch.tensor(sets, device=device)
        positions = (increasing_tuples if increasing else injective_tuples)(n, k).to(device)
        of_sets = digits[places.offsets[members, None] + torch.arange(n, device=device)]
        if n < k:
            of_sets = torch.nn.functional.pad(of_sets, (0, 1), value=num_values)
            positions = positions.where(positions >= 0, n)
        # Sets with similar tuples come together, so that the values one reads are still cached for the next.
        order = _codes(of_sets, positions[:1], base)[:, 0].argsort(stable=True)
        codes.append(_codes(of_sets[order], positions, base).flatten())
        lengths.append(torch.full_like(order, len(positions)))
        owners.append(members[order])
    distinct, rows = _numbered(torch.cat(codes), base**k)
    starts = torch.cat(lengths).cumsum(0) - torch.cat(lengths)
    lists = Incidence(rows, starts.to(rows.dtype), torch.cat(owners), len(distinct))
    tuples = torch.stack([distinct // base ** (k - 1 - j) % base for j in range(k)], 1)
    padded = min(places.sizes, default=0) < k
    tuples = tuples.where(tuples < num_values, -1) if padded else tuples
    alone = Bucket(tuples[:, None], None, tuples.new_zeros(len(tuples)), None, padded)
    return Rows((alone,), len(tuples)), lists


def _codes(digits: Tensor, positions: Tensor, base: int) -> Tensor:
    """Returns a number (S, R) for the digits (S, n) at each of these positions (R, k)."""
    first, *others = positions.unbind(1)
    codes = digits.index_select(1, first)
    for position in others:
        codes.mul_(base).add_(digits.index_select(1, position))
    return codes


def _numbered(codes: Tensor, num_codes: int) -> tuple[Tensor, Tensor]:
    """Returns the distinct codes in rising order, int64, and the place of each code (E,) among them."""
    if num_codes > max(FEW_CODES, 4 * len(codes)):
        distinct, numbers = codes.unique(return_inverse=True)
    else:
        occurs = torch.bincount(codes, minlength=num_codes) > 0
        distinct, numbers = occurs.nonzero().flatten(), (occurs.cumsum(0) - 1).index_select(0, codes)
    return distinct.long(), numbers.to(torch.int32 if len(codes) < 2**31 else torch.int64)
