"""Paths of classical learners: fits to one split, step by step, with the validation loss of every point."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix, diags
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from janossy.estimators.classical.conversion import boosting, forest, linear_scores
from janossy.estimators.interrupts import now

STRENGTHS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""The inverse strengths of regularisation of a linear learner: scikit-learn's C, or 1 / alpha."""

TREES_PER_STEP = 20
"""The trees of a forest per step, between checks of the clock, and the first iterations of boosting."""

ITERATIONS_PER_POINT = 5
"""The iterations of boosting per point, between evaluations of the validation sets."""

SECONDS_PER_SPLIT = 2.5e-8
"""Seconds per tree, row, level and feature that a forest's splits take, on one core of 2021."""

SECONDS_PER_BIN, SECONDS_PER_COUNT = 4e-7, 1.5e-8
"""Seconds per number that boosting takes to cut it into bins, and per number and tree to count it, on that core."""

SECONDS_PER_PRODUCT = {False: 3e-10, True: 2e-9}
"""Seconds per statistic of a set and class that an iteration of logistic regression takes: dense, and sparse."""

SECONDS_PER_SCORE, SECONDS_PER_WEIGHT = 2e-8, 2e-8
"""Seconds that it takes per set and class, and per statistic and class."""

ITERATIONS = (5, 200)
"""The fewest iterations of logistic regression, whatever the time, and the most."""

TOLERANCE = 3e-4
"""The largest derivative of the mean loss at which logistic regression stops. With 1e-4 it takes 1.3 times as long, and
the loss on validation sets differs by less than 0.001."""

CATEGORIES = ("bags", "targets")
"""The forms of columns with many categories."""

BAGS = ("count", "fraction", "share", "tf-idf")
"""The schemes of bags."""

WIDE = 1_000
"""The most statistics for which a linear learner is fitted to a dense matrix."""

LEAF = 20
"""The smallest number of sets in a leaf of boosting, if there are enough sets."""

SMALL_TABLE = 1_000_000
"""The most numbers of a table that one thread boosts about as fast as two (benchmarks/results/threads.md)."""


@dataclass(frozen=True)
class ClassicalSettings:
    """Settings of a classical learner: plain values."""

    num_trees: int = 200
    """The trees of a forest, or the most iterations of boosting."""
    min_samples_leaf: int | None = None
    """The smallest number of sets in a leaf; None for 1 in a forest, and a twentieth of all in boosting, up to 20."""
    extra: bool = False
    """True if a forest's splits are random (Geurts et al., 2006) instead of searched (Breiman, 2001)."""
    learning_rate: float = 0.1
    """The learning rate of boosting."""
    scheme: str | None = None
    """The scheme of bags of categories: "count", "fraction", "share" or "tf-idf" (``CellCounts``).

    None is "count" for forests that search their splits, and "fraction" for all others. Counts take few values, so that
    a search among few columns finds the splits that matter. Fractions also show the size of the set, which random
    splits and sums of many trees gain from."""
    compact: bool = False
    """True if only statistics of single columns, and of numbers by category, are used."""
    pairs: bool = True
    """False if pairs of categories that occur in one set are left out."""
    categories: str = "bags"
    """"targets" if columns with many categories are encoded by the targets of training sets, in place of bags."""


@dataclass(frozen=True, eq=False)
class Data:
    """Statistics and targets of the training sets, statistics of the validation sets, and the losses on both.

    Shapes: x (B, F), valid_x (V, F) float32; y (B,) of classes, numbered from 0 within ``classes``, or (B, t); weights
        (B,).
    """

    x: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    classes: np.ndarray | None
    num_outputs: int
    valid_x: Tensor
    loss: Callable[[Tensor], float]
    """The loss of scores (V, num_outputs) of the validation sets."""
    train_loss: Callable[[Tensor], float]
    """The loss of scores (B, num_outputs) of the training sets."""
    seed: int
    num_threads: int = 1

    @property
    def sample_weight(self) -> np.ndarray | None:
        """The weights, or None if all are alike: boosting takes ten times as long to cut weighted numbers into bins."""
        return None if (self.weights == self.weights[0]).all() else self.weights

    @property
    def lacking(self) -> float:
        """The score of a class that is absent from training."""
        return -float(np.log(len(self.y) + self.num_outputs))


class Path(ABC):
    """A learner on one split. Its points are numbered from 0, and each has a loss.

    - ``ends``: the number of points after each step.
    - ``ended``: True if there is no further step.
    - ``chosen``: True if the point with the smallest loss is used; False if the last point is always the best.
    """

    chosen = True

    def __init__(self, settings: ClassicalSettings, data: Data) -> None:
        self.settings, self.data = settings, data
        self.losses: list[float] = []
        self.ends: list[int] = []
        self.ended = False
        self._start()

    def advance(self, until: float = inf) -> None:
        """Takes a step (``step``), and keeps the number of points after it."""
        self.step(until)
        self.ends.append(len(self.losses))

    @abstractmethod
    def _start(self) -> None:
        """Prepares the first step."""

    @abstractmethod
    def step(self, until: float = inf) -> None:
        """Takes a step, which adds one point or more. It is shorter if it would end after ``until``, if it can be."""

    @abstractmethod
    def module(self, point: int) -> nn.Module:
        """Returns the module that predicts as the learner does at a point."""

    @classmethod
    def seconds_of_a_step(cls, num_rows: int, num_columns: int, num_outputs: int, *, is_class: bool) -> float:
        """Estimates the seconds of the first step, within a factor of three; 0 for what is always begun."""
        return 0.0

    @property
    def has_one_class(self) -> bool:
        return self.data.classes is not None and len(self.data.classes) == 1

    def _constant(self) -> nn.Module:
        """Returns the module that always predicts the only class of training."""
        biases = np.full(self.data.num_outputs, self.data.lacking)
        biases[self.data.classes] = 0.0
        return linear_scores(np.zeros((self.data.num_outputs, self.data.x.shape[1])), biases)


class LinearPath(Path):
    """Logistic or ridge regression on standardised statistics: one point per strength, the strongest first."""

    def _start(self) -> None:
        data = self.data
        self.sparse = data.x.shape[1] > WIDE
        x: Any = (csr_matrix(data.x) if self.sparse else data.x).astype(np.float64)
        part = data.weights / data.weights.sum()
        self.mean = part @ x
        square = part @ (x.power(2) if self.sparse else np.square(x))
        scale = np.sqrt(np.maximum(square - np.square(self.mean), 0))
        is_constant = scale <= 1e-9 * (1 + np.abs(self.mean))
        self.factor = np.where(is_constant, 0, 1 / np.where(scale > 0, scale, 1))
        self.scaled = x @ diags(self.factor).tocsr() if self.sparse else (x - self.mean) * self.factor
        self.model: Any = None
        self.found: list[nn.Module] = []

    def step(self, until: float = inf) -> None:
        data, strength = self.data, STRENGTHS[len(self.found)]
        if self.has_one_class:
            found = self._constant()
        else:
            coefficients, intercepts = (
                self._ridge(strength) if data.classes is None else self._logistic(strength, until)
            )
            coefficients = coefficients * self.factor
            found = linear_scores(coefficients, intercepts - (0 if self.sparse else coefficients @ self.mean))
        self.found.append(found)
        self.losses.append(data.loss(found(data.valid_x)))
        self.ended = self.has_one_class or len(self.found) == len(STRENGTHS)

    def _ridge(self, strength: float) -> tuple[np.ndarray, np.ndarray]:
        model = Ridge(1 / strength, solver="sparse_cg" if self.sparse else "auto", random_state=self.data.seed)
        model.fit(self.scaled, self.data.y, self.data.sample_weight)
        coefficients = np.atleast_2d(model.coef_)
        return coefficients, np.broadcast_to(model.intercept_, len(coefficients))

    def _logistic(self, strength: float, until: float) -> tuple[np.ndarray, np.ndarray]:
        """Returns one row per class. The row of a class that is absent from training makes it improbable."""
        data = self.data
        assert data.classes is not None
        iterations = int(np.clip((until - now()) / self._seconds_per_iteration(len(data.classes)), *ITERATIONS))
        begin = (
            self._frequencies(len(data.classes)) if self.model is None else (self.model.coef_, self.model.intercept_)
        )
        self.model = LogisticRegression(C=strength, max_iter=iterations, tol=TOLERANCE, warm_start=True)
        self.model.coef_, self.model.intercept_ = begin  # each strength goes on where the one before it ends
        # Several threads only wait for each other, many times a step.
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning), threadpool_limits(1, "blas"):
            self.model.fit(self.scaled, data.y, data.sample_weight)
        coefficients, intercepts = self.model.coef_, self.model.intercept_
        if len(data.classes) == 2:
            coefficients = np.concatenate([0 * coefficients, coefficients])
            intercepts = np.array([0.0, intercepts[0]])
        rows, biases = np.zeros((data.num_outputs, coefficients.shape[1])), np.full(data.num_outputs, data.lacking)
        rows[data.classes], biases[data.classes] = coefficients, intercepts
        return rows, biases

    def _frequencies(self, num_classes: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the coefficients, and the intercepts, that predict the frequency of each class for every set.

        With the strongest regularisation they are nearly the best. From zero it takes hundreds of iterations.
        """
        num_rows, num_columns = self.data.x.shape
        frequencies = np.bincount(self.data.y, self.data.weights / self.data.weights.sum(), minlength=num_classes)
        logs = np.log(np.maximum(frequencies, 1 / num_rows))  # a class may have no weight
        intercepts = logs[1:] - logs[:1] if num_classes == 2 else logs - logs.mean()
        return np.zeros((len(intercepts), num_columns)), intercepts

    def _seconds_per_iteration(self, num_classes: int) -> float:
        num_rows, num_columns = self.data.x.shape
        num_stored = self.scaled.nnz if self.sparse else num_rows * num_columns
        per_class = num_stored * SECONDS_PER_PRODUCT[self.sparse]
        per_class += num_rows * SECONDS_PER_SCORE + num_columns * SECONDS_PER_WEIGHT
        return float(num_classes * per_class)

    def module(self, point: int) -> nn.Module:
        return self.found[point]


class ForestPath(Path):
    """A random forest, or extremely randomised trees: more trees at every point."""

    chosen = False

    @classmethod
    def seconds_of_a_step(cls, num_rows: int, num_columns: int, num_outputs: int, *, is_class: bool) -> float:
        tried = num_columns**0.5 if is_class else num_columns / 3
        return float(TREES_PER_STEP * SECONDS_PER_SPLIT * num_rows * np.log2(1 + num_rows) * tried)

    def _start(self) -> None:
        data, settings = self.data, self.settings
        kinds: dict[tuple[bool, bool], Any] = {
            (True, False): RandomForestClassifier,
            (True, True): ExtraTreesClassifier,
            (False, False): RandomForestRegressor,
            (False, True): ExtraTreesRegressor,
        }
        self.model = kinds[data.classes is not None, settings.extra](
            n_estimators=0,
            min_samples_leaf=1 if settings.min_samples_leaf is None else settings.min_samples_leaf,
            max_features="sqrt" if data.classes is not None else 1 / 3,
            warm_start=True,
            random_state=data.seed,
            n_jobs=data.num_threads,
        )
        self.y = data.y[:, 0] if data.y.ndim == 2 and data.y.shape[1] == 1 else data.y

    def step(self, until: float = inf) -> None:
        self.model.n_estimators = min(self.settings.num_trees, self.model.n_estimators + TREES_PER_STEP)
        self.model.fit(self.data.x, self.y, self.data.sample_weight)
        self.ended = self.model.n_estimators == self.settings.num_trees
        self.losses.append(np.nan)

    def module(self, point: int) -> nn.Module:
        trees = self.model.estimators_[: (point + 1) * TREES_PER_STEP]
        return forest(trees, self.data.x.shape[1], self.data.classes, self.data.num_outputs)


class TreesPath(Path):
    """Histogram gradient boosting: one point per few iterations."""

    @classmethod
    def seconds_of_a_step(cls, num_rows: int, num_columns: int, num_outputs: int, *, is_class: bool) -> float:
        num_trees = TREES_PER_STEP * (1 if is_class and num_outputs == 2 else num_outputs)
        return num_rows * num_columns * (SECONDS_PER_BIN + num_trees * SECONDS_PER_COUNT)

    def _start(self) -> None:
        data = self.data
        kind: Any = HistGradientBoostingRegressor if data.classes is None else HistGradientBoostingClassifier
        leaf = self.settings.min_samples_leaf
        self.columns = [data.y] if data.classes is not None else list(data.y.T)
        self.models = [
            kind(
                learning_rate=self.settings.learning_rate,
                max_iter=0,
                min_samples_leaf=max(2, min(LEAF, len(data.y) // 20)) if leaf is None else leaf,
                early_stopping=False,
                warm_start=True,
                random_state=data.seed,
            )
            for _ in self.columns
        ]
        self.outputs: Sequence[int] = range(data.num_outputs)
        if data.classes is not None:
            self.outputs = [int(data.classes[1])] if len(data.classes) == 2 else data.classes.tolist()
        self.base = np.full(data.num_outputs, 0.0 if data.classes is None else data.lacking)
        if data.classes is not None:
            self.base[data.classes] = 0.0
        self.x, self.valid_x = data.x.astype(np.float64), data.valid_x.double().numpy()
        self.num_threads = 1 if self.x.size <= SMALL_TABLE else data.num_threads

    def step(self, until: float = inf) -> None:
        if self.has_one_class:
            self.losses.append(self.data.loss(self._constant()(self.data.valid_x)))
            self.ended = True
            return
        with threadpool_limits(self.num_threads, "openmp"):
            self._boost()

    def _boost(self) -> None:
        """Adds iterations, and their points."""
        before = self.models[0].max_iter
        num = min(self.settings.num_trees, before + TREES_PER_STEP * (1 + before // (2 * TREES_PER_STEP)))
        stages = []
        for model, y in zip(self.models, self.columns, strict=True):
            model.max_iter = num
            model.fit(self.x, y, self.data.sample_weight)
            staged = model.staged_predict if self.data.classes is None else model.staged_decision_function
            stages.append(staged(self.valid_x))
        for iteration, raw in enumerate(zip(*stages, strict=True), 1):
            if iteration > before and (iteration % ITERATIONS_PER_POINT == 0 or iteration == self.settings.num_trees):
                self.losses.append(self._loss(raw))
        self.ended = num == self.settings.num_trees

    def _loss(self, raw: Sequence[np.ndarray]) -> float:
        scores = np.tile(self.base, (len(self.valid_x), 1))
        scores[:, list(self.outputs)] = np.concatenate([each.reshape(len(scores), -1) for each in raw], axis=1)
        return self.data.loss(torch.from_numpy(scores))

    def module(self, point: int) -> nn.Module:
        if self.has_one_class:
            return self._constant()
        base = self.base.copy()
        base[list(self.outputs)] = np.concatenate([np.ravel(model._baseline_prediction) for model in self.models])
        num = min(self.settings.num_trees, (point + 1) * ITERATIONS_PER_POINT)
        return boosting(self.models, self.data.x.shape[1], base, self.outputs, num_iterations=num)


LEARNERS: dict[str, type[Path]] = {"linear": LinearPath, "trees": TreesPath, "forest": ForestPath}
"""Classical strategies."""
