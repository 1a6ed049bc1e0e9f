"""Better, equal or short: the verdicts on the paper's numbers."""

from math import nan, sqrt

import numpy as np
import pytest

from studies.paper.arithmetic.tables import ROWS, WIDE_ROWS, Row
from studies.paper.arithmetic.verdicts import PAPER_RUNS, counted, verdict, verdicts
from studies.paper.printed import Score, paper_tables


def of(task, model, metric, *values):
    return [
        {"task": task, "model": model, "seed": seed, "scores": [{"num_permutations": None, metric: value}]}
        for seed, value in enumerate(values)
    ]


def test_two_samples_of_one_distribution_are_equal_nineteen_times_in_twenty():
    """The difference is a standard normal number, beside the t-distribution's tails of 15 runs."""
    rng = np.random.default_rng(0)
    ours, theirs = rng.normal(5.0, 2.0, (2, 4000, PAPER_RUNS))
    found = [
        verdict(mine, Score(paper.mean(), paper.std(ddof=1), 3), lower_is_better=False)
        for mine, paper in zip(ours.tolist(), theirs, strict=True)
    ]
    differences = np.array([each.difference for each in found])
    assert abs(differences.mean()) < 4 / sqrt(4000)
    assert 1.0 < differences.std() < 1.12
    assert 0.92 < np.mean([each.word == "equal" for each in found]) < 0.96


@pytest.mark.parametrize(
    ("ours", "lower_is_better", "word"),
    [
        ([0.99] * 5, False, "better"),
        ([0.99] * 5, True, "short"),
        ([0.9] * 5, False, "equal"),
        ([0.904], False, "equal"),
        ([0.93], False, "equal"),  # one seed, and the paper's spread is 0.02
        ([0.97], False, "better"),
        ([0.97, nan], False, "short"),
        ([nan, nan, nan], True, "short"),
    ],
)
def test_the_word_is_that_of_the_difference(ours, lower_is_better, word):
    found = verdict(ours, Score(0.9, 0.02, 2), lower_is_better=lower_is_better)
    assert found.word == word and str(found).startswith(word) and str(found).endswith(f"; {len(ours)})")


def test_what_the_paper_rounded_off_is_no_difference():
    assert verdict([1.0] * 15, Score(0.995, 0.0, 2), lower_is_better=False).word == "equal"
    assert verdict([1.0] * 15, Score(0.98, 0.0, 2), lower_is_better=False).word == "better"


def test_each_row_is_compared_with_its_own_table():
    printed = {
        (f"k{row['k']}", row["rho"]): row["variance"]["mean"]
        for row in paper_tables()["table_6_accuracy_embedding_100"]
    }
    for row in WIDE_ROWS:
        mean = printed[row.model.split("-")[0], {"linear": "linear", "mlp": "mlp100"}[row.rho]]
        found = dict(verdicts(of("variance", row.model, "rmse", mean), wide=True))[row]["variance"]
        assert found.difference == pytest.approx(0, abs=1e-6)
    found = dict(verdicts(of("variance", "k2-linear-100", "rmse", 0.71)))
    assert all(each is None for row in found.values() for each in row.values())


def test_what_is_not_run_is_counted():
    results = of("sum", "k1-linear", "accuracy", 1.0) + of("range", "k1-linear", "accuracy", 0.9)
    found = verdicts(results)
    assert dict(found)[Row("k1-linear", None)]["range"].word == "better"
    total = 5 * len(ROWS)
    assert (
        counted([found]) == f"Of the paper's {total} numbers ours are: 1 better, 1 equal, 0 short; {total - 2} not run."
    )
