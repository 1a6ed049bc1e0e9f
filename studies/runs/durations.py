"""The durations of trials, and the expected ones of others."""

from collections import defaultdict
from collections.abc import Sequence
from statistics import median
from typing import cast

from janossy.batch.workers import Trial
from studies.runs.results import Result


def duration(seconds: float) -> str:
    """45 s; 12 min 05 s; 3 h 20 min."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes == 0:
        return f"{rest} s"
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def projected(trials: Sequence[Trial], finished: Sequence[tuple[Trial, Result]]) -> float | None:
    """Returns the seconds that trials will take, one after the other; None if none is finished.

    Each takes its ``cost`` at the median rate of the finished ones of its names, which are of its settings; without
    any, at that of all.
    """
    if not finished:
        return None
    by_names = defaultdict(list)
    for trial, result in finished:
        by_names[trial.place[:2]].append(result["seconds"] / trial.cost)
    of_all = median(rate for rates in by_names.values() for rate in rates)
    return cast("float | None", sum(trial.cost * median(by_names.get(trial.place[:2], [of_all])) for trial in trials))
