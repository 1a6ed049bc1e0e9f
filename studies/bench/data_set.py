"""A data set to measure on: sets with targets, split into training sets and scored ones."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from janossy.tables import SetTable


@dataclass(frozen=True, eq=False)
class Sample:
    """Sets, and the target of each, (B,)."""

    sets: SetTable
    targets: np.ndarray


@dataclass(frozen=True, eq=False)
class Fold:
    """The training sets, and the scored ones: "test", or several tests by name, such as one per set size.

    Tests are made when they are asked for: some are large.
    """

    train: Sample
    tests: Mapping[str, Callable[[], Sample]]


@dataclass(frozen=True, eq=False)
class DataSet:
    """Data to measure on."""

    name: str
    about: str
    """One sentence: what a set is, what is predicted, and where it comes from."""
    task: Literal["classification", "regression", "mixtures"]
    scores: tuple[str, ...]
    """Names of scores, of which the first decides: accuracy, balanced accuracy, AUC, RMSE …"""
    num_folds: int
    """The folds of all repetitions: ten folds three times are 30."""
    fold: Callable[[int], Fold]
    """The fold of this number, the same whenever it is asked for."""
    published: Mapping[str, str] = field(default_factory=dict)
    """For orientation: others' results as they print them, by model."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of ``SetClassifier`` or ``SetRegressor`` that every user of such data would give."""
    expert_settings: Mapping[str, Any] | None = None
    """The strategy, with its settings, that somebody who knows the data would ask for."""
