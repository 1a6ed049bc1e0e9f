"""Settings of the estimators' fits, as scikit-learn keeps them, and what follows: limits, candidates, metadata."""

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from os import PathLike
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from janossy.checks import check_integer, check_number
from janossy.estimators.candidates import Candidate, candidates
from janossy.estimators.limits import Limits
from janossy.estimators.trials import Progress
from janossy.nn.network import JanossyNetwork
from janossy.tables.forms import Names

Strategy = str | Mapping[str, Any] | Callable[..., JanossyNetwork]
"""A name, a name with settings, or a function that builds a network from layouts."""


class FitSettings(BaseEstimator):
    """The constructor of ``SetClassifier`` and ``SetRegressor``. ``SetClassifier`` describes its arguments."""

    def __init__(
        self,
        strategy: Strategy | Sequence[Strategy] = "auto",
        *,
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
        self.checkpoint = checkpoint
        self.num_threads = num_threads
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.progress = progress

    def _limits(self) -> Limits:
        """Returns the settings of training after a check.

        Raises: TypeError or ValueError for a setting of another type or range.
        """
        owner = type(self).__name__
        for name in ("max_epochs", "batch_size", "patience", "num_threads"):
            check_integer(owner, name, getattr(self, name), 1, optional=True)
        check_integer(owner, "num_permutations", self.num_permutations, 1)
        for name, example in {"time_budget": 600.0, "learning_rate": 3e-3}.items():
            if (value := getattr(self, name)) is not None:
                check_number(owner, name, value, example)
                if not value > 0:  # also NaN
                    raise ValueError(f"{owner} expects {name} > 0, or None; got {name}={value}.")
        if (part := self.validation) is not None:
            check_number(owner, "validation", part, 0.1)
            if not (0 < part < 1 or (isinstance(part, Integral) and part > 1)):
                raise ValueError(
                    f"{owner} expects validation as a fraction between 0 and 1, a number of folds >= 2, or None; got "
                    f"validation={part}."
                )
        return Limits(
            float("inf") if self.time_budget is None else float(self.time_budget),
            self.max_epochs,
            self.batch_size,
            self.learning_rate,
            self.patience,
        )

    def _candidates(self, several: bool = False, nested: bool = False) -> list[Candidate]:
        """Returns the candidates of the strategy, without classical learners if they do not minimise the loss.

        ``several``: True for several classes per set. ``nested``: True for sets of sets.
        Raises: ValueError if no candidate remains.
        """
        tried, settings = candidates(self.strategy, nested), self.get_params(deep=False)
        if not nested and any("inner" in each.settings for each in tried):
            raise ValueError(
                f"{type(self).__name__} expects the setting inner for sets of sets only; got sets without inner sets. "
                "Leave it out."
            )
        loss = settings.get("loss", "squared_error")
        reasons = {f"loss={loss!r}": loss != "squared_error", "ordinal=True": settings.get("ordinal", False)}
        why = next((name for name, applies in reasons.items() if applies), "several classes per set" * several)
        if not why:
            return tried
        networks = [each for each in tried if not each.classical]
        if not networks:
            minimised = "one cross-entropy of unordered classes" if "ordinal" in settings else "squared errors"
            raise ValueError(
                f"{why} expects networks in strategy, as {tried[0].strategy!r} minimises {minimised}. Pass 'auto', or "
                "the name of a network."
            )
        return networks

    def _metadata(self, tried: Sequence[Candidate], seed: int | None) -> dict[str, Any]:
        """Returns plain data that identifies this fit, beside its sets."""
        unlike = ("progress", "verbose", "device", "checkpoint", "time_budget", "num_permutations", "random_state")
        metadata: dict[str, Any] = {
            name: repr(value) for name, value in self.get_params().items() if name not in unlike
        }
        identities = [each.identity for each in tried]
        return metadata | {"estimator": type(self).__name__, "random_state": repr(seed), "strategy": identities}

    def _columns(self) -> dict[str, Any]:
        """Returns the settings of columns, as arguments of ``as_sets``."""
        return {"set_columns": self.set_columns, "numeric": self.numeric, "categorical": self.categorical}
