"""A few lines of scikit-learn: statistics of sets or bags, and learners of three kinds, each tuned by folds."""

from collections.abc import Callable, Iterator
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


KINDS = ("linear", "forest", "boosting")
"""Kinds of learners, in the order in which they are tried."""


FORMS: dict[str, Callable[[], SetStatistics]] = {
    "all": SetStatistics,
    "bags": lambda: SetStatistics("share"),
}
"""The statistics that learners read: all, or the size, and shares of amounts by category, else counts."""


class TunedBaseline:
    """The learner of the best mean score over folds, and the best of each kind, fitted to all sets.

    A learner whose folds would end after the time, by the ones that it has had, is given up. Final fits come after it.

    Args:
        is_class: True for a classifier.
        seconds: the time by which no other learner is begun.
        seed: of folds and learners.

    Attributes:
        name: the best learner and its setting.
        models: the best learner of each kind that had time for one, with the form of statistics that it reads.
    """

    name: str
    models: dict[str, tuple[str, Any]]

    def __init__(self, is_class: bool, *, seconds: float, seed: int) -> None:
        self.is_class, self.seconds, self.seed = is_class, seconds, seed

    def fit(self, sets: SetTable, y: np.ndarray) -> "TunedBaseline":
        """Tries the learners by folds, the cheap ones first, and fits the best of each kind."""
        deadline = now() + self.seconds
        folds_of = StratifiedKFold if self.is_class else KFold
        folds = list(folds_of(NUM_FOLDS, shuffle=True, random_state=self.seed).split(np.zeros(len(y)), y))
        self.statistics: dict[str, SetStatistics] = {}
        rows: dict[str, np.ndarray] = {}
        best: dict[str, tuple[float, str, str, Any]] = {}
        for kind, form, setting, learner in self._learners():
            if best and now() > deadline:
                break
            if form not in rows:
                self.statistics[form] = FORMS[form]().fit(sets)
                rows[form] = self.statistics[form].transform(sets)
            x, scores, began = rows[form], [], now()
            for train, test in folds:
                scores.append(clone(learner).fit(x[train], y[train]).score(x[test], y[test]))
                pace = (now() - began) / len(scores)
                if best and now() + pace * (NUM_FOLDS + 1 - len(scores)) > deadline:
                    break
            is_better = kind not in best or np.mean(scores) > best[kind][0]
            if not best or (len(scores) == NUM_FOLDS and is_better):
                best[kind] = float(np.mean(scores)), f"{kind}, {form}, {setting}", form, learner
        self.models = {kind: (form, clone(learner).fit(rows[form], y)) for kind, (_, _, form, learner) in best.items()}
        self.best = max(best, key=lambda kind: best[kind][0])
        self.name = best[self.best][1]
        return self

    def predict(self, sets: SetTable) -> np.ndarray:
        """Returns the predictions of the best learner."""
        form, model = self.models[self.best]
        found: np.ndarray = model.predict(self.statistics[form].transform(sets))
        return found

    def scores(self, sets: SetTable, y: np.ndarray) -> dict[str, float]:
        """Returns the accuracy, or R², of the best learner of each kind."""
        rows = {form: statistics.transform(sets) for form, statistics in self.statistics.items()}
        return {kind: float(model.score(rows[form], y)) for kind, (form, model) in self.models.items()}

    def _learners(self) -> Iterator[tuple[str, str, str, Any]]:
        for strength in (1e-3, 1e-2, 1e-1, 1.0):
            linear = LogisticRegression(C=strength, max_iter=300) if self.is_class else Ridge(1 / strength)
            yield "linear", "all", f"C={strength:g}", make_pipeline(StandardScaler(), linear)
        forest: Any = RandomForestClassifier if self.is_class else RandomForestRegressor
        boosting: Any = HistGradientBoostingClassifier if self.is_class else HistGradientBoostingRegressor
        for form in ("bags", "all"):
            for part in ("sqrt", 1 / 3):
                setting = f"max_features={part if isinstance(part, str) else '1/3'}"
                yield "forest", form, setting, forest(100, max_features=part, random_state=self.seed)
        for form in ("bags", "all"):
            for num in (50, 100, 200):
                yield "boosting", form, f"max_iter={num}", boosting(max_iter=num, random_state=self.seed)
