"""Verdicts on our numbers: better than the paper's, equal, or short of them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan, sqrt
from statistics import fmean, stdev

from studies.paper.arithmetic.tables import PAPER_TASKS, ROWS, WIDE_ROWS, Row, metric_of, our_values, paper_score
from studies.paper.printed import Score
from studies.runs.results import Result

PAPER_RUNS = 15
FEW = 3
"""The number of runs below which the paper's standard deviation is more reliable than ours."""
CLEAR = 2.0
"""The number of standard errors beyond which a difference is clear."""
WORDS = ("better", "equal", "short")


@dataclass(frozen=True)
class Verdict:
    """The difference of our score from the paper's, in its standard errors; positive if ours is better."""

    difference: float
    num_seeds: int

    @property
    def word(self) -> str:
        """One of WORDS. A run that diverged falls short."""
        return "better" if self.difference > CLEAR else "equal" if self.difference >= -CLEAR else "short"

    def __str__(self) -> str:
        far = "NaN" if isnan(self.difference) else f"{self.difference:+.1f}"
        return f"{self.word} ({far}; {self.num_seeds})"


Verdicts = list[tuple[Row, dict[str, Verdict | None]]]
"""The rows of a table, each with its verdicts by task, None without a result."""


def verdict(ours: Sequence[float], paper: Score, *, lower_is_better: bool) -> Verdict:
    """Compares the scores of our runs with the paper's mean and standard deviation over 15 runs.

    The variance of a mean is the variance over runs, divided by their number. The paper's variance and standard
    deviation also include the rounding of its printed numbers. With fewer than FEW runs, our deviation is replaced by
    the paper's.
    """
    rounding = 10**-paper.digits / sqrt(12)
    theirs = (paper.std or 0.0) ** 2 + rounding**2
    mine = stdev(ours) ** 2 if len(ours) >= FEW and not any(map(isnan, ours)) else theirs
    error = sqrt(mine / len(ours) + theirs / PAPER_RUNS + rounding**2)
    sign = -1 if lower_is_better else 1
    return Verdict(sign * (fmean(ours) - paper.mean) / error, len(ours))


def verdicts(results: Sequence[Result], metric: str | None = None, *, wide: bool = False) -> Verdicts:
    """Returns the verdicts on Table 3, with metric "mae" on Tables 4 and 5; with ``wide`` on Tables 6 and 7."""
    return [
        (row, {task: _of(results, task, row, metric, wide) for task in PAPER_TASKS})
        for row in (WIDE_ROWS if wide else ROWS)
    ]


def _of(results: Sequence[Result], task: str, row: Row, metric: str | None, wide: bool) -> Verdict | None:
    values = our_values(results, task, row, metric)
    if not values:
        return None
    paper = paper_score(task, row.base, row.num_permutations, metric, 100 if wide else None)
    return verdict(values, paper, lower_is_better=(metric or metric_of(task)) != "accuracy")


def counted(tables: Sequence[Verdicts]) -> str:
    """Returns the counts of verdicts as text: Of the paper's 180 numbers ours are: 80 better, …"""
    found = [each for table in tables for _, row in table for each in row.values()]
    counts = Counter(each.word for each in found if each)
    tally = ", ".join(f"{counts[word]} {word}" for word in WORDS)
    absent = sum(each is None for each in found)
    return f"Of the paper's {len(found)} numbers ours are: {tally}" + (f"; {absent} not run." if absent else ".")
