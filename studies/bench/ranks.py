"""Models ranked over data sets: Friedman's test, and what Nemenyi's says is no difference (Demšar, 2006).

The test and the quantiles are scipy's. autorank and scikit-posthocs would add statsmodels, and with it seaborn or
baycomp, for the one formula that is left.
"""

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
    """Mean ranks over data sets, 1 the best.

    ``statistic``, ``p_value``: of Friedman's test that all models are alike. ``critical_difference``: Nemenyi's, at
    5 %. ``groups``: models in the order of their ranks, first and last, of which no two differ by it.
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
    """Ranks the models and data sets by which the most fits are compared, on folds that all of these models share.

    None where there are fewer than two such data sets, or three models.
    """
    compared, chosen = _block(summaries)
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
    """By how much mean ranks must differ: q·√(k(k + 1) / 6N), q of the Studentized range, over √2 (Demšar, Eq. 5)."""
    q = studentized_range.ppf(CONFIDENCE, num_models, inf) / sqrt(2)
    return float(q * sqrt(num_models * (num_models + 1) / (6 * num_data_sets)))


def groups(ranked: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """First and last of each longest stretch of ascending ranks that spans no more than the difference."""
    found: list[tuple[int, int]] = []
    for first, rank in enumerate(ranked):
        last = max(i for i, other in enumerate(ranked) if other - rank <= difference)
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found


def _block(summaries: Sequence[Result]) -> tuple[list[str], list[Result]]:
    """Returns those models and data sets; nothing if there are too few."""
    folds = {model: [folds_of(summary, model) for summary in summaries] for model in MODELS}
    models = [model for model in MODELS if any(folds[model])]
    columns = [(i, fold) for i in range(len(summaries)) for fold in set().union(*(folds[m][i] for m in models))]
    shared = np.ones((1, len(columns)), dtype=bool)
    for model in models:  # row s: the folds that all models share whose bits are 1 in s
        has = np.array([fold in folds[model][i] for i, fold in columns])
        shared = np.concatenate((shared, shared & has))
    of_data = [shared[:, [i == j for j, _ in columns]].sum(1) for i in range(len(summaries))]
    num_models = np.bitwise_count(np.arange(len(shared)))
    enough = (num_models >= 3) & (np.sign(of_data).sum(0) >= 2)
    fits = np.where(enough, num_models * np.sum(of_data, axis=0), 0)
    best = int(fits.argmax())
    if not fits[best]:
        return [], []
    return (
        [model for bit, model in enumerate(models) if best >> bit & 1],
        [summary for summary, num in zip(summaries, of_data, strict=True) if num[best]],
    )


def _means(summary: Result, models: Sequence[str]) -> list[float]:
    """Returns the mean score of each, larger the better, over the folds that all have."""
    scores = {model: folds_of(summary, model) for model in models}
    shared = set.intersection(*(set(folds) for folds in scores.values()))
    return [sign(summary) * fmean([scores[model][fold] for fold in shared]) for model in models]
