"""Sets of similar sizes side by side, padded, on which attention within sets is computed."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from janossy.orderings.templates import kept
from janossy.sets import Ragged
from janossy.sets.transfer import constant_when_compiled

MAX_CELLS = 2**26
"""The most pairs of places in one group, unless a single set has more."""

MAX_SETS = 65_535
"""The most sets in one group: fused attention in half precision has one block of a GPU's grid for each."""

GROUP_CELLS, WASTE = 2**14, 0.15
"""The cost of another group in pairs of places, and the share of a group that may be padding beyond that."""

PLACE_CELLS = 32
"""The number of pairs that take as long as the work on one place."""

PaddedShape = tuple[int, int, bool]
"""The shape of a group: its number of sets, the places per set, and True if any place is padding."""

BuildArray = Callable[[tuple[int, ...]], np.ndarray]


@dataclass(frozen=True)
class Padding:
    """Groups of sets of similar sizes, each padded to its largest set. Empty sets are in no group.

    A padded place repeats the last element of its own set. So no number of another set is ever read, NaN included.

    Shapes: values (N, *f) <-> parts (sets of the group, places, *f).
    """

    sizes: tuple[int, ...]
    device: torch.device

    @classmethod
    def of(cls, sets: Ragged) -> "Padding":
        return cls(sets.sizes, sets.device)

    @property
    def groups(self) -> tuple[PaddedShape, ...]:
        return _groups(self.sizes)

    def pad(self, values: Tensor) -> list[Tensor]:
        """Returns the elements (N, *f) group by group."""
        if _is_even(self.sizes):
            return [values.unflatten(0, (len(self.sizes), -1))]
        places = values.index_select(0, self._array(_places))
        return [
            part.unflatten(0, (num_sets, n))
            for part, (num_sets, n, _) in zip(places.split(self._counts()), self.groups, strict=True)
        ]

    def of_pairs(self, values: Tensor) -> list[Tensor]:
        """Returns numbers (P, H) of all pairs of each set group by group, (sets, H, places, places)."""
        found = values.index_select(0, torch.from_numpy(_pairs(self.sizes)).to(values.device))
        parts = found.split([num_sets * n * n for num_sets, n, _ in self.groups])
        return [
            part.view(num_sets, n, n, -1).movedim(3, 1)
            for part, (num_sets, n, _) in zip(parts, self.groups, strict=True)
        ]

    def unpad(self, parts: list[Tensor]) -> Tensor:
        """Returns the results at real places, in the order of the elements, (N, *f)."""
        joined = torch.cat([part.flatten(0, 1) for part in parts]) if len(parts) > 1 else parts[0].flatten(0, 1)
        return joined if _is_even(self.sizes) else joined.index_select(0, self._array(_back))

    def masks(self) -> list[Tensor | None]:
        """Returns the mask of each group, (sets, 1, 1, places), True at real places; None if all are real."""
        if not any(padded for *_, padded in self.groups):
            return [None] * len(self.groups)
        real = self._array(_real).split(self._counts())
        return [
            part.view(num_sets, 1, 1, n) if padded else None
            for part, (num_sets, n, padded) in zip(real, self.groups, strict=True)
        ]

    def of_sets(self, values: Tensor) -> list[Tensor]:
        """Returns one entry per set, (B, *f), group by group."""
        if _is_even(self.sizes):
            return [values]
        chosen = values.index_select(0, self._array(_sets))
        return list(chosen.split([num_sets for num_sets, *_ in self.groups]))

    def to_sets(self, parts: list[Tensor]) -> Tensor:
        """Returns one result per set, (B, *f), from the groups' results; zero for an empty set."""
        joined = torch.cat(parts)
        if _is_even(self.sizes):
            return joined
        result = joined.new_zeros(len(self.sizes), *joined.shape[1:])
        return result.index_copy(0, self._array(_sets), joined)

    def _counts(self) -> list[int]:
        return [num_sets * n for num_sets, n, _ in self.groups]

    def _array(self, build: BuildArray) -> Tensor:
        return kept(sum(self._counts()), build, self.sizes, device=self.device)


@constant_when_compiled
def _is_even(sizes: tuple[int, ...]) -> bool:
    """Returns True if the values, in their order, are one group without padding."""
    return len(set(sizes)) == 1 and sizes[0] > 0 and len(_groups(sizes)) == 1


@constant_when_compiled
def _groups(sizes: tuple[int, ...]) -> tuple[PaddedShape, ...]:
    """Returns the groups' shapes; if there are no elements, one group of no sets."""
    return tuple((len(group), n, min(sizes[b] for b in group) < n) for n, group in _members(sizes)) or ((0, 0, False),)


@lru_cache(maxsize=64)
def _members(sizes: tuple[int, ...]) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Returns each group's number of places and its sets; the largest come first, and little is wasted."""
    groups: list[tuple[int, list[int]]] = []
    order = np.argsort(-np.array(sizes, dtype=np.int64), kind="stable").tolist()
    used = wasted = 0
    for b in order:
        size = sizes[b]
        if size == 0:
            break
        if groups:
            n, group = groups[-1]
            more, cells = n * (n + PLACE_CELLS) - size * (size + PLACE_CELLS), (len(group) + 1) * n * n
            if cells <= MAX_CELLS and len(group) < MAX_SETS and wasted + more <= max(GROUP_CELLS, WASTE * used):
                group.append(b)
                used, wasted = used + n * (n + PLACE_CELLS), wasted + more
                continue
        groups.append((size, [b]))
        used, wasted = size * (size + PLACE_CELLS), 0
    return tuple((n, tuple(group)) for n, group in groups)


def _sets(sizes: tuple[int, ...]) -> np.ndarray:
    """Returns the sets in the order of the groups."""
    return np.array([b for _, group in _members(sizes) for b in group], dtype=np.int64)


def _places(sizes: tuple[int, ...]) -> np.ndarray:
    """Returns the element that each padded place reads."""
    each, starts = np.array(sizes, dtype=np.int64), np.cumsum((0, *sizes[:-1]))
    parts = [
        (starts[list(group), None] + np.minimum(np.arange(n), each[list(group), None] - 1)).ravel()
        for n, group in _members(sizes)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _pairs(sizes: tuple[int, ...]) -> np.ndarray:
    """Returns the pair of elements that each pair of padded places reads."""
    each = np.array(sizes, dtype=np.int64)
    firsts = (each * each).cumsum() - each * each
    parts = []
    for n, group in _members(sizes):
        size, first = each[list(group), None, None], firsts[list(group), None, None]
        places = np.minimum(np.arange(n), size[:, 0] - 1)
        parts.append((first + places[:, :, None] * size + places[:, None]).ravel())
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _real(sizes: tuple[int, ...]) -> np.ndarray:
    """Returns True for each padded place that holds its own element."""
    each = np.array(sizes, dtype=np.int64)
    parts = [(np.arange(n) < each[list(group), None]).ravel() for n, group in _members(sizes)]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=bool)


def _back(sizes: tuple[int, ...]) -> np.ndarray:
    """Returns the padded place of each element."""
    back = np.empty(sum(sizes), dtype=np.int64)
    real = _real(sizes)
    back[_places(sizes)[real]] = np.flatnonzero(real)
    return back
