"""Peers within the same seconds: networks of sets at the better of two learning rates, and FLAML on statistics.

FLAML is optional: ``pip install flaml lightgbm``, tried with 2.3.5 and 4.7.0. It tries what its own default list has of
LightGBM and scikit-learn: not XGBoost or CatBoost.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
from sklearn.dummy import DummyClassifier, DummyRegressor

from janossy.estimators import SetClassifier, SetRegressor, SetStatistics
from janossy.estimators.interrupts import now
from janossy.tables import SetTable
from studies.bench.best_rate import RATES, BestRate
from studies.bench.peers.networks import abmil, deep_sets, set_transformer

NETWORKS = {"deepsets": deep_sets, "abmil": abmil, "set-transformer": set_transformer}
"""Networks of the bench, by name."""

LEARNERS = ("lgbm", "rf", "extra_tree", "sgd")
"""FLAML's learners by default, without XGBoost and CatBoost."""


def why_not(model: str) -> str:
    """Returns the reason why a model cannot be fitted here; "" if it can."""
    lacking = [name for name in ("flaml", "lightgbm") if model == "flaml" and find_spec(name) is None]
    return f"it needs {' and '.join(lacking)}: pip install flaml lightgbm" if lacking else ""


class TunedNetwork:
    """A network, trained by our loop at two rates, of which the loss on validation sets chooses one.

    The first rate has half of the time, and the other one what is left.

    Attributes:
        name: the rate that was chosen.
    """

    def __init__(self, network: Callable[..., Any], is_class: bool, *, seconds: float, seed: int) -> None:
        self.network, self.seconds, self.seed = network, seconds, seed
        self.estimator: Any = SetClassifier if is_class else SetRegressor

    def fit(self, sets: SetTable, y: np.ndarray) -> "TunedNetwork":
        """Trains at both rates."""
        end = now() + self.seconds

        def at(rate: float) -> Any:
            left = max(end - now(), 1.0) / (len(RATES) - RATES.index(rate))
            return self.estimator(self.network, learning_rate=rate, time_budget=left, random_state=self.seed)

        self.best = BestRate(at).fit(sets, y)
        self.name = f"learning rate {self.best.rate:g}"
        return self

    def predict(self, sets: SetTable) -> np.ndarray:
        """Returns the predictions at the better rate."""
        return self.best.predict(sets)


class Flaml:
    """FLAML's search (Wang et al., 2021) on ``SetStatistics``. Its last fit, to all sets, comes after the time.

    Attributes:
        name: the learner that was chosen.
    """

    def __init__(self, is_class: bool, *, seconds: float, seed: int) -> None:
        self.is_class, self.seconds, self.seed = is_class, seconds, seed

    def fit(self, sets: SetTable, y: np.ndarray) -> "Flaml":
        """Searches by the clock of the process."""
        end = now() + self.seconds
        self.statistics = SetStatistics().fit(sets)
        x = self.statistics.transform(sets)
        with _by_cpu_time():
            from flaml.automl.automl import AutoML  # noqa: PLC0415 - an optional peer

            self.model = AutoML()
            self.model.fit(
                x,
                y,
                task="classification" if self.is_class else "regression",
                metric="accuracy" if self.is_class else "r2",
                estimator_list=[*LEARNERS, *["lrl1"] * self.is_class],
                time_budget=end - now(),
                seed=self.seed,
                n_jobs=1,
                verbose=0,
            )
        self.name = str(self.model.best_estimator)
        return self

    def predict(self, sets: SetTable) -> np.ndarray:
        """Returns the predictions of the learner that was chosen."""
        found: np.ndarray = self.model.predict(self.statistics.transform(sets))
        return found


def peer(model: str, is_class: bool, *, seconds: float, seed: int) -> TunedNetwork | Flaml:
    """Returns a peer that is not fitted yet."""
    if model == "flaml":
        return Flaml(is_class, seconds=seconds, seed=seed)
    return TunedNetwork(NETWORKS[model], is_class, seconds=seconds, seed=seed)


@contextmanager
def _by_cpu_time() -> Iterator[None]:
    """Gives FLAML, which measures wall-clock time, the seconds of the process; and lets it load without XGBoost.

    FLAML 2.3.5 imports XGBoost, also if no such learner is tried.
    """
    absent = {}
    if find_spec("xgboost") is None:
        stand_in: Any = ModuleType("xgboost")
        stand_in.__version__, stand_in.XGBClassifier, stand_in.XGBRegressor = "0", DummyClassifier, DummyRegressor
        absent = {"xgboost": stand_in}
    with mock.patch.object(time, "time", time.process_time), mock.patch.dict(sys.modules, absent):
        yield
