"""Predictors: what a fitted estimator predicts with. They do without scikit-learn, which takes a second to import."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from janossy.estimators.class_targets import ClassTargets
from janossy.estimators.ensemble import Ensemble, Outcome, check_outputs_finite
from janossy.estimators.networks import SEED
from janossy.estimators.tasks import Classification, Regression
from janossy.sets import Ragged
from janossy.tables.encoder import TableEncoder, far_columns
from janossy.tables.table import SetTable


@dataclass(frozen=True, eq=False)
class Predictor:
    """The encoder and the networks of a fitted estimator, with the settings of its predictions.

    - ``owner``: the name of the estimator, for errors.
    - ``columns``: the arguments of ``as_sets`` for columns.
    """

    owner: str
    encoder: TableEncoder
    ensemble: Ensemble
    columns: Mapping[str, Any]
    num_permutations: int
    device: str

    def encoded(self, sets: SetTable) -> tuple[Ragged, Tensor | None]:
        """Returns sets and their context as input of the networks.

        Warns about values far outside those of training, where predictions are unreliable.
        """
        encoded = self.encoder.transform(sets)
        if far := far_columns(self.encoder, sets):
            warnings.warn(
                f"values far outside the range of training in {far}: predictions of their sets are guesses.",
                stacklevel=5,
            )
        self.ensemble.to(self.device)
        context = encoded.context.to(self.device) if encoded.context.shape[1] else None
        return encoded.elements.to(self.device), context

    def outcome(self, sets: SetTable, seed: int = SEED) -> Outcome:
        """Returns the prediction of each set in the networks' units."""
        elements, context = self.encoded(sets)
        return self.ensemble.predict(elements, context, self.num_permutations, seed).cpu()

    def far_values(self, sets: SetTable) -> np.ndarray:
        """Counts the values of each set, (B,), that lie outside the range of training by more than its width."""
        total = np.zeros(len(sets), np.int64)
        owners = np.repeat(np.arange(len(sets)), sets.sizes)
        for name, far in self.encoder.far_values(sets).items():
            total += np.bincount(owners[far], minlength=len(sets)) if name in sets.elements else far
        return total


@dataclass(frozen=True, eq=False)
class ClassPredictor(Predictor):
    """The predictor of a ``SetClassifier``, with its classes."""

    known: ClassTargets

    @property
    def task(self) -> Classification:
        return cast(Classification, self.ensemble.task)


@dataclass(frozen=True, eq=False)
class NumberPredictor(Predictor):
    """The predictor of a ``SetRegressor``.

    - ``mean`` and ``scale`` (t,): the units of the targets.
    - ``flat``: True if the targets were (B,).
    """

    mean: np.ndarray
    scale: np.ndarray
    flat: bool

    @property
    def task(self) -> Regression:
        return cast(Regression, self.ensemble.task)

    def unstandardised(self, means: Tensor) -> np.ndarray:
        """Returns predictions (B, t · q) in the units of y, (B, t, q). q is 1 without quantiles.

        Raises: FloatingPointError if a prediction is not finite.
        """
        numbers = means.double().numpy().reshape(len(means), len(self.scale), -1)
        with np.errstate(over="ignore"):  # the check below gives the error
            columns: np.ndarray = numbers * self.scale[:, None] + self.mean[:, None]
        check_outputs_finite(torch.from_numpy(columns).flatten(1), self.owner)
        return columns

    def in_units(self, outcome: Outcome) -> tuple[np.ndarray, np.ndarray]:
        """Returns the numbers of each set in the units of y, and their standard errors, (B, t, q)."""
        mean = self.unstandardised(outcome.mean)
        with np.errstate(over="ignore"):
            error = outcome.standard_error.double().numpy().reshape(mean.shape) * self.scale[:, None]
        return mean, error


AnyPredictor = ClassPredictor | NumberPredictor
