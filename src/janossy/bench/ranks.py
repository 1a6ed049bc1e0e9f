"""Models ranked over data sets: Friedman's test, and what Nemenyi's says is no difference (Demšar, 2006)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt
from statistics import fmean

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, studentized_range

from janossy.bench.names import MODELS
from janossy.bench.tables import folds_of, sign
from janossy.runs.results import Result

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Ranks:
    """Mean ranks over data sets, 1 the best.

    ``statistic``, ``p_value``: of Friedman's test that all models are alike. ``critical_difference``: Nemenyi's, at
    5 %. ``groups``: models in the order of their ranks, first and last, of which no two differ by it.
    """

    data: list[str]
    mean_ranks: dict[str, float]
    models_left_out: list[str]
    data_left_out: list[str]
    statistic: float
    p_value: float
    critical_difference: float
    groups: list[tuple[int, int]]


def ranks(summaries: Sequence[Result]) -> Ranks | None:
    """Of the largest block of data sets and models in which all models were run on all, by the folds that they share.

    None where it has fewer than two data sets, or three models.
    """
    compared, chosen = _block(summaries)
    if len(chosen) < 2 or len(compared) < 3:
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
    """The models and data sets, each of these models run on each of these, of which there are the most pairs."""
    run = {model: sum(1 << i for i, summary in enumerate(summaries) if folds_of(summary, model)) for model in MODELS}
    best: tuple[list[str], list[Result]] = ([], [])
    most = 0
    for some in range(1, 1 << len(summaries)):
        models = [model for model, on in run.items() if on & some == some]
        if len(models) * some.bit_count() > most:
            most = len(models) * some.bit_count()
            best = models, [summary for i, summary in enumerate(summaries) if some >> i & 1]
    return best


def _means(summary: Result, models: Sequence[str]) -> list[float]:
    """The mean score of each, larger the better, over the folds that all have, if there are any."""
    scores = {model: folds_of(summary, model) for model in models}
    shared = set.intersection(*(set(folds) for folds in scores.values()))
    return [sign(summary) * fmean([scores[model][fold] for fold in shared or scores[model]]) for model in models]
