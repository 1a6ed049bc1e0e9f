"""The best of a few lines of scikit-learn: statistics of sets, and one of three kinds of learners, tuned by folds."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from janossy.estimators import SetStatistics
from janossy.estimators.interrupts import now
from janossy.tables import SetTable

NUM_FOLDS = 5
"""Folds by which learners are chosen."""


class TunedBaseline:
    """The learner of the best mean score over folds, fitted to all sets.

    A learner whose folds would end after the time, by the ones that it has had, is given up.

    Args:
        is_class: True for a classifier.
        seconds: the time by which no other learner is begun.
        seed: of folds and learners.
    """

    name: str
    model: Any

    def __init__(self, is_class: bool, *, seconds: float, seed: int) -> None:
        self.is_class, self.seconds, self.seed = is_class, seconds, seed

    def fit(self, sets: SetTable, y: np.ndarray) -> "TunedBaseline":
        """Tries the learners by folds, the cheap ones first, and fits the best one."""
        deadline = now() + self.seconds
        self.statistics = SetStatistics().fit(sets)
        x = self.statistics.transform(sets)
        kind = StratifiedKFold if self.is_class else KFold
        folds = list(kind(NUM_FOLDS, shuffle=True, random_state=self.seed).split(x, y))
        best = -np.inf
        for name, learner in self._learners():
            if best > -np.inf and now() > deadline:
                break
            scores, began = [], now()
            for train, test in folds:
                scores.append(clone(learner).fit(x[train], y[train]).score(x[test], y[test]))
                pace = (now() - began) / len(scores)
                if best > -np.inf and now() + pace * (NUM_FOLDS + 1 - len(scores)) > deadline:
                    break
            if (best == -np.inf or len(scores) == NUM_FOLDS) and np.mean(scores) > best:
                best, self.name, self.model = float(np.mean(scores)), name, learner
        self.model = clone(self.model).fit(x, y)
        return self

    def score(self, sets: SetTable, y: np.ndarray) -> float:
        """Returns the accuracy, or R²."""
        return float(self.model.score(self.statistics.transform(sets), y))

    def _learners(self) -> Iterator[tuple[str, Any]]:
        for strength in (1e-3, 1e-2, 1e-1, 1.0):
            linear = LogisticRegression(C=strength, max_iter=300) if self.is_class else Ridge(1 / strength)
            yield f"linear, C={strength:g}", make_pipeline(StandardScaler(), linear)
        forest: Any = RandomForestClassifier if self.is_class else RandomForestRegressor
        boosting: Any = HistGradientBoostingClassifier if self.is_class else HistGradientBoostingRegressor
        for part in ("sqrt", 1 / 3):
            name = f"forest, max_features={part if isinstance(part, str) else '1/3'}"
            yield name, forest(100, max_features=part, random_state=self.seed)
        for num in (50, 100, 200):
            yield f"boosting, max_iter={num}", boosting(max_iter=num, random_state=self.seed)
