"""Boosted trees on statistics of each set's columns, or, for sets of one size, on their columns side by side."""

from collections.abc import Callable
from typing import Any, Self, cast

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.multioutput import MultiOutputRegressor

from janossy.tables import Column, SetTable

NUM_TREES = 300
"""The number of trees. Other settings are scikit-learn's defaults; beyond 10,000 sets training stops early."""


class PooledTrees:
    """Boosted trees on a table with one row per set.

    Args:
        table_of: maps sets to (B, c), with NaN for missing values.
        task: "classification" or "regression".
        class_weight: as in scikit-learn, for a classification.
    """

    classes_: np.ndarray

    def __init__(
        self, table_of: Callable[[SetTable], np.ndarray], task: str, random_state: int, class_weight: Any = None
    ) -> None:
        self.table_of, self.task, self.random_state, self.class_weight = table_of, task, random_state, class_weight

    def fit(self, sets: SetTable, targets: np.ndarray) -> Self:
        """Learns targets (B,), or numbers (B, t), which have trees of their own each."""
        if self.task == "classification":
            self.trees = HistGradientBoostingClassifier(
                max_iter=NUM_TREES, random_state=self.random_state, class_weight=self.class_weight
            )
        else:
            self.trees = HistGradientBoostingRegressor(max_iter=NUM_TREES, random_state=self.random_state)
            if targets.ndim == 2:
                self.trees = MultiOutputRegressor(self.trees)
        self.trees.fit(self.table_of(sets), targets)
        if self.task == "classification":
            self.classes_ = self.trees.classes_
        return self

    def predict(self, sets: SetTable) -> np.ndarray:
        """Returns the predicted targets of sets."""
        return cast(np.ndarray, self.trees.predict(self.table_of(sets)))

    def predict_proba(self, sets: SetTable) -> np.ndarray:
        """Returns the probability of each class (B, C)."""
        return cast(np.ndarray, self.trees.predict_proba(self.table_of(sets)))

    @property
    def num_leaves(self) -> int:
        """The number of learned numbers, one per leaf."""
        each = self.trees.estimators_ if isinstance(self.trees, MultiOutputRegressor) else [self.trees]
        return sum(tree.get_n_leaf_nodes() for trees in each for step in trees._predictors for tree in step)


def statistics(sets: SetTable) -> np.ndarray:
    """Returns each set's size, statistics of numbers (mean, maximum, minimum, standard deviation), and category counts.

    Missing values do not count; a set without values has NaN. The set's own columns follow, with categories as codes.
    """
    parts = [sets.sizes[:, None].astype(np.float64)]
    owners = np.repeat(np.arange(len(sets)), sets.sizes)
    for column in sets.elements.values():
        of_column = _counts if column.kind == "categorical" else _moments
        parts.append(of_column(column, owners, len(sets)))
    parts += [_numbers(column)[:, None] for column in sets.context.values()]
    return np.concatenate(parts, axis=1)


def side_by_side(sets: SetTable) -> np.ndarray:
    """Returns the columns of every element side by side, (B, n·c), for sets of one size n. Categories are codes."""
    columns = [_numbers(column) for column in sets.elements.values()]
    return np.stack(columns, axis=1).astype(np.float64).reshape(len(sets), -1)


def _numbers(column: Column) -> np.ndarray:
    return column.values if column.kind == "categorical" else column.numbers()


def _counts(column: Column, owners: np.ndarray, num_sets: int) -> np.ndarray:
    num = len(column.categories)
    known = column.values >= 0
    places = owners[known] * num + column.values[known]
    return np.bincount(places, minlength=num_sets * num).reshape(num_sets, num).astype(np.float64)


def _moments(column: Column, owners: np.ndarray, num_sets: int) -> np.ndarray:
    values = column.numbers()
    known = ~np.isnan(values)
    values, owners = values[known], owners[known]
    found = np.full((num_sets, 4), np.nan)
    some, first, counts = np.unique(owners, return_index=True, return_counts=True)
    if len(some):
        mean = np.add.reduceat(values, first) / counts
        squares = np.add.reduceat(np.square(values - np.repeat(mean, counts)), first) / counts
        highest, lowest = np.maximum.reduceat(values, first), np.minimum.reduceat(values, first)
        found[some] = np.stack((mean, highest, lowest, np.sqrt(squares)), axis=1)
    return found
