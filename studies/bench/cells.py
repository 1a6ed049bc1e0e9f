"""The contents of a cell's file: a model on one fold of a data set."""

from dataclasses import dataclass, field
from typing import Annotated, Any

from studies.runs.results import Result
from studies.runs.schema import Count, Seconds, Seed, Within

Number = Annotated[float | None, Within(-1e300, or_nan=True)]


@dataclass
class About:
    """The description of a data set on the page."""

    about: str
    task: str
    scores: list[str]
    num_folds: Count
    published: dict[str, str]
    settings: dict[str, Any]


@dataclass
class Cell:
    """A result. ``scores``: by test and score; empty if the model does not apply."""

    data: str
    model: str
    fold: Seed
    config: dict[str, Any]
    data_set: About
    seconds: Seconds
    does_not_apply: str | None = None
    scores: dict[str, dict[str, Number]] = field(default_factory=dict)
    num_train: int = 0
    num_test: int = 0
    num_parameters: int = 0
    """The number of parameters of all networks that predict, or of leaves of trees."""
    num_networks: int = 0
    fit_seconds: Seconds = 0.0
    predict_seconds: Seconds = 0.0
    """CPU seconds of the process, on one thread; not wall-clock seconds."""
    chosen: dict[str, float] = field(default_factory=dict)
    """The choice: the weights of the strategies that a search averages, or a peer's learning rate."""


def score_of(cell: Result, name: str) -> float:
    """Returns the mean of a score over the tests, or NaN if one is missing."""
    values = [of_test[name] for of_test in cell["scores"].values()]
    return sum(values) / len(values) if values and None not in values else float("nan")
