"""Classical learners as members of an ensemble: fitted by scikit-learn to statistics of sets, kept as modules."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge
from torch import Tensor, nn

from janossy.estimators.batches import Examples
from janossy.estimators.classical.choosing import Sizes, choose_statistics
from janossy.estimators.classical.conversion import boosting, forest, linear_scores
from janossy.estimators.interrupts import now
from janossy.estimators.tasks import Classification, Task
from janossy.estimators.training import Ending, Trained
from janossy.estimators.trials import Epoch
from janossy.nn.statistics import StatisticsNetwork
from janossy.sets import Ragged
from janossy.tables.layout import Layout

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""Inverse strengths of regularisation that a linear learner tries: scikit-learn's C, or 1 / alpha."""

TREES_PER_STEP = 20
"""Trees of a forest, or iterations of boosting, between two looks at the clock and at the validation sets."""

MISSES = 3
"""Steps of boosting without a lower validation loss, after which it ends."""

MAX_SETS = 100_000
"""A learner is fitted to a sample of more sets."""

MAX_NUMBERS = 2**27
"""The most numbers in the matrix of statistics: bags keep fewer cells of many sets."""

MAX_CELLS = 4_096
"""Cells of a bag of categories for a linear learner."""

WIDE = 1_000
"""A linear learner of more statistics is fitted to a sparse matrix."""


@dataclass(frozen=True)
class Settings:
    """Settings of a classical learner: plain values."""

    num_trees: int = 200
    """Trees of a forest; for boosting, the most iterations."""
    min_samples_leaf: int = 1
    """The fewest samples in a leaf of a forest's trees."""
    extra: bool = False
    """True if a forest's splits are drawn at random (Geurts et al., 2006) and not searched (Breiman, 2001)."""
    learning_rate: float = 0.1
    """The learning rate of boosting."""
    scheme: str = "fraction"
    """The scheme of bags of categories, as in ``CellCounts``."""


@dataclass(frozen=True, eq=False)
class Data:
    """Statistics and targets of the training and the validation sets.

    Shapes: x, valid_x (B, F) float32; y (B,) of classes, numbered from 0 within ``classes``, or (B, t); weights (B,).
    """

    x: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    classes: np.ndarray | None
    num_outputs: int
    valid_x: Tensor
    loss: Callable[[Tensor], float]
    """The loss of scores (B, num_outputs) of the validation sets."""
    seed: int
    late: Callable[[], bool]


class ClassicalLearner(nn.Module):
    """A classical learner that waits for ``fit``.

    Args:
        strategy: its name in ``LEARNERS``.
        layouts: of elements and of context.
        num_outputs: classes, or targets.
        settings: those of ``Settings``.
    """

    def __init__(
        self, strategy: str, layouts: tuple[Layout, Layout], num_outputs: int, settings: Mapping[str, Any]
    ) -> None:
        super().__init__()
        self.strategy, self.layouts, self.num_outputs = strategy, layouts, num_outputs
        self.settings = classical_settings(strategy, settings)

    def forward(
        self, sets: Ragged, *, context: Tensor | None = None, generator: torch.Generator | None = None
    ) -> Tensor:
        raise RuntimeError(f"{self.strategy!r} expects fit before it is called; got no fit.")

    def fit(
        self,
        training: Examples,
        validation: Examples,
        task: Task,
        *,
        seed: int,
        deadline: float,
        interrupted: Callable[[], bool] = bool,
    ) -> tuple[StatisticsNetwork, Trained]:
        """Returns the fitted network, and how the fit went, as one epoch.

        Strengths and numbers of trees are chosen by the validation sets. The deadline ends the fit after a step.
        """
        began = now()
        device = training.sets.device
        training, validation = training.to("cpu"), validation.to("cpu")
        if len(training) > MAX_SETS:
            chosen = np.random.default_rng(seed).choice(len(training), MAX_SETS, replace=False)
            training = training[torch.from_numpy(np.sort(chosen))]
        most = Sizes()
        if self.strategy == "linear":
            cells = min(MAX_CELLS, MAX_NUMBERS // max(1, len(training)))
            most = Sizes(cells=cells, hashed=cells // 4, pairs=2 * most.pairs)
        scheme = self.settings.scheme
        statistics = choose_statistics(training.sets, training.context, self.layouts, most=most, scheme=scheme)
        x = statistics(training.sets, training.context)
        valid_x = statistics(validation.sets, validation.context)

        def loss(scores: Tensor, of: Examples = validation) -> float:
            mean = task.link(1.0)(scores).float()
            return float((task.losses(mean, of.targets) * of.weights).sum() / of.weights.sum())

        y = training.targets.numpy()
        classes = None
        if isinstance(task, Classification):
            classes, y = np.unique(y, return_inverse=True)
        ended: list[Ending] = []

        def late() -> bool:
            if interrupted():
                ended.append(Ending.INTERRUPTED)
            elif now() > deadline:
                ended.append(Ending.OUT_OF_TIME)
            return bool(ended)

        weights = training.weights.double().numpy()
        data = Data(x.numpy(), y, weights, classes, self.num_outputs, valid_x, loss, seed % 2**31, late)
        scores = LEARNERS[self.strategy](self.settings, data)
        network = StatisticsNetwork(statistics, scores)
        losses = {"train_loss": loss(scores(x), training), "valid_loss": loss(scores(valid_x))}
        row = {"epoch": 1, **losses, "dur": now() - began}
        if not np.isfinite([row["train_loss"], row["valid_loss"]]).all():
            raise FloatingPointError(f"{self.strategy!r} expects finite losses; got {row}. Look for enormous values.")
        epoch = Epoch(1, 1, row["train_loss"], row["valid_loss"])
        ending = ended[0] if ended else Ending.AS_PLANNED
        return network.to(device).eval(), Trained([row], epoch, ending, now() - began)


def classical_settings(strategy: str, given: Mapping[str, Any]) -> Settings:
    """Returns the settings of a classical strategy, with these in the place of its own.

    Raises: ValueError for an unknown strategy or setting.
    """
    if strategy not in LEARNERS:
        raise ValueError(f"strategy expects one of {', '.join(map(repr, LEARNERS))}; got {strategy!r}.")
    known = [setting.name for setting in fields(Settings)]
    if unknown := [name for name in given if name not in known]:
        raise ValueError(f"settings of {strategy!r} are {', '.join(known)}; got {', '.join(unknown)}.")
    return Settings(**given)


def _linear(settings: Settings, data: Data) -> nn.Module:
    """Logistic or ridge regression on standardised statistics, its strength chosen by the validation sets."""
    x, width = data.x.astype(np.float64), data.x.shape[1]
    part = data.weights / data.weights.sum()
    mean = part @ x
    scale = np.sqrt(np.maximum(part @ np.square(x) - np.square(mean), 0))
    factor = np.where(scale > 1e-9 * (1 + np.abs(mean)), 1 / np.where(scale > 0, scale, 1), 0)
    if data.classes is not None and len(data.classes) == 1:
        return _constant(data, width)
    sparse = width > WIDE
    scaled = csr_matrix(x * factor) if sparse else (x - mean) * factor
    best, least, model = None, np.inf, None
    for strength in STRENGTHS:
        if data.classes is None:
            model = Ridge(1 / strength, solver="sparse_cg" if sparse else "auto", random_state=data.seed)
            model.fit(scaled, data.y, data.weights)
            coefficients = np.atleast_2d(model.coef_)
            intercepts = np.broadcast_to(model.intercept_, len(coefficients))
        else:
            previous, model = model, LogisticRegression(C=strength, max_iter=200, warm_start=True)
            if previous is not None:
                model.coef_, model.intercept_ = previous.coef_, previous.intercept_
            model.fit(scaled, data.y, data.weights)
            coefficients, intercepts = _of_all_classes(data, model.coef_, model.intercept_)
        coefficients = coefficients * factor
        found = linear_scores(coefficients, intercepts - (0 if sparse else coefficients @ mean))
        loss = data.loss(found(data.valid_x))
        if best is not None and loss >= least:
            break
        best, least = found, loss
        if data.late():
            break
    assert best is not None
    return best


def _of_all_classes(data: Data, coefficients: np.ndarray, intercepts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns one row per class; of classes that training lacks, one that makes them improbable."""
    assert data.classes is not None
    if len(data.classes) == 2:
        coefficients, intercepts = np.concatenate([0 * coefficients, coefficients]), np.array([0.0, intercepts[0]])
    rows, biases = np.zeros((data.num_outputs, coefficients.shape[1])), np.full(data.num_outputs, _lacking(data))
    rows[data.classes], biases[data.classes] = coefficients, intercepts
    return rows, biases


def _lacking(data: Data) -> float:
    """The score of a class that training lacks."""
    return -float(np.log(len(data.y) + data.num_outputs))


def _constant(data: Data, width: int) -> nn.Module:
    biases = np.full(data.num_outputs, _lacking(data))
    biases[data.classes] = 0.0
    return linear_scores(np.zeros((data.num_outputs, width)), biases)


def _forest(settings: Settings, data: Data) -> nn.Module:
    """A random forest, or extremely randomised trees, as many as the time allows."""
    kinds = {
        (True, False): RandomForestClassifier,
        (True, True): ExtraTreesClassifier,
        (False, False): RandomForestRegressor,
        (False, True): ExtraTreesRegressor,
    }
    model = kinds[data.classes is not None, settings.extra](
        n_estimators=0,
        min_samples_leaf=settings.min_samples_leaf,
        max_features="sqrt" if data.classes is not None else 1 / 3,
        warm_start=True,
        random_state=data.seed,
    )
    y = data.y[:, 0] if data.y.ndim == 2 and data.y.shape[1] == 1 else data.y
    while model.n_estimators < settings.num_trees:
        model.n_estimators = min(settings.num_trees, model.n_estimators + TREES_PER_STEP)
        model.fit(data.x, y, data.weights)
        if data.late():
            break
    return forest(model.estimators_, data.x.shape[1], data.classes, data.num_outputs)


def _trees(settings: Settings, data: Data) -> nn.Module:
    """Histogram gradient boosting, of as many iterations as the validation sets want and the time allows."""
    num, width = data.x.shape
    if data.classes is not None and len(data.classes) == 1:
        return _constant(data, width)
    kind = HistGradientBoostingRegressor if data.classes is None else HistGradientBoostingClassifier
    columns = [data.y] if data.classes is not None else list(data.y.T)
    models = [
        kind(
            learning_rate=settings.learning_rate,
            max_iter=0,
            min_samples_leaf=max(2, min(20, num // 20)),
            early_stopping=False,
            warm_start=True,
            random_state=data.seed,
        )
        for _ in columns
    ]
    if data.classes is None:
        outputs: Sequence[int] = range(data.num_outputs)
    else:
        outputs = [int(data.classes[1])] if len(data.classes) == 2 else data.classes.tolist()
    scores = np.full((len(data.valid_x), data.num_outputs), 0.0 if data.classes is None else _lacking(data))
    if data.classes is not None:
        scores[:, data.classes] = 0.0
    base = scores[0].copy()
    best, least, misses, x, valid_x = 0, np.inf, 0, data.x.astype(np.float64), data.valid_x.double().numpy()
    while models[0].max_iter < settings.num_trees:
        for model, y in zip(models, columns, strict=True):
            model.max_iter = min(settings.num_trees, model.max_iter + TREES_PER_STEP)
            model.fit(x, y, data.weights)
        raw = [model.predict(valid_x) if data.classes is None else model.decision_function(valid_x) for model in models]
        scores[:, list(outputs)] = np.concatenate([each.reshape(len(scores), -1) for each in raw], axis=1)
        loss = data.loss(torch.from_numpy(scores))
        misses = 0 if loss < least else misses + 1
        if loss < least:
            best, least = models[0].max_iter, loss
        if misses == MISSES or data.late():
            break
    base[list(outputs)] = np.concatenate([np.ravel(model._baseline_prediction) for model in models])
    return boosting(models, width, base, outputs, num_iterations=best)


LEARNERS: dict[str, Callable[[Settings, Data], nn.Module]] = {"linear": _linear, "trees": _trees, "forest": _forest}
"""Classical strategies."""
