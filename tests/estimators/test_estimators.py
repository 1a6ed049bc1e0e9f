from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from janossy.estimators import (
    ElementImportance,
    GroupRows,
    NothingTrained,
    SetClassifier,
    SetRegressor,
    UnfinishedTraining,
    importance,
    networks,
)
from janossy.estimators.predictions import predictions
from janossy.estimators.training import Ending, unfinished
from janossy.estimators.trials import Trial
from janossy.functions import TupleMLP
from janossy.inference import Sensitivity
from janossy.nn.network import JanossyNetwork
from janossy.nn.pooling import JanossyPooling
from janossy.orderings import Sampled
from janossy.sets import Ragged
from janossy.tables import as_sets
from tests.estimators.sets import bags, sums

QUICK = {"max_epochs": 3, "validation": 0.25, "random_state": 0}


@pytest.fixture(scope="module")
def classifier() -> SetClassifier:
    sets, labels = bags(120)
    return SetClassifier("max", random_state=0, max_epochs=40).fit(sets, np.where(labels, "yes", "no"))


@pytest.fixture(scope="module")
def recurrent() -> SetRegressor:
    return SetRegressor("gru", random_state=0, num_permutations=10, **{k: QUICK[k] for k in ("max_epochs",)}).fit(
        *sums(80)
    )


@pytest.mark.parametrize("change", [{"max_epochs": 0}, {"strategy": "none"}])
def test_a_fit_that_fails_leaves_no_model(change):
    """Not even one of the networks before with the units of the new targets."""
    sets, y = sums(40)
    model = SetRegressor("k1", **QUICK).fit(sets, y)
    with pytest.raises(ValueError, match="expects"):
        model.set_params(**change).fit(sets, 1000 * np.asarray(y))
    with pytest.raises(NotFittedError):
        model.predict(sets)


def test_labels_in_an_array_of_arrow_are_scored():
    sets, labels = bags(40)
    y = [["a", "b"] if label else ["a"] for label in labels]
    model = SetClassifier("max", **QUICK).fit(sets, pa.array(y))
    assert model.score(sets, pa.array(y)) == model.score(sets, y) > 0


# Prediction


def test_a_classifier_learns(classifier):
    sets, labels = bags(300, seed=1)
    assert classifier.score(sets, np.where(labels, "yes", "no")) > 0.93
    probabilities = classifier.predict_proba(sets)
    assert probabilities.shape == (300, 2) and np.allclose(probabilities.sum(1), 1, atol=1e-6)
    assert list(classifier.classes_) == ["no", "yes"]
    assert (classifier.predict(sets) == classifier.classes_[probabilities.argmax(1)]).all()


def test_a_regressor_learns_several_targets():
    sets, y = sums(150)
    model = SetRegressor("k1", random_state=0, validation=0.2, max_epochs=80)
    both = np.stack((y, 1000 - 50 * y), 1)
    assert model.fit(sets, both).predict(sets[:7]).shape == (7, 2)
    fresh, target = sums(100, seed=1)
    assert model.score(fresh, np.stack((target, 1000 - 50 * target), 1)) > 0.9
    assert model.set_params(max_epochs=1).fit(sets, y[:, None]).predict(sets[:7]).shape == (7, 1)


@pytest.mark.parametrize("model", ["classifier", "recurrent"])
def test_predictions_depend_on_the_set_alone(model, request, monkeypatch):
    model = request.getfixturevalue(model)
    predict = model.predict_proba if hasattr(model, "predict_proba") else model.predict
    sets, _ = bags(40, seed=2)
    together = predict(sets)
    alone = np.concatenate([predict([x]) for x in sets])
    shuffled = predict([x[::-1] for x in sets])
    monkeypatch.setattr(networks, "MAX_SETS", 7)
    monkeypatch.setattr(networks, "MAX_ELEMENTS", 20)
    for other in (alone, shuffled, predict(sets)):
        np.testing.assert_allclose(other, together, rtol=1e-5, atol=1e-6)


def test_a_fit_is_repeated_by_its_seed_and_leaves_torch_random_numbers_alone():
    sets, y = sums(40)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first = SetRegressor(["gru", "k1"], **QUICK).fit(sets, y).predict(sets)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(4)
    assert (SetRegressor(["gru", "k1"], **QUICK).fit(sets, y).predict(sets) == first).all()
    assert (SetRegressor(["gru", "k1"], **{**QUICK, "random_state": 1}).fit(sets, y).predict(sets) != first).any()


def test_the_spread_over_orders_is_zero_for_exact_models(classifier):
    sets, _ = bags(10)
    labels, spread = classifier.predict(sets, return_std=True)
    probabilities, spreads = classifier.predict_proba(sets, return_std=True)
    assert (labels == classifier.predict(sets)).all() and (probabilities == classifier.predict_proba(sets)).all()
    assert (spread == 0).all() and spread.shape == (10,) and (spreads == 0).all() and spreads.shape == (10, 2)
    assert (classifier.change_probability(sets) == 0).all()
    assert classifier.sensitivity_ is None


def test_the_spread_over_orders_is_that_of_the_mean_of_the_networks(recurrent):
    """Against the standard deviation of predictions by other permutations."""
    sets, _ = sums(30, seed=5)
    mean, spread = recurrent.predict(sets, return_std=True)
    several = np.array([len(x) > 3 for x in sets])  # of three elements all six orders are taken
    assert (spread[several] > 0).all() and np.allclose(spread[~several], 0, atol=1e-6)
    others = [
        predictions(recurrent.predictor_, as_sets(sets), seed=seed)["prediction"].to_numpy() for seed in range(1, 30)
    ]
    found = np.std(others, 0, ddof=1)[several].mean()
    assert 0.5 < spread[several].mean() / found < 2
    assert np.abs(np.mean(others, 0) - mean).max() < 6 * spread.max()


def test_sensitivity_of_what_draws_orders(recurrent):
    assert isinstance(recurrent.sensitivity_, Sensitivity)
    assert recurrent.sensitivity_.within.shape == (1,)


def test_probabilities_are_calibrated_by_sets_left_out():
    random = np.random.default_rng(0)
    sets, labels = bags(200)
    noisy = np.where(random.random(200) < 0.3, ~labels, labels)
    model = SetClassifier({"strategy": "max", "width": 8}, random_state=0, max_epochs=30, validation=0.5)
    model.fit(sets, noisy)
    fresh, truth = bags(500, seed=1)
    wrong = np.where(random.random(500) < 0.3, ~truth, truth)
    confidence = model.predict_proba(fresh).max(1).mean()
    assert abs(confidence - (model.predict(fresh) == wrong).mean()) < 0.1
    assert model.temperature_ > 0


# Elements


def test_the_element_that_makes_the_label_mattered(classifier):
    sets, labels = bags(60, seed=3)
    several = [x for x, label in zip(sets, labels, strict=True) if label and len(x) > 2 and (x[:, 0] > 1).sum() == 1]
    found = classifier.element_importance(several)
    right = [found[b].argmax() == x[:, 0].argmax() for b, x in enumerate(several)]
    assert len(found) == len(several) and np.mean(right) > 0.8


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(-2, 2), max_size=5), min_size=1, max_size=4), st.booleans())
def test_ranks_count_the_elements_that_speak_more_for_the_prediction(sets, several):
    changes = np.array([x for each in sets for x in each], float)
    offsets = np.cumsum([0, *map(len, sets)])
    found = ElementImportance(np.stack([changes, -changes], 1) if several else changes, offsets).ranks
    ranks = [1 + sum(other > x for other in each) for each in sets for x in each]
    assert (found[:, 0] if several else found).tolist() == ranks
    if several:
        assert found[:, 1].tolist() == [1 + sum(other < x for other in each) for each in sets for x in each]


def test_importance_is_the_prediction_less_that_without_the_element(recurrent, monkeypatch):
    sets, _ = sums(12, seed=4)
    expected = []
    for x in sets:
        without = [np.delete(x, i, axis=0) for i in range(len(x))]
        expected.append(recurrent.predict([x])[0] - recurrent.predict(without))
    found = recurrent.element_importance(sets)
    np.testing.assert_allclose(found.changes, np.concatenate(expected), atol=1e-5)
    monkeypatch.setattr(importance, "MAX_ELEMENTS", 20)
    np.testing.assert_allclose(recurrent.element_importance(sets).changes, found.changes, atol=1e-5)


def test_importance_of_an_empty_set_alone(classifier, tmp_path):
    pytest.importorskip("matplotlib")
    found = classifier.element_importance([np.zeros((0, 2))])
    assert found[0].shape == (0,)
    found.plot(0, path=tmp_path / "empty.png")


def test_importance_is_drawn(classifier, tmp_path):
    pytest.importorskip("matplotlib")
    found = classifier.element_importance([np.array([[2.0, 0.0], [0.0, 0.0]])])
    figure = found.plot(0, labels=["high", "low"], path=tmp_path / "elements.png")
    (axes,), order = figure.axes, np.abs(found[0]).argsort()
    assert [bar.get_width() for bar in axes.patches] == pytest.approx(found[0][order].tolist())
    assert [label.get_text() for label in axes.get_yticklabels()] == [["high", "low"][i] for i in order]
    assert (tmp_path / "elements.png").stat().st_size > 1000
    with pytest.raises(ValueError, match="plot expects a label for each of the 2 elements; got 1"):
        found.plot(0, labels=["high"])


def test_explain(recurrent):
    assert "by Sampled()" in recurrent.explain(sums(5)[0])


# Forms and settings


def test_columns_of_sets_and_categories():
    sets, labels = bags(80)
    frame = pd.DataFrame(
        {
            "x": [x[:, 0] for x in sets],
            "kind": [["a", "b", "c", "d", "e"][: len(x)] for x in sets],
            "height": np.where(labels, 1.0, -1.0),
        }
    )
    model = SetClassifier("k1", random_state=0, max_epochs=30, validation=0.25).fit(frame, labels)
    assert model.score(frame, labels) > 0.95  # the set's own column tells
    assert model.n_features_in_ == 3 and list(model.feature_names_in_) == ["x", "kind", "height"]
    with pytest.raises(ValueError, match="The feature names should match those that were passed during fit"):
        model.predict(frame.drop(columns="height"))
    with pytest.warns(UserWarning, match=r"values that are new since training in column 'kind' \(80\)"):
        model.predict(frame.assign(kind=[["f", *x[1:]] for x in frame["kind"]]))


def test_names_of_features_are_those_of_the_last_fit():
    sets, labels = bags(20)
    frame = pd.DataFrame({"height": labels * 1.0, "width": labels * 2.0})
    model = SetClassifier("k1", max_epochs=1, validation=0.5, random_state=0).fit(frame, labels)
    model.fit(sets, labels)
    assert not hasattr(model, "feature_names_in_") and len(model.predict(sets)) == 20


def test_a_factory_and_a_list_of_strategies():
    def own(element_layout, context_layout, num_outputs):
        f = TupleMLP(2, element_layout.num_columns, 8, out_features=num_outputs)
        return JanossyNetwork(None, JanossyPooling(f, Sampled(1, k=2)), None)

    sets, labels = bags(40)
    model = SetClassifier([own, {"strategy": "k1", "width": 8}], **QUICK).fit(sets, labels)
    assert {trial.strategy for trial in model.trials_} == {"own", "k1"}
    assert model.predict(sets).shape == (40,)


def test_classes_weigh():
    random = np.random.default_rng(0)
    sets = [random.normal(size=(2, 1)) for _ in range(100)]
    labels = np.arange(100) % 10 == 0  # which nothing tells
    settings = {"strategy": {"strategy": "k1", "width": 4}, "validation": 0.3, "max_epochs": 10, "random_state": 0}
    rare = SetClassifier(**settings).fit(sets, labels).predict_proba(sets)[:, 1].mean()
    even = SetClassifier(**settings, class_weight="balanced").fit(sets, labels).predict_proba(sets)[:, 1].mean()
    assert rare < 0.25 and 0.35 < even < 0.65


def test_sets_without_weight_are_not_seen():
    sets, y = sums(60)
    wrong = np.where(np.arange(60) < 30, 1e6, y)
    weighed = SetRegressor("k1", **QUICK).fit(sets, wrong, sample_weight=(np.arange(60) >= 30).astype(float))
    assert (weighed.predict(sets) == SetRegressor("k1", **QUICK).fit(sets[30:], y[30:]).predict(sets)).all()


def test_interrupts_leave_a_fitted_estimator():
    def interrupt(progress):
        if progress.epoch.number == 2:
            raise KeyboardInterrupt

    sets, labels = bags(40)
    model = SetClassifier("k1", max_epochs=50, validation=0.25, progress=interrupt)
    with pytest.warns(UnfinishedTraining, match="Training of k1 ended early, as an interrupt came"):
        model.fit(sets, labels)
    assert model.predict(sets).shape == (40,) and model.trials_[0].note == "interrupted" and model.interrupted_


def test_the_warning_names_the_ending_of_each():
    ends = {"k1": Ending.OUT_OF_TIME, "linear": Ending.INTERRUPTED, "max": Ending.AS_PLANNED, "gru": Ending.OUT_OF_TIME}
    trials = [Trial(name, {}, 0, 1, 1.0, 0.5, 0.9, 0.25, end) for name, end in ends.items()]
    assert unfinished(trials, 3.0) == (
        "Training of k1 and gru ended early, as their part of time_budget=3.0 was over. "
        "Training of linear ended early, as an interrupt came. "
        "The best weights so far predict. Give more time for better."
    )
    assert unfinished(trials[2:3], 3.0) == unfinished([replace(trials[0], weight=0.0)], 3.0) == ""


def test_a_finished_training_of_an_earlier_run_blames_no_budget_of_this_one(tmp_path):
    sets, labels = bags(60)
    settings = {"max_epochs": 100_000, "patience": 100_000, "validation": 0.25, "checkpoint": tmp_path}
    for budget, why in ((0.5, r"its part of time_budget=0\.5 was over"), (None, "its time was over in an earlier run")):
        with pytest.warns(UnfinishedTraining, match=f"Training of k1 ended early, as {why}"):
            SetClassifier("k1", time_budget=budget, random_state=0, **settings).fit(sets, labels)


def test_without_time_for_a_step_there_is_an_error_and_no_model():
    sets, labels = bags(40)
    model = SetClassifier("k1", time_budget=1e-6)
    with pytest.raises(NothingTrained, match="time_budget=1e-06, which was over before the first step"):
        model.fit(sets, labels)
    with pytest.raises(NotFittedError):
        model.predict(sets)


def test_time_is_kept():
    sets, labels = bags(60)
    model = SetClassifier("k1", max_epochs=100_000, patience=100_000, time_budget=1.0)
    with pytest.warns(UnfinishedTraining, match=r"as its part of time_budget=1\.0 was over"):
        model.fit(sets, labels)
    assert model.trials_[0].seconds < 4 and model.trials_[0].note == "out of time"


@pytest.mark.parametrize("kind", [np.int64, np.uint8])
def test_numpy_integers_are_integers(kind):
    sets, labels = bags(40)
    options = {
        "max_epochs": 1,
        "batch_size": 8,
        "patience": 2,
        "validation": 3,
        "num_permutations": 2,
        "random_state": 0,
    }
    expected = SetClassifier("k1", **options).fit(sets, labels).predict_proba(sets)
    model = SetClassifier("k1", **{name: kind(value) for name, value in options.items()}).fit(sets, labels)
    assert len(model.folds_) == 3 and np.array_equal(model.predict_proba(sets), expected)


def test_lines_while_it_fits(capsys):
    sets, labels = bags(40)
    SetClassifier("k1", verbose=1, **QUICK).fit(sets, labels)
    assert capsys.readouterr().out.count("round 1, k1: loss ") == 1
    SetClassifier("k1", verbose=2, **QUICK).fit(sets, labels)
    assert capsys.readouterr().out.count("epoch ") == 3


# In scikit-learn


def test_pipelines_grids_and_folds():
    sets, labels = bags(60)
    long = {
        "bag": np.repeat(np.arange(60), [len(x) for x in sets]),
        "x": np.concatenate(sets)[:, 0],
        "label": np.repeat(labels, [len(x) for x in sets]),
    }
    pipeline = make_pipeline(GroupRows("bag", drop="label"), SetClassifier("k1", **QUICK))
    y = GroupRows("bag").target(long, "label")
    assert pipeline.fit(long, y).predict(long).shape == (60,)
    grouped, y = as_sets({name: long[name] for name in ("bag", "x", "label")}, "label", set_id="bag")
    grid = GridSearchCV(SetClassifier(**QUICK), {"strategy": ["k1", "max"]}, cv=2).fit(grouped, y)
    assert grid.best_params_["strategy"] in ("k1", "max")
    ragged = Ragged.from_sets([torch.tensor(x) for x in sets])
    assert cross_val_score(SetClassifier("k1", **QUICK), ragged, labels, cv=2).shape == (2,)


@pytest.mark.only_all
def test_two_jobs():
    sets, labels = bags(60)
    one = cross_val_score(SetClassifier("k1", **QUICK), np.array(sets, object), labels, cv=2)
    two = cross_val_score(SetClassifier("k1", **QUICK), np.array(sets, object), labels, cv=2, n_jobs=2)
    assert (one == two).all()


def test_a_clone_is_not_fitted(classifier):
    with pytest.raises(NotFittedError):
        clone(classifier).predict(bags(3)[0])
    with pytest.raises(NotFittedError):
        SetRegressor().score(bags(3)[0], [0.0, 1.0, 2.0])


# Bad input


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"max_epochs": 0}, ValueError, "SetClassifier expects max_epochs >= 1; got max_epochs=0"),
        ({"batch_size": 2.5}, TypeError, "SetClassifier expects batch_size >= 1, an integer, or None; got"),
        ({"time_budget": 0}, ValueError, "SetClassifier expects time_budget > 0, or None; got time_budget=0"),
        ({"time_budget": np.nan}, ValueError, "SetClassifier expects time_budget > 0, or None; got time_budget=nan"),
        (
            {"learning_rate": np.nan},
            ValueError,
            "SetClassifier expects learning_rate > 0, or None; got learning_rate=nan",
        ),
        ({"validation": 1.5}, ValueError, "expects validation as a fraction between 0 and 1, a number of folds >= 2"),
        ({"num_permutations": 0}, ValueError, "SetClassifier expects num_permutations >= 1"),
        ({"strategy": "k7"}, ValueError, "strategy expects one of"),
    ],
)
def test_settings_are_checked_in_fit(settings, error, message):
    with pytest.raises(error, match=message):
        SetClassifier(**settings).fit(*bags(10))


def test_targets_are_checked():
    sets, labels = bags(10)
    with pytest.raises(ValueError, match=r"expects two classes or more in y; got one class, .*True.*\. Is y the"):
        SetClassifier().fit(sets, np.ones(10, bool))
    with pytest.raises(ValueError, match=r"requires y to be passed, but the target y is None\. Give one target"):
        SetRegressor().fit(sets, None)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        SetClassifier().fit(sets, labels[:9])
    with pytest.raises(ValueError, match="Input y contains NaN"):
        SetRegressor().fit(sets, np.full(10, np.nan))
    for missing in (None, np.nan, pd.NA):
        with pytest.raises(ValueError, match=r"expects a target for every set; got none for set 3\. Give it one"):
            SetClassifier().fit(sets, pd.Series(["a", "b", "a", missing] + ["b"] * 6))


@pytest.mark.parametrize("kind", [SetClassifier, SetRegressor])
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(9), r"sample_weight expects 10 numbers, one per set; got shape \(9,\)\. Leave it out"),
        (2.0, r"sample_weight expects 10 numbers, one per set; got shape \(\)"),
        (["a"] * 10, r"sample_weight expects 10 numbers, one per set; got other values \(could not"),
        ([1.0] * 9 + [1e45], r"0, or numbers from 1e-18 to 1e\+18; got 1e\+45 for set 9\. Divide all by one number"),
        ([1.0] * 9 + [1e-45], r"got 1e-45 for set 9\. Divide all by one number"),
        ([-1.0] + [1.0] * 9, r"sample_weight expects 0, or numbers from 1e-18 to 1e\+18; got -1\.0 for set 0\.$"),
        ([np.inf] + [1.0] * 9, r"sample_weight .* got inf for set 0"),
        ([1.0, np.nan] * 5, r"sample_weight .* got nan for set 1"),
        ([1.0, None] * 5, r"sample_weight .* got nan for set 1"),
        (np.zeros(10), "two sets or more whose weight is not zero; got 0"),
    ],
)
def test_weights_are_checked(kind, weights, message):
    with pytest.raises(ValueError, match=message):
        kind().fit(*bags(10), sample_weight=weights)


@pytest.mark.parametrize("weight", [-1.0, 1e45, np.nan])
def test_class_weights_are_checked(weight):
    with pytest.raises(ValueError, match=r"class_weight expects 0, or numbers from 1e-18 to 1e\+18; got "):
        SetClassifier(class_weight={True: weight, False: 1.0}).fit(*bags(10))


def test_columns_are_checked(classifier):
    with pytest.raises(ValueError, match="lack these columns: x1; and have these besides: none"):
        classifier.predict([np.ones((2, 1))])
    with pytest.raises(ValueError, match="column 'x0' expects finite numbers"):
        classifier.predict([np.array([[np.inf, 0.0]])])


def test_several_candidates_learn_from_empty_sets_alone_by_the_columns_of_the_sets():
    sets = as_sets({"price": [[]] * 40, "day": [0, 1] * 20}, numeric=["price", "day"])
    days = [0, 1] * 20
    model = SetClassifier(["linear", "k1", "max"], max_epochs=40, validation=0.25, random_state=0).fit(sets, days)
    assert [trial.note for trial in model.trials_] == ["", "", "not tried: the largest set has 0 elements"]
    assert model.score(sets, days) == 1


def test_candidates_none_of_which_suits_the_sets_are_refused():
    with pytest.raises(ValueError, match=r"got none\. max was not tried: the largest set has 1 element\. Pass 'auto'"):
        SetClassifier(["k2", "max"], max_epochs=1).fit([[1.0], [2.0]] * 20, [0, 1] * 20)
