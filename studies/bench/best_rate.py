"""Peers at the best of several learning rates, because the rate of our networks need not suit them."""

from collections.abc import Callable
from typing import Self, cast

import numpy as np

from janossy.estimators import SetClassifier, SetRegressor
from janossy.tables import SetTable

RATES = (1e-2, 1e-3)
"""The learning rate of our networks, and a tenth of it."""


class BestRate:
    """An estimator of one strategy, fitted at each of ``RATES``. The loss on validation sets chooses the rate."""

    def __init__(self, build: Callable[[float], SetClassifier | SetRegressor]) -> None:
        self.build = build
        self.rate, self.best = RATES[0], build(RATES[0])

    def fit(self, sets: SetTable, targets: np.ndarray) -> Self:
        """Fits at all rates. Some may diverge.

        Raises: FloatingPointError if all diverge.
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
        """Returns the predictions of the best fit."""
        return self.best.predict(sets)

    def predict_proba(self, sets: SetTable) -> np.ndarray:
        """Returns the probabilities of the best fit, if it is a classifier."""
        assert isinstance(self.best, SetClassifier)
        return cast(np.ndarray, self.best.predict_proba(sets))

    @property
    def classes_(self) -> np.ndarray:
        assert isinstance(self.best, SetClassifier)
        return cast(np.ndarray, self.best.classes_)
