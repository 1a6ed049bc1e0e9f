"""A data set of the bench: sets with targets, in training sets and tests."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from janossy.tables import SetTable


@dataclass(frozen=True, eq=False)
class Sample:
    """Sets with the target of each, (B,)."""

    sets: SetTable
    targets: np.ndarray


@dataclass(frozen=True, eq=False)
class Fold:
    """The training sets and the tests: "test", or several by name, such as one per set size.

    Tests are made on demand, because some are large.
    """

    train: Sample
    tests: Mapping[str, Callable[[], Sample]]


@dataclass(frozen=True, eq=False)
class DataSet:
    """A data set with its description, scores and folds."""

    name: str
    about: str
    """One sentence: the sets, the target, and the source."""
    task: Literal["classification", "regression", "mixtures"]
    scores: tuple[str, ...]
    """Names of scores. The first one decides: accuracy, balanced accuracy, AUC, RMSE …"""
    num_folds: int
    """The folds of all repetitions: three repetitions of ten folds are 30."""
    fold: Callable[[int], Fold]
    """Returns the fold of a number, the same at every call."""
    published: Mapping[str, str] = field(default_factory=dict)
    """Published results as printed, by model, for orientation."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of ``SetClassifier`` or ``SetRegressor`` that every user of such data would pass."""
    expert_settings: Mapping[str, Any] | None = None
    """The strategy with settings that an expert on the data would choose."""
