"""Drawn rows as an ordering, so that they can be cut, weighted, reduced separately, or read by another f.

A *draw* is what a network averages before ρ: the ``num_rows(n)`` rows that its orderings give for a set.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isinf
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from janossy.orderings.contract import Orderings, RandomOrderings, takes_all
from janossy.orderings.rows import Bucket, Rows
from janossy.sets import Ragged
from janossy.sets.transfer import upload


@dataclass(frozen=True, eq=False)
class Drawn(Orderings):
    """The rows that an ordering has enumerated for sets of these sizes. It serves no other sets."""

    rows: Rows
    sizes: tuple[int, ...]
    k: int | None = None
    """The length of every row, if all rows have one length."""
    draws: ClassVar[bool] = False

    @property
    def weighs_rows(self) -> bool:
        return any(bucket.weights is not None for bucket in self.rows.buckets)

    def num_rows(self, n: int) -> int:
        return self._of_size[n][0]

    def row_length(self, n: int) -> int:
        return self._of_size[n][1]

    @cached_property
    def _of_size(self) -> dict[int, tuple[int, int]]:
        """The number of rows of a set of each size, and their length."""
        rows_of = {}
        for bucket in self.rows.buckets:
            if bucket.num_sets:
                owner, num_draws = bucket.members(self.rows.num_sets)[0], 1
                if self.rows.owners is not None:
                    owners = self.rows.owners_on_host
                    owner, num_draws = owners[owner], owners.count(owners[owner])
                rows_of[self.sizes[owner]] = num_draws * bucket.num_rows, bucket.length
        return rows_of

    def enumerate(self, keys: Ragged, generator: torch.Generator | None = None) -> Rows:
        assert keys.sizes == self.sizes
        return self.rows

    def part(self, sets: Sequence[int], rows: Callable[[int], slice], chosen: Ragged) -> "Drawn":
        """Returns some rows of some sets: ``rows(n)`` says which rows for a set of n.

        ``sets`` are numbers of sets in rising order, and ``chosen`` is the batch of them.
        """
        numbers = {b: i for i, b in enumerate(sets)}
        buckets = []
        for bucket in self.rows.buckets:
            members = [(s, b) for s, b in enumerate(bucket.members(self.rows.num_sets)) if b in numbers]
            if not members:
                continue
            kept = rows(self.sizes[members[0][1]])
            here = upload(torch.tensor([s for s, _ in members], device="cpu"), chosen.device)
            named = [numbers[b] for _, b in members]
            there = upload(torch.tensor(named, device="cpu"), chosen.device)
            local = _as_stored(bucket, kept)[here]
            weights = None if bucket.weights is None else bucket.weights[here][:, kept]
            buckets.append(Bucket(local, there, chosen.offsets[there], None, bucket.padded, weights, named))
        return Drawn(Rows(tuple(buckets), len(sets)), chosen.sizes, self.k)

    def apart(self, num_rows: Callable[[int], int]) -> "Drawn":
        """Returns the same rows, with each draw reduced separately, set by set.

        A draw has ``num_rows(n)`` rows for a set of n.
        """
        rows = self.rows
        device = rows.buckets[0].starts.device
        num_draws = np.zeros(rows.num_sets, np.int64)
        for bucket in rows.buckets:
            if bucket.num_sets:
                members = bucket.members(rows.num_sets)
                num_draws[list(members)] = bucket.num_rows // num_rows(self.sizes[members[0]])
        owners = np.arange(rows.num_sets).repeat(num_draws)
        first = num_draws.cumsum() - num_draws
        buckets = [
            _apart(bucket, list(bucket.members(rows.num_sets)), num_draws, first) if bucket.num_sets else bucket
            for bucket in rows.buckets
        ]
        return replace(self, rows=Rows(tuple(buckets), len(owners), upload(owners, device), tuple(owners.tolist())))


def draws_of(
    orderings: RandomOrderings,
    num: int,
    keys: Ragged,
    generator: torch.Generator | None = None,
    *,
    independent: bool = False,
    seed: int | None = None,
) -> Drawn:
    """Returns ``num`` draws of these orderings for each set, one after the other.

    Draws of one permutation each are made together by the scheme, unless ``independent``. All others are independent.
    """
    if orderings.num_permutations == 1 and all(isinf(orderings.population(n)) for n in set(keys.sizes)):
        together = orderings.redrawn(num, block=1 if independent else None, seed=seed)
        return Drawn(together.enumerate(keys, generator), keys.sizes, orderings.k)
    return independent_draws(orderings, num, keys, generator, seed=seed)


def independent_draws(
    orderings: RandomOrderings,
    num: int,
    keys: Ragged,
    generator: torch.Generator | None = None,
    *,
    seed: int | None,
    all_once: bool = False,
) -> Drawn:
    """Returns the rows of ``num`` calls of ``enumerate``, one after the other; with a seed, of as many seeds.

    With ``all_once``, a set that gives all its rows in every call gives them once.
    """
    seed = orderings.seed if seed is None else seed
    each = [orderings] * num
    if seed is not None:
        seeds = np.random.SeedSequence(seed).generate_state(num, np.uint32).tolist()
        each = [orderings.redrawn(orderings.num_permutations, seed=child) for child in seeds]
    calls = [one.enumerate(keys, generator) for one in each]
    buckets = []
    for same in zip(*(rows.buckets for rows in calls), strict=True):
        n = keys.sizes[members[0]] if (members := same[0].members(len(keys))) else 0
        buckets.append(_joined(same[:1] if all_once and takes_all(orderings, n) else same))
    return Drawn(Rows(tuple(buckets), len(keys)), keys.sizes, orderings.k)


def _joined(buckets: Sequence[Bucket]) -> Bucket:
    """Returns the rows of the same sets, one after the other."""
    local = torch.cat([_as_stored(bucket) for bucket in buckets], 1)
    weights = [bucket.weights for bucket in buckets if bucket.weights is not None]
    return replace(buckets[0], local=local, order=None, weights=torch.cat(weights, 1) if weights else None)


def _as_stored(bucket: Bucket, rows: slice = slice(None)) -> Tensor:
    """Returns positions (S, R, L) within the sets in their stored order, not the sorted one."""
    local = bucket.positions(rows=rows) - bucket.starts[:, None, None]
    return local.where(bucket.local[:, rows] >= 0, -1) if bucket.padded else local


def _apart(bucket: Bucket, members: list[int], num_draws: np.ndarray, first: np.ndarray) -> Bucket:
    """Returns the bucket with the rows of each draw as the rows of a set of their own.

    The draws of a set are numbered from its entry of ``first``.
    """
    num = int(num_draws[members[0]])
    local = bucket.local.unflatten(1, (num, -1)).expand(bucket.num_sets, -1, -1, -1).flatten(0, 1)
    sets = numbers = None
    if bucket.sets is not None:
        draws = (first[members, None] + np.arange(num)).flatten()
        sets, numbers = upload(draws, local.device), draws.tolist()
    weights = None if bucket.weights is None else bucket.weights.unflatten(1, (num, -1)).flatten(0, 1)
    starts = bucket.starts.repeat_interleave(num)
    return replace(bucket, local=local, sets=sets, starts=starts, weights=weights, numbers=numbers)
