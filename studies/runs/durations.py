"""Durations of finished trials, and estimates for others."""

from collections import defaultdict
from collections.abc import Sequence
from statistics import median
from typing import cast

from studies.runs.results import Result
from studies.runs.trials import Trial


def duration(seconds: float) -> str:
    """Returns seconds as text: 45 s, 12 min 05 s or 3 h 20 min."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes == 0:
        return f"{rest} s"
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def projected(trials: Sequence[Trial], finished: Sequence[tuple[Trial, Result]]) -> float | None:
    """Returns the total seconds that trials will take, one after the other; None if none is finished.

    Each trial takes its ``cost`` at the median rate of finished trials with its names, or else at that of all trials.
    """
    if not finished:
        return None
    by_names = defaultdict(list)
    for trial, result in finished:
        by_names[trial.place[:2]].append(result["seconds"] / trial.cost)
    of_all = median(rate for rates in by_names.values() for rate in rates)
    return cast("float | None", sum(trial.cost * median(by_names.get(trial.place[:2], [of_all])) for trial in trials))
