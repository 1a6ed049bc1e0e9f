from math import inf
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from janossy.estimators import SetClassifier, classifier, search
from janossy.estimators import repetitions as module
from janossy.estimators.classical import cached
from janossy.estimators.classical.choosing import choose_statistics
from janossy.estimators.interrupts import Interrupts, time_by
from janossy.estimators.out_of_fold import Fold
from janossy.estimators.repetitions import MOST, repeated
from janossy.estimators.search import SearchResult
from janossy.estimators.trials import NothingTrained, Trial
from janossy.inference import Sensitivity
from tests.estimators.sets import bags

TWO = [{"strategy": "k1", "width": 2}, "linear"]


class Searches:
    """In place of searches: each takes its seconds of a clock, and then gives a result or raises an error."""

    def __init__(self, monkeypatch, ends, deadline=inf):
        self.time, self.ends, self.deadline, self.interrupts = 0.0, ends, deadline, Interrupts()
        monkeypatch.setattr(module, "Search", lambda trainer: SimpleNamespace(run=trainer.search))

    def trainer_of(self, repetition):
        seconds, end = self.ends[repetition]

        def search(candidates):
            self.time += seconds
            self.interrupts.came = end is KeyboardInterrupt
            if isinstance(end, type) and issubclass(end, (NothingTrained, FloatingPointError)):
                raise end("nothing")
            weight = float(repetition == 1)
            of_linear = (1, 3.0, 0.4, 0.8, weight) if weight else (0, 0.0, inf, -inf)
            trials = [
                Trial("k1", {}, 0, 1, 2.0, 0.5, 0.9, 1 - weight, candidate=0),
                Trial("linear", {}, 0, *of_linear, candidate=1),
            ]
            fold = Fold([], [], torch.tensor([repetition]), [])
            networks = [nn.Linear(1, repetition + 1)] * 2
            if end != "larger":
                return SearchResult(networks, [0.25, 0.75], trials, [fold])
            trials.append(Trial("sum", {}, 0, 1, 1.0, 0.6, 0.7, note="for larger sets", candidate=2))
            return SearchResult(networks, [1.0, 0.0], trials, [fold], for_larger=[0.0, 1.0])

        has_ended = self.interrupts.came or self.time > self.deadline
        return SimpleNamespace(search=search, deadline=self.deadline, has_ended=has_ended, interrupts=self.interrupts)

    def run(self):
        with time_by(lambda: self.time):
            return repeated(self.trainer_of, [], len(self.ends))


def numbers(found):
    """Returns the numbers of the repetitions whose networks are averaged."""
    return [network.out_features - 1 for network in found.networks[::2]]


def test_the_average_is_that_of_all_searches(monkeypatch):
    found = Searches(monkeypatch, [(1, None)] * 3).run()
    assert numbers(found) == [0, 1, 2]
    assert found.weights == pytest.approx([1 / 12, 1 / 4] * 3)
    assert [fold.sets.item() for fold in found.folds] == [0]
    assert [trial.weight for trial in found.trials] == pytest.approx([2 / 3, 1 / 3])
    assert [(trial.seconds, trial.loss) for trial in found.trials] == [(6.0, 0.5), (3.0, 0.4)]


def test_one_of_the_searches_has_other_networks_for_larger_sets(monkeypatch):
    found = Searches(monkeypatch, [(1, None), (1, "larger"), (1, None)]).run()
    assert found.weights == pytest.approx([1 / 12, 1 / 4, 1 / 3, 0, 1 / 12, 1 / 4])
    assert found.for_larger == pytest.approx([1 / 12, 1 / 4, 0, 1 / 3, 1 / 12, 1 / 4])
    assert [(trial.candidate, trial.note) for trial in found.trials] == [(0, ""), (1, ""), (2, "for larger sets")]
    assert Searches(monkeypatch, [(1, None)] * 2).run().for_larger is None


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ([(10, None), (10, None), (10, None)], [0, 1, 2]),
        ([(10, None), (21, None), (10, None)], [0, 1]),  # the second took more than 0.8 of what is left
        ([(40, None), (1, None), (1, None)], [0]),
        ([(5, None), (60, None), (1, None)], [0, 1]),  # the second ended with the time
        ([(1, None), (1, KeyboardInterrupt), (1, None)], [0]),
        ([(1, KeyboardInterrupt), (1, None), (1, None)], [0]),
        ([(1, None), (1, NothingTrained), (1, None)], [0, 2]),
        ([(1, None), (1, FloatingPointError), (1, None)], [0, 2]),
    ],
)
def test_searches_are_repeated_if_there_is_time(monkeypatch, ends, expected):
    assert numbers(Searches(monkeypatch, ends, deadline=50.0).run()) == expected


@pytest.mark.parametrize("error", [NothingTrained, FloatingPointError])
def test_the_first_search_fails_as_without_repetitions(monkeypatch, error):
    with pytest.raises(error):
        Searches(monkeypatch, [(1, error), (1, None)]).run()


def test_few_sets_are_searched_again_with_other_folds():
    sets, labels = bags(40)
    model = SetClassifier(TWO, max_epochs=1, random_state=0).fit(sets, labels)
    again = SetClassifier(TWO, max_epochs=1, random_state=0).fit(sets, labels)
    assert sum(model.ensemble_.weights) == pytest.approx(1) == sum(trial.weight for trial in model.trials_)
    assert len(model.ensemble_.networks) >= 5 * MOST
    assert sorted(number for fold in model.folds_ for number in fold.sets.tolist()) == list(range(40))
    assert np.array_equal(model.predict_proba(sets), again.predict_proba(sets))


@pytest.mark.parametrize("settings", [{"strategy": "k1"}, {"validation": 5}, {"validation": 0.2}])
def test_a_strategy_alone_and_splits_that_are_asked_for_are_not_repeated(settings):
    sets, labels = bags(40)
    model = SetClassifier(**{"strategy": TWO} | settings, max_epochs=1, random_state=0).fit(sets, labels)
    num = {"k1": 5, 5: 10, 0.2: 2}[settings.get("validation", "k1")]
    assert len(model.ensemble_.networks) <= num


def test_statistics_are_computed_once_for_all_searches(monkeypatch):
    computed = []
    monkeypatch.setattr(cached, "choose_statistics", lambda *a, **k: computed.append(1) or choose_statistics(*a, **k))
    SetClassifier(["forest", {"strategy": "forest", "num_trees": 2}], random_state=0).fit(*bags(40))
    assert len(computed) == 1


def test_the_temperature_is_that_of_the_average_of_all_searches(monkeypatch):
    given = []
    monkeypatch.setattr(classifier, "temperature", lambda folds, *rest: given.extend(folds) or 2.0)
    model = SetClassifier(TWO, max_epochs=1, random_state=0).fit(*bags(40))
    numbers = torch.cat([fold.sets for fold in given])
    assert numbers.bincount().tolist() == [MOST] * 40
    assert model.temperature_ == 2.0


def test_a_checkpoint_holds_each_repetition(tmp_path):
    sets, labels = bags(40)
    models = [
        SetClassifier(TWO, max_epochs=1, random_state=0, checkpoint=checkpoint).fit(sets, labels)
        for checkpoint in (None, tmp_path, tmp_path)
    ]
    assert sorted(folder.name for folder in tmp_path.glob("repetition-*")) == ["repetition-1", "repetition-2"]
    expected, *others = (model.predict_proba(sets) for model in models)
    assert all(np.array_equal(expected, other) for other in others)


@pytest.mark.parametrize(("budget", "expected"), [(600.0, 1), (300.0, 1), (601.0, 3), (None, 3)])
def test_a_finished_fit_begins_no_further_search(tmp_path, monkeypatch, budget, expected):
    """The first fit has no time for a second search. The same fit again takes less time, but asks for no more."""
    sets, labels = bags(40)
    settings = {"strategy": TWO, "max_epochs": 1, "random_state": 0, "checkpoint": tmp_path}
    with monkeypatch.context() as patched:
        patched.setattr(module, "FOR_ANOTHER", 0.0)
        once = SetClassifier(**settings).fit(sets, labels)
    reports = []
    again = SetClassifier(**settings, time_budget=budget, progress=reports.append).fit(sets, labels)
    assert {progress.repetition for progress in reports} == set(range(expected))
    assert (expected > 1) or np.array_equal(once.predict_proba(sets), again.predict_proba(sets))


def test_progress_names_the_search():
    reports = []
    sets, labels = bags(40)
    SetClassifier(TWO, max_epochs=1, random_state=0, progress=reports.append).fit(sets, labels)
    assert {(progress.repetition, progress.num_searches) for progress in reports} == {(0, 3), (1, 3), (2, 3)}
    assert all(("search 3, round 1" in str(progress)) == (progress.repetition == 2) for progress in reports)


def test_the_sensitivity_is_that_of_any_search_that_samples_orders(monkeypatch):
    """The first search takes what samples no orders, and all others what does."""

    def of_search(contenders, losses):
        searches.append(contenders)
        chosen = contenders[0 if len(searches) > 1 else 1]
        return {chosen: 1}, len(chosen.runs)

    searches = []
    monkeypatch.setattr(search, "best_average", of_search)
    sets, labels = bags(30)
    strategies = [{"strategy": "gru", "width": 4}, {"strategy": "k1", "width": 4}]
    model = SetClassifier(strategies, max_epochs=1, num_permutations=3, random_state=0).fit(sets, labels)
    assert [trial.weight for trial in model.trials_] == pytest.approx([2 / 3, 1 / 3])
    assert model.predict_proba(sets, return_std=True)[1].max() > 0
    assert isinstance(model.sensitivity_, Sensitivity)
