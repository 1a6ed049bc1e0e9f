"""Rows of positions that every ordering enumerates for f, and the functions that build them.

Rows are kept as dense buckets, one per size of set in the batch, and not as one flat ragged list. So f is only called
on rows of equal length, and the rows of a set in a bucket reduce by a dense mean. ``Rows.flatten`` gives the flat form.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from janossy.sets import Ragged
from janossy.sets.transfer import upload


@dataclass(frozen=True)
class Bucket:
    """The rows of all sets of one size n: R rows of length L for each of S sets.

    Shapes:
        local: (S, R, L), or (1, R, L) if all S sets share it; int64 positions within a set, -1 for the zero vector.
        sets: (S,), the numbers of the sets in the batch; None for all sets, in order.
        starts: (S,), the position in ``Ragged.values`` at which each of those sets begins.
        order: (N,), the position in ``Ragged.values`` of each element of the sorted sets; None if they are not sorted.
    """

    local: Tensor
    sets: Tensor | None
    starts: Tensor
    order: Tensor | None
    padded: bool
    """True if any position is -1."""
    weights: Tensor | None = None
    """The rows' weights (S, R): a row's share of all orderings over its probability to be drawn. None if all are 1."""
    numbers: Sequence[int] | None = None
    """``sets`` on the host, if known there: a copy from a GPU waits for it."""

    @property
    def num_sets(self) -> int:
        return len(self.starts)

    @property
    def num_rows(self) -> int:
        """The number of rows per set."""
        return self.local.shape[1]

    @property
    def length(self) -> int:
        return self.local.shape[2]

    def members(self, num_sets: int) -> Sequence[int]:
        """Returns the numbers of these sets, in a batch of num_sets."""
        if self.sets is None:
            return range(num_sets)
        return self.sets.tolist() if self.numbers is None else self.numbers

    def positions(self, sets: slice = slice(None), rows: slice = slice(None)) -> Tensor:
        """Returns positions in ``Ragged.values``, (S, R, L), or for some sets and rows; -1 is the zero vector."""
        local = (self.local if len(self.local) == 1 else self.local[sets])[:, rows]
        positions = local + self.starts[sets, None, None]
        if self.order is not None and len(self.order):
            positions = self.order[positions]
        return positions.where(local >= 0, -1) if self.padded else positions


@dataclass(frozen=True)
class Rows:
    """All rows of a batch, as buckets. Each set of the batch is in exactly one bucket."""

    buckets: tuple[Bucket, ...]
    num_sets: int
    owners: Tensor | None = None
    """The set of each draw, (num_sets,), if draws of a set are reduced separately, as if each were a set."""
    owners_on_host: Sequence[int] = ()
    """``owners`` as numbers on the host."""

    def weights(self) -> Tensor | None:
        """Returns the weights of all rows (Σ_b r_b, 1), in the order of the sets; None if all are 1."""
        parts = [bucket.weights[..., None] for bucket in self.buckets if bucket.weights is not None]
        return self.join(parts) if parts else None

    def counts(self) -> list[int]:
        """Returns the number of rows of each set, in the order of the sets."""
        counts = [0] * self.num_sets
        for bucket in self.buckets:
            for b in bucket.members(self.num_sets):
                counts[b] = bucket.num_rows
        return counts

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """Returns one tensor (Σ_b r_b, c) in the order of the sets, from each bucket's (S, r, c)."""
        if len(parts) == 1:
            return parts[0].flatten(0, 1)
        sets = [bucket.sets for bucket in self.buckets if bucket.sets is not None]
        owners = torch.cat([b.repeat_interleave(part.shape[1]) for b, part in zip(sets, parts, strict=True)])
        return torch.cat([part.flatten(0, 1) for part in parts])[torch.argsort(owners, stable=True)]

    def flatten(self) -> tuple[Ragged, Tensor]:
        """Returns the rows as (Ragged of T rows of positions, -1 for the zero vector; the set of each row (T,)).

        Rows come in the order of the sets. By definition, row t is built by the loop::

            positions, owners = rows.flatten()
            row = [zero if p == -1 else sets.values[p] for p in positions[t]]    # belongs to set owners[t]
        """
        rows = [
            (b, row)
            for bucket in self.buckets
            for b, rows in zip(bucket.members(self.num_sets), bucket.positions().cpu(), strict=True)
            for row in rows
        ]
        rows.sort(key=lambda pair: pair[0])
        lengths = [len(row) for _, row in rows]
        positions = torch.cat([row for _, row in rows]) if rows else torch.zeros(0, dtype=torch.long, device="cpu")
        return Ragged.from_sizes(positions, lengths), torch.tensor([b for b, _ in rows], dtype=torch.long, device="cpu")


def build_rows(
    keys: Ragged, local: Callable[[int, int], Tensor], order: Tensor | None = None, k: int | None = None
) -> Rows:
    """Returns the buckets of ``local(n, S)`` for every size n in the batch.

    ``local`` gives positions (1 or S, R, L) within sets of size n. With a fixed row length k, the rows of smaller sets
    are padded.
    """
    of_sizes = by_size(keys.sizes)
    chosen: Sequence[Tensor | None] = [None]
    starts: Sequence[Tensor] = [keys.offsets[:-1]]
    if len(of_sizes) > 1:
        all_sets = upload(
            torch.tensor([b for _, numbers in of_sizes for b in numbers or ()], device="cpu"), keys.device
        )
        num_sets = [len(numbers or ()) for _, numbers in of_sizes]
        chosen, starts = all_sets.split(num_sets), keys.offsets[all_sets].split(num_sets)
    buckets = []
    for (n, numbers), sets, begins in zip(of_sizes, chosen, starts, strict=True):
        positions = upload(local(n, len(begins)), keys.device)
        buckets.append(Bucket(positions, sets, begins, order, k is not None and n < k, numbers=numbers))
    return Rows(tuple(buckets), len(keys))


def first_of(orders: Tensor, k: int | None) -> Tensor:
    """Cuts orders (…, n) to their first k positions, filled up with -1, the zero vector; None keeps all."""
    return orders if k is None else nn.functional.pad(orders[..., :k], (0, max(0, k - orders.shape[-1])), value=-1)


def whole_sets(keys: Ragged, order: Tensor | None = None, k: int | None = None) -> Rows:
    """Returns one row per set, of all elements or the first k, as they stand or as ``order`` sorts them."""
    return build_rows(keys, lambda n, _: first_of(torch.arange(n, device=keys.device)[None, None], k), order, k)


def by_size(sizes: Sequence[int]) -> list[tuple[int, list[int] | None]]:
    """Returns the distinct sizes, each with the numbers of its sets; None for all sets.

    A batch without sets has the one size 0.
    """
    distinct = sorted(set(sizes)) or [0]
    if len(distinct) == 1:
        return [(distinct[0], None)]
    members: dict[int, list[int]] = {n: [] for n in distinct}
    for b, n in enumerate(sizes):
        members[n].append(b)
    return list(members.items())
