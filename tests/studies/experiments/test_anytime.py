"""Scores after a budget: the table is that of the runs, and baselines are chosen by folds within their time."""

import itertools
import json
from pathlib import Path

import numpy as np

from janossy.estimators.interrupts import time_by
from janossy.tables import as_sets
from studies.experiments.anytime import study
from studies.experiments.anytime.baselines import TunedBaseline
from studies.experiments.anytime.tables import SOURCES

RESULTS = Path(__file__).parents[3] / "docs" / "results" / "anytime"


def test_the_table_is_that_of_the_runs():
    data = json.loads((RESULTS / "anytime.json").read_text(encoding="utf-8"))
    table = study.table(data["cells"])
    assert data["command"] == study.COMMAND and (RESULTS / "anytime.md").read_text(encoding="utf-8") == table
    assert table in (RESULTS.parents[1] / "anytime.md").read_text(encoding="utf-8")
    keys = [(cell["data"], cell["model"], cell["budget"], cell["seed"]) for cell in data["cells"]]
    assert len(set(keys)) == len(keys) and {key[0] for key in keys} <= set(SOURCES)


def baskets(num):
    source = np.random.default_rng(0)
    sets = [source.choice(["tea", "milk", "rice", "salt"], 3).tolist() for _ in range(num)]
    return sets, np.array(["yes" if "tea" in each else "no" for each in sets])


def test_a_baseline_is_the_best_by_folds():
    sets, y = baskets(120)
    model = TunedBaseline(True, seconds=1e6, seed=0).fit(as_sets(sets[:80]), y[:80])
    assert model.score(as_sets(sets[80:]), y[80:]) == 1.0 and model.name.startswith("linear")


def test_a_baseline_keeps_its_time():
    """By a clock of a second per look: one learner is tried whatever it takes, and no other one begun."""
    sets, y = baskets(40)
    with time_by(itertools.count(0.0, 1.0).__next__):
        model = TunedBaseline(True, seconds=2.0, seed=0).fit(as_sets(sets), y)
    assert model.name == "linear, C=0.001"


def test_both_are_fitted_to_a_table(tmp_path):
    sets, y = baskets(60)
    for part, some in (("train", range(40)), ("test", range(40, 60))):
        rows = [f"{i},{y[i]},{item}" for i in some for item in sets[i]]
        (tmp_path / "cuisines").mkdir(exist_ok=True)
        (tmp_path / "cuisines" / f"{part}.csv").write_text("\n".join(["recipe,cuisine,ingredient", *rows]))
    cells = [
        {"data": "cuisines", "model": model, "budget": 3.0, "seed": 0} | study.fit(tmp_path, "cuisines", model, 3.0, 0)
        for model in study.MODELS
    ]
    assert all(cell["num_test"] == 20 and cell["score"] > 0.7 for cell in cells)
    assert study.table(cells).count("| cuisines * | 3 |") == 1
