"""Categories encoded by the targets of training sets: brute force, no leakage, and members that obey the laws."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from janossy import Ragged
from janossy.estimators import SetClassifier, SetRegressor, load, save
from janossy.estimators.batches import Examples
from janossy.estimators.candidates import TARGETS, Candidate
from janossy.estimators.classical import choosing, target_encoding
from janossy.estimators.classical.cached import CachedStatistics
from janossy.estimators.classical.target_encoding import (
    SHRINKAGE,
    as_numbers,
    encode_targets,
    encoded_by_targets,
    num_values,
)
from janossy.nn.statistics import CodeValues, ContextCodeValues, PooledStatistics, SetSize
from janossy.nn.statistics.names import ColumnNames
from janossy.saving import SavedModelError
from janossy.tables import as_sets
from janossy.tables.layout import Layout

CODES, OF_SETS = 5, 4
FEW = {"linear": {}, "trees": {"num_trees": 15}, "forest": {"num_trees": 8, "extra": True}}


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch):
    """Columns of few categories are encoded, too."""
    monkeypatch.setattr(choosing, "MANY_CATEGORIES", 0)
    monkeypatch.setattr(choosing, "MANY_OF_SETS", 0)


def statistics(width=1):
    blocks = [
        SetSize(),
        CodeValues(0, num_values=CODES, width=width),
        ContextCodeValues(0, num_values=OF_SETS, width=width),
    ]
    return PooledStatistics(blocks, vocabularies=[CODES], num_numbers=0)


def drawn(num, width=1, seed=0):
    """Returns sets of codes with a code of their own, targets and weights. Some sets are empty."""
    source = np.random.default_rng(seed)
    sizes = source.integers(0, 5, num)
    values = torch.from_numpy(source.integers(1, CODES, sizes.sum())).float()[:, None]
    context = torch.from_numpy(source.integers(1, OF_SETS, num)).float()[:, None]
    y, weights = source.normal(size=(num, width)), source.uniform(0.1, 3, num)
    sets = Ragged.from_sizes(values, sizes.tolist())
    return Examples(sets, context, torch.from_numpy(y), torch.from_numpy(weights)), y, weights


def values_of(held, num, y, weights):
    """Returns the value of each code by its definition; ``held`` has the codes of each set."""
    weights = weights / weights.mean()
    mean = np.average(y, axis=0, weights=weights)
    variance = np.average((y - mean) ** 2, axis=0, weights=weights)
    codes = sorted(set().union(*held))
    squares, total, alone = 0, 0, 0
    sums = {}
    for code in codes:
        of = np.array([code in each for each in held])
        sums[code] = weights[of].sum(), (weights[of, None] * (y[of] - mean)).sum(0)
        squares += sums[code][1] ** 2 / sums[code][0]
        total += sums[code][0]
        alone += (weights[of] ** 2).sum() / sums[code][0]
    between = np.maximum(0, (squares - alone * variance) / (total - alone)) if total - alone > 1e-9 else 0 * variance
    within = np.maximum(0, variance - between)
    shrinkage = np.clip(within / np.maximum(between, 1e-9), *SHRINKAGE)
    found = np.zeros((num, y.shape[1]))
    for code in codes:
        found[code] = sums[code][1] / (sums[code][0] + shrinkage)
    found[0] = 0
    return found


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10_000), num=st.integers(2, 30), width=st.integers(1, 3))
def test_values_are_shrunk_means(seed, num, width):
    examples, y, weights = drawn(num, width, seed)
    found = encode_targets(statistics(width), examples, y, weights)
    held = [{int(code) for code in each[:, 0]} for each in examples.sets]
    expected = values_of(held, CODES, y, weights) if set().union(*held) else np.zeros((CODES, width))
    np.testing.assert_allclose(found.blocks[1].values, expected, rtol=1e-4, atol=1e-6)
    expected = values_of([{int(each)} for each in examples.context[:, 0]], OF_SETS, y, weights)
    np.testing.assert_allclose(found.blocks[2].values, expected, rtol=1e-4, atol=1e-6)


def encoded(examples, y, weights, num_training, seed=3, groups=None):
    some = statistics(y.shape[1])
    rows = some(examples.sets, examples.context)
    parts = examples[:num_training], examples[num_training:]
    of_training = y[:num_training], weights[:num_training]
    return encoded_by_targets(some, (rows[:num_training], rows[num_training:]), parts, *of_training, seed, groups)


def test_training_rows_are_from_other_folds_and_others_from_all():
    examples, y, weights = drawn(40)
    found, x, valid_x = encoded(examples, y, weights, 30)
    fold = np.random.default_rng(3).permutation(30) % target_encoding.FOLDS
    for b in range(30):
        others = np.flatnonzero(fold != fold[b])
        from_others = encode_targets(statistics(), examples[torch.from_numpy(others)], y[others], weights[others])
        assert torch.equal(from_others(examples[[b]].sets, examples[[b]].context)[0], x[b])
    assert torch.equal(found(examples[30:].sets, examples.context[30:]), valid_x)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10_000), b=st.integers(0, 19), target=st.floats(-1e3, 1e3))
def test_no_set_reads_its_own_target(seed, b, target):
    """A training row keeps its bits under every target of its own, and a validation set's target is nowhere."""
    examples, y, weights = drawn(26, seed=seed)
    found, x, valid_x = encoded(examples, y, weights, 20)
    other = y.copy()
    other[b] = target
    assert torch.equal(encoded(examples, other, weights, 20)[1][b], x[b])
    other = y.copy()
    other[20:] = target
    again, same, same_valid = encoded(examples, other, weights, 20)
    assert torch.equal(same, x) and torch.equal(same_valid, valid_x)
    assert torch.equal(again.blocks[1].values, found.blocks[1].values)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10_000), num_groups=st.integers(1, 12), shift=st.floats(1, 1e3))
def test_no_set_reads_a_target_of_its_group(seed, num_groups, shift):
    """The rows of a group keep their bits under a shift of its targets."""
    examples, y, weights = drawn(26, seed=seed)
    groups = np.random.default_rng(seed).integers(0, num_groups, 20)
    _, x, _ = encoded(examples, y, weights, 20, groups=groups)
    for group in np.unique(groups):
        other = y.copy()
        other[:20][groups == group] += shift
        assert torch.equal(encoded(examples, other, weights, 20, groups=groups)[1][groups == group], x[groups == group])


@pytest.mark.parametrize("num", [60, 2_400])
def test_fits_keep_groups_together(num, monkeypatch):
    """Groups of sets reach the inner folds, by folds of few sets and by the one split of many."""
    seen = []

    def spy(*arguments):
        seen.append(arguments[-1])
        return encoded_by_targets(*arguments)

    monkeypatch.setattr("janossy.estimators.classical.learners.encoded_by_targets", spy)
    source = np.random.default_rng(0)
    sets = [list(source.choice(list("abcdef"), 3)) for _ in range(num)]
    groups = source.integers(0, 12, num)
    model = SetClassifier(strategy={"strategy": "linear", "categories": "targets"}, random_state=0)
    model.fit(sets, source.integers(0, 2, num), groups=groups)
    splits = [np.setdiff1d(np.arange(num), fold.sets.numpy()) for fold in model.folds_]
    if len(splits) == 1:
        splits.append(np.arange(num))  # the fit to all sets takes its place
    assert len(seen) == len(splits)
    for each, training in zip(seen, splits, strict=True):
        named, own = np.unique(np.stack([each, groups[training]]), axis=1)  # groups are numbered anew
        assert len(named) == len(np.unique(named)) == len(np.unique(own)) > 5
    model.fit(sets, source.integers(0, 2, num))
    assert seen[-1] is None


def test_a_target_is_in_the_rows_of_other_folds():
    """The law above would hold for rows that read no target at all."""
    examples, y, weights = drawn(20)
    other = y.copy()
    other[0] += 100
    assert not torch.equal(encoded(examples, y, weights, 20)[1], encoded(examples, other, weights, 20)[1])


def test_what_no_set_holds_has_the_mean_of_all():
    examples, y, weights = drawn(30)
    found = encode_targets(statistics(), examples, y, weights)
    unseen = Ragged.from_sizes(torch.zeros(3, 1), [2, 1, 0])
    rows = found(unseen, torch.zeros(3, 1))
    assert (rows[:, 2:] == 0).all() and (found.blocks[1].values[0] == 0).all()
    mostly = Ragged.from_sizes(torch.tensor([[1.0], [0.0]]), [2])
    mean, least, most, total = found(mostly, torch.zeros(1, 1))[0, 2:6]
    value = found.blocks[1].values[1, 0]
    np.testing.assert_allclose([mean, least, most, total], [value / 2, min(value, 0), max(value, 0), value], rtol=1e-6)


def test_weights_count_as_sets():
    """A set of weight 2 is two sets, for weights beside them alike; and a common factor changes nothing."""
    examples, y, _ = drawn(24)
    weights = 1.0 + (np.arange(24) < 8)
    twice = torch.cat([torch.arange(24), torch.arange(8)])
    one = encode_targets(statistics(), examples, y, weights)
    factor = encode_targets(statistics(), examples, y, 7 * weights)
    torch.testing.assert_close(one.blocks[1].values, factor.blocks[1].values)
    several = encode_targets(statistics(), examples[twice], y[twice.numpy()], np.ones(32))
    same_sign = (one.blocks[1].values * several.blocks[1].values)[1:]
    assert (same_sign > 0).all()


@pytest.mark.parametrize("value", [0.0, 7.0, -1e8])
def test_constant_targets_have_value_zero(value):
    examples, y, weights = drawn(30)
    found = encode_targets(statistics(), examples, np.full_like(y, value), weights)
    assert found.blocks[1].values.abs().max() <= 1e-6 * max(1, abs(value)) and found.blocks[1].values.isfinite().all()


def test_categories_of_one_set_each_are_shrunk_to_nothing():
    """They say nothing of other sets: the variance between categories is unknown."""
    num = 6
    sets = Ragged.from_sizes(torch.arange(1.0, num + 1)[:, None], [1] * num)
    examples = Examples(sets, None, torch.zeros(num), torch.ones(num))
    some = PooledStatistics([CodeValues(0, num_values=num + 1, width=1)], vocabularies=[num + 1], num_numbers=0)
    y = np.arange(num, dtype=float)[:, None]
    found = encode_targets(some, examples, y, np.ones(num)).blocks[0].values
    np.testing.assert_allclose(found[1:, 0], (y[:, 0] - y.mean()) / (1 + SHRINKAGE[1]), rtol=1e-5)


def test_classes_as_numbers():
    y = np.array([0, 1, 2, 2, 1, 2])
    assert as_numbers(y, np.array([0, 4, 5]), num_values(6, is_class=True)).tolist() == [
        [1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0],
        [0, 0, 1, 0, 0, 0], [0, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0],
    ]  # fmt: skip
    assert as_numbers(y % 2, np.array([0, 1]), num_values(2, is_class=True))[:, 0].tolist() == [0, 1, 0, 0, 1, 0]
    assert as_numbers(0 * y, np.array([1]), 1).shape == (6, 1)
    many = np.repeat(np.arange(40), np.arange(1, 41))
    num = num_values(40, is_class=True)
    assert num == target_encoding.MAX_CLASSES
    found = as_numbers(many, np.arange(40), num)
    assert (found.sum(0) == np.arange(41 - num, 41)).all()  # the most frequent ones


def orders(num=120, seed=0):
    """Returns sets of items with effects, of users with effects. Some sets are empty."""
    source = np.random.default_rng(seed)
    effects, of_users = source.normal(size=12), source.normal(size=8)
    sizes, user = source.integers(0, 6, num), source.integers(0, 8, num)
    items = [source.integers(0, 12, n) for n in sizes]
    y = np.array([effects[each].sum() for each in items]) + of_users[user]
    table = {"item": [[f"i{i}" for i in each] for each in items], "user": [f"u{i}" for i in user]}
    return as_sets(table), y


def reordered(sets):
    source = np.random.default_rng(1)
    ends = zip(sets.offsets[:-1], sets.offsets[1:], strict=True)
    order = np.concatenate([source.permutation(np.arange(a, b)) for a, b in ends])
    columns = {name: replace(column, values=column.values[order]) for name, column in sets.elements.items()}
    return replace(sets, elements=columns)


def few(name, **more):
    return {"strategy": name, "categories": "targets", **FEW[name], **more}


TASKS = ("two classes", "three classes", "numbers", "two targets")
FIRST = {("linear", "three classes"), ("trees", "two classes"), ("forest", "numbers"), ("linear", "two targets")}


@pytest.mark.parametrize(
    ("name", "task"),
    [
        pytest.param(*case, marks=() if case in FIRST else pytest.mark.only_all)
        for case in itertools.product(FEW, TASKS)
    ],
)
def test_members_obey_the_laws(name, task, tmp_path):
    """Exact invariance, independence of the batch, the same from a seed and from a file, better than chance."""
    sets, y = orders()
    kind = SetClassifier if "classes" in task else SetRegressor
    if kind is SetClassifier:
        y = np.digitize(y, np.quantile(y, [0.5] if task == "two classes" else [0.33, 0.66]))
    elif task == "two targets":
        y = np.stack([y, -2 * y], 1)
    model = kind(few(name), validation=2, random_state=0).fit(sets, y)

    def outputs(of, some=sets):
        return of.predict(some) if kind is SetRegressor else of.predict_proba(some)

    found = outputs(model)
    blocks = model.ensemble_.networks[0].statistics.blocks
    assert {type(block).__name__ for block in blocks} >= {"CodeValues", "ContextCodeValues"}
    assert model.score(sets, y) > (0.5 if task != "three classes" else 0.4)
    assert np.array_equal(outputs(model, reordered(sets)), found)
    assert np.array_equal(np.concatenate([outputs(model, sets[[b]]) for b in range(20)]), found[:20])
    assert np.array_equal(outputs(kind(few(name), validation=2, random_state=0).fit(sets, y)), found)
    again = load(save(model, tmp_path / "model"))
    assert np.array_equal(outputs(again), found)
    assert np.isfinite(again.element_importance(sets[:5]).changes).all() and again.explain(sets[:2])


@pytest.mark.parametrize("name", FEW)
def test_extremes(name):
    """Constant targets, one class per set, empty sets alone, weights of 0."""
    sets, y = orders(40)
    constant = SetRegressor(few(name), validation=2, random_state=0).fit(sets, np.full(40, 7.0))
    np.testing.assert_allclose(constant.predict(sets), 7.0, atol=1e-5)
    many = SetClassifier(few(name), validation=2, random_state=0).fit(sets, np.arange(40))
    assert np.isfinite(many.predict_proba(sets)).all()
    empty = sets[np.flatnonzero(sets.sizes == 0)[[0, 0, 0, 0, 0, 0]]]
    of_empty = SetClassifier(few(name), validation=2, random_state=0).fit(empty, [0, 1, 1, 1, 0, 1])
    assert np.isfinite(of_empty.predict_proba(sets)).all()
    half = np.arange(40) < 30
    one = SetRegressor(few(name), validation=2, random_state=0).fit(sets, y, half.astype(float)).predict(sets)
    other = SetRegressor(few(name), validation=2, random_state=0).fit(sets[half], y[half]).predict(sets)
    assert np.array_equal(one, other)


def test_names():
    some = statistics(2)
    assert some.names(ColumnNames(("item",), ("user",), num_codes=1))[2:] == [
        *(f"{kind} target {i} of item" for kind in ("mean", "min", "max", "sum") for i in range(2)),
        "target 0 of user",
        "target 1 of user",
    ]


def test_rare_items_are_learnt(monkeypatch):
    """Trees on a bag read 512 of 900 items; those on targets read all."""
    monkeypatch.undo()
    source = np.random.default_rng(0)
    effects = source.normal(size=900)
    items = [source.integers(0, 900, 6) for _ in range(1500)]
    y = np.array([effects[each].sum() for each in items])
    sets = as_sets({"item": [[f"i{i}" for i in each] for each in items]})
    tried = [{"strategy": "trees", "compact": True, "num_trees": 60}, few("trees", num_trees=60)]
    bags, targets = (SetRegressor(each, validation=3, random_state=0).fit(sets, y).trials_[0].score for each in tried)
    assert targets > bags + 0.1


def test_auto_tries_them_for_many_categories_only(monkeypatch):
    columns = {"few": Layout((512,)), "many": Layout((514,)), "of sets": Layout((66,)), "none": Layout((), 1)}
    monkeypatch.undo()
    few_codes, many_codes, codes_of_sets = (
        CachedStatistics(drawn(4)[0], (columns[elements], columns[context]))
        for elements, context in (("few", "none"), ("many", "none"), ("few", "of sets"))
    )
    for candidate in TARGETS:
        assert candidate.why_not(few_codes) == "no column has many categories"
        assert not candidate.why_not(many_codes)
        assert not candidate.why_not(codes_of_sets)
    assert not Candidate("trees").why_not(few_codes)


def test_without_such_a_column_it_is_the_learner_on_bags(monkeypatch):
    monkeypatch.undo()
    sets, y = orders(40)
    bags, targets = (
        SetRegressor(each, validation=2, random_state=0).fit(sets, y).predict(sets)
        for each in ("linear", few("linear"))
    )
    assert np.array_equal(bags, targets)


def test_an_unknown_form_is_refused():
    with pytest.raises(ValueError, match="categories among bags, targets; got categories='target'"):
        SetRegressor({"strategy": "trees", "categories": "target"}).fit(*orders(20))


def test_hostile_values_are_refused(tmp_path):
    model = SetRegressor(few("linear"), validation=2, random_state=0).fit(*orders(60))
    (encoded,) = (block for block in model.ensemble_.networks[0].statistics.blocks if isinstance(block, CodeValues))
    for value in (float("nan"), float("inf")):
        encoded.values[1, 0] = value
        with pytest.raises((SavedModelError, ValueError)):
            load(save(model, tmp_path / f"model {value}"))
