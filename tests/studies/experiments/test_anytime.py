"""Scores after a budget: the table is that of the runs, and baselines are chosen by folds within their time."""

import itertools
import json
import time
from pathlib import Path

import numpy as np
import pytest

from janossy.estimators.interrupts import time_by
from janossy.tables import as_sets
from studies.experiments.anytime import page, peers, prepare, study
from studies.experiments.anytime.baselines import TunedBaseline
from studies.experiments.anytime.tables import FRESH, SOURCES

RESULTS = Path(__file__).parents[3] / "docs" / "results" / "anytime"


def test_the_table_is_that_of_the_runs():
    cells = committed(RESULTS, study.COMMAND, SOURCES)
    assert page.page(cells) in (RESULTS.parents[1] / "anytime.md").read_text(encoding="utf-8")


def test_fresh_tables_are_no_others():
    assert not FRESH.keys() & SOURCES.keys() and FRESH.keys() <= prepare.MAKERS.keys()
    cells = committed(RESULTS / "fresh", f"{study.COMMAND} --fresh", FRESH)
    assert {cell["data"] for cell in cells} == FRESH.keys()
    text = (RESULTS.parents[1] / "anytime.md").read_text(encoding="utf-8")
    assert all(page.summary(pairs).removeprefix("Of ") in text for pairs in page.by_budget(cells).values())


def committed(folder, command, sources):
    """Returns the committed cells, whose page is the committed one."""
    data = json.loads((folder / "anytime.json").read_text(encoding="utf-8"))
    text = page.page(data["cells"])
    assert data["command"] == command and (folder / "anytime.md").read_text(encoding="utf-8") == text
    keys = [(cell["data"], cell["model"], cell["budget"], cell["seed"]) for cell in data["cells"]]
    assert len(set(keys)) == len(keys) and {key[0] for key in keys} <= sources.keys()
    return data["cells"]


def baskets(num):
    source = np.random.default_rng(0)
    sets = [source.choice(["tea", "milk", "rice", "salt"], 3).tolist() for _ in range(num)]
    return sets, np.array(["yes" if "tea" in each else "no" for each in sets])


def test_a_baseline_is_the_best_by_folds():
    sets, y = baskets(120)
    model = TunedBaseline(True, seconds=1e6, seed=0).fit(as_sets(sets[:80]), y[:80])
    tests = as_sets(sets[80:])
    assert (model.predict(tests) == y[80:]).all() and model.name.startswith("linear")
    assert list(model.scores(tests, y[80:])) == ["linear", "forest", "boosting"]


def test_a_baseline_keeps_its_time():
    """By a clock of a second per look: one learner is tried whatever it takes, and no other one begun."""
    sets, y = baskets(40)
    with time_by(itertools.count(0.0, 1.0).__next__):
        model = TunedBaseline(True, seconds=2.0, seed=0).fit(as_sets(sets), y)
    assert model.name == "linear, all, C=0.001"


def test_both_are_fitted_to_a_table(tmp_path):
    sets, y = baskets(60)
    for part, some in (("train", range(40)), ("test", range(40, 60))):
        rows = [f"{i},{y[i]},{item}" for i in some for item in sets[i]]
        (tmp_path / "cuisines").mkdir(exist_ok=True)
        (tmp_path / "cuisines" / f"{part}.csv").write_text("\n".join(["recipe,cuisine,ingredient", *rows]))
    cells = [
        {"data": "cuisines", "model": model, "budget": 3.0, "seed": 0} | study.fit(tmp_path, "cuisines", model, 3.0, 0)
        for model in ("ours", "baseline", "deepsets")
    ]
    assert all(cell["num_test"] == 20 and cell["score"] > 0.7 for cell in cells)
    page.write(cells, tmp_path)
    assert (tmp_path / "anytime.md").read_text().count("| cuisines * | 40 |") == 1
    assert {file.name for file in tmp_path.glob("*.png")} == {"ranks-3.png", "differences-3.png"}


def test_peers_stand_below_the_table_of_their_budget():
    losses = np.zeros(50), np.r_[np.ones(20), np.zeros(30)]
    cells = [
        {
            **{"data": "fox", "model": model, "budget": 3.0, "seed": 0, "num_train": 7, "fit_seconds": 3.0},
            **{"score": 1 - each.mean(), "losses": page.packed(each), "kinds": {}, "weights": {}},
        }
        for model, each in zip(("ours", "baseline", "abmil"), (*losses, losses[1]), strict=True)
    ]
    text = page.page(cells)
    assert "| fox | 7 | 1.000 | – | ▲ 0.600 | – | – |" in text
    assert "- gated attention, 1 tables: ours is ahead on 1, level on 0 and behind on 0." in text


def test_flaml_keeps_the_time_of_the_process():
    pytest.importorskip("flaml")
    pytest.importorskip("lightgbm")
    sets, y = baskets(120)
    began = time.process_time()
    with time_by(time.process_time):
        model = peers.Flaml(True, seconds=3.0, seed=0).fit(as_sets(sets[:80]), y[:80])
    assert time.process_time() - began < 20 and (model.predict(as_sets(sets[80:])) == y[80:]).mean() > 0.7


def test_a_peer_that_is_not_installed_is_left_out(monkeypatch):
    monkeypatch.setattr(peers, "find_spec", lambda name: None)
    assert peers.why_not("flaml") == "it needs flaml and lightgbm: pip install flaml lightgbm"
    assert not peers.why_not("abmil")


def test_a_network_has_two_rates_and_half_of_the_time_for_the_first():
    given = []

    class Estimator:
        def __init__(self, network, learning_rate, time_budget, random_state):
            self.loss, self.trials_ = learning_rate, [self]
            given.append((learning_rate, time_budget))

        def fit(self, sets, y):
            next(clock)
            return self

    ticks = itertools.count(0.0, 1.0)
    clock = iter(ticks)
    with time_by(clock.__next__):
        model = peers.TunedNetwork(None, True, seconds=101.0, seed=0)
        model.estimator = Estimator
        model.fit(None, None)
    assert model.name == "learning rate 0.001" and given[-2:] == [(0.01, 49.5), (0.001, 97.0)]


def test_differences_are_paired_by_test_set():
    generator = np.random.default_rng(0)
    ours, theirs = generator.random(50), generator.random(50)
    cells = [[{"losses": page.packed(losses)}] for losses in (ours, theirs)]
    better, error = page.difference(*cells)
    np.testing.assert_allclose(better, np.mean(theirs - ours), atol=1e-3)
    np.testing.assert_allclose(error, np.std(theirs - ours, ddof=1) / 50**0.5, atol=1e-3)
