"""What every ordering strategy produces: the rows of positions at which f is applied.

Rows are kept as dense buckets, one for each size of set in the batch, and not as one flat ragged list: f is only ever
called on rows of equal length, and within a bucket the rows of a set reduce by a dense mean. ``Rows.flatten`` gives
the flat form.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from math import log10
from typing import Any, Protocol, Self, runtime_checkable

import torch
from torch import Tensor, nn

from janossy.checks import check_integer
from janossy.sets import Ragged
from janossy.transfer import upload

MAX_ROWS = 10_000_000
"""The default budget of rows in one batch."""


@dataclass(frozen=True)
class Bucket:
    """The rows of all sets of one size n: R rows of length L for each of S sets.

    Shapes:
        local: (S, R, L), or (1, R, L) if all S sets share it; int64 positions within a set, -1 for the zero vector.
        sets: (S,), which sets of the batch; or None for all of them, in order.
        starts: (S,), where each of those sets begins in ``Ragged.values``.
        order: (N,), the position in ``Ragged.values`` of each element of the sorted sets; or None to leave them be.
    """

    local: Tensor
    sets: Tensor | None
    starts: Tensor
    order: Tensor | None
    padded: bool
    """Whether any position is -1."""
    weights: Tensor | None = None
    """The rows' weights, (S, R): how much more often all orderings hold a row than the draw. None where all are 1."""
    numbers: Sequence[int] | None = None
    """``sets`` on the host, where they are known there: to ask a GPU is to wait for it."""

    @property
    def num_sets(self) -> int:
        return len(self.starts)

    @property
    def num_rows(self) -> int:
        """Rows for each set."""
        return self.local.shape[1]

    @property
    def length(self) -> int:
        return self.local.shape[2]

    def members(self, num_sets: int) -> Sequence[int]:
        """The numbers of these sets, in a batch of num_sets."""
        if self.sets is None:
            return range(num_sets)
        return self.sets.tolist() if self.numbers is None else self.numbers

    def positions(self, sets: slice = slice(None), rows: slice = slice(None)) -> Tensor:
        """Positions in ``Ragged.values``, (S, R, L), or of some sets and rows only; -1 for the zero vector."""
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
    """Where several draws of one set are reduced each by itself, as if they were sets: the set of each, (num_sets,)."""
    owners_on_host: Sequence[int] = ()
    """``owners``, as numbers."""

    def weights(self) -> Tensor | None:
        """The weights of all rows (Σ_b r_b, 1), in the order of the sets; None where all are 1."""
        parts = [bucket.weights[..., None] for bucket in self.buckets if bucket.weights is not None]
        return self.join(parts) if parts else None

    def counts(self) -> list[int]:
        """The number of rows of each set, in the order of the sets."""
        counts = [0] * self.num_sets
        for bucket in self.buckets:
            for b in bucket.members(self.num_sets):
                counts[b] = bucket.num_rows
        return counts

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """One tensor (Σ_b r_b, c) in the order of the sets, from each bucket's (S, r, c)."""
        if len(parts) == 1:
            return parts[0].flatten(0, 1)
        sets = [bucket.sets for bucket in self.buckets if bucket.sets is not None]
        owners = torch.cat([b.repeat_interleave(part.shape[1]) for b, part in zip(sets, parts, strict=True)])
        return torch.cat([part.flatten(0, 1) for part in parts])[torch.argsort(owners, stable=True)]

    def flatten(self) -> tuple[Ragged, Tensor]:
        """The rows as (Ragged of T rows of positions, -1 for the zero vector; the set of each row (T,)).

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
        positions = torch.cat([row for _, row in rows]) if rows else torch.zeros(0, dtype=torch.long)
        return Ragged.from_sizes(positions, lengths), torch.tensor([b for b, _ in rows], dtype=torch.long)


class Orderings(Protocol):
    """WHICH sequences are averaged: a frozen dataclass with these three methods, which says whether it draws.

    ``num_rows`` and ``row_length`` tell, without building anything, the rows of one set of size n. Orderings whose rows
    all have one length say so by an attribute ``k``, and those that have the same mean by the same ``averages``.
    """

    @property
    def draws(self) -> bool:
        """Whether the rows are a random sample, so that their mean has an error: then a ``RandomOrderings``."""
        ...

    def num_rows(self, n: int) -> int: ...

    def row_length(self, n: int) -> int: ...

    def enumerate(self, keys: Ragged, generator: torch.Generator | None = None) -> Rows:
        """The rows for sets of these sizes. ``keys`` are the elements that a canonical order looks at."""
        ...


class RandomOrderings(Orderings, Protocol):
    """Orderings that draw: what is asked of them by whoever wants several draws, or the error of a mean over them.

    Two calls of ``enumerate`` draw independently, and so do the sets of a batch, unless a seed fixes the rows.
    """

    @property
    def num(self) -> int:
        """The permutations of each set; each may be several rows."""
        ...

    @property
    def seed(self) -> int | None:
        """What fixes the rows; None where they are drawn anew at every call."""
        ...

    @property
    def block(self) -> int | None:
        """The most permutations that may depend on each other; None for as many as make the best mean."""
        ...

    def blocks(self, n: int) -> list[int]:
        """Numbers of rows of a set of n, in order: rows of one block may depend on each other, different blocks not.

        Rows drawn without replacement are blocks by themselves: ``population`` says how they depend on each other.
        """
        ...

    def population(self, n: int) -> float:
        """How many rows of a set of n are drawn from without replacement; infinity where they are replaced."""
        ...

    def redrawn(self, num: int, *, block: int | None = None, seed: int | None = None) -> Self:
        """The same, but of num permutations, in blocks of at most so many, from another seed; None keeps each."""
        ...


METHODS = ("num_rows", "row_length", "enumerate")
DRAWING = ("num", "seed", "block", "blocks", "population", "redrawn")
"""What ``RandomOrderings`` have besides."""


def check_orderings(orderings: Any, owner: str) -> None:
    """Raise a TypeError unless these are ``Orderings``, and ``RandomOrderings`` if they say that they draw."""
    name = orderings.__name__ if isinstance(orderings, type) else type(orderings).__name__
    if isinstance(orderings, type):
        raise TypeError(f"{owner} expects orderings; got the class {name}. Write {name}(…), with its arguments.")
    if missing := [method for method in METHODS if not callable(getattr(orderings, method, None))]:
        raise TypeError(
            f"{owner} expects orderings, which have the methods {', '.join(METHODS)}; got {orderings!r}, of type "
            f"{name}, without {', '.join(missing)}. Give one of janossy.orderings, such as Sampled(5)."
        )
    draws = getattr(orderings, "draws", None)
    if not isinstance(draws, bool):
        raise TypeError(
            f"{owner} expects orderings that declare whether they draw, by an attribute draws; got {name}, with "
            f"draws={draws!r}. Say draws = True if its enumerate draws at random, and draws = False if not."
        )
    if draws and (missing := [part for part in DRAWING if not hasattr(orderings, part)]):
        raise TypeError(
            f"{owner} expects orderings that draw to be RandomOrderings, with {', '.join(DRAWING)}; got {name}, "
            f"without {', '.join(missing)}. Add them: janossy.orderings.RandomOrderings says what each is."
        )


def as_random(orderings: Any, owner: str) -> RandomOrderings | None:
    """These orderings if they draw, None if they are exact; raise a TypeError unless they are orderings that say so."""
    check_orderings(orderings, owner)
    return orderings if orderings.draws else None


def exhausting(orderings: Orderings, most: int | None = None) -> Orderings:
    """The same orderings, but sets that have no more of them than are drawn, or than ``most``, give all, once each.

    Random orderings say by a method of this name that they can; others are returned as they are.
    """
    return orderings.exhausting(most) if callable(getattr(orderings, "exhausting", None)) else orderings  # type: ignore[attr-defined]


def in_prediction(orderings: Orderings) -> Orderings:
    """What predictions take in the place of orders that are drawn to be learned: the order that was learned.

    Orderings say by a method of this name that they are learned; others are returned as they are.
    """
    return orderings.in_prediction() if callable(getattr(orderings, "in_prediction", None)) else orderings  # type: ignore[attr-defined]


def takes_all(orderings: RandomOrderings, n: int) -> bool:
    """Whether a draw of a set of n is all that there is to draw from: every draw is then the same."""
    return orderings.num_rows(n) >= orderings.population(n)


@runtime_checkable
class EveryArrangement(Protocol):
    """Orderings that are all arrangements of ``row_length(n)`` distinct elements of a set, or all increasing ones.

    A smaller set fills its rows up with the zero vector. An evaluator that recognises them need not build rows.
    """

    @property
    def increasing(self) -> bool:
        """Only the tuples i_1 < … < i_k of positions in the sorted set."""
        ...

    def order(self, keys: Ragged) -> Tensor | None:
        """The position (N,) of each element of the sorted sets; or None to leave them be."""
        ...


@runtime_checkable
class EveryTuple(EveryArrangement, Protocol):
    """All arrangements in rows of one length, k."""

    @property
    def k(self) -> int: ...


@runtime_checkable
class SharedBeginnings(Protocol):
    """Orderings whose rows come in groups that begin alike: behind each beginning, what may follow in every order.

    The beginning is all but the last ``exact_last`` elements of a row; what may follow are the elements not in it. The
    rows of a group are in the lexicographic order of the positions of ``injective_tuples``.
    """

    @property
    def exact_last(self) -> int: ...


def averages_every_arrangement(orderings: Orderings) -> bool:
    """Whether they are an ``EveryArrangement`` whose rows no subclass has changed."""
    owner = next((c for c in type(orderings).__mro__ if "enumerate" in c.__dict__), object)
    return "increasing" in owner.__dict__ and "order" in owner.__dict__


def averages_every_tuple(orderings: Orderings) -> bool:
    """Whether they are an ``EveryTuple`` whose rows no subclass has changed."""
    return averages_every_arrangement(orderings) and isinstance(orderings, EveryTuple)


def weighs_rows(orderings: Orderings) -> bool:
    """Whether their buckets hold ``weights``: the mean over all orderings is that of weight times f."""
    return getattr(orderings, "weighs_rows", False)


def modules_of(orderings: Orderings | None) -> list[nn.Module]:
    """The modules among the fields of these orderings: keys, scorers, weights."""
    if not is_dataclass(orderings):
        return []
    given = [getattr(orderings, field.name) for field in fields(orderings)]
    each = [part for value in given for part in (value if isinstance(value, tuple) else (value,))]
    return [part for part in each if isinstance(part, nn.Module)]


def check_budget(orderings: Orderings, sizes: Sequence[int], max_rows: int, count: str, remedy: str = "") -> None:
    """Raise a ValueError if sets of these sizes need more than max_rows rows in all.

    ``remedy`` is named beside smaller batches, which are named where each set fits by itself.
    """
    total = sum(num_sets * orderings.num_rows(n) for n, num_sets in Counter(sizes).items())
    if total > max_rows:
        n = max(sizes)
        remedies = ["smaller batches"] if orderings.num_rows(n) <= max_rows else []
        remedies += [remedy] if remedy else []
        raise ValueError(
            f"{type(orderings).__name__} needs {count}: a set of {n} needs {_text(orderings.num_rows(n))}, "
            f"this batch of {len(sizes)} sets needs {_text(total)}, over max_rows={max_rows}; use "
            f"{' or '.join(remedies or ['a larger max_rows'])}."
        )


def check_k(orderings: Orderings, k: int) -> None:
    """Raise a TypeError if k is no integer, a ValueError if it is below 1."""
    check_integer(type(orderings).__name__, "k", k, 1, "elements a row")


def check_max_rows(orderings: Orderings, max_rows: int) -> None:
    """Raise a TypeError if max_rows is no integer, a ValueError if it is below 1."""
    check_integer(type(orderings).__name__, "max_rows", max_rows, 1)


def _text(count: int) -> str:
    return str(count) if count < 10**15 else f"about 10^{round(log10(count))}"


def build_rows(
    keys: Ragged, local: Callable[[int, int], Tensor], order: Tensor | None = None, k: int | None = None
) -> Rows:
    """The buckets of ``local(n, S)``, positions (1 or S, R, L) within sets of size n, for every size n of the batch.

    k is the fixed row length, if there is one: smaller sets have padded rows.
    """
    of_sizes = by_size(keys.sizes)
    chosen: Sequence[Tensor | None] = [None]
    starts: Sequence[Tensor] = [keys.offsets[:-1]]
    if len(of_sizes) > 1:
        all_sets = upload(torch.tensor([b for _, numbers in of_sizes for b in numbers or ()]), keys.device)
        num_sets = [len(numbers or ()) for _, numbers in of_sizes]
        chosen, starts = all_sets.split(num_sets), keys.offsets[all_sets].split(num_sets)
    buckets = []
    for (n, numbers), sets, begins in zip(of_sizes, chosen, starts, strict=True):
        positions = upload(local(n, len(begins)), keys.device)
        buckets.append(Bucket(positions, sets, begins, order, k is not None and n < k, numbers=numbers))
    return Rows(tuple(buckets), len(keys))


def first_of(orders: Tensor, k: int | None) -> Tensor:
    """Of orders (…, n) the first k, filled up with -1, the zero vector; all of them for None."""
    return orders if k is None else nn.functional.pad(orders[..., :k], (0, max(0, k - orders.shape[-1])), value=-1)


def whole_sets(keys: Ragged, order: Tensor | None = None, k: int | None = None) -> Rows:
    """Each set as it stands, or as ``order`` has sorted it: one row of all its elements, or of the first k."""
    return build_rows(keys, lambda n, _: first_of(torch.arange(n, device=keys.device)[None, None], k), order, k)


def by_size(sizes: Sequence[int]) -> list[tuple[int, list[int] | None]]:
    """The distinct sizes, each with the numbers of its sets; None for all of them. No sets are all of size 0."""
    distinct = sorted(set(sizes)) or [0]
    if len(distinct) == 1:
        return [(distinct[0], None)]
    members: dict[int, list[int]] = {n: [] for n in distinct}
    for b, n in enumerate(sizes):
        members[n].append(b)
    return list(members.items())
