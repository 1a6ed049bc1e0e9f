"""Classical learners: scikit-learn's predictions as modules, and members that obey the laws of all others."""

import itertools
from dataclasses import replace
from math import inf

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from sklearn.ensemble import (
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

from janossy.estimators import SetClassifier, SetRegressor, SetStatistics, load, save
from janossy.estimators.batches import Examples
from janossy.estimators.candidates import Candidate
from janossy.estimators.classical import cached, learners, paths
from janossy.estimators.classical.choosing import are_compositions, choose_statistics, has_more_than_compact
from janossy.estimators.classical.conversion import boosting, forest, linear_scores
from janossy.estimators.classical.paths import LEARNERS
from janossy.estimators.interrupts import time_by
from janossy.estimators.tasks import Classification, Regression
from janossy.nn.statistics import CellPairs, TreeEnsemble
from janossy.nn.statistics.names import ColumnNames
from janossy.saving import SavedModelError
from janossy.sets import Ragged
from janossy.tables import TableEncoder, as_sets
from janossy.tables.layout import Layout

FEW = {"linear": {}, "trees": {"num_trees": 15}, "forest": {"num_trees": 8}, "extra": {"num_trees": 8, "extra": True}}


def few(name):
    return {"strategy": "forest" if name == "extra" else name, **FEW[name]}


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def features(num=150, width=6, seed=0):
    """Returns statistics with ties, and with values exactly on thresholds."""
    source = np.random.default_rng(seed)
    x = np.round(source.normal(size=(num, width)), 1).astype(np.float32)
    return x, x[:, 0] + np.abs(x[:, 1]) + 0.1 * source.normal(size=num)


def classes_of(y, num):
    return np.digitize(y, np.quantile(y, np.linspace(0, 1, num + 1)[1:-1]))


@pytest.mark.parametrize("num_targets", [1, 3])
@pytest.mark.parametrize("kind", [RandomForestRegressor, ExtraTreesRegressor])
def test_forests_of_numbers(kind, num_targets):
    x, y = features()
    y = np.stack([y * (t + 1) for t in range(num_targets)], 1)
    model = kind(12, random_state=0).fit(x, y if num_targets > 1 else y[:, 0])
    found = forest(model.estimators_, 6, None, num_targets)(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(found, model.predict(x).reshape(len(x), -1), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("num_classes", [2, 4])
def test_forests_of_classes(num_classes):
    """The logarithms of probabilities that are shrunk towards the uniform ones by 1 / (trees + 1)."""
    x, y = features()
    y = classes_of(y, num_classes)
    model = RandomForestClassifier(12, random_state=0).fit(x, y)
    found = forest(model.estimators_, 6, 1 + np.arange(num_classes), num_classes + 1)(torch.from_numpy(x))
    expected = np.concatenate([np.zeros((len(x), 1)), model.predict_proba(x)], 1) * 12 / 13 + 1 / 13 / (num_classes + 1)
    np.testing.assert_allclose(found.softmax(1).numpy(), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("settings", [{}, {"extra": True}])
def test_forests_of_all_splits_share_the_temperature_of_the_least_loss(settings):
    """Trees of few sets are sure of their class, and their mean is not: the temperature is below 1."""
    sets, y = baskets(200)
    strategy = {"strategy": "forest", "num_trees": 20, **settings}
    model = SetClassifier(strategy, validation=3, random_state=0).fit(sets, (y > np.median(y)).astype(int))
    forests = [network.scores for network in model.ensemble_.networks]
    (temperature,) = {each.temperature for each in forests}

    def loss(factor):
        """Returns the loss of the validation sets by the outputs of the folds, with the prior of a temperature."""
        total = np.log(temperature * factor) ** 2 / 2
        for fold in model.folds_:
            outputs = fold.outputs[0][:, 0].double() / factor
            chosen = torch.from_numpy((y > np.median(y)).astype(int))[fold.sets]
            total += torch.nn.functional.cross_entropy(outputs, chosen, reduction="sum").item()
        return total

    assert temperature < 0.9 and loss(1.0) < min(loss(0.9), loss(1.1))


@pytest.mark.parametrize("num_classes", [2, 4])
def test_boosting_of_classes(num_classes):
    x, y = features()
    model = HistGradientBoostingClassifier(max_iter=9, random_state=0).fit(x, classes_of(y, num_classes))
    base, outputs = np.zeros(num_classes), [1] if num_classes == 2 else range(num_classes)
    base[list(outputs)] = model._baseline_prediction.ravel()
    found = boosting([model], 6, base, outputs)(torch.from_numpy(x)).softmax(1).numpy()
    np.testing.assert_allclose(found, model.predict_proba(x), rtol=1e-6, atol=1e-8)


def test_boosting_of_numbers():
    x, y = features()
    models = [HistGradientBoostingRegressor(max_iter=9, random_state=0).fit(x, y * sign) for sign in (1, -2)]
    base = np.concatenate([np.ravel(model._baseline_prediction) for model in models])
    found = boosting(models, 6, base, [0, 1])(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(found, np.stack([model.predict(x) for model in models], 1), rtol=1e-6, atol=1e-6)


def test_linear_models():
    x, y = features()
    exact = x.astype(np.float64)
    ridge = Ridge().fit(exact, np.stack([y, -y], 1))
    found = linear_scores(ridge.coef_, ridge.intercept_)(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(found, ridge.predict(exact), rtol=1e-9, atol=1e-12)
    logistic = LogisticRegression().fit(exact, classes_of(y, 3))
    found = linear_scores(logistic.coef_, logistic.intercept_)(torch.from_numpy(x)).softmax(1).numpy()
    np.testing.assert_allclose(found, logistic.predict_proba(exact), rtol=1e-9, atol=1e-12)


def test_thresholds_send_the_same_float32_the_same_way():
    """Midpoints between neighbours in float32 are no float32: rounded up, they would send the upper one left."""
    x = np.float32([[1024.0], [np.nextafter(np.float32(1024), np.float32(2000))]])
    x = np.concatenate([x, np.nextafter(x[1:], np.float32(2000)), [[1025.0]]])
    model = RandomForestRegressor(5, bootstrap=False, random_state=0).fit(x, np.arange(4.0))
    found = forest(model.estimators_, 1, None, 1)(torch.from_numpy(x)).numpy()[:, 0]
    np.testing.assert_allclose(found, model.predict(x), rtol=1e-6)
    assert len(np.unique(found)) == 4


def baskets(num=90, seed=0):
    """Returns sets of a category and two numbers, some missing, with a column of the sets. Some sets are empty."""
    source = np.random.default_rng(seed)
    sizes = source.integers(0, 6, num)
    item = [[str(x) for x in source.choice(["tea", "milk", "rice"], n)] for n in sizes]
    weight = [[None if source.random() < 0.1 else float(x) for x in source.random(n).round(2)] for n in sizes]
    price = [source.normal(size=n).round(2).tolist() for n in sizes]
    day = source.integers(0, 7, num)
    y = np.array([each.count("tea") for each in item]) + 0.2 * day
    return as_sets({"item": item, "weight": weight, "price": price, "day": day}), y


def reordered(sets):
    source = np.random.default_rng(1)
    ends = zip(sets.offsets[:-1], sets.offsets[1:], strict=True)
    order = np.concatenate([source.permutation(np.arange(a, b)) for a, b in ends])
    columns = {name: replace(column, values=column.values[order]) for name, column in sets.elements.items()}
    return replace(sets, elements=columns)


TASKS = ("two classes", "three classes", "numbers")
FIRST = {("linear", TASKS[1]), ("trees", TASKS[0]), ("forest", TASKS[2]), ("extra", TASKS[1])}
"""Each learner and each task once; the others nightly."""


@pytest.mark.parametrize(
    ("name", "task"),
    [
        pytest.param(*case, marks=() if case in FIRST else pytest.mark.only_all)
        for case in itertools.product(FEW, TASKS)
    ],
)
def test_members_obey_the_laws(name, task, tmp_path):
    """Exact invariance, independence of the batch, the same from a seed and from a file, better than chance."""
    strategy, (sets, y) = few(name), baskets()
    kind = SetRegressor if task == "numbers" else SetClassifier
    if task != "numbers":
        y = np.array(["few", "some", "many"])[classes_of(y, 2 if task == "two classes" else 3)]
    model = kind(strategy, validation=2, random_state=0).fit(sets, y)

    def outputs(of, some=sets):
        return of.predict(some) if kind is SetRegressor else of.predict_proba(some)

    found = outputs(model)
    assert model.score(sets, y) > 0.6
    assert np.array_equal(outputs(model, reordered(sets)), found)
    assert np.array_equal(np.concatenate([outputs(model, sets[[b]]) for b in range(20)]), found[:20])
    assert np.array_equal(outputs(kind(strategy, validation=2, random_state=0).fit(sets, y)), found)
    again = load(save(model, tmp_path / "model"))
    assert np.array_equal(outputs(again), found)
    assert (model.predict(sets, return_std=True)[1] == 0).all() and model.sensitivity_ is None
    assert np.isfinite(again.element_importance(sets[:5]).changes).all() and again.explain(sets[:2])
    if task != "numbers":
        assert np.allclose(found.sum(1), 1, atol=1e-6)


@pytest.mark.parametrize("name", LEARNERS)
def test_extremes_of_targets(name):
    """One set per class, constant targets, several targets, empty sets alone."""
    sets, y = baskets(40)
    strategy = few(name)
    many = SetClassifier(strategy, validation=2, random_state=0).fit(sets, np.arange(40))
    assert many.predict_proba(sets).shape == (40, 40)
    constant = SetRegressor(strategy, validation=2, random_state=0).fit(sets, np.full(40, 7.0))
    np.testing.assert_allclose(constant.predict(sets), 7.0, atol=1e-5)
    several = SetRegressor(strategy, validation=2, random_state=0).fit(sets, np.stack([y, -2 * y], 1))
    assert several.predict(sets).shape == (40, 2)
    empty = sets[np.flatnonzero(sets.sizes == 0)[[0, 0, 0, 0, 0, 0]]]
    of_empty = SetClassifier(strategy, validation=2, random_state=0).fit(empty, [0, 1, 1, 1, 0, 1])
    assert np.isfinite(of_empty.predict_proba(sets)).all()


@pytest.mark.parametrize("name", LEARNERS)
def test_missing_everywhere_and_many_categories(name):
    source = np.random.default_rng(0)
    item = [source.integers(0, 10**6, 3).astype(str).tolist() for _ in range(60)]
    nothing = [[None, None, None]] * 60
    table = as_sets({"item": item, "x": nothing}, numeric=["x"])
    y = np.arange(60) % 2
    model = SetClassifier(few(name), validation=2, random_state=0).fit(table, y)
    assert np.isfinite(model.predict_proba(table)).all()


@pytest.mark.only_all
@pytest.mark.parametrize("name", LEARNERS)
def test_a_million_categories(name):
    source = np.random.default_rng(0)
    item = [source.integers(0, 2 * 10**6, 1000).tolist() for _ in range(1000)]
    table = as_sets({"item": item}, categorical=["item"])
    model = SetClassifier(few(name), validation=0.2, random_state=0)
    model.fit(table, np.arange(1000) % 2)
    assert model.ensemble_.networks[0].statistics.out_features < 10_000


@pytest.mark.parametrize("name", LEARNERS)
def test_weights_count(name):
    """A class whose sets weigh a hundred times more is predicted more often; sets of weight 0 are not there."""
    sets, y = baskets()
    y = (y > np.median(y)).astype(int)
    strategy = few(name)
    model = SetClassifier(strategy, validation=2, random_state=0)
    even = model.fit(sets, y).predict_proba(sets)[:, 1].mean()
    heavy = model.fit(sets, y, np.where(y, 100.0, 1.0)).predict_proba(sets)[:, 1].mean()
    assert heavy > even
    twice = model.fit(sets, y, np.full(90, 2.0)).predict_proba(sets)
    np.testing.assert_allclose(twice[:, 1].mean(), even, rtol=1e-5)
    half = np.arange(90) < 60
    one = model.fit(sets, y, half.astype(float)).predict_proba(sets)
    other = model.fit(sets[half], y[half]).predict_proba(sets)
    assert np.array_equal(one, other)


def test_the_clock_ends_a_fit():
    """After the first step: something predicts, and its trial says why it is not more."""
    sets, y = baskets(60)
    for name in LEARNERS:
        model = SetRegressor(name, validation=2, time_budget=1.0, random_state=0)
        with time_by(itertools.count(0.0, 1000.0).__next__), pytest.warns(UserWarning, match="ended early"):
            model.fit(sets, y)
        assert model.trials_[0].note == "out of time"
        scores = model.ensemble_.networks[0].scores
        assert not isinstance(scores, TreeEnsemble) or scores.num_trees <= paths.TREES_PER_STEP


def test_different_values_are_counted_where_sets_repeat_them():
    repeated = {"item": [["tea", "tea", "milk"], ["tea"], ["milk"] * 2, ["tea"] * 3]}
    statistics = SetStatistics().fit(repeated)
    place = statistics.get_feature_names_out().tolist().index("distinct values of item")
    assert statistics.transform(repeated)[:, place].tolist() == [2, 1, 1, 1]
    once = SetStatistics().fit({"item": [["tea", "milk"], ["tea"], ["milk"], ["milk", "tea"]]})
    assert not any("distinct" in name for name in once.get_feature_names_out())


def test_wide_statistics_are_fitted_sparse(monkeypatch):
    sets, y = baskets()
    dense = SetRegressor("linear", validation=2, random_state=0).fit(sets, y).predict(sets)
    monkeypatch.setattr(paths, "WIDE", 1)
    sparse = SetRegressor("linear", validation=2, random_state=0).fit(sets, y).predict(sets)
    assert not np.array_equal(dense, sparse) and np.corrcoef(dense, sparse)[0, 1] > 0.99


def test_splits_choose_together():
    """One number of trees for all; were each to choose by its own 18 sets, they would differ."""
    sets, y = baskets()
    model = SetRegressor({"strategy": "trees", "num_trees": 60}, validation=5, random_state=0).fit(sets, y)
    assert len({network.scores.num_trees for network in model.ensemble_.networks}) == 1
    splits, task = [(torch.arange(30, 90), torch.arange(30)), (torch.arange(60), torch.arange(60, 90))], Regression(1)
    encoder = model.encoder_
    encoded = encoder.transform(sets)
    targets = torch.from_numpy(y)[:, None].float()
    examples = Examples(encoded.elements, encoded.context, targets, torch.ones(90))
    layouts = encoder.element_layout, encoder.context_layout
    learner = learners.ClassicalLearner("trees", layouts, 1, {"num_trees": 60})
    statistics = cached.CachedStatistics(examples, layouts)

    def losses(some):
        found = learner.fit_splits(statistics, some, task, seeds=[0] * len(some), deadline=np.inf)
        return [each.trained.last.valid_loss for each in found]

    together, apart = losses(splits), [losses([split])[0] for split in splits]
    assert all(np.array(together) >= np.array(apart) - 1e-9) and together != apart


@pytest.mark.parametrize("validation", [0.5, 3])
@pytest.mark.parametrize("kind", [SetRegressor, SetClassifier])
def test_forests_are_fitted_to_all_sets_at_last(kind, validation):
    """Targets depend on nothing, so that only trees that have learnt a set by heart predict its target."""
    sets, _ = baskets()
    sets = sets[sets.sizes > 1]
    y = np.random.default_rng(0).permutation(len(sets))
    if kind is SetClassifier:
        y = y % 2
    model = kind({"strategy": "forest", "extra": True}, validation=validation, random_state=0).fit(sets, y)
    numbers, held_out = model.validation_predictions()
    held_out = held_out[:, 1] if kind is SetClassifier else held_out
    assert np.corrcoef(held_out, y[numbers])[0, 1] < 0.5
    assert np.allclose(model.ensemble_.weights, [1] if validation == 0.5 else [1 / 6, 1 / 6, 1 / 6, 1 / 2])
    model.ensemble_.networks, model.ensemble_.weights = model.ensemble_.networks[-1:], [1.0]
    assert model.score(sets, y) == pytest.approx(1)


@pytest.mark.parametrize("name", ["linear", "trees"])
def test_one_split_alone_is_replaced_by_all_sets(name):
    sets, y = baskets()
    one, several = (SetRegressor(few(name), validation=each, random_state=0).fit(sets, y) for each in (0.5, 3))
    assert len(one.ensemble_.networks) == 1 and one.ensemble_.networks[0] is not one.folds_[0].networks[0]
    assert several.ensemble_.networks == [fold.networks[0] for fold in several.folds_]


@pytest.mark.parametrize("is_class", [False, True])
@pytest.mark.parametrize("name", FEW)
def test_a_fit_to_all_sets_goes_as_far_as_the_split(name, is_class):
    """A split that learns from all sets is the same fit."""
    sets, y = baskets()
    encoder = TableEncoder().fit(sets)
    encoded, layouts = encoder.transform(sets), (encoder.element_layout, encoder.context_layout)
    targets = torch.from_numpy(classes_of(y, 3)).long() if is_class else torch.from_numpy(y)[:, None].float()
    task = Classification((3,)) if is_class else Regression(1)
    strategy, num_outputs = ("forest" if name == "extra" else name), 3 if is_class else 1
    settings = FEW[name] if name != "forest" else {"num_trees": 41}
    learner = learners.ClassicalLearner(strategy, layouts, num_outputs, settings)
    statistics = cached.CachedStatistics(Examples(encoded.elements, encoded.context, targets, torch.ones(90)), layouts)
    everything = torch.arange(90)
    (like,) = learner.fit_splits(statistics, [(everything, everything[:9])], task, seeds=[3], deadline=inf)
    found = learner.fit_to_all(statistics, like, task, seed=3)
    assert torch.equal(*(each(encoded.elements, context=encoded.context) for each in (found, like.network)))
    if name == "forest":  # three steps
        assert learner.fit_to_all(statistics, like, task, seed=3, is_over=lambda: True) is None


def test_statistics_that_are_not_kept_are_computed_again(monkeypatch):
    sets, y = baskets()
    kept = SetRegressor(few("forest"), validation=2, random_state=0).fit(sets, y).predict(sets)
    monkeypatch.setattr(cached, "MAX_NUMBERS", 0)
    again = SetRegressor(few("forest"), validation=2, random_state=0).fit(sets, y).predict(sets)
    assert np.array_equal(kept, again)


@pytest.mark.parametrize("name", ["forest", "extra"])
def test_threads_grow_the_same_forest(name):
    sets, y = baskets()
    one, two = (
        SetRegressor(few(name), validation=2, num_threads=num, random_state=0).fit(sets, y).predict(sets)
        for num in (1, 2)
    )
    assert np.array_equal(one, two)


def test_compact_statistics_are_a_part_of_all():
    """If all are compact anyway, the search is told so."""
    sets, _ = baskets()
    numbers = as_sets([np.random.default_rng(n).normal(size=(n, 7)).tolist() for n in range(1, 9)])
    for some, has_more in ((sets, True), (numbers, False)):
        encoder = TableEncoder().fit(some)
        encoded = encoder.transform(some)
        layouts = encoder.element_layout, encoder.context_layout
        context = encoded.context if encoded.context.shape[1] else None
        names = ColumnNames(encoder.element_names, encoder.context_names, num_codes=len(layouts[0].vocabularies))
        compact, full = (
            choose_statistics(encoded.elements, context, layouts, compact=each).names(names) for each in (True, False)
        )
        assert has_more_than_compact(layouts[0]) is has_more and set(compact) <= set(full)
        assert (len(compact) < len(full)) is has_more


def test_pairs_are_left_out_alone():
    """The search skips it on sets without pairs."""
    sets, y = baskets()
    of_all, of_others = (
        SetRegressor(few("linear") | more, validation=2, random_state=0).fit(sets, y).ensemble_.networks[0].statistics
        for more in ({}, {"pairs": False})
    )
    others = [block for block in of_all.blocks if not isinstance(block, CellPairs)]
    assert len(others) < len(of_all.blocks)
    assert [block.out_features for block in others] == [block.out_features for block in of_others.blocks]
    many = as_sets({"item": [["tea", "milk"] * 21, ["tea"] * 40]})
    numbers = as_sets([[[1.0, 2.0]], [[3.0, 4.0]]])
    for some, has_pairs in ((sets, True), (many, False), (numbers, False)):
        encoder = TableEncoder().fit(some)
        encoded = encoder.transform(some)
        examples = Examples(encoded.elements, encoded.context, torch.zeros(len(some), 1), torch.ones(len(some)))
        statistics = cached.CachedStatistics(examples, (encoder.element_layout, encoder.context_layout))
        why_not = Candidate("linear", {"pairs": False}).why_not(statistics)
        assert why_not == ("" if has_pairs else "its statistics are without pairs anyway")


@pytest.mark.parametrize(("num", "leaf", "is_tried"), [(1000, 5, True), (1001, 5, False), (1001, 20, True)])
def test_small_leaves_are_tried_on_few_sets(num, leaf, is_tried):
    sets = Ragged.from_sizes(torch.zeros(num, 1), [1] * num)
    examples = Examples(sets, None, torch.zeros(num, 1), torch.ones(num))
    statistics = cached.CachedStatistics(examples, (Layout((), 1), Layout()))
    why_not = Candidate("trees", {"min_samples_leaf": leaf}).why_not(statistics)
    assert why_not == ("" if is_tried else "among more than 1,000 sets, leaves of 20 are small")
    assert not Candidate("forest", {"min_samples_leaf": leaf}).why_not(statistics)


COMPOUNDS = [{"Fe": 2.0, "O": 3.0}, {"Na": 1.0, "Cl": 1.0}, {"Fe": 1.0, "Cl": 3.0}] * 8


@pytest.mark.parametrize(
    "change, are",
    [
        (lambda rows: rows, True),
        (lambda rows: [*rows, ("Fe", 0.5)], False),  # in most sets twice
        (lambda rows: [*rows, ("K", 0.0)], False),
        (lambda rows: [*rows, ("K", -1.0)], False),
        (lambda rows: rows[:1], True),
        (lambda rows: [], False),
        (lambda rows: [("Fe", 2.0)], False),  # nothing differs
    ],
    ids=["formula", "repeated", "zero", "negative", "one", "empty", "constant"],
)
def test_shares_are_tried_for_compositions(change, are):
    rows = [change(list(each.items())) for each in COMPOUNDS]
    sets = as_sets({name: [[row[i] for row in each] for each in rows] for i, name in enumerate(("element", "amount"))})
    encoder = TableEncoder().fit(sets)
    encoded, layouts = encoder.transform(sets), (encoder.element_layout, encoder.context_layout)
    examples = Examples(encoded.elements, None, torch.zeros(24, 1), torch.ones(24))
    assert cached.CachedStatistics(examples, layouts).are_compositions is are
    if not len(encoded.elements.values):
        return
    tried = [few("linear"), few("forest") | {"scheme": "share"}]
    model = SetRegressor(tried, validation=2, random_state=0).fit(sets, np.arange(24.0) % 3)
    assert bool(model.trials_[1].note.startswith("not tried: the sets are no compositions")) is not are


def test_points_and_sets_of_two_categories_are_no_compositions():
    points = as_sets([np.random.default_rng(n).uniform(1, 2, size=(n, 2)).tolist() for n in range(1, 9)])
    layout = TableEncoder().fit(points).element_layout
    assert not are_compositions(TableEncoder().fit_transform(points).elements, layout)
    columns = {"x": [["a"], ["b"]], "y": [["c"], ["d"]], "amount": [[1.0], [2.0]]}
    encoder = TableEncoder().fit(as_sets(columns))
    assert not are_compositions(encoder.transform(as_sets(columns)).elements, encoder.element_layout)


def test_shares_are_those_of_each_sum():
    """From shares, sum and size each compound can be written. Sums of zero have shares of zero."""
    rows = [*COMPOUNDS, {"O": 0.0, "Fe": 0.0}, {}]
    sets = as_sets({"element": [list(each) for each in rows], "amount": [list(each.values()) for each in rows]})
    statistics = SetStatistics("share").fit(sets)
    names, found = statistics.get_feature_names_out().tolist(), statistics.transform(sets)
    elements = [name.removeprefix("share of amount of element=") for name in names[3:]]
    assert names[:3] == ["size", "log size", "sum of amount"] and sorted(elements) == ["Cl", "Fe", "Na", "O"]
    for row, x in zip(rows, found, strict=True):
        total = sum(row.values())
        assert x[0] == len(row) and x[2] == total
        np.testing.assert_allclose(x[3:], [row.get(name, 0) / (total or 1) for name in elements], rtol=1e-6)


@pytest.mark.parametrize(("least", "num_sensors"), [(-1.0, 4), (-1.0, 40), (1.0, 4), (1.0, 40)])
def test_numbers_are_averaged_by_category(least, num_sensors):
    """A sensor that a set lacks has the mean over the sets that hold it. If most sets lack it, amounts have sums
    alone."""
    source = np.random.default_rng(num_sensors)
    rows = [(source.integers(0, num_sensors, 9), source.uniform(least, 2, 9).astype(np.float32)) for _ in range(60)]
    sets = as_sets({"sensor": [[f"s{i}" for i in each] for each, _ in rows], "value": [list(x) for _, x in rows]})
    statistics = SetStatistics().fit(sets)
    names, found = statistics.get_feature_names_out().tolist(), statistics.transform(sets)
    kept = [i for i in range(num_sensors) if f"fraction of sensor=s{i}" in names]
    has_means = [i for i in kept if f"mean of value of sensor=s{i}" in names]
    assert len(kept) > 3 and has_means == (kept if least < 0 or num_sensors == 4 else [])
    for i in has_means:
        of_sets = np.array([x[each == i].astype(np.float64).mean() if i in each else np.nan for each, x in rows])
        expected = np.where(np.isnan(of_sets), np.nanmean(of_sets), of_sets)
        np.testing.assert_allclose(found[:, names.index(f"mean of value of sensor=s{i}")], expected, rtol=1e-5)


def test_without_amounts_shares_are_counts():
    sets = as_sets({"item": [["tea", "tea", "milk"], ["tea"], ["milk"]] * 3})
    assert np.array_equal(SetStatistics("share").fit_transform(sets)[0, 2:], [1.0, 2.0])


@pytest.mark.parametrize("name, scheme", [("linear", "fraction"), ("extra", "fraction"), ("forest", "count")])
def test_bags_suit_the_learner(name, scheme):
    """Without a scheme, bags are of the one that the learner does best with."""
    sets, y = baskets()
    default, given = (
        SetRegressor(few(name) | more, validation=2, random_state=0).fit(sets, y).predict(sets)
        for more in ({}, {"scheme": scheme})
    )
    assert np.array_equal(default, given)
    other = SetRegressor(few(name) | {"scheme": "tf-idf"}, validation=2, random_state=0).fit(sets, y).predict(sets)
    assert not np.array_equal(default, other)


def test_pairs_are_those_of_three_sets_or_more():
    """A category that is too rare to be counted makes no pair."""
    sets = as_sets({"item": [["a", f"rare {i}"] for i in range(5)] + [["b"], ["c", "d"]] * 3 + [["e", "f"]] * 2})
    encoder = TableEncoder().fit(sets)
    encoded = encoder.transform(sets)
    found = choose_statistics(encoded.elements, None, (encoder.element_layout, encoder.context_layout))
    names = found.names(ColumnNames(encoder.element_names, encoder.context_names, num_codes=1))
    assert [name for name in names if " with " in name] == ["item=3 with item=4"]


def data(num=60):
    x, y = features(num)
    return paths.Data(x, y[:, None], np.ones(num), None, 1, torch.from_numpy(x), lambda scores: 0.0, float, 0)


def test_boosting_is_scikit_learns_by_default():
    some, iterations = data(), paths.ITERATIONS_PER_POINT
    path = LEARNERS["trees"](paths.ClassicalSettings(), some)
    path.step()
    expected = HistGradientBoostingRegressor(max_iter=iterations, min_samples_leaf=3).fit(some.x, some.y[:, 0])
    np.testing.assert_allclose(path.module(0)(some.valid_x)[:, 0], expected.predict(some.x), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("is_sparse", "seconds"), [(False, 0.502), (True, 0.502), (False, -1.0), (False, inf)])
def test_logistic_regression_has_the_iterations_that_there_is_time_for(monkeypatch, is_sparse, seconds):
    """With many classes an iteration takes long: 200 rows, 4 statistics and 100 classes are given 0.004 s here."""
    monkeypatch.setattr(paths, "WIDE", 3 if is_sparse else 1000)
    monkeypatch.setattr(paths, "SECONDS_PER_PRODUCT", dict.fromkeys((False, True), 5e-8))
    monkeypatch.setattr(paths, "SECONDS_PER_SCORE", 0.0)
    monkeypatch.setattr(paths, "SECONDS_PER_WEIGHT", 0.0)
    x = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    some = paths.Data(
        x, np.arange(200) % 100, np.ones(200), np.arange(100), 100, torch.from_numpy(x), lambda scores: 0.0, float, 0
    )
    path = LEARNERS["linear"](paths.ClassicalSettings(), some)
    with time_by(lambda: 100.0):
        path.step(100.0 + seconds)
    expected = int(np.clip(seconds / 0.004, *paths.ITERATIONS))
    assert path.model.max_iter == expected and path.model.n_iter_.max() <= expected
    assert path.module(0)(some.valid_x).shape == (200, 100)


def test_a_forest_has_the_trees_that_were_asked_for():
    path = LEARNERS["forest"](paths.ClassicalSettings(num_trees=21), data())
    while not path.ended:
        path.step()
    assert path.module(len(path.losses) - 1).num_trees == 21


@pytest.mark.parametrize(
    ("losses", "num_steps", "best"),
    [((3, 2, 2.5, 2.6, 1, 1, 1, 1), 4, 1), ((3, 3.5, 2, 1, 4, 4, 4, 4), 6, 3), ((9, 8, 7, 6, 5, 4, 3, 2), 8, 7)],
)
def test_a_learner_stops_after_two_steps_without_a_lower_loss(monkeypatch, losses, num_steps, best):
    stepped = []

    class Told(paths.LinearPath):
        def step(self, until=inf):
            super().step(until)
            self.losses[-1] = losses[len(self.losses) - 1]
            stepped.append(len(self.losses))

        def module(self, point):
            assert point == best
            return super().module(point)

    monkeypatch.setitem(LEARNERS, "linear", Told)
    SetRegressor("linear", validation=0.3, random_state=0).fit(*baskets(40))
    of_all = range(1, best + 2)
    assert stepped == [*range(1, num_steps + 1), *of_all]


@pytest.mark.parametrize("name", ["trees", "forest"])
def test_a_learner_of_few_sets_is_begun_with_a_second_left(name):
    sets, y = baskets()
    encoder = TableEncoder().fit(sets)
    encoded, layouts = encoder.transform(sets), (encoder.element_layout, encoder.context_layout)
    examples = Examples(encoded.elements, encoded.context, torch.from_numpy(y)[:, None].float(), torch.ones(90))
    statistics, split = cached.CachedStatistics(examples, layouts), (torch.arange(60), torch.arange(60, 90))
    learner = learners.ClassicalLearner(name, layouts, 1, {"num_trees": 5})
    with time_by(lambda: 0.0):
        for latest, num in ((1.0, 1), (-1.0, 0)):
            options = {"seeds": [0], "deadline": np.inf, "latest": latest}
            assert len(learner.fit_splits(statistics, [split], Regression(1), **options)) == num


def test_a_sample_of_many_sets_is_fitted(monkeypatch):
    sets, y = baskets()
    monkeypatch.setattr(cached, "MAX_SETS", 30)
    assert SetRegressor("linear", validation=2, random_state=0).fit(sets, y).score(sets, y) > 0.5


TREES = ["scores.below", "scores.feature", "scores.threshold", "scores.roots", "scores.values"]


@pytest.fixture(scope="module")
def saved_trees(tmp_path_factory):
    model = SetRegressor(few("trees"), validation=2, random_state=0).fit(*baskets())
    return save(model, tmp_path_factory.mktemp("trees") / "model")


@pytest.mark.parametrize(
    ("name", "index", "value"),
    [
        ("scores.below", (0, 0), 0),  # a cycle of one
        ("scores.below", (1, 1), 0),  # back to the root
        ("scores.below", (0, 1), 10**6),
        ("scores.below", (0, 1), -(10**6)),
        ("scores.roots", 0, 10**6),
        ("scores.roots", 0, -(10**6)),
        ("scores.feature", 0, 10**6),
        ("scores.feature", 0, -1),
        ("scores.threshold", 0, float("nan")),
        ("scores.threshold", 0, float("inf")),
        ("scores.values", (0, 0), float("nan")),
        ("scores.outputs", 0, 7),
        ("statistics.offsets", 0, float("nan")),
        ("cells", 0, 10**6),
        ("edges", 0, float("nan")),
        ("pairs", (0, 0), 10**6),
    ],
)
def test_hostile_trees_are_refused(saved_trees, tmp_path, name, index, value):
    """Places that there are not, cycles and NaN, in a file whose digests are right."""
    model = load(saved_trees)
    network = model.ensemble_.networks[0]
    buffers = dict(network.named_buffers())
    found = buffers.get(name)
    if found is None:
        found = next(each for key, each in buffers.items() if key.endswith(f".{name}") and each.numel())
    found[index] = value
    with pytest.raises((SavedModelError, ValueError)):
        load(save(model, tmp_path / "other"))


def test_descriptions_of_other_columns_are_refused(tmp_path):
    """Statistics that read what the encoder does not write."""
    sets, y = baskets()
    one = SetRegressor("linear", validation=2, random_state=0).fit(sets, y)
    other = SetRegressor("linear", validation=2, random_state=0).fit(as_sets([[1.0, 2.0], [3.0]] * 20), np.arange(40.0))
    one.ensemble_.networks = other.ensemble_.networks
    with pytest.raises(SavedModelError, match="statistics of the columns"):
        load(save(one, tmp_path / "m"))


def test_settings_are_checked():
    sets, y = baskets(20)
    with pytest.raises(ValueError, match=r"settings of 'forest' are num_trees, .*; got widht"):
        SetRegressor({"strategy": "forest", "widht": 3}).fit(sets, y)
    with pytest.raises(
        ValueError, match="'trees' expects scheme among count, fraction, share, tf-idf; got scheme='amo"
    ):
        SetRegressor({"strategy": "trees", "scheme": "amount"}).fit(sets, y)
    with pytest.raises(ValueError, match="strategy expects one of 'linear', 'trees', 'forest', 'k1'"):
        SetRegressor("bush").fit(sets, y)


@pytest.mark.parametrize("strategy", ["linear", ["forest", "linear"]])
def test_streams_take_them_on_a_sample(strategy, tmp_path, monkeypatch):
    monkeypatch.setattr("janossy.estimators.streams.fitting.SAMPLE", 150)
    source = np.random.default_rng(0)
    item = [source.choice(["a", "b", "c"], 4).tolist() for _ in range(300)]
    y = [each.count("a") > 1 for each in item]
    pq.write_table(pa.table({"item": item, "y": y}), tmp_path / "sets.parquet")
    model = SetClassifier(strategy, max_epochs=3, random_state=0).fit(str(tmp_path / "sets.parquet"), "y")
    assert np.mean(model.predict(as_sets({"item": item})) == y) > 0.9
    assert model.seconds_["reading"] >= 0


def test_statistics_are_a_transformer():
    """In a pipeline, with a name for each column, the same for every order."""
    sets, y = baskets()
    pipeline = make_pipeline(SetStatistics(), Ridge())
    assert pipeline.fit(sets, y).score(sets, y) > 0.9
    statistics = pipeline[0]
    found = statistics.transform(sets)
    names = statistics.get_feature_names_out().tolist()
    assert found.dtype == np.float32 and found.shape == (90, len(names)) and len(set(names)) == len(names)
    assert np.array_equal(statistics.transform(reordered(sets)), found)
    tea = found[:, names.index("fraction of item=tea")] * sets.sizes
    np.testing.assert_allclose(tea.round(), np.round(y - 0.2 * found[:, names.index("day")]), atol=1e-5)
    frame = SetStatistics().set_output(transform="pandas").fit(sets).transform(sets)
    assert frame.columns.tolist() == names
    for scheme in ("count", "tf-idf"):
        assert not np.array_equal(SetStatistics(scheme).fit_transform(sets), found)
    with pytest.raises(ValueError, match="a scheme among count, fraction, share, tf-idf; got 'amount'"):
        SetStatistics("amount").fit(sets)
