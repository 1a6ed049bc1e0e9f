"""What SetClassifier and SetRegressor share: from sets of any form to an ensemble of networks, and its predictions."""

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor

from janossy.audit import Sensitivity, sensitivity
from janossy.estimators.candidates import candidates
from janossy.estimators.encoder import Encoded, TableEncoder
from janossy.estimators.ensemble import Ensemble, Outcome
from janossy.estimators.forms import as_sets
from janossy.estimators.importance import ElementImportance, leave_one_out
from janossy.estimators.search import Limits, Search, Trial
from janossy.estimators.splits import splits
from janossy.estimators.table import SetTable
from janossy.estimators.tasks import Task
from janossy.estimators.training import Examples
from janossy.orderings.rows import as_random

MOST_AUDITED = 500
"""Sets whose sensitivity to the order is measured."""


class SetEstimator(BaseEstimator):
    """The part of ``SetClassifier`` and ``SetRegressor`` that does not know what is predicted."""

    encoder_: TableEncoder
    ensemble_: Ensemble
    trials_: list[Trial]
    sensitivity_: Sensitivity | None

    def __init__(
        self,
        strategy: Any = "auto",
        *,
        time_budget: float | None = 600.0,
        max_epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        patience: int | None = None,
        validation: float | int | None = None,
        num_permutations: int = 20,
        numeric: Any = (),
        categorical: Any = (),
        set_columns: Any = None,
        device: str = "cpu",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.strategy = strategy
        self.time_budget = time_budget
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.patience = patience
        self.validation = validation
        self.num_permutations = num_permutations
        self.numeric = numeric
        self.categorical = categorical
        self.set_columns = set_columns
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        tags.non_deterministic = False
        return tags

    def _fit(self, sets: SetTable, targets: Tensor, weights: np.ndarray, task: Task) -> None:
        """Train on sets, targets (B,) or (B, t), and weights, of which some may be 0."""
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        limits = self._limits()
        tried = candidates(self.strategy)
        used = np.flatnonzero(weights > 0)
        if len(used) < 2:
            raise ValueError(
                f"{type(self).__name__} expects two sets or more with a weight above 0; got {len(used)} sample(s)."
            )
        if len(used) < len(weights):
            sets, targets, weights = sets[used], targets[torch.from_numpy(used)], weights[used]
        self.encoder_ = TableEncoder().fit(sets)
        encoded = self.encoder_.transform(sets)
        examples = Examples(
            encoded.elements,
            encoded.context if encoded.context.shape[1] else None,
            targets,
            torch.from_numpy(weights / weights.mean()).float(),
        ).to(self.device)
        with _seeded(seed, self.device):
            search = Search(
                examples,
                splits(targets, self.validation, np.random.default_rng(seed)),
                task,
                (self.encoder_.element_layout, self.encoder_.context_layout),
                limits,
                num_permutations=self.num_permutations,
                seed=seed,
                verbose=self.verbose,
            )
            found = search.run(tried)
            self.trials_ = found.trials
            self.ensemble_ = Ensemble(found.networks, found.weights, task)
            self._calibrate(found.parts, examples)
            self.sensitivity_ = _sensitivity(found.parts, examples, task, seed)
            self.ensemble_.to("cpu")

    def _calibrate(self, parts: list[Any], examples: Examples) -> None:
        """What is done with the sets that were left out, when all else is ready."""

    def _sets(self, X: Any, reset: bool = False) -> SetTable:
        """The sets of X, which in prediction must have the columns of training."""
        if _is_matrix(X):
            validate_data(self, X, reset=reset, skip_check_array=True)
        sets = as_sets(X, set_columns=self.set_columns, numeric=self.numeric, categorical=self.categorical)
        if reset and not _is_matrix(X):
            self.n_features_in_ = len(sets.elements) + len(sets.context)
        return sets

    def _encoded(self, X: Any) -> Encoded:
        check_is_fitted(self)
        return self.encoder_.transform(self._sets(X))

    def _outcome(self, X: Any) -> Outcome:
        """The prediction of each set of X, on the host."""
        encoded = self._encoded(X)
        sets, context = encoded.elements.to(self.device), encoded.context.to(self.device)
        self.ensemble_.to(self.device)
        outcome = self.ensemble_.predict(sets, context if context.shape[1] else None, self.num_permutations)
        return outcome.cpu()
