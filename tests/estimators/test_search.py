from dataclasses import replace
from itertools import count
from math import inf

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from janossy.estimators import averages, further_splits, limits, trainer
from janossy.estimators import search as module
from janossy.estimators.averages import MAX_AVERAGED, best_average, picks
from janossy.estimators.batches import Examples
from janossy.estimators.candidates import AUTO, Candidate, candidates, seconds_an_epoch, seconds_to_predict
from janossy.estimators.checkpoint import Checkpoint
from janossy.estimators.classical.learners import ClassicalLearner
from janossy.estimators.classical.paths import TreesPath
from janossy.estimators.contenders import Contender, Run
from janossy.estimators.interrupts import time_by
from janossy.estimators.limits import FEW, Limits
from janossy.estimators.out_of_fold import outputs_by_draw
from janossy.estimators.processes import Processes
from janossy.estimators.search import GOING_ON, Search
from janossy.estimators.splits import Splits, folds, splits
from janossy.estimators.strategies import build_network
from janossy.estimators.tasks import Classification, Regression
from janossy.estimators.trainer import Trainer
from janossy.estimators.training import Ending, Trained, Training
from janossy.estimators.trials import Epoch, NothingTrained, Progress
from janossy.orderings import Tuples
from janossy.sets import Ragged
from janossy.tables.layout import Layout
from tests.estimators.sets import bags


def examples(num: int = 60) -> Examples:
    sets, labels = bags(num)
    batch = Ragged.from_sets([torch.tensor(x, dtype=torch.float32) for x in sets])
    return Examples(batch, None, torch.tensor(labels).long(), torch.ones(num))


def search(limits: Limits, num_folds: int | float = 0.25, tell=lambda progress: None, num_spare: int = 0) -> Search:
    data = examples()
    parts = Splits(splits(data.targets, num_folds, np.random.default_rng(0)).all, num_spare)
    layouts = Layout((), 2), Layout()
    return Search(Trainer(data, parts, Classification((2,)), layouts, limits, num_permutations=4, seed=0, tell=tell))


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


@pytest.mark.parametrize(
    ("num", "validation", "expected", "num_spare"),
    [(50, None, 5, 0), (5000, None, 1, 4), (10_001, None, 1, 0), (50, 0.2, 1, 0), (5000, 0.1, 1, 0), (50, 3, 3, 0)],
)
def test_sets_that_are_validation_sets_are_not_learnt_from(num, validation, expected, num_spare):
    found = splits(torch.zeros(num).long(), validation, np.random.default_rng(0))
    parts = found.all
    assert len(parts) == expected + num_spare and found.num_spare == num_spare
    for training, validation_sets in parts:
        assert sorted(torch.cat((training, validation_sets)).tolist()) == list(range(num))
    if expected > 1:
        assert sorted(torch.cat([validation_sets for _, validation_sets in parts]).tolist()) == list(range(num))


@settings(max_examples=30, deadline=None)
@given(num=st.integers(2001, 10_000), seed=st.integers(0, 99), in_groups=st.booleans())
def test_spare_splits_validate_other_sets(num, seed, in_groups):
    """Each holds out a tenth, stratified by class; the first is the one of a search without spare splits."""
    rng = np.random.default_rng(seed)
    classes = torch.from_numpy(rng.integers(0, 2, num))
    groups = rng.integers(0, 1500, num) if in_groups else None
    found = splits(classes, None, np.random.default_rng(seed), groups)
    held_out = torch.cat([validation_sets for _, validation_sets in found.all])
    assert len(found.all) == 5 and len(held_out.unique()) == len(held_out)
    for _, validation_sets in found.all:
        assert len(validation_sets) == pytest.approx(num / 10, rel=0.2 if in_groups else 1e-2)
        if not in_groups:
            assert abs(int(classes[validation_sets].sum()) - int(classes.sum()) / 10) <= 2
    alone = splits(classes, 0.1, np.random.default_rng(seed), groups).all[0][1]
    assert torch.equal(alone, found.all[0][1])


def test_two_sets_can_be_split():
    for training, validation_sets in splits(torch.tensor([0, 1]), None, np.random.default_rng(0)).all:
        assert len(training) == len(validation_sets) == 1


# Averages


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 1000), num=st.integers(1, 6))
def test_an_average_is_no_worse_than_the_best_beyond_chance(seed, num):
    generator = torch.Generator().manual_seed(seed)
    targets = torch.randn(20, 1, generator=generator)
    outputs = [targets + torch.randn(20, 1, generator=generator) for _ in range(num)]
    losses = [Regression(1).losses(x, targets) for x in outputs]
    counts = picks(outputs, lambda mean: Regression(1).losses(mean, targets))
    average = sum(count * x for count, x in zip(counts, outputs, strict=True)) / sum(counts)
    best = min(losses, key=lambda each: float(each.mean()))
    errors = [float((each - best).std(correction=0)) / 20**0.5 for each in losses]
    assert Regression(1).losses(average, targets).mean() <= best.mean() + max(errors) + 1e-6
    assert sum(map(bool, counts)) <= MAX_AVERAGED


def test_what_is_level_with_the_best_is_averaged_and_the_rest_only_if_it_helps():
    """By losses of eight sets: two that differ by chance, and one that is worse for every set."""
    targets = torch.zeros(8, 1)
    one = torch.tensor([1.0, -1, 1, -1, 1, -1, 1, -1])[:, None]
    level = one * torch.tensor([1.1, 0.9, 1.2, 0.8, 1.1, 0.9, 1.2, 0.9])[:, None]
    counts = picks([one, level, one * 1.5], lambda mean: Regression(1).losses(mean, targets))
    assert counts[0] >= 1 and counts[1] >= 1 and counts[2] == 0


def test_errors_that_cancel_are_averaged():
    targets = torch.zeros(4, 1)
    wrong = torch.tensor([[1.0], [-1.0], [1.0], [-1.0]])
    counts = picks([wrong, -wrong, 3 + wrong], lambda mean: Regression(1).losses(mean, targets))
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
        ("k9", ValueError, "strategy expects one of 'linear', .*; got 'k9'"),
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
"""One more than go on to a second round."""


@pytest.fixture
def short_rounds(monkeypatch):
    """Rounds of 2, 6, 14 and 16 epochs of 16 in all, each of a single step."""
    monkeypatch.setattr(limits, "FEWEST_STEPS", 1)
    return Limits(max_epochs=16)


def epochs_told(reports):
    """Returns the epochs of each network, in turn, by candidate and split."""
    found = {}
    for progress in reports:
        if progress.trial is None:
            found.setdefault((progress.candidate, progress.network), []).append(progress.epoch.number)
    return found


def test_a_few_go_on_from_where_they_were(short_rounds):
    reports = []
    found = search(short_rounds, 3, tell=reports.append).run(MORE)
    first = [progress.trial for progress in reports if progress.trial is not None and progress.rung == 0]
    assert sum(len(trial.history) == 1 for trial in first) == len(MORE) == len(found.trials)
    by_round = [sum(trial.rung >= number for trial in found.trials) for number in range(1, 4)]
    assert 0 < by_round[0] <= GOING_ON[0] and all(num <= most for num, most in zip(by_round, GOING_ON, strict=False))
    for (_, split), epochs in epochs_told(reports).items():
        assert epochs == list(range(1, len(epochs) + 1))  # none twice: nothing is trained from scratch again
        assert split or len(epochs) in (2, 6, 14, 16)
    for trial in found.trials:
        assert len(trial.history) == 1 or trial.weight or len(trial.history) == 3
    used = [trial for trial in found.trials if trial.weight]
    assert sum(trial.weight for trial in used) == pytest.approx(1) and sum(found.weights) == pytest.approx(1)
    assert str(reports[0]).endswith("of sets left out") and "round 1, k1 (width=2)" in str(reports[0])


class Constant(nn.Module):
    """A network that is always sure of the first class, and does not learn."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))

    def forward(self, sets, context=None, generator=None):
        return torch.tensor([[20.0, -20.0]]).expand(len(sets.sizes), 2) + 0 * self.weight


def test_a_hopeless_candidate_is_not_trained_further(short_rounds):
    hopeless = Candidate("constant", factory=lambda *layouts_and_outputs: Constant())
    for tried in ([*MORE[:4], hopeless], [hopeless, *MORE[:4]]):
        found = search(short_rounds).run(tried)
        (number,) = (trial.rung for trial in found.trials if trial.strategy == "constant")
        assert number == 0 < max(trial.rung for trial in found.trials) and len(tried) <= GOING_ON[0]


def test_time_that_is_left_by_the_other_splits_is_for_those_that_were_too_long(short_rounds):
    """By a clock of which the first split's part is too short for the third candidate's second round."""
    num_epochs = []
    for seconds in (600.0, 900.0):
        with time_by(count(0.0, 1.0).__next__):
            found = search(replace(short_rounds, seconds=seconds), 2).run(MORE)
        num_epochs.append(sum(len(history) for trial in found.trials for history in trial.history))
    assert num_epochs[1] > num_epochs[0] + 16


def test_kept_outputs_are_those_of_the_networks_that_are_kept(short_rounds):
    """After rounds that went on, and restored the best weights."""
    tried = search(short_rounds, 3)
    found = tried.run(MORE)
    for fold in found.folds:
        some = tried.trainer.examples[fold.sets]
        for network, outputs in zip(fold.networks, fold.outputs, strict=True):
            assert torch.equal(outputs, outputs_by_draw(network, some, 4))
    total = sum(w * n(tried.trainer.examples.sets) for w, n in zip(found.weights, found.networks, strict=True))
    parts = [
        sum(w * n(tried.trainer.examples.sets) for w, n in zip(f.weights, f.networks, strict=True)) for f in found.folds
    ]
    if len({len(trial.history) for trial in found.trials if trial.weight}) == 1:
        assert torch.allclose(total, torch.stack(parts).mean(0), atol=1e-5)


def test_the_speed_of_the_machine_does_not_matter_while_the_time_suffices(short_rounds):
    found = []
    for second in (1e-6, 1.0):
        with time_by(count(0.0, second).__next__):
            found.append(search(replace(short_rounds, seconds=1e6), 3).run(MORE))
    one, two = ([replace(trial, seconds=0.0, history=[]) for trial in each.trials] for each in found)
    assert one == two and found[0].weights == found[1].weights


@pytest.mark.parametrize("seconds", [3, 5, 9, 17, 40, 90, 200, 500])
def test_at_any_end_of_the_time_there_is_an_average(short_rounds, seconds):
    """By a clock that goes on by a second whenever it is looked at."""
    clock = count(0.0, 1.0)
    with time_by(clock.__next__):
        try:
            found = search(replace(short_rounds, seconds=float(seconds)), 3).run(MORE)
        except NothingTrained:
            assert seconds <= 17
            return
    assert sum(found.weights) == pytest.approx(1) and found.folds
    assert next(clock) < seconds + 60  # at most what ends an epoch and tells of it


@pytest.mark.parametrize("told_before", [1, 2, 9, 20, 33, 60])
def test_at_any_interrupt_there_is_an_average(short_rounds, told_before):
    def interrupt(progress):
        nonlocal told_before
        told_before -= 1
        tried.trainer.interrupts.came = tried.trainer.interrupts.came or told_before <= 0

    tried = search(short_rounds, 3, tell=interrupt)
    found = tried.run(MORE)
    assert sum(found.weights) == pytest.approx(1) and sum(trial.weight for trial in found.trials) == pytest.approx(1)


def test_what_was_interrupted_goes_on_by_its_checkpoint(short_rounds, tmp_path):
    def interrupt(progress):
        tried.trainer.interrupts.came |= progress.rung == 1 and progress.epoch.number == 5

    expected = search(short_rounds, 3).run(MORE)
    checkpoint = Checkpoint(tmp_path, {}, Processes())
    tried = search(short_rounds, 3, tell=interrupt)
    tried.trainer.checkpoint = checkpoint
    tried.run(MORE)
    assert tried.trainer.interrupts.came
    again = search(short_rounds, 3)
    again.trainer.checkpoint = checkpoint
    found = again.run(MORE)
    for ours, theirs in zip(found.networks, expected.networks, strict=True):
        assert all(torch.equal(x, theirs.state_dict()[name]) for name, x in ours.state_dict().items())
    assert found.weights == expected.weights


def test_if_no_part_of_the_time_is_enough_for_a_step_one_has_it_all():
    """By a clock of which building a batch takes more than a candidate's part."""
    for seconds in (8, 20, 30, 40, 60):
        with time_by(count(0.0, 1.0).__next__):
            try:
                found = search(Limits(seconds=float(seconds), max_epochs=1)).run(MORE[:4])
            except NothingTrained:
                assert seconds < 40
            else:
                assert sum(found.weights) == pytest.approx(1)


@pytest.mark.parametrize("num_folds", [0.25, 3])
def test_a_learner_without_steps_needs_no_time(num_folds):
    found = search(Limits(seconds=1e-6), num_folds).run(candidates("auto"))
    assert [trial.strategy for trial in found.trials if trial.weight] == ["linear"] and len(found.networks) == 1


def test_learners_without_steps_are_averaged_with_networks():
    tried = search(Limits(max_epochs=2), 3)
    found = tried.run([Candidate("linear"), Candidate("forest"), *MORE[4:]])
    assert [len(trial.history) for trial in found.trials if trial.weight] == [3] * len(found.folds[0].networks)
    for fold in found.folds:
        expected = [outputs_by_draw(network, tried.trainer.examples[fold.sets], 4) for network in fold.networks]
        assert all(map(torch.equal, fold.outputs, expected))


def test_a_learner_whose_first_step_would_end_too_late_is_not_begun(monkeypatch):
    """But one alone is."""
    monkeypatch.setattr(TreesPath, "seconds_of_a_step", classmethod(lambda cls, *shape, is_class: 1e9))
    found = search(Limits(seconds=600, max_epochs=1)).run([Candidate("linear"), Candidate("trees")])
    assert [trial.note[:27] for trial in found.trials] == ["", "not tried: its first step i"]
    assert search(Limits(seconds=600)).run([Candidate("trees")]).networks


@pytest.mark.parametrize("seconds, second", [(190, "trees"), (210, "k1")])
def test_a_learner_with_a_long_first_step_waits_for_others(monkeypatch, seconds, second):
    """Long is more than a third of 600 seconds."""
    monkeypatch.setattr(TreesPath, "seconds_of_a_step", classmethod(lambda cls, *shape, is_class: seconds))
    order = []
    with time_by(lambda: 0.0):
        tried = search(Limits(seconds=600, max_epochs=1), tell=lambda progress: order.append(progress.candidate))
        found = tried.run([Candidate("linear"), Candidate("trees"), Candidate("k1")])
    assert list(dict.fromkeys(order))[:2] == ["linear", second]
    assert not any(trial.note for trial in found.trials) and all(trial.history for trial in found.trials)


def as_if_sure(monkeypatch, tried: Search, probabilities: dict[str, float]) -> None:
    """Lets candidates give the true class these probabilities in the search, and 0.6 by default."""

    def predicted(contender, num_splits):
        probability = probabilities.get(contender.candidate.strategy, 0.6)
        true = nn.functional.one_hot(tried.trainer.targets, 2)
        return probability * true + (1 - probability) * (1 - true)

    monkeypatch.setattr(Contender, "predicted", predicted)


@pytest.mark.parametrize(("seconds", "num_fitted"), [(3, 3), (7, 1), (13, 0)])
def test_a_part_of_the_time_is_for_fits_to_all_sets(monkeypatch, seconds, num_fitted):
    """The network ends at 90 of 100 seconds. Fits take so many seconds, and are expected to."""
    ends, clock = [], [0.0]

    def fit_to_all(trainer, contender):
        ends.append(trainer.deadline)
        clock[0] += seconds

    def tell(progress):
        clock[0] = 90.0 if progress.candidate == "k1" else 0.0

    monkeypatch.setattr(module, "SURE_FIT", 0.75)  # the training sets are three quarters of all
    monkeypatch.setattr(Contender, "seconds", property(lambda contender: seconds))
    monkeypatch.setattr(Trainer, "fit_to_all", fit_to_all)
    monkeypatch.setattr(module, "best_average", lambda contenders, losses: (dict.fromkeys(contenders, 1), 1))
    with time_by(lambda: clock[0]):
        tried = search(Limits(seconds=100, max_epochs=1), tell=tell)
        as_if_sure(monkeypatch, tried, {"linear": 0.9})
        tried.run([Candidate("linear"), Candidate("forest"), Candidate("trees"), Candidate("k1")])
    assert ends == [100 - seconds] * num_fitted


@pytest.mark.parametrize(("right", "last"), [(0.1, "forest"), (0.6, "k1")])
def test_a_third_forest_waits_if_two_are_far_behind(monkeypatch, right, last):
    order = []
    tried = search(Limits(max_epochs=1), tell=lambda progress: order.append(progress.candidate))
    as_if_sure(monkeypatch, tried, {"forest": right})
    forests = [Candidate("forest", {"num_trees": num}) for num in (1, 2, 3)]
    tried.run([Candidate("linear"), *forests, Candidate("k1")])
    first = list(dict.fromkeys(order))
    assert first[:3] == ["linear", "forest (num_trees=1)", "forest (num_trees=2)"]
    assert first[-1].startswith(last) and len(first) == 5


@pytest.mark.parametrize("has_time", [True, False])
def test_a_learner_that_is_fitted_again_has_one_loss_and_without_time_its_first_result(monkeypatch, has_time):
    """The first fit reaches one of three splits, as if its time were over."""
    real, results = ClassicalLearner.fit_splits, []

    def fit_splits(self, statistics, splits, task, *, seeds, **rest):
        num = len(splits) if results and has_time else 0 if results else 1
        fitted = real(self, statistics, splits[:num], task, seeds=seeds[:num], **rest) if num else []
        results.append(fitted)
        return fitted

    monkeypatch.setattr(ClassicalLearner, "fit_splits", fit_splits)
    found = search(Limits(), 3).run([Candidate("linear")])
    assert list(map(len, results)) == [1, 3 if has_time else 0]
    (trial,) = found.trials
    assert (trial.rung, trial.note, len(trial.history)) == (0, "", 3 if has_time else 1) and trial.loss < inf
    assert len(found.networks) == len(trial.history)


@pytest.mark.parametrize(
    ("num_probes", "seconds", "expected"), [(1, 1e4, ["linear", "k1", "gru"]), (9, 19, ["linear", "k1"])]
)
def test_a_network_waits_for_others_while_its_kernels_are_compiled(monkeypatch, num_probes, seconds, expected):
    """If the compiler is still at work with little time left, it is not tried."""
    probes = []

    def is_compiling(network, sets, context):
        probes.append(type(network.pooling.f).__name__)
        return probes[-1] == "GRU" and probes.count("GRU") <= num_probes

    monkeypatch.setattr(trainer, "is_compiling", is_compiling)
    tried = [Candidate("linear"), Candidate("gru", {"width": 4}), Candidate("k1", {"width": 4})]
    reports = []
    with time_by(lambda: 0.0):
        found = search(Limits(seconds, max_epochs=1), tell=reports.append).run(tried)
    assert list(dict.fromkeys(report.candidate.split(" ")[0] for report in reports)) == expected
    assert found.trials[1].note.startswith("not tried: its kernels") == ("gru" not in expected)
    assert search(Limits(19, max_epochs=1)).run(tried[1:2]).networks  # one alone waits


@pytest.mark.parametrize(("many", "expected"), [(1000, ["linear", "trees", "k1"]), (10, ["linear", "k1", "trees"])])
def test_of_many_sets_a_network_is_tried_before_forests(monkeypatch, many, expected):
    monkeypatch.setattr(module, "MANY_SETS", many)
    reports = []
    tried = [Candidate("linear"), Candidate("trees", {"num_trees": 5}), Candidate("k1", {"width": 4})]
    search(Limits(max_epochs=1), tell=reports.append).run(tried)
    assert list(dict.fromkeys(report.candidate.split(" ")[0] for report in reports)) == expected


def test_few_candidates_are_trained_to_the_end_at_once():
    reports = []
    search(Limits(max_epochs=3), tell=reports.append).run(MORE[:FEW])
    assert {progress.rung for progress in reports} == {0}
    assert all(epochs == [1, 2, 3] for epochs in epochs_told(reports).values())


def test_folds_each_have_a_network():
    found = search(Limits(max_epochs=1), 3).run([Candidate("k1", {"width": 4})])
    assert len(found.networks) == 3 and found.weights == pytest.approx([1 / 3] * 3)
    assert [len(fold.networks) for fold in found.folds] == [1, 1, 1]


def test_other_splits_are_begun_only_if_they_can_end():
    """By a clock of which a network takes about half: the first takes its part, and a second fits in."""
    with time_by(count(0.0, 1.0).__next__):
        whole = search(Limits(max_epochs=20), 3).run(MORE[:1])
    seconds = whole.trials[0].seconds / 3
    with time_by(count(0.0, 1.0).__next__):
        found = search(Limits(seconds=2.5 * seconds, max_epochs=20), 3).run(MORE[:1])
    assert 1 <= len(found.networks) <= 2 and len(found.folds) == len(found.networks)


@pytest.mark.parametrize("has_much_time", [True, False])
def test_other_splits_wait_for_other_candidates_unless_they_are_cheap(has_much_time):
    with time_by(count(0.0, 1.0).__next__):
        seconds = search(Limits(max_epochs=2), 3).run(MORE[:1]).trials[0].seconds / 3
    reports, tried = [], MORE[:FEW]
    with time_by(count(0.0, 1.0).__next__):
        search(Limits(seconds=(100 if has_much_time else 12) * seconds, max_epochs=2), 3, tell=reports.append).run(
            tried
        )
    order = list(dict.fromkeys((progress.candidate, progress.network) for progress in reports))
    assert (order[1] == (order[0][0], 1)) is has_much_time
    assert order[1][0] == order[0][0] or [network for _, network in order[: len(tried)]] == [0] * len(tried)


# Spare splits

WITH_CLASSICAL = [Candidate("linear"), Candidate("forest", {"num_trees": 40}), *MORE[4:]]


def test_with_time_left_an_average_is_chosen_by_spare_splits_too():
    reports = []
    tried = search(Limits(max_epochs=2), 4, reports.append, num_spare=3)
    found = tried.run(WITH_CLASSICAL)
    ended = [progress for progress in reports if progress.trial is not None]
    assert all(progress.num_networks == 1 for progress in ended[: len(WITH_CLASSICAL)])
    used = [trial for trial in found.trials if trial.weight]
    of_all = sum(trial.strategy == "forest" for trial in used)
    assert len(found.folds) == 4 and len(found.networks) == 4 * len(used) + of_all
    for fold, (_, validation_sets) in zip(found.folds, tried.trainer.splits, strict=True):
        assert torch.equal(fold.sets, validation_sets)
        expected = [outputs_by_draw(network, tried.trainer.examples[fold.sets], 4) for network in fold.networks]
        assert all(map(torch.equal, fold.outputs, expected))


def test_a_candidate_alone_is_not_trained_on_spare_splits():
    for candidate in (Candidate("k1"), Candidate("linear")):
        assert len(search(Limits(max_epochs=1), 4, num_spare=3).run([candidate]).networks) == 1


@pytest.mark.parametrize(("seconds", "num_splits"), [(1e9, 1), (60, 3), (1e-3, 4)])
def test_an_average_is_trained_on_as_many_spare_splits_as_there_is_time_for(monkeypatch, seconds, num_splits):
    """Two networks and two learners take so many seconds a split, and 800 of the 1,000 seconds left may be used.

    Learners are fitted to the first split again.
    """
    monkeypatch.setattr(Contender, "seconds", property(lambda contender: seconds))
    monkeypatch.setattr(further_splits, "counts_in_average", lambda contenders, *_: dict.fromkeys(contenders, 1))
    tried = search(Limits(seconds=1000, max_epochs=1), 4, num_spare=3)
    found = tried.run(WITH_CLASSICAL)
    assert [len(contender.runs) for contender in tried.contenders] == [num_splits] * 4
    assert len(found.folds) == num_splits


def test_a_network_that_diverges_on_a_spare_split_is_left_out(monkeypatch):
    real = Training.run

    def run(self):
        if runs.append(self.network) or len(runs) == len(MORE) + 1:
            raise FloatingPointError("no")
        return real(self)

    runs = []
    monkeypatch.setattr(Training, "run", run)
    monkeypatch.setattr(further_splits, "counts_in_average", lambda contenders, *_: dict.fromkeys(contenders, 1))
    found = search(Limits(max_epochs=2), 4, num_spare=3).run(MORE)
    assert [trial.note for trial in found.trials].count("no") == 1
    assert len(found.folds) == 4 and all(not trial.note for trial in found.trials if trial.weight)


def test_a_candidate_that_diverges_is_told_and_left(monkeypatch):
    real = Training.run

    def run(self):
        if self.network.pooling.f.hidden[0].out_features == 4:
            raise FloatingPointError("no")
        return real(self)

    monkeypatch.setattr(Training, "run", run)
    both = [Candidate("k1", {"width": 4}), Candidate("k1", {"width": 8})]
    found = search(Limits(max_epochs=1)).run(both)
    assert [(trial.settings["width"], trial.note) for trial in found.trials] == [(4, "no"), (8, "")]
    with pytest.raises(FloatingPointError, match=r"^no$"):
        search(Limits(max_epochs=1)).run(both[:1])
    with pytest.raises(FloatingPointError, match="all candidates of the search failed; the last one: no"):
        search(Limits(max_epochs=1)).run([both[0], Candidate("k1", {"width": 4, "depth": 1})])


def test_what_diverges_later_is_as_it_was_before(short_rounds, monkeypatch):
    real = Training.run

    def run(self):
        found = real(self)
        if len(found.history) > 2:
            with torch.no_grad():
                next(self.network.parameters()).fill_(torch.nan)
            raise FloatingPointError("no")
        return found

    monkeypatch.setattr(Training, "run", run)
    tried = search(short_rounds, 3)
    found = tried.run(MORE)
    assert "no" in {trial.note for trial in found.trials}
    assert all(network(tried.trainer.examples.sets).isfinite().all() for network in found.networks)


def test_an_interrupt_keeps_what_is_there():
    def interrupt(progress):
        if progress.candidate == "k1 (width=8)" and progress.epoch.number == 2 and progress.trial is None:
            tried.trainer.interrupts.came = True

    tried = search(Limits(max_epochs=4), tell=interrupt)
    found = tried.run([Candidate("k1", {"width": w}) for w in (4, 8, 16)])
    assert [trial.epochs for trial in found.trials] == [4, 2, 0]
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
    some = single.trainer.examples
    single.trainer.examples = Examples(
        Ragged.from_sizes(some.sets.values[:60], [1] * 60), None, some.targets, some.weights
    )
    found = single.run([Candidate("k1", {"width": 2}), Candidate("max"), Candidate("k2")])
    assert [trial.note for trial in found.trials if trial.note] == ["not tried: the largest set has 1 element"] * 2


def test_pairs_of_which_all_take_too_long_to_predict_are_drawn(monkeypatch):
    def seconds(network, validation_sets):
        exact = network.pooling.orderings == Tuples(2)
        if too_many and exact:
            raise ValueError("too many rows")
        return 1.0 if exact else 0.01

    monkeypatch.setattr(trainer, "seconds_to_predict", seconds)
    pairs = Candidate("k2+features", {"width": 4})
    # They take a second: at most a twentieth of the time.
    expected = {(False, 100.0): None, (False, 21.0): None, (False, 19.0): False, (True, 100.0): False}
    for case, exact in expected.items():
        too_many, most = case
        with time_by(lambda: 0.0):
            found = search(Limits(seconds=most, max_epochs=1)).run([Candidate("k1", {"width": 4}), pairs])
        assert found.trials[1].settings.get("exact") is exact and found.trials[0].settings == {"width": 4}


def test_an_epoch_of_pairs_that_are_drawn_costs_the_same_whatever_is_predicted_by():
    sets = Ragged.from_sizes(torch.randn(1000, 2), [200] * 5)
    exact, drawn = (
        build_network("k2", Layout((), 2), Layout(), 1, num_tuples=8, exact=exact) for exact in (True, False)
    )
    assert seconds_an_epoch(exact, sets, sets) == pytest.approx(seconds_an_epoch(drawn, sets, sets))
    assert seconds_to_predict(exact, sets) > 5 * seconds_to_predict(drawn, sets) and exact.training


@pytest.mark.parametrize(("more", "num_expected"), [(0, 3), (5, 3), (10, 1)])
def test_an_average_on_fewer_splits_is_taken_if_it_is_better_beyond_chance(more, num_expected):
    """Two contenders: one on three splits, right in half of the sets, and another on one split of 20, right in more.

    Five more are 2.2 standard errors, and ten are 4.5.
    """
    tried = search(Limits(), 3)
    truth = torch.nn.functional.one_hot(tried.trainer.targets).float()
    sizes = [len(validation) for _, validation in tried.trainer.splits]

    def contender(index, more, num_splits):
        wrong = (torch.arange(len(truth)) % 2 == 1) & (torch.arange(len(truth)) >= 2 * more)
        wrong = wrong.float()[:, None]
        predicted = (truth * (1 - wrong) + (1 - truth) * wrong) * (0.9 - 0.01 * index) + 0.05
        untrained = Trained([], Epoch(0, 0, inf, inf), Ending.AS_PLANNED, 0.0)
        runs = [Run(None, None, untrained, None, part) for part in predicted.split(sizes)[:num_splits]]
        return Contender(index, MORE[index], runs)

    both = [contender(0, 0, 3), contender(1, more, 1)]
    counts, num_splits = best_average(both, tried.trainer.losses)
    assert num_splits == num_expected and sum(counts.values()) > 0


def test_sets_that_are_easy_by_chance_do_not_choose_the_average():
    """All contenders are sure and right in the first split. One is a little surer, and has no other split."""
    tried = search(Limits(), 3)
    truth = torch.nn.functional.one_hot(tried.trainer.targets).float()
    sizes = [len(validation) for _, validation in tried.trainer.splits]
    untrained = Trained([], Epoch(0, 0, inf, inf), Ending.AS_PLANNED, 0.0)
    wrong = ((torch.arange(len(truth)) >= sizes[0]) & (torch.arange(len(truth)) % 3 == 0)).float()[:, None]
    sure = 12 * (2 * (truth * (1 - wrong) + (1 - truth) * wrong) - 1)
    parts = [each.split(sizes) for each in (sure, 1.1 * sure)]
    runs = [[Run(None, None, untrained, None, part) for part in each] for each in parts]
    both = [Contender(0, MORE[0], runs[0]), Contender(1, MORE[1], runs[1][:1])]
    counts, num_splits = best_average(both, tried.trainer.losses)
    assert num_splits == 3 and counts == {both[0]: 1}


@pytest.mark.parametrize(("num_splits", "expected"), [(1, 3), (2, 2), (3, 3)])
def test_enough_sets_tell_a_small_difference(monkeypatch, num_splits, expected):
    """A contender is a little better on every set. The losses themselves differ far more from set to set."""
    tried = search(Limits(), 3)
    truth = torch.nn.functional.one_hot(tried.trainer.targets).float()
    sizes = [len(validation) for _, validation in tried.trainer.splits]
    monkeypatch.setattr(averages, "MAY_BE_EASY", sum(sizes[:2]))
    untrained = Trained([], Epoch(0, 0, inf, inf), Ending.AS_PLANNED, 0.0)
    right = torch.where(torch.arange(len(truth)) % 3 == 0, 0.1, 0.8)[:, None]

    def contender(index, factor, num):
        predicted = truth * right * factor + (1 - truth) * (1 - right * factor)
        runs = [Run(None, None, untrained, None, part) for part in predicted.split(sizes)[:num]]
        return Contender(index, MORE[index], runs)

    both = [contender(0, 1.0, 3), contender(1, 1.1, num_splits)]
    assert best_average(both, tried.trainer.losses)[1] == expected


@pytest.mark.parametrize("seconds", [1.0, 1e9])
def test_time_that_is_left_is_for_other_splits_of_the_next_best(monkeypatch, seconds):
    """Only the best is in the average. The others are trained on all splits if there is time."""
    monkeypatch.setattr(Contender, "seconds", property(lambda contender: seconds))
    monkeypatch.setattr(
        further_splits, "counts_in_average", lambda contenders, *_: {each: int(each.index == 0) for each in contenders}
    )
    tried = search(Limits(seconds=1000, max_epochs=1), 3)
    tried.run(MORE[:3])
    assert [len(contender.runs) for contender in tried.contenders] == [3 if seconds == 1 else 1] * 3


def test_what_early_stopping_hides_is_the_loss_at_the_epoch_that_is_best_for_the_others():
    def run(*losses):
        history = [{"valid_loss": loss} for loss in losses]
        return Run(None, None, Trained(history, Epoch(0, 0, inf, inf), Ending.AS_PLANNED, 0.0), None, None)

    # Of the first three epochs the others' best is always the third, where the first split has 0.5 more than at best.
    some = [run(2.0, 1.0, 1.5, 9.0), run(2.0, 1.6, 1.0, 0.0), run(2.0, 1.7, 1.0)]
    assert Contender(0, MORE[0], some).optimism == pytest.approx(0.5 / 3)
    sure = Contender(0, MORE[0], [run(2.0, 0.1, 9.0), run(2.0, 9.0, 0.1)], standard_error=0.2)
    assert sure.optimism == pytest.approx(0.4)  # at most two standard errors
    assert Contender(0, MORE[0], [run(2.0, 1.0)] * 3).optimism == 0  # they agree
    assert Contender(0, MORE[0], some[:1]).optimism == Contender(0, MORE[0], [run(1.0)] * 3).optimism == 0
    targets = torch.zeros(4, 1)
    wrong = torch.tensor([[1.0], [-1.0], [1.0], [-1.0]])
    losses = lambda mean: Regression(1).losses(mean, targets)  # noqa: E731
    assert picks([wrong, 1.5 * wrong], losses, [0.0, 0.0]) == [1, 0]
    assert picks([wrong, 1.5 * wrong], losses, [2.0, 0.0])[0] == 0


def test_the_gain_hoped_for_repeats_the_last_factor_twice():
    """In the first round, the factor is that of its second half over its first. A gain is never less than 0."""

    def gain(*losses, rounds=(1.0,)):
        history = [{"valid_loss": loss} for loss in losses]
        trained = Trained(history, Epoch(0, 0, inf, inf), Ending.AS_PLANNED, 0.0)
        return Contender(0, MORE[0], [Run(None, None, trained, None, None)], list(rounds)).gain_hoped_for

    assert gain(1.0, 0.8, 0.9, 0.4) == pytest.approx(0.4 - 0.1) and gain(1.0, 0.8, 0.2) == pytest.approx(0.2 - 0.0125)
    assert gain(0.5, 0.8, 0.9, 0.7) == gain(0.5) == 0
    assert gain(0.5, rounds=(1.0, 0.5)) == pytest.approx(0.5 - 0.125) and gain(0.5, rounds=(0.7, 1.0)) == 0
    assert gain(0.5, rounds=(-0.1, -0.2)) == pytest.approx(0.2)  # no factor: twice the last gain
    assert gain(0.5, rounds=(0.69, 0.68)) == pytest.approx(0.02, rel=0.05)  # level curves: the same, nearly
    assert 0.08 - gain(0.4, 0.08) > 0.007 - gain(0.03, 0.007) > 0  # a loss cannot fall below 0


def test_small_batches_are_computed_by_one_thread():
    before = torch.get_num_threads()
    seen = []
    search(Limits(max_epochs=1), tell=lambda progress: seen.append(torch.get_num_threads())).run(MORE[:1])
    assert set(seen) == {1} and torch.get_num_threads() == before


@pytest.mark.parametrize(("num", "expected"), [(1, "k1, epoch"), (2, "k1, network 1 of 2, epoch")])
def test_progress_names_a_network_among_several(num, expected):
    assert expected in str(Progress("k1", 0, 0, num, Epoch(1, 5, 0.5, 0.6), 1.0, 9.0))
