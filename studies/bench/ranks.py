"""Ranks of models over data sets, with Friedman's test and Nemenyi's critical difference (Demšar, 2006).

The test and the quantiles are scipy's. autorank and scikit-posthocs would add statsmodels, and with it seaborn or
baycomp, for the one remaining formula.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt
from statistics import fmean

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, studentized_range

from studies.bench.names import MODELS
from studies.bench.tables import folds_of, sign
from studies.runs.results import Result

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Ranks:
    """Mean ranks over data sets, where 1 is the best.

    - ``statistic``, ``p_value``: Friedman's test that all models are alike.
    - ``critical_difference``: Nemenyi's, at 5 %.
    - ``groups``: the first and last models, in the order of ranks, of groups without a critical difference.
    """

    data: list[str]
    mean_ranks: dict[str, float]
    skipped_models: list[str]
    skipped_data: list[str]
    statistic: float
    p_value: float
    critical_difference: float
    groups: list[tuple[int, int]]


def ranks(summaries: Sequence[Result]) -> Ranks | None:
    """Ranks the models and data sets that give the most fits to compare, on folds that all of these models share.

    Returns None for fewer than two such data sets, or three models.
    """
    compared, chosen = largest_comparison(summaries)
    if not compared:
        return None
    scores = np.array([_means(summary, compared) for summary in chosen])
    each = rankdata(-scores, axis=1)
    mean_ranks = dict(sorted(zip(compared, each.mean(0).tolist(), strict=True), key=lambda pair: pair[1]))
    test = friedmanchisquare(*scores.T)
    difference = critical_difference(len(compared), len(chosen))
    run = [model for model in MODELS if any(folds_of(summary, model) for summary in summaries)]
    return Ranks(
        [summary["name"] for summary in chosen],
        mean_ranks,
        [model for model in run if model not in compared],
        [summary["name"] for summary in summaries if summary not in chosen],
        float(test.statistic),
        float(test.pvalue),
        difference,
        groups([*mean_ranks.values()], difference),
    )


def critical_difference(num_models: int, num_data_sets: int) -> float:
    """Returns the critical difference of ranks, q·√(k(k + 1) / 6N), q the Studentized range over √2 (Demšar, Eq. 5)."""
    q = studentized_range.ppf(CONFIDENCE, num_models, inf) / sqrt(2)
    return float(q * sqrt(num_models * (num_models + 1) / (6 * num_data_sets)))


def groups(ranked: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """Returns the first and last position of each longest run of ascending ranks within the difference."""
    found: list[tuple[int, int]] = []
    for first, rank in enumerate(ranked):
        last = max(i for i, other in enumerate(ranked) if other - rank <= difference)
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found


def largest_comparison(summaries: Sequence[Result]) -> tuple[list[str], list[Result]]:
    """Returns the models and data sets of the largest comparison; empty if there are too few.

    The best models share some folds, and are all the models that have these. So they are an intersection of the sets
    of models that have a fold. There are few such intersections, as most models were run on the same folds.
    """
    folds = {model: [folds_of(summary, model) for summary in summaries] for model in MODELS}
    models = [model for model in MODELS if any(folds[model])]
    columns = Counter[tuple[int, int]]()  # data set and models, as bits, of each fold
    for i in range(len(summaries)):
        for fold in set().union(*(folds[model][i] for model in models)):
            columns[i, sum(1 << bit for bit, model in enumerate(models) if fold in folds[model][i])] += 1
    shared: set[int] = set()
    for _, has in columns:
        shared |= {has, *(has & other for other in shared)}
    best, most = 0, 0
    for some in sorted(shared):
        of_data: Counter[int] = Counter()
        for (i, has), num in columns.items():
            if some & has == some:
                of_data[i] += num
        fits = some.bit_count() * of_data.total()
        if some.bit_count() >= 3 and len(of_data) >= 2 and fits > most:
            best, most, in_best = some, fits, set(of_data)
    if not most:
        return [], []
    return (
        [model for bit, model in enumerate(models) if best >> bit & 1],
        [summary for i, summary in enumerate(summaries) if i in in_best],
    )


def _means(summary: Result, models: Sequence[str]) -> list[float]:
    """Returns the mean score of each model over the shared folds, signed so that larger is better."""
    scores = {model: folds_of(summary, model) for model in models}
    shared = set.intersection(*(set(folds) for folds in scores.values()))
    return [sign(summary) * fmean([scores[model][fold] for fold in shared]) for model in models]
