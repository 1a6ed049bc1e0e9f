"""Statistics of the sets of a fit, computed once for all learners that read them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from janossy.estimators.batches import Examples
from janossy.estimators.classical.choosing import SMALL_SETS, Sizes, are_compositions, choose_statistics
from janossy.nn.statistics import PooledStatistics
from janossy.tables.layout import Layout

MAX_SETS = 100_000
"""The most sets from which statistics are chosen and to which learners are fitted. Of more sets, a sample is used."""

MAX_NUMBERS = 2**27
"""The most numbers in a matrix of statistics that is kept. With many sets, bags keep fewer cells."""


@dataclass(frozen=True, eq=False)
class CachedRows:
    """Statistics with their vectors for the sets of a fit. Vectors are kept if there is room, else computed on
    demand."""

    statistics: PooledStatistics
    examples: Examples
    groups: np.ndarray | None
    kept: Tensor | None

    def of(self, numbers: Tensor) -> Tensor:
        """Returns the statistics of the sets with these numbers, (B, F) float32."""
        if self.kept is not None:
            return self.kept[numbers]
        some = self.examples[numbers]
        found: Tensor = self.statistics(some.sets, some.context)
        return found


class CachedStatistics:
    """The statistics of the sets of a fit, by the arguments of ``choose_statistics``.

    They are chosen on all sets, including validation sets, like the codes of columns. Targets are not used.

    Args:
        examples: the sets.
        layouts: those of elements and of context.
        groups: the group of each set, (B,); None without groups.
    """

    def __init__(self, examples: Examples, layouts: tuple[Layout, Layout], groups: np.ndarray | None = None) -> None:
        self._examples, self.layouts, self.groups = examples, layouts, groups
        self._found: dict[tuple[Sizes, str, bool, int], CachedRows] = {}

    @cached_property
    def examples(self) -> Examples:
        """The sets, on the CPU."""
        return self._examples.to("cpu")

    @cached_property
    def are_compositions(self) -> bool:
        """True if amounts by category say all of each set (``are_compositions``)."""
        return are_compositions(self.examples.sets, self.layouts[0])

    @cached_property
    def has_pairs(self) -> bool:
        """True if pairs of categories are counted: the sets are small."""
        sets = self.examples.sets
        return bool(self.layouts[0].vocabularies) and len(sets.values) <= SMALL_SETS * len(sets)

    def rows(self, most: Sizes, scheme: str, compact: bool, num_encoded: int = 0) -> CachedRows:
        """Returns the statistics for these sizes, this scheme of bags and this extent, with their vectors.

        Args:
            num_encoded: the number of values per category that are still 0 (``choose_statistics``).
        """
        if compact and scheme == "count" and not self.layouts[0].vocabularies:  # there are no bags
            scheme = "fraction"
        key = most, scheme, compact, num_encoded
        if key not in self._found:
            self._found[key] = self._rows(*key)
        return self._found[key]

    def _rows(self, most: Sizes, scheme: str, compact: bool, num_encoded: int) -> CachedRows:
        examples = self.examples
        some = examples
        if len(examples) > MAX_SETS:
            some = examples[torch.from_numpy(sample(np.arange(len(examples)), 0))]
        options: dict[str, Any] = {"most": most, "scheme": scheme, "compact": compact, "num_encoded": num_encoded}
        statistics = choose_statistics(some.sets, some.context, self.layouts, **options)
        is_small = len(examples) * statistics.out_features <= MAX_NUMBERS
        kept = statistics(examples.sets, examples.context) if is_small else None
        return CachedRows(statistics, examples, self.groups, kept)


def sample(numbers: np.ndarray, seed: int) -> np.ndarray:
    """Returns at most ``MAX_SETS`` of these numbers, sampled, in their order."""
    if len(numbers) <= MAX_SETS:
        return numbers
    return np.sort(np.random.default_rng(seed).choice(numbers, MAX_SETS, replace=False))
