"""Figure 2: micro-F1 by the number of permutations at inference, with the paired tests of its text."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from studies.paper.graphs.tables import MEASURES, Column, grouped
from studies.runs.results import Result

FEW, MANY = 1, 7
"""The numbers of permutations that the paper compares over 12 runs: p < 0.001 by both tests."""

LEVEL = 0.95
DECIMALS = 6
"""The decimals of results in files."""


@dataclass(frozen=True)
class Interval:
    """A mean over runs, with half the width of its 95 % interval by Student's t."""

    mean: float
    half: float

    def __format__(self, sign: str) -> str:
        return f"{self.mean:{sign}.4f} ± {self.half:.4f}"


@dataclass(frozen=True)
class PairedTests:
    """Two-sided p-values, or None if a test has no answer: t if all differences are equal, Wilcoxon if all are 0."""

    difference: Interval
    num_runs: int
    t: float | None
    wilcoxon: float | None


@dataclass(frozen=True, eq=False)
class Curves:
    """One of ``MEASURES`` of each run of a row, with 1, 2, … permutations.

    Shapes: values (R, M), for at least two runs R and at least two permutations M.
    """

    column: Column
    row: str
    key: str
    values: np.ndarray

    def at(self, num_permutations: int) -> Interval | None:
        """Returns the mean over runs with so many permutations; None if fewer were sampled."""
        return interval(self.values[:, num_permutations - 1]) if num_permutations <= self.values.shape[1] else None

    def gains(self) -> list[Interval]:
        """Returns the gain of 1, 2, … permutations over one, per run, so that differences between runs cancel."""
        return [interval(gain) for gain in (self.values - self.values[:, :1]).round(DECIMALS).T]

    def change(self, few: int, many: int) -> Interval | None:
        """Returns the mean difference over runs between two numbers of permutations; None if fewer were sampled."""
        if self.values.shape[1] < many:
            return None
        return interval((self.values[:, many - 1] - self.values[:, few - 1]).round(DECIMALS))

    def tests(self) -> PairedTests | None:
        """Tests seven permutations against one, run by run. Returns None if fewer were sampled."""
        if self.values.shape[1] < MANY:
            return None
        few, many = self.values[:, FEW - 1], self.values[:, MANY - 1]
        differences = (many - few).round(DECIMALS)  # so that equal differences share a rank
        t = float(stats.ttest_rel(many, few).pvalue) if np.ptp(differences) else None
        wilcoxon = float(stats.wilcoxon(differences).pvalue) if differences.any() else None
        return PairedTests(interval(differences), len(differences), t, wilcoxon)


def interval(values: np.ndarray) -> Interval:
    """Returns the interval of a mean of R values, at least two. Shapes: values (R,)."""
    half = stats.t.ppf((1 + LEVEL) / 2, len(values) - 1) * stats.sem(values)
    return Interval(float(values.mean()), float(half))


def p_text(p: float | None) -> str:
    """Returns a p-value as text: 0.023, 5e-05, or a dash."""
    return "–" if p is None else f"{p:.3f}" if p >= 0.001 else f"{p:.0e}"


def curves(results: Sequence[Result]) -> list[Curves]:
    """Returns the curves of rows with at least two runs that average predictions over permutations."""
    found = []
    for column, rows in grouped(results).items():
        for row, runs in rows.items():
            for key in MEASURES:
                length = min(len(run.get(key, ())) for run in runs)
                if len(runs) > 1 and length > 1:
                    values = np.array([run[key][:length] for run in runs], dtype=float)
                    found.append(Curves(column, row, key, values))
    return found
