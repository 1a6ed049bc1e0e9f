"""SetRegressor: scikit-learn's regressor, of sets."""

from typing import Any, Literal, Self, overload

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_consistent_length
from torch import Tensor

from janossy.estimators.ensemble import check_outputs_finite
from janossy.estimators.networks import SEED
from janossy.estimators.set_estimator import SetEstimator, check_targets_given
from janossy.estimators.streams.fitting import Targets
from janossy.estimators.streams.scan import Scan
from janossy.estimators.tasks import Regression


class SetRegressor(RegressorMixin, SetEstimator):
    """A regressor of sets: networks of several kinds, tried within a time budget, and the best of them averaged.

    It is ``SetClassifier`` for numbers, one a set or several: its settings and attributes are the same, without
    class_weight, classes_ and temperature_. Targets are standardised, and errors squared.

    Shapes: B sets, y (B,) or (B, t) -> predictions, and their standard errors, like y.
    Raises: TypeError or ValueError for sets, targets or settings that it cannot take, in fit; FloatingPointError if
        training diverges, or a prediction is not finite.

    Example:
        >>> sets = [np.random.randn(n, 2) for n in np.random.randint(1, 9, 200)]
        >>> widths = [np.ptp(x[:, 0]) for x in sets]
        >>> model = SetRegressor("gru", max_epochs=5, random_state=0).fit(sets, widths)
        >>> mean, std = model.predict(sets[:3], return_std=True)  # std: over random orders
        >>> mean.shape, std.shape
        ((3,), (3,))
    """

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn to predict the number y (B,), or the numbers (B, t), of each set of X.

        ``sample_weight`` (B,) weighs errors.
        """
        if (stream := self._stream(X, y)) is not None:
            self._fit_stream(stream, False, self._targets, sample_weight)
            return self
        check_targets_given(y, self)
        sets = self._sets(X, reset=True)
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y", estimator=self)
        check_consistent_length(sets, y)
        if y.ndim > 2:
            raise ValueError(f"SetRegressor expects y of shape (B,) or (B, t); got {y.shape}.")
        weights = self._weights(sample_weight, len(y))
        columns = y[:, None] if y.ndim == 1 else y
        part = (weights / max(weights.sum(), np.finfo(float).tiny))[:, None]
        self._flat = y.ndim == 1
        self.y_mean_ = (part * columns).sum(0)
        self.y_scale_ = _scales(columns, self.y_mean_, part)
        targets = torch.from_numpy(((columns - self.y_mean_) / self.y_scale_).astype(np.float32))
        self._fit(sets, targets, weights, Regression(columns.shape[1]))
        return self

    def _targets(self, scan: Scan) -> Targets:
        self._flat = scan.flat
        self.y_mean_ = np.array(scan.means)
        scales = np.array(scan.scales)
        self.y_scale_ = np.where(scales > 0, scales, 1.0)

        def encode(targets: np.ndarray) -> Tensor:
            columns = targets.reshape(len(targets), -1)
            return torch.from_numpy(((columns - self.y_mean_) / self.y_scale_).astype(np.float32))

        return Targets(Regression(len(scales)), encode, lambda targets: torch.ones(len(targets)))

    @overload
    def predict(self, X: Any, return_std: Literal[False] = False) -> np.ndarray: ...

    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[np.ndarray, np.ndarray]: ...

    def predict(self, X: Any, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """The number of each set (B,), or the numbers (B, t), as y was.

        ``return_std``: also their standard error over random orders, in the same shape: how far other orders would move
        them. 0 where none are drawn. It is about the order alone, and says nothing of how far off a prediction is.
        """
        mean, error = (columns[0] if self._flat else columns.T for columns in self._in_units(X))
        return (mean, error) if return_std else mean

    def validation_predictions(self, num_permutations: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Returns what the networks that left out a set in training say of it, as kept from ``fit``.

        They would say it of new sets, but that the choice among candidates has looked at it. Saved models do not have
        it.

        Args:
            num_permutations: how many of the orders that were drawn count. None for all.

        Shapes: the numbers of the sets in X (V,), and predictions (V,), or (V, t) of several targets.
        Raises: NotFittedError before fit, and of a model that was loaded.
        """
        sets, means = self._validation_means(num_permutations)
        columns = self._unstandardised(means)
        return sets, columns[:, 0] if self._flat else columns

    def _unstandardised(self, means: Tensor) -> np.ndarray:
        """Returns predictions (B, t) in the units of y. Raises: FloatingPointError if one is not finite."""
        with np.errstate(over="ignore"):  # the check says more
            columns: np.ndarray = means.double().numpy() * self.y_scale_ + self.y_mean_
        check_outputs_finite(torch.from_numpy(columns), type(self).__name__)
        return columns

    def _in_units(self, X: Any, seed: int = SEED) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of each set as y was, and their standard errors, (t, B)."""
        outcome = self._outcome(X, seed)
        mean = self._unstandardised(outcome.mean)
        with np.errstate(over="ignore"):
            error = outcome.standard_error.double().numpy() * self.y_scale_
        return mean.T, error.T

    def _changes(self, whole: Tensor, without: Tensor, sizes: Tensor) -> Tensor:
        changes = (whole.repeat_interleave(sizes, 0) - without).double() * torch.from_numpy(self.y_scale_)
        return changes[:, 0] if self._flat else changes

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _scales(targets: np.ndarray, mean: np.ndarray, part: np.ndarray) -> np.ndarray:
    """Returns the standard deviation (t,) of targets (B, t), of which each is a part (B, 1); 1 if it is 0.

    Raises: ValueError for targets too far apart for float64.
    """
    with np.errstate(over="ignore"):
        deviations = targets - mean
    if not np.isfinite(deviations).all():
        raise ValueError(
            "SetRegressor expects targets whose differences float64 holds; got numbers from "
            f"{targets.min():.3g} to {targets.max():.3g}. Divide them."
        )
    # Squares of 1e200 would overflow, and those of 1e-200 vanish. A power of two changes no other digit.
    exponents = np.frexp(np.abs(deviations).max(0))[1]
    scales = np.ldexp(np.sqrt((part * np.square(np.ldexp(deviations, -exponents))).sum(0)), exponents)
    return np.where(scales > 0, scales, 1.0)
