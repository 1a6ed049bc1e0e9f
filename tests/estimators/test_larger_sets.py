import json
from copy import copy, deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import comb
from sklearn.metrics import r2_score
from torch.testing import assert_close

from janossy.estimators import SetRegressor, candidates, larger_sets, load, save
from janossy.estimators.candidates import FOR_LARGER, Candidate
from janossy.estimators.contenders import Contender
from janossy.estimators.description import LargerSets
from janossy.estimators.ensemble import Ensemble
from janossy.estimators.interrupts import time_by
from janossy.estimators.larger_sets import FEWEST_SETS, MOST_SETS, by_growth, can_extrapolate, split_by_size
from janossy.estimators.tasks import Classification, Regression
from janossy.estimators.trials import OF_LARGER
from janossy.saving import SavedModelError
from tests.estimators.test_ensemble import network, sets_of
from tests.saving.signing import resigned

SIZES = [3, 9, 0, 5, 6, 12, 1, 7]


@given(
    sizes=st.lists(st.integers(0, 12), min_size=0, max_size=9),
    size=st.integers(0, 12),
    weights=st.sampled_from([([0.5, 0.5, 0.0], [0.0, 0.0, 1.0]), ([1.0, 0.0, 0.0], [0.2, 0.8, 0.0])]),
)
def test_the_weights_are_those_of_the_size(sizes, size, weights):
    sets, networks = sets_of(sizes), [network("k1"), network("gru", 1), network("sum", 2)]
    found = Ensemble(networks, weights[0], Regression(2), larger=LargerSets(size, weights[1])).predict(sets, None, 4)
    of_all = [Ensemble(networks, each, Regression(2)).predict(sets, None, 4) for each in weights]
    is_larger = torch.tensor([n > size for n in sizes], dtype=torch.bool)
    for name in ("mean", "standard_error", "change_probability"):
        small, large = (getattr(each, name) for each in of_all)
        chosen = is_larger if small.dim() == 1 else is_larger[:, None]
        assert_close(getattr(found, name), large.where(chosen, small))


def test_a_prediction_depends_on_its_set_alone():
    sets, networks = sets_of(SIZES), [network("gru"), network("sum", 1)]
    together = Ensemble(networks, [1.0, 0.0], Regression(2), larger=LargerSets(6, [0.5, 0.5]))
    alone = [together.predict(sets[b : b + 1], None, 20).mean for b in range(len(SIZES))]
    assert_close(together.predict(sets, None, 20).mean, torch.cat(alone))


@given(st.lists(st.integers(0, 9), min_size=2, max_size=400), st.integers(0, 10**6))
def test_a_split_by_size(sizes, seed):
    sizes, order = torch.tensor(sizes), torch.from_numpy(np.random.default_rng(seed).permutation(len(sizes)))
    held_out = max(1, len(sizes) // 10)
    split = order[held_out:], order[:held_out]
    found = split_by_size(split, sizes)
    middle = sizes.median()
    if found is None:
        few = (sizes[split[0]] <= middle).sum() < FEWEST_SETS or (sizes > middle).sum() < FEWEST_SETS
        assert few or not (sizes[split[1]] <= middle).any()
        return
    smaller, larger = found
    for some, of_all in zip(smaller, split, strict=True):
        assert set(some.tolist()) == {b for b in of_all.tolist() if sizes[b] <= middle}
    assert (sizes[larger] > middle).all() and FEWEST_SETS <= len(larger) <= MOST_SETS


def test_thousands_of_larger_sets_are_sampled():
    sizes = torch.arange(10_000)
    _, larger = split_by_size((sizes[1000:], sizes[:1000]), sizes)
    assert len(larger) == MOST_SETS and larger.min() < 5100 and larger.max() > 9900


@given(st.integers(1, 3), st.integers(0, 10**6), st.integers(1, 10**6))
def test_totals_are_sorted_by_how_the_targets_grow(k, seed, scale):
    source = np.random.default_rng(seed)
    sizes = source.integers(0, 20, 300)
    numbers = comb(sizes, k) * scale + source.normal(size=300) * scale / 10
    targets = torch.tensor(np.stack([-numbers, np.ones(300)], 1))  # one shrinks, and one is constant
    totals = [Contender(i, Candidate("k1")) for i in range(3)]
    assert by_growth(totals, torch.tensor(sizes), targets)[0] is totals[k - 1]


def test_what_can_be_extrapolated():
    sizes = torch.arange(1, 200)
    assert can_extrapolate(Regression(1), sizes) and can_extrapolate(Regression(2, "quantile", (0.5,)), sizes)
    assert not can_extrapolate(Regression(1, "cox"), sizes) and not can_extrapolate(Classification((2,)), sizes)
    assert not can_extrapolate(Regression(1), sizes[:50]) and not can_extrapolate(Regression(1), sizes + 1000)


def fitted(monkeypatch, target, *, least=1, num=500, strategy="auto", **settings):
    """Returns a regressor of the target by a search of two candidates, and 100 sets of 30 elements with their
    targets."""
    tried = Candidate("linear"), Candidate("k1", {"width": 16})
    monkeypatch.setattr(candidates, "AUTO", tried)
    source = np.random.default_rng(0)
    sets, large = (
        [source.normal(size=(n, 2)) for n in sizes] for sizes in (source.integers(least, 11, num), [30] * 100)
    )
    settings = {"validation": 0.2, "time_budget": None, "random_state": 0} | settings
    model = SetRegressor(strategy, **settings).fit(sets, np.array([target(x) for x in sets]))
    return model, large, np.array([target(x) for x in large])


def total(x):
    return np.abs(x[:, 0]).sum()


def test_totals_of_larger_sets_are_sums(monkeypatch, tmp_path):
    """The sum of |x| of sets thrice as large as in training. The error of the average is 4, and here 0.2."""
    model, large, expected = fitted(monkeypatch, total)
    larger = model.ensemble_.larger
    assert larger.size == 10 and sum(larger.weights) == pytest.approx(1) == sum(model.ensemble_.weights)
    assert [trial.candidate for trial in model.trials_] == [0, 1, 2]
    assert (model.trials_[2].strategy, model.trials_[2].note, model.trials_[2].weight) == ("sum", OF_LARGER, 0)
    found = model.predict(large)
    assert np.abs(found - expected).mean() < 1
    small = [x[:10] for x in large]
    of_small = model.predict(small)
    loaded = load(save(model, tmp_path / "model"))
    assert (loaded.predict(large) == found).all() and (loaded.predict(small) == of_small).all()
    assert loaded.ensemble_.larger == larger

    # whatever predicts a whole set predicts it without one of its elements too
    alone = copy(model)
    alone.ensemble_ = replace(model.ensemble_, weights=larger.weights, larger=None)
    of_both = [each.element_importance([large[0][:11], large[1]]).changes for each in (model, alone)]
    np.testing.assert_allclose(*of_both, atol=1e-6)

    model.ensemble_.larger = None
    assert np.abs(model.predict(large) - expected).mean() > 2 and (model.predict(small) == of_small).all()


def differences(x):
    return np.abs(x[:, :1] - x[:, 0]).sum() / 2


def test_totals_over_pairs_of_larger_sets_are_sums_over_pairs(monkeypatch):
    """The sum of |x − y| over all pairs, of sets thrice as large as in training."""
    model, large, expected = fitted(monkeypatch, differences)
    of_larger = [trial for trial in model.trials_ if trial.note == OF_LARGER]
    assert [(trial.candidate, trial.strategy) for trial in of_larger] == [(3, "k2")]
    assert r2_score(expected, model.predict(large)) > 0.9
    model.ensemble_.larger = None
    assert r2_score(expected, model.predict(large)) < 0


@pytest.mark.parametrize(
    ("target", "options"),
    [
        (lambda x: x[:, 0].mean(), {}),
        (lambda x: np.log(len(x)), {}),
        (total, {"least": 8}),
        (total, {"strategy": ["linear", "k1"]}),
        (total, {"num": 60}),
        (total, {"time_budget": 29.0}),
    ],
    ids=["no trend", "no sum", "sizes are alike", "strategies are named", "few sets", "a short search"],
)
def test_else_the_average_predicts_larger_sets(monkeypatch, target, options):
    model, _, _ = fitted(monkeypatch, target, max_epochs=30, **options)
    assert model.ensemble_.larger is None and [trial.candidate for trial in model.trials_] == [0, 1]


@pytest.mark.parametrize("seconds", [0.0, 1.0, 5.0])
def test_without_time_the_average_predicts_larger_sets(monkeypatch, seconds):
    """Each step of a clock is a second. The choice needs time for a copy of each, and for the training itself."""
    steps = []

    def clock():
        steps.append(None)
        return float(len(steps)) if is_late else 0.0

    is_late = False

    def late(trainer, average, others):
        nonlocal is_late
        is_late = True
        trainer.deadline = len(steps) + seconds
        return larger_sets.best_for_larger(trainer, average, others)

    monkeypatch.setattr("janossy.estimators.search.best_for_larger", late)
    with time_by(clock):
        model, _, _ = fitted(monkeypatch, total, max_epochs=3, time_budget=1e9)
    assert is_late and model.ensemble_.larger is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": -1}, "larger.size"),
        ({"weights": [1.0]}, "weights: one for each"),
        ({"weights": [0.5, 0.0, 0.0]}, "weights: a sum of 1"),
        ({"weights": [2.0, -1.0, 0.0]}, "larger.weights"),
    ],
)
def test_damaged_files(monkeypatch, tmp_path, change, message):
    model, _, _ = fitted(monkeypatch, total, max_epochs=2)
    networks = [deepcopy(model.ensemble_.networks[0]) for _ in range(3)]
    larger = LargerSets(10, [0.0, 0.0, 1.0])
    model.ensemble_ = replace(model.ensemble_, networks=networks, weights=[0.5, 0.5, 0.0], larger=larger)
    path = save(model, tmp_path / "model")
    assert load(path).ensemble_.larger == larger
    description = json.loads((path / "model.json").read_text())
    description["larger"] |= change
    resigned(path, description)
    with pytest.raises(SavedModelError, match=message):
        load(path)


def test_the_candidates_are_sums():
    assert list(map(str, FOR_LARGER)) == ["sum (readout_depth=0)", "k2 (depth=1, reduce=sum, readout_depth=0)"]
