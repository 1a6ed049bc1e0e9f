"""Estimators of sets of sets: laws, comparisons with flat sets, and errors."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch

from janossy.estimators import SetClassifier, SetRegressor, SetStatistics, load, save
from janossy.estimators.candidates import AUTO_NESTED, candidates
from janossy.estimators.nested import SAMPLED, build_nested
from janossy.estimators.strategies import STRATEGIES, build_network
from janossy.saving import SavedModelError
from janossy.sets import Ragged
from janossy.tables import Layout, as_sets

IDS = ["customer", "order"]


@cache
def shop(num=240, seed=0):
    """Returns items of orders of customers, and the target: the largest total of a customer's orders."""
    rng = np.random.default_rng(seed)
    rows = [
        (customer, order, rng.exponential(), rng.choice(["a", "b"]))
        for customer in range(num)
        for order in range(rng.integers(1, 6))
        for _ in range(rng.integers(1, 6))
    ]
    table = pd.DataFrame(rows, columns=[*IDS, "price", "kind"])
    return table, table.groupby(IDS).price.sum().groupby("customer").max()


def sets_of(table, y, ids=IDS):
    return as_sets(table, y, set_id=ids, drop=() if ids == IDS else "order")


def score(strategy, ids=IDS):
    sets, y = sets_of(*shop(), ids=ids)
    model = SetRegressor(strategy, validation=0.2, max_epochs=60, random_state=0).fit(sets[:180], y[:180])
    return model.score(sets[180:], y[180:])


@pytest.mark.parametrize("strategy", [{"strategy": "max", "inner": "sum"}, "linear"])
def test_inner_sets_pay_where_they_matter(strategy):
    """The largest total is read by two levels: R² above 0.97, where flat sets leave a tenth or more."""
    flat = "k1" if isinstance(strategy, dict) else strategy
    assert score(strategy) > 0.97 and score(flat, "customer") < 0.9


def test_inner_none_reads_no_inner_sets():
    """A network of one level does not depend on the inner sets."""
    sets, y = sets_of(*shop(40))
    model = SetRegressor({"strategy": "k1", "inner": "none"}, max_epochs=2, validation=0.3, random_state=0)
    model.fit(sets, y)
    flat = as_sets(shop(40)[0].assign(order=0), set_id=IDS)
    np.testing.assert_allclose(model.predict(flat), model.predict(sets), rtol=1e-5)


MODELS = {
    "k1": "k1",
    "two levels": {"strategy": "k2", "inner": "k2+features", "width": 8, "depth": 1},
    "attention": {"strategy": "set-transformer", "inner": "attention", "width": 8},
    "trees": {"strategy": "trees", "num_trees": 20},
    "linear": "linear",
}


@pytest.mark.parametrize("name", MODELS)
def test_laws(name, tmp_path):
    """Predictions do not depend on the order of rows, on other sets, or on the names of orders; saved models agree."""
    table, y = shop(60)
    table = table.assign(age=table.customer % 7)
    how = {"set_id": IDS, "set_columns": "age"}
    sets, targets = as_sets(table, y, **how)
    model = SetRegressor(MODELS[name], max_epochs=2, validation=0.3, random_state=0).fit(sets, targets)
    expected = pd.Series(model.predict(sets), sets.ids)
    shuffled = table.sample(frac=1, random_state=1)
    shuffled["order"] = (7 * shuffled.order + shuffled.customer) % 11  # other names for the same orders
    others = as_sets(shuffled, **how)
    found = pd.Series(model.predict(others), others.ids)
    tolerance = 0 if name in ("trees", "linear") else 1e-5
    np.testing.assert_allclose(found[expected.index], expected, rtol=tolerance)
    alone = np.concatenate([model.predict(sets[[b]]) for b in range(9)])
    np.testing.assert_allclose(alone, expected[:9], rtol=tolerance)
    again = load(save(model, tmp_path / "model"))
    assert np.array_equal(again.predict(sets), expected)
    assert again.encoder_.inner
    assert ("inner sets: " in again.explain(sets[:2])) == (name not in ("trees", "linear"))


def test_a_saved_network_fits_its_encoder(tmp_path):
    """A description whose encoder knows no inner sets is damaged."""
    sets, y = sets_of(*shop(30))
    for i, strategy in enumerate(("k1", {"strategy": "k1", "inner": "none"}, "linear")):
        model = SetRegressor(strategy, max_epochs=1, validation=0.3).fit(sets, y)
        model.encoder_.inner = False
        with pytest.raises(SavedModelError, match="a saved network expects"):
            load(save(model, tmp_path / str(i)))


def test_a_classifier_with_everything_around_it():
    """Importance, transform, scores of validation sets and a frame's own classes."""
    table, y = shop(60)
    sets, target = sets_of(table, (y > y.median()).map({True: "rich", False: "poor"}))
    model = SetClassifier("k1", max_epochs=3, validation=0.3, random_state=0).fit(sets, target)
    assert model.predict_proba(sets).shape == (60, 2) and set(model.classes_) == {"rich", "poor"}
    importance = model.element_importance(sets[:3])
    assert importance.changes.shape == (sets[:3].num_elements,)
    assert model.transform(sets[:3]).shape == (3, len(model.get_feature_names_out()))
    assert model.predict(sets[:3], return_std=True)[1].tolist() == [0, 0, 0]
    kinds = {each.strategy for each in candidates("auto", nested=True)}
    assert {"linear", "trees", "forest", "k1", "max"} <= kinds


def test_auto_averages_models_of_both_kinds():
    sets, y = sets_of(*shop(80))
    model = SetRegressor(time_budget=4, validation=0.3, random_state=0).fit(sets, y)
    tried = {trial.strategy for trial in model.trials_ if trial.epochs}
    assert {"linear", "trees", "forest"} <= tried and tried & {"k1", "max"}
    assert len(model.trials_) == len(AUTO_NESTED)
    assert model.score(sets, y) > 0.9


def test_statistics_have_names():
    sets, _ = sets_of(*shop(20))
    statistics = SetStatistics().fit(sets)
    names = list(statistics.get_feature_names_out())
    totals = statistics.transform(sets)[:, names.index("inner sets: max of sum of price")]
    np.testing.assert_allclose(totals, shop(20)[1], rtol=1e-5)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name not in SAMPLED])
def test_every_strategy_is_for_either_level(strategy):
    layout, context = Layout((3,), 2, inner=True), Layout(num_numbers=1)
    values = torch.tensor([[1.0, 0.5, 0.1, 0.0], [2.0, 1.5, 0.2, 1.0], [1.0, -0.5, 0.3, 0.0], [2.0, 0.5, 0.4, 2.0]])
    sets = Ragged.from_sizes(values, [3, 0, 1])
    for outer, inner in ((strategy, "k1"), ("k1", strategy)):
        network = build_nested(outer, layout, context, 2, inner=inner, width=8)
        found = network(sets, context=torch.ones(3, 1))
        assert found.shape == (3, 2) and found.isfinite().all()


def test_a_function_builds_networks_of_one_level_or_two():
    sets, y = sets_of(*shop(30))
    for build in (build_network, build_nested):
        model = SetRegressor(lambda *layouts, build=build: build("max", *layouts), max_epochs=1, validation=0.3)
        assert np.isfinite(model.fit(sets, y).predict(sets)).all()


def test_strategies_that_sample_orders_are_refused():
    with pytest.raises(ValueError, match=r"expect a strategy that samples no orders; got 'gru'"):
        SetRegressor("gru").fit(*sets_of(*shop(30)))
    with pytest.raises(ValueError, match=r"expects inner among none, k1, .*; got 'lstm'") as raised:
        SetRegressor({"strategy": "k1", "inner": "lstm"}).fit(*sets_of(*shop(30)))
    assert "gru" not in str(raised.value)


def test_what_is_wrong_with_inner():
    sets, y = sets_of(*shop(30))
    with pytest.raises(ValueError, match="expects inner among none, k1"):
        SetRegressor({"strategy": "k1", "inner": "k9"}).fit(sets, y)
    with pytest.raises(ValueError, match="expects the setting inner for sets of sets only; got sets without"):
        SetRegressor({"strategy": "k1", "inner": "sum"}).fit(*sets_of(*shop(30), ids="customer"))
    model = SetRegressor("linear").fit(sets, y)
    with pytest.raises(ValueError, match="expects sets of sets, by two ids, as in training; got one"):
        model.predict(sets_of(*shop(30), ids="customer")[0])
