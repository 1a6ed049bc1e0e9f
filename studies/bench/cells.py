"""The contents of a cell's file: a model on a fold of a data set."""

from dataclasses import dataclass, field
from typing import Annotated, Any

from studies.runs.results import Result
from studies.runs.schema import Count, Seconds, Seed, Within

Number = Annotated[float | None, Within(-1e300, or_nan=True)]


@dataclass
class About:
    """The page's description of a data set."""

    about: str
    task: str
    scores: list[str]
    num_folds: Count
    published: dict[str, str]
    settings: dict[str, Any]


@dataclass
class Cell:
    """A result. ``scores``: per test, by its name and the score's; empty if the model does not apply."""

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
    """The parameters of all networks that predict, or the leaves of trees."""
    num_networks: int = 0
    fit_seconds: Seconds = 0.0
    predict_seconds: Seconds = 0.0
    """CPU seconds of the process, on one thread, not on the clock."""
    chosen: dict[str, float] = field(default_factory=dict)
    """The choice: for a search the weights of the strategies that it averages; for a peer its learning rate."""


def score_of(cell: Result, name: str) -> float:
    """Returns the mean of a score over the tests, NaN without one."""
    values = [of_test[name] for of_test in cell["scores"].values()]
    return sum(values) / len(values) if values and None not in values else float("nan")
