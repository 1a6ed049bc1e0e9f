"""Rows that have been drawn, as an ordering: so that they can be cut, weighed, or read by a second function."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from janossy.orderings.rows import Bucket, Rows
from janossy.ragged import Ragged


@dataclass(frozen=True, eq=False)
class Drawn:
    """The rows that an ordering has enumerated for sets of these sizes; only they may be pooled with it."""

    rows: Rows
    sizes: tuple[int, ...]
    k: int | None = None
    """The elements of every row, if that is one number."""

    def num_rows(self, n: int) -> int:
        return self._buckets[n].num_rows

    def row_length(self, n: int) -> int:
        return self._buckets[n].length

    @cached_property
    def _buckets(self) -> dict[int, Bucket]:
        """By the size of their sets, of which there is at least one."""
        return {
            self.sizes[bucket.members(len(self.sizes))[0]]: bucket for bucket in self.rows.buckets if bucket.num_sets
        }

    def enumerate(self, keys: Ragged, generator: torch.Generator | None = None) -> Rows:
        assert keys.sizes == self.sizes
        return self.rows

    def part(self, sets: Sequence[int], rows: Callable[[int], slice], chosen: Ragged) -> "Drawn":
        """Of some sets, in rising order, the rows that ``rows`` says for their size; ``chosen`` is a batch of them."""
        numbers = {b: i for i, b in enumerate(sets)}
        buckets = []
        for bucket in self.rows.buckets:
            members = [(s, b) for s, b in enumerate(bucket.members(self.rows.num_sets)) if b in numbers]
            if not members:
                continue
            some = rows(self.sizes[members[0][1]])
            here = torch.tensor([s for s, _ in members], device=chosen.device)
            there = torch.tensor([numbers[b] for _, b in members], device=chosen.device)
            # Positions within the sets as they are stored, and no longer as they are sorted.
            local = bucket.positions(rows=some)[here] - bucket.starts[here, None, None]
            local = local.where(bucket.local[:, some].expand(len(bucket.starts), -1, -1)[here] >= 0, -1)
            weights = None if bucket.weights is None else bucket.weights[here][:, some]
            buckets.append(Bucket(local, there, chosen.offsets[there], None, bucket.padded, weights))
        return Drawn(Rows(tuple(buckets), len(sets)), chosen.sizes, self.k)
