"""SetRegressor: a regressor of sets with scikit-learn's interface."""

from collections.abc import Callable, Sequence
from functools import partial
from numbers import Real
from os import PathLike
from typing import Any, Literal, Self, cast, overload

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_array
from sklearn.utils.validation import check_consistent_length, check_is_fitted
from torch import Tensor

from janossy.estimators.description import LossName
from janossy.estimators.fit_settings import Strategy
from janossy.estimators.inputs import check_like, check_targets_given, groups_of, stream_of, weights_of
from janossy.estimators.predictor import NumberPredictor
from janossy.estimators.set_estimator import SetEstimator
from janossy.estimators.streams.fitting import StreamTargets
from janossy.estimators.streams.scan import Scan
from janossy.estimators.survival import concordance
from janossy.estimators.tasks import LOSSES, Regression
from janossy.estimators.trials import Progress
from janossy.tables.forms import Names
from janossy.tables.stream import SetStream
from janossy.tables.targets import as_array, check_no_dates

NORMAL_QUARTILES = 1.349
"""The distance between the quartiles of a normal distribution, in standard deviations."""


class SetRegressor(RegressorMixin, SetEstimator):
    """A regressor of sets. It tries networks of several kinds within a time budget, and averages the best of them.

    It is ``SetClassifier`` for numbers, one or several per set. Its settings and attributes are the same, without
    class_weight, ordinal, classes_ and temperature_. Two settings are its own.

    Args:
        loss: the loss of training.

            - "squared_error"
            - "huber", on which outliers have less effect
            - "poisson", for counts, and "gamma", for amounts above 0, which predict means
            - "quantile"
            - "cox", for survival

        quantiles: the levels that "quantile" predicts, ascending, between 0 and 1. ``predict`` gives the one nearest
            to the median, and ``predict_quantiles`` all of them: 0.05 and 0.95 are an interval of 90 %.

    For "cox", y (B, 2) holds a time, and 1 for an event at that time or 0 if the observation ended before an event.
    Predictions (B,) are logarithms of hazards, relative to that of the mean set (Cox, 1972). The higher the prediction,
    the earlier the event. Each event is compared with the sets of its batch that are still at risk. ``score`` is the
    concordance.

    Shapes: B sets, y (B,) or (B, t) -> predictions, and their standard errors, in the shape of y.
    Raises: TypeError or ValueError, in fit, for sets, targets or settings that it cannot take. FloatingPointError if
        training diverges, or a prediction is not finite.

    Example:
        >>> sets = [np.random.randn(n, 2) for n in np.random.randint(1, 9, 200)]
        >>> widths = [np.ptp(x[:, 0]) for x in sets]
        >>> model = SetRegressor("gru", max_epochs=5, random_state=0).fit(sets, widths)
        >>> mean, std = model.predict(sets[:3], return_std=True)  # std: over random orders
        >>> mean.shape, std.shape
        ((3,), (3,))
    """

    y_mean_: np.ndarray
    y_scale_: np.ndarray

    def __init__(
        self,
        strategy: Strategy | Sequence[Strategy] = "auto",
        *,
        loss: LossName = "squared_error",
        quantiles: Sequence[float] = (0.05, 0.5, 0.95),
        time_budget: float | None = 600.0,
        max_epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        patience: int | None = None,
        validation: float | int | None = None,
        num_permutations: int = 20,
        numeric: Names = (),
        categorical: Names = (),
        set_columns: Names | None = None,
        checkpoint: str | PathLike[str] | None = None,
        num_threads: int | None = None,
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        super().__init__(
            strategy,
            time_budget=time_budget,
            max_epochs=max_epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            patience=patience,
            validation=validation,
            num_permutations=num_permutations,
            numeric=numeric,
            categorical=categorical,
            set_columns=set_columns,
            checkpoint=checkpoint,
            num_threads=num_threads,
            device=device,
            random_state=random_state,
            verbose=verbose,
            progress=progress,
        )
        self.loss = loss
        self.quantiles = quantiles

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Self:
        """Learns to predict the number y (B,), or the numbers (B, t), of each set of X.

        ``sample_weight`` (B,) weighs errors. ``groups`` (B,): sets of one group, such as a patient's, are never both in
        training and in validation. For files, both are names of columns.
        """
        self._check_loss()
        if (stream := stream_of(X, self._columns(), y, sample_weight, groups)) is not None:
            self._fit_stream(stream, False, partial(self._targets, stream))
            return self
        check_targets_given(y, self)
        self._forget()
        sets = self._sets(X, reset=True)
        y = self._numbers(y)
        check_consistent_length(sets, y)
        if y.ndim > 2:
            raise ValueError(f"SetRegressor expects y of shape (B,) or (B, t); got {y.shape}.")
        weights = weights_of(sample_weight, len(y))
        columns = y[:, None] if y.ndim == 1 else y
        part = (weights / max(weights.sum(), np.finfo(float).tiny))[:, None]
        self._flat = y.ndim == 1 or self.loss == "cox"
        _check_range(columns, self.loss)
        self._check_events(columns[weights > 0].sum(0))
        self.y_mean_ = (part * columns).sum(0)
        self.y_scale_ = _scales(columns, self.y_mean_, part)
        self._use_units(columns, weights)
        if self.loss == "cox":  # ranks, which float32 holds exactly
            columns = np.stack([np.unique(columns[:, 0], return_inverse=True)[1], columns[:, 1]], 1)
        targets = torch.from_numpy(((columns - self.y_mean_) / self.y_scale_).astype(np.float32))
        self._fit(sets, targets, weights, groups_of(groups, len(y)), self._task(len(self.y_scale_)))
        return self

    def _targets(self, stream: SetStream, scan: Scan) -> StreamTargets:
        self._flat = scan.flat or self.loss == "cox"
        self.y_mean_ = np.array(scan.means)
        scales = np.array(scan.scales)
        self.y_scale_ = scales = np.where(scales > 0, scales, 1.0)
        part = stream.part(scan.validation_sets)
        assert part.targets is not None
        columns = part.targets.reshape(len(part.targets), -1).astype(np.float64)
        _check_range(columns, self.loss)
        self._check_events(scan.means)
        self._use_units(columns, np.ones(len(columns)))

        def encode(targets: np.ndarray) -> Tensor:
            columns = targets.reshape(len(targets), -1)
            _check_range(columns, self.loss)
            if self.loss == "cox":
                columns = np.stack([(columns[:, 0] - scan.means[0]) / scales[0], columns[:, 1]], 1)
            return torch.from_numpy(((columns - self.y_mean_) / self.y_scale_).astype(np.float32))

        return StreamTargets(self._task(len(self.y_scale_)), encode, lambda targets: torch.ones(len(targets)))

    def _numbers(self, y: Any) -> np.ndarray:
        y = as_array(y)
        check_no_dates(y, False)
        return cast(np.ndarray, check_array(y, ensure_2d=False, dtype=np.float64, input_name="y", estimator=self))

    def _check_loss(self) -> None:
        """Raises a ValueError for an unknown loss or invalid quantiles."""
        if self.loss not in LOSSES:
            raise ValueError(f"SetRegressor expects loss among {', '.join(map(repr, LOSSES))}; got {self.loss!r}.")
        levels = list(self.quantiles) if isinstance(self.quantiles, Sequence | np.ndarray) else []
        numbers = all(isinstance(level, Real) for level in levels)
        if not levels or not numbers or levels != sorted(set(levels)) or not 0 < levels[0] <= levels[-1] < 1:
            raise ValueError(f"SetRegressor expects quantiles between 0 and 1, ascending; got {self.quantiles!r}.")

    def _check_events(self, sums: Sequence[float] | np.ndarray) -> None:
        """Raises a ValueError for "cox" without an event. ``sums`` are those of the targets, or their means."""
        if self.loss == "cox" and not sums[1]:
            raise ValueError(
                "loss='cox' expects an event, 1 in the second column of y; got none. Sets that were observed without "
                "an event cannot be ranked."
            )

    def _task(self, num_targets: int) -> Regression:
        levels = tuple(map(float, self.quantiles)) if self.loss == "quantile" else ()
        return Regression(num_targets, self.loss, levels)

    def _use_units(self, targets: np.ndarray, weights: np.ndarray) -> None:
        """Replaces mean and standard deviation by the units that suit the loss, from targets (B, t)."""
        if self.loss in ("poisson", "gamma"):  # multiples of the mean
            self.y_scale_ = np.where(self.y_mean_ > 0, self.y_mean_, 1.0)
            self.y_mean_ = np.zeros_like(self.y_mean_)
        elif self.loss == "cox":  # only the order of times counts
            self.y_mean_, self.y_scale_ = np.zeros(1), np.ones(1)
        elif self.loss in ("huber", "quantile"):  # median and quartiles, which outliers do not move
            low, middle, high = (_weighted_quantile(targets, weights, level) for level in (0.25, 0.5, 0.75))
            scales = (high - low) / NORMAL_QUARTILES
            self.y_mean_, self.y_scale_ = middle, np.where(scales > 0, scales, self.y_scale_)

    @overload
    def predict(self, X: Any, return_std: Literal[False] = False) -> np.ndarray: ...

    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[np.ndarray, np.ndarray]: ...

    def predict(self, X: Any, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Returns the number of each set (B,), or the numbers (B, t), in the shape of y.

        ``return_std`` adds their standard errors over random orders, in the same shape. They are 0 if no orders are
        sampled. A standard error concerns only the orders, and says nothing about the error of the prediction.
        """
        check_is_fitted(self)
        middle = self.task_.middle
        mean, error = (columns[:, 0, middle] if self._flat else columns[..., middle] for columns in self._in_units(X))
        return (mean, error) if return_std else mean

    def predict_quantiles(self, X: Any) -> np.ndarray:
        """Returns the quantiles of each set's number at the levels of ``quantiles``, (B, q), or (B, t, q) for several.

        They ascend. Raises: AttributeError if the loss is not "quantile".
        """
        check_is_fitted(self)
        self._check_quantiles()
        quantiles = self._in_units(X)[0]
        return quantiles[:, 0] if self._flat else quantiles

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Returns R². For the loss "cox" it is the concordance: the fraction of comparable pairs in the right order."""
        check_is_fitted(self)
        check_targets_given(y, self)
        y = self._numbers(y)
        if self.task_.loss != "cox":
            said = self.predict(X)
            check_like(y, said, self)
            if sample_weight is not None:
                sample_weight = weights_of(sample_weight, len(y))
            unit = -np.frexp(np.abs(y).max(0))[1]  # a power of two: squares stay finite, and exact
            return float(r2_score(np.ldexp(y, unit), np.ldexp(said, unit), sample_weight=sample_weight))
        targets = torch.from_numpy(y)
        weights = torch.from_numpy(weights_of(sample_weight, len(targets)))
        return concordance(torch.from_numpy(self.predict(X)), targets, weights)

    def validation_predictions(self, num_permutations: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Returns out-of-fold predictions of the validation sets, as kept from ``fit``.

        Each set is predicted by the networks that did not learn from it. These predictions are those of new sets,
        except that the choice of candidates has used them. Saved models do not have them.

        Args:
            num_permutations: the number of sampled orders that count. None for all.

        Shapes: the numbers of the sets in X (V,), and predictions (V,), or (V, t) for several targets.
        Raises: NotFittedError before fit, and for a loaded model.
        """
        sets, means = self._validation_means(num_permutations)
        columns = self.predictor_.unstandardised(means)[..., self.task_.middle]
        return sets, columns[:, 0] if self._flat else columns

    def validation_quantiles(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns out-of-fold quantiles of the validation sets, as ``validation_predictions`` returns predictions.

        Shapes: the numbers of the sets in X (V,), and quantiles (V, q), or (V, t, q) for several targets.
        Raises: NotFittedError before fit, and for a loaded model; AttributeError if the loss is not "quantile".
        """
        sets, means = self._validation_means(None)
        self._check_quantiles()
        quantiles = self.predictor_.unstandardised(means)
        return sets, quantiles[:, 0] if self._flat else quantiles

    def _check_quantiles(self) -> None:
        if self.task_.loss != "quantile":
            raise AttributeError(f"quantiles expect loss='quantile' in fit; got {self.task_.loss!r}.")

    @property
    def predictor_(self) -> NumberPredictor:
        """The fitted part, which predicts."""
        return NumberPredictor(*self._fitted_parts(), self.y_mean_, self.y_scale_, self._flat)

    @property
    def task_(self) -> Regression:
        """The task of the fitted networks."""
        return cast(Regression, self.ensemble_.task)

    def _in_units(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Returns the numbers of each set in the units of y, and their standard errors, (B, t, q)."""
        return self.predictor_.in_units(self._outcome(X))

    def _changes(self, whole: Tensor, without: Tensor, sizes: Tensor) -> Tensor:
        of_whole, of_part = self.task_.points(whole), self.task_.points(without)
        changes = (of_whole.repeat_interleave(sizes, 0) - of_part).double() * torch.from_numpy(self.y_scale_)
        return changes[:, 0] if self._flat else changes

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _check_range(targets: np.ndarray, loss: LossName) -> None:
    """Raises a ValueError for targets (B, t) outside the range of a loss."""
    least = float(targets.min())
    if (loss == "poisson" and least < 0) or (loss == "gamma" and least <= 0):
        expected = "numbers above 0" if loss == "gamma" else "no number below 0"
        raise ValueError(f"loss={loss!r} expects {expected} in y; got {least:.6g}. Take another loss.")
    if loss == "cox":
        if targets.shape[1] != 2:
            raise ValueError(f"loss='cox' expects y of shape (B, 2), a time and an event; got {targets.shape}.")
        events = targets[:, 1]
        if other := set(np.unique(events)[:9].tolist()) - {0.0, 1.0}:
            raise ValueError(f"loss='cox' expects events that are 0 or 1 in the second column of y; got {min(other)}.")


def _weighted_quantile(targets: np.ndarray, weights: np.ndarray, level: float) -> np.ndarray:
    """Returns the smallest number of each target at which the cumulative weight reaches ``level``, (t,)."""
    order = targets.argsort(0)
    sums = weights[order].cumsum(0)
    places = (sums < level * sums[-1]).sum(0).clip(max=len(targets) - 1)
    columns = np.arange(targets.shape[1])
    return cast(np.ndarray, targets[order[places, columns], columns])


def _scales(targets: np.ndarray, mean: np.ndarray, part: np.ndarray) -> np.ndarray:
    """Returns the standard deviation (t,) of targets (B, t) with weights ``part`` (B, 1), or 1 if it is 0.

    Raises: ValueError for targets too far apart for float64.
    """
    with np.errstate(over="ignore"):
        deviations = targets - mean
    if not np.isfinite(deviations).all():
        raise ValueError(
            "SetRegressor expects targets whose differences float64 holds; got numbers from "
            f"{targets.min():.3g} to {targets.max():.3g}. Divide them."
        )
    # Squares of 1e200 would overflow, and those of 1e-200 vanish. Scaling by a power of two is exact.
    exponents = np.frexp(np.abs(deviations).max(0))[1]
    scales = np.ldexp(np.sqrt((part * np.square(np.ldexp(deviations, -exponents))).sum(0)), exponents)
    return np.where(scales > 0, scales, 1.0)
