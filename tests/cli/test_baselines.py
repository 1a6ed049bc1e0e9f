"""Baselines in the report: their order, and the sentence that comes first where one is ahead."""

import numpy as np
import pytest

from janossy.cli.workflow.baselines import ahead, baselines, score_name
from janossy.cli.workflow.evaluation import Evaluation
from janossy.cli.workflow.record import Recipe, Record
from janossy.cli.workflow.report import report
from janossy.estimators import SetClassifier, SetRegressor, Trial
from janossy.tables import as_sets


def trial(strategy, loss, score, **settings):
    return Trial(strategy, settings, 0, 1, 1.0, loss, score)


def record(task, scores):
    return Record(Recipe(target=("y",)), task, ("f",), 4, 4, 1, 1, 4, scores, 1.0, "now", "janossy fit")


def evaluated(targets):
    return Evaluation(np.arange(len(targets)), targets, targets, None)


def test_the_best_comes_first_and_a_baseline_that_is_ahead_is_said():
    model = SetClassifier()
    model.trials_ = [
        trial("k1", 0.1, 0.99),
        trial("linear", 0.5, 0.7),
        trial("forest", 0.6, 0.9),
        trial("forest", 0.4, 0.8, extra=True),
        Trial("trees", {}, 0, 0, 0.0, np.inf, -np.inf, note="not tried"),
    ]
    about = record("classification", {"accuracy": 0.75, "balanced accuracy": 0.6})
    found = baselines(model, evaluated(np.array(["a", "a", "a", "b"])), about)
    assert [(each.name, each.score) for each in found] == [
        ("random forest (extremely randomised) on statistics of sets", 0.8),
        ("this model", 0.75),
        ("always a", 0.75),
        ("logistic regression on statistics of sets", 0.7),
    ]
    assert ahead(found, "accuracy") == (
        "Random forest (extremely randomised) on statistics of sets is better than this model: accuracy 0.8000 against "
        "0.7500. "
    )
    assert ahead(found[1:], "accuracy") == ""


def test_scores_that_trials_have_too():
    """With balanced classes errors weigh alike by class, in trials too."""
    about = record("classification", {"accuracy": 0.75, "balanced accuracy": 0.6})
    model = SetClassifier(class_weight="balanced")
    model.trials_ = []
    assert score_name(model, about) == "balanced accuracy" and score_name(SetClassifier(), about) == "accuracy"
    found = baselines(model, evaluated(np.array([0, 0, 0, 1])), about)
    assert [each.score for each in found] == [0.6, 0.5]
    numbers = SetRegressor()
    numbers.trials_ = [trial("linear", 0.5, 0.7)]
    found = baselines(numbers, evaluated(np.arange(4.0)), record("regression", {"R²": None}))
    assert [each.name for each in found] == ["ridge regression on statistics of sets", "always the mean", "this model"]


@pytest.mark.parametrize("better", [True, False])
def test_the_page_begins_with_it(better):
    sets, y = as_sets([[1.0, 2.0], [3.0], [4.0], [5.0]] * 10), np.arange(40.0) % 4
    model = SetRegressor("linear", validation=2, random_state=0).fit(sets, y)
    of_model = 0.1 if better else 1.0
    about = record("regression", {"R²": of_model, "root mean squared error": 1.0})
    page = report(model, sets, evaluated(y), about, {}, {}).decode()
    words = "Ridge regression on statistics of sets is better than this model"
    assert (words in page) is better and "ridge regression on statistics of sets" in page
    assert page.index("predictor") < page.index("root mean squared error</th>")
