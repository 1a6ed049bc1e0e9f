from math import inf

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from janossy.estimators import search as module
from janossy.estimators.batches import Examples
from janossy.estimators.candidates import AUTO, Candidate, candidates, seconds_an_epoch, seconds_to_predict
from janossy.estimators.ensemble import picks
from janossy.estimators.interrupts import time_by
from janossy.estimators.search import KEPT, Limits, Search
from janossy.estimators.splits import folds, splits
from janossy.estimators.strategies import build_network
from janossy.estimators.tasks import Classification, Regression
from janossy.estimators.trials import NothingTrained
from janossy.orderings import Tuples
from janossy.sets import Ragged
from janossy.tables.layout import Layout
from tests.estimators.sets import bags


def examples(num: int = 60) -> Examples:
    sets, labels = bags(num)
    batch = Ragged.from_sets([torch.tensor(x, dtype=torch.float32) for x in sets])
    return Examples(batch, None, torch.tensor(labels).long(), torch.ones(num))


def search(limits: Limits, num_folds: int | float = 0.25, tell=lambda progress: None) -> Search:
    data = examples()
    parts = splits(data.targets, num_folds, np.random.default_rng(0))
    layouts = Layout((), 2), Layout()
    return Search(data, parts, Classification(2), layouts, limits, num_permutations=4, seed=0, tell=tell)


# Splits


@settings(deadline=None, max_examples=50)
@given(
    classes=st.lists(st.integers(0, 3), min_size=6, max_size=60), num_folds=st.integers(2, 5), seed=st.integers(0, 99)
)
def test_folds_have_as_many_of_each_class_as_can_be(classes, num_folds, seed):
    targets = torch.tensor(classes)
    fold = folds(targets, num_folds, np.random.default_rng(seed))
    for label in set(classes):
        counts = torch.bincount(fold[targets == label], minlength=num_folds)
        # A run of neighbours begins and ends within a block of num_folds, each of which has every fold once.
        assert counts.max() - counts.min() <= 2
    assert torch.bincount(fold, minlength=num_folds).max() - torch.bincount(fold, minlength=num_folds).min() <= 1


def test_numbers_are_stratified_too():
    fold = folds(torch.arange(100.0)[:, None], 5, np.random.default_rng(0))
    means = [np.flatnonzero(fold == i).mean() for i in range(5)]
    assert np.ptp(means) < 4


@pytest.mark.parametrize(("num", "validation", "expected"), [(50, None, 5), (5000, None, 1), (50, 0.2, 1), (50, 3, 3)])
def test_sets_that_are_left_out_are_not_learnt_from(num, validation, expected):
    parts = splits(torch.zeros(num).long(), validation, np.random.default_rng(0))
    assert len(parts) == expected
    for training, validation_sets in parts:
        assert sorted(torch.cat((training, validation_sets)).tolist()) == list(range(num))
    if expected > 1:
        assert sorted(torch.cat([validation_sets for _, validation_sets in parts]).tolist()) == list(range(num))


def test_two_sets_can_be_split():
    for training, validation_sets in splits(torch.tensor([0, 1]), None, np.random.default_rng(0)):
        assert len(training) == len(validation_sets) == 1


# Averages


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 1000), num=st.integers(1, 6))
def test_an_average_is_no_worse_than_the_best(seed, num):
    generator = torch.Generator().manual_seed(seed)
    targets = torch.randn(20, 1, generator=generator)
    outputs = [targets + torch.randn(20, 1, generator=generator) for _ in range(num)]
    task = Regression(1)

    def loss(mean):
        return float(task.losses(mean, targets).mean())

    counts = picks(outputs, loss)
    average = sum(count * x for count, x in zip(counts, outputs, strict=True)) / sum(counts)
    assert loss(average) <= min(map(loss, outputs)) + 1e-6
    assert sum(map(bool, counts)) <= 3


def test_errors_that_cancel_are_averaged():
    targets = torch.zeros(4, 1)
    wrong = torch.tensor([[1.0], [-1.0], [1.0], [-1.0]])
    counts = picks([wrong, -wrong, 3 + wrong], lambda mean: float(Regression(1).losses(mean, targets).mean()))
    assert counts[0] == counts[1] > 0 and counts[2] == 0


# Candidates


def test_strategies_become_candidates():
    assert candidates("auto") == list(AUTO)
    assert candidates("k2") == [Candidate("k2")]
    assert candidates({"strategy": "k2", "width": 8}) == [Candidate("k2", {"width": 8})]
    assert candidates(["k1", {"strategy": "gru", "depth": 2}]) == [Candidate("k1"), Candidate("gru", {"depth": 2})]
    (own,) = candidates(lambda elements, context, num_outputs: build_network("k1", elements, context, num_outputs))
    assert own.build(Layout((), 2), Layout(), 3)(Ragged.from_sizes(torch.ones(3, 2), [3])).shape == (1, 3)


@pytest.mark.parametrize(
    ("strategy", "error", "message"),
    [
        ("k9", ValueError, "strategy expects one of 'k1', .*; got 'k9'"),
        ({"width": 8}, ValueError, "as a dict, its name under 'strategy'"),
        ({"strategy": "k1", "wdth": 8}, ValueError, "a strategy's settings are width, .*; got wdth"),
        ([], TypeError, "strategy expects 'auto', one of"),
        (3, TypeError, "strategy expects 'auto', one of"),
    ],
)
def test_what_is_no_strategy(strategy, error, message):
    with pytest.raises(error, match=message):
        candidates(strategy)


# Searches

MORE = [Candidate("k1", {"width": width}) for width in (2, 3, 4, 6, 8, 16)]
"""One more than a search ends with."""


def test_the_best_of_a_rung_go_on():
    reports = []
    found = search(Limits(max_epochs=2), tell=reports.append).run(MORE)
    by_rung = {r: [t for t in found.trials if t.rung == r] for r in (0, 1)}
    assert len(by_rung[0]) == len(MORE) and len(by_rung[1]) == KEPT
    worst = max(by_rung[0], key=lambda trial: trial.loss)
    assert worst.settings not in [trial.settings for trial in by_rung[1]]
    assert sum(trial.weight for trial in found.trials) == pytest.approx(1)
    assert sum(found.weights) == pytest.approx(1)
    assert [p.trial for p in reports if p.trial is not None] != []
    assert str(reports[0]).endswith("of sets left out") and "round 1 of 2, k1 (width=2)" in str(reports[0])


def test_what_has_been_judged_has_the_time_by_rank(monkeypatch):
    """The first rung shares its half of the time; in the second the best may use all that is left, then the next."""
    given_to, real = [], module.train

    def train(network, source, validation, criterion, plan, *args, **options):
        given_to.append((network.pooling.f.hidden[0].out_features, plan.deadline))
        return real(network, source, validation, criterion, plan, *args, **options)

    monkeypatch.setattr(module, "train", train)
    with time_by(lambda: 0.0):
        found = search(Limits(seconds=80.0, max_epochs=2)).run(MORE)
    deadlines = [40 / left for left in (6, 5, 4, 3, 2, 1)]
    assert given_to[:6] == [(c.settings["width"], pytest.approx(at)) for c, at in zip(MORE, deadlines, strict=True)]
    ranked = sorted((trial for trial in found.trials if trial.rung == 0), key=lambda trial: trial.loss)
    assert given_to[6:] == [(trial.settings["width"], 80.0) for trial in ranked[:KEPT]]


def test_auto_is_a_search_of_two_rungs():
    """A third would train the first for a sixty-fourth of the time, which tells little."""
    reports = []
    search(Limits(max_epochs=1), tell=reports.append).run([Candidate("k1", {"width": 2}) for _ in AUTO])
    assert {progress.num_rungs for progress in reports} == {2}


def test_folds_each_have_a_network():
    found = search(Limits(max_epochs=1), 3).run([Candidate("k1", {"width": 4})])
    assert len(found.networks) == 3 and found.weights == pytest.approx([1 / 3] * 3)
    assert [len(fold.networks) for fold in found.folds] == [1, 1, 1]


def test_a_candidate_that_diverges_is_told_and_left(monkeypatch):
    real = module.train

    def train(network, *args, **options):
        if network.pooling.f.hidden[0].out_features == 4:
            raise FloatingPointError("no")
        return real(network, *args, **options)

    monkeypatch.setattr(module, "train", train)
    both = [Candidate("k1", {"width": 4}), Candidate("k1", {"width": 8})]
    found = search(Limits(max_epochs=1)).run(both)
    assert [(trial.settings["width"], trial.note) for trial in found.trials] == [(4, "no"), (8, "")]
    with pytest.raises(FloatingPointError, match=r"^no$"):
        search(Limits(max_epochs=1)).run(both[:1])
    with pytest.raises(FloatingPointError, match="all candidates of the search failed, the last by: no"):
        search(Limits(max_epochs=1)).run([both[0], Candidate("k1", {"width": 4, "depth": 1})])


def test_an_interrupt_keeps_what_is_there():
    def interrupt(progress):
        if progress.candidate == "k1 (width=8)" and progress.epoch.number == 2 and progress.trial is None:
            tried.interrupts.came = True

    tried = search(Limits(max_epochs=4), tell=interrupt)
    found = tried.run([Candidate("k1", {"width": w}) for w in (4, 8, 16)])
    assert [trial.settings["width"] for trial in found.trials] == [4, 8]
    assert found.trials[1].note == "interrupted" and found.networks


def test_what_takes_too_long_or_reads_no_more_is_not_tried():
    with time_by(lambda: 0.0):  # time never passes
        quick = search(Limits(seconds=1e-6, max_epochs=1)).run([Candidate("k1"), Candidate("k3")])
    assert [(trial.strategy, trial.note[:30]) for trial in quick.trials if trial.loss == inf] == [
        ("k3", "not tried: it is estimated to ")
    ]
    with pytest.raises(NothingTrained):
        search(Limits(seconds=1e-6)).run([Candidate("k1"), Candidate("k3")])
    single = search(Limits(max_epochs=1))
    some = single.examples
    single.examples = Examples(Ragged.from_sizes(some.sets.values[:60], [1] * 60), None, some.targets, some.weights)
    found = single.run([Candidate("k1", {"width": 2}), Candidate("max"), Candidate("k2")])
    assert [trial.note for trial in found.trials if trial.note] == ["not tried: the largest set has 1 elements"] * 2


def test_pairs_of_which_all_take_too_long_to_predict_are_drawn(monkeypatch):
    def seconds(network, validation_sets):
        exact = network.pooling.orderings == Tuples(2)
        if too_many and exact:
            raise ValueError("too many rows")
        return 1.0 if exact else 0.01

    monkeypatch.setattr(module, "seconds_to_predict", seconds)
    pairs = Candidate("k2+features", {"width": 4})
    # They take a second: at most a twentieth of the time.
    expected = {(False, 100.0): None, (False, 21.0): None, (False, 19.0): False, (True, 100.0): False}
    for case, exact in expected.items():
        too_many, most = case
        left = search(Limits(seconds=most, max_epochs=2))._worth_trying([Candidate("k1"), pairs])
        assert left[1].settings.get("exact") is exact and left[0] == Candidate("k1")


def test_an_epoch_of_pairs_that_are_drawn_costs_the_same_whatever_is_predicted_by():
    sets = Ragged.from_sizes(torch.randn(1000, 2), [200] * 5)
    exact, drawn = (
        build_network("k2", Layout((), 2), Layout(), 1, num_tuples=8, exact=exact) for exact in (True, False)
    )
    assert seconds_an_epoch(exact, sets, sets) == pytest.approx(seconds_an_epoch(drawn, sets, sets))
    assert seconds_to_predict(exact, sets) > 5 * seconds_to_predict(drawn, sets) and exact.training


def test_a_round_in_which_nobody_had_time_for_a_step_leaves_all_to_the_next(monkeypatch):
    real = Search._try
    monkeypatch.setattr(
        Search, "_try", lambda self, c, i, rung, at: None if rung.number == 0 else real(self, c, i, rung, at)
    )
    found = search(Limits(max_epochs=1)).run(MORE)
    assert {trial.rung for trial in found.trials} == {1} and sum(found.weights) == pytest.approx(1)
    monkeypatch.setattr(Search, "_try", lambda self, *arguments: None)
    with pytest.raises(NothingTrained):
        search(Limits(max_epochs=1)).run(MORE)
