"""Peers at the learning rate that suits them: ours were built for one, and others' need not like it."""

from collections.abc import Callable
from typing import Self, cast

import numpy as np

from janossy.estimators import SetClassifier, SetRegressor
from janossy.tables import SetTable

RATES = (1e-2, 1e-3)
"""Ours, and one that is a tenth of it."""


class BestRate:
    """An estimator of one strategy, fitted at each of ``RATES``; the loss of sets that it left out decides."""

    def __init__(self, build: Callable[[float], SetClassifier | SetRegressor]) -> None:
        self.build = build
        self.rate, self.best = RATES[0], build(RATES[0])

    def fit(self, sets: SetTable, targets: np.ndarray) -> Self:
        """Fits at all rates, of which one may diverge.

        Raises: FloatingPointError if all do.
        """
        losses: dict[float, float] = {}
        fitted = {}
        for rate in RATES:
            try:
                fitted[rate] = self.build(rate).fit(sets, targets)
            except FloatingPointError as error:
                diverged = error
                continue
            losses[rate] = fitted[rate].trials_[0].loss
        if not losses:
            raise diverged
        self.rate = min(losses, key=losses.__getitem__)
        self.best = fitted[self.rate]
        return self

    def predict(self, sets: SetTable) -> np.ndarray:
        """Predicts by the best."""
        return self.best.predict(sets)

    def predict_proba(self, sets: SetTable) -> np.ndarray:
        """Predicts probabilities by the best, if it is a classifier."""
        assert isinstance(self.best, SetClassifier)
        return cast(np.ndarray, self.best.predict_proba(sets))

    @property
    def classes_(self) -> np.ndarray:
        assert isinstance(self.best, SetClassifier)
        return cast(np.ndarray, self.best.classes_)
