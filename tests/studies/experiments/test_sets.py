"""The sets of studies/experiments/sets follow their rules; the committed table is that of the runs."""

import json
from itertools import combinations
from math import pi
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from janossy import Ragged
from janossy.estimators.strategies import Settings
from studies.bench.data.orders import CLASHES
from studies.experiments.sets import larger_sets, target_encoding
from studies.experiments.sets.defaults import SIZES, TRAINING, VARIATIONS, runs, table
from studies.experiments.sets.generators import TASKS
from studies.experiments.sets.training import data_of, fit
from studies.experiments.sets.trees import fit_trees, pair_histogram, statistics

RESULTS = Path(__file__).parents[3] / "docs" / "results" / "sets"


@pytest.mark.parametrize("name", TASKS)
def test_sets_are_drawn_as_their_layout_says(name):
    task = TASKS[name]
    (sets, y), (again, y_again), (other, _) = task.draw(300, 5), task.draw(300, 5), task.draw(300, 6)
    assert sets.sizes == again.sizes and torch.equal(sets.values, again.values) and torch.equal(y, y_again)
    assert other.sizes != sets.sizes and min(sets.sizes) >= 1 and max(sets.sizes) <= 100
    assert sets.values.shape[1] == task.layout.num_columns and sets.values.isfinite().all()
    for column, vocabulary in enumerate(task.layout.vocabularies):
        codes = sets.values[:, column]
        assert codes.eq(codes.round()).all() and codes.min() >= 1 and codes.max() < vocabulary  # 0 is the unknown


@pytest.mark.statistical
@pytest.mark.parametrize(("name", "num_sets"), [("orders", 20_000), ("jets", 60)])
def test_classes_are_as_probable_as_bayes_says(name, num_sets):
    """Above and below one half: to 5 standard errors, once in 10^6 seeds."""
    sets, y = TASKS[name].draw(num_sets, 0)
    p = TASKS[name].bayes(sets).double()
    for part in (p > 0.5, p <= 0.5):
        error = (y[part] - p[part]).sum() / (p[part] * (1 - p[part])).sum().sqrt()
        assert part.any() and abs(float(error)) < 5


def test_the_rule_of_orders_by_hand():
    kinds = [1, 1, 5]
    prices = [0.5, 2.0, -1.0]
    score = CLASHES[0, 4] * 2 + 1.5 * 1.5
    order = torch.tensor([[float(kind), price] for kind, price in zip(kinds, prices, strict=True)])
    expected = torch.sigmoid(4 * score / 3**0.5 - 1.2)
    torch.testing.assert_close(TASKS["orders"].bayes(Ragged.from_sets([order]))[0], expected)
    assert torch.equal(CLASHES, CLASHES.T) and 0.2 < CLASHES.ne(0).float().mean() < 0.3 and not CLASHES.diag().any()


@pytest.mark.statistical
def test_jets_of_both_classes_spread_as_far():
    """The variance of η within a jet, to 5 standard errors; and angles are angles."""
    sets, y = TASKS["jets"].draw(4000, 1)
    spread = torch.stack([x[:, 1].var() for x in sets])
    first, second = spread[y == 0], spread[y == 1]
    error = (first.var() / len(first) + second.var() / len(second)).sqrt()
    assert abs(first.mean() - second.mean()) < 5 * error
    assert sets.values[:, 2].abs().max() <= pi + 1e-6


def test_statistics_and_histograms_by_hand():
    x = torch.tensor([[0.0, 1.0, 3.1], [1.0, 1.0, -3.1], [3.0, 1.3, 3.1]])
    found = statistics(Ragged.from_sets([x]), TASKS["jets"])[0]
    np.testing.assert_allclose(found[:4], [3, 4 / 3, 1.1, 3.1 / 3], rtol=1e-6)
    np.testing.assert_allclose(found[-6:], [0, 1, -3.1, 3, 1.3, 3.1], rtol=1e-6)
    size, *shares = pair_histogram(Ragged.from_sets([x]))[0]
    distances = [2 * pi - 6.2, 0.3, ((2 * pi - 6.2) ** 2 + 0.09) ** 0.5]
    expected = np.histogram(distances, np.linspace(0, 2, 31))[0] / 3
    assert size == 3
    np.testing.assert_allclose(shares, expected, atol=1e-6)


def test_trees_and_networks_learn_something():
    task = TASKS["orders"]
    (train, y), (test, test_y) = task.draw(600, 0), task.draw(300, 1)
    probabilities = fit_trees(statistics(train, task), y, statistics(test, task))
    assert np.corrcoef(probabilities, test_y)[0, 1] > 0.2
    result = fit(task, data_of(task, 800, 200, 0), "k1", 0, epochs=2, batch=32, learning_rate=1e-2, width=16)
    assert result.auc > 0.6 and result.epoch in (1, 2) and result.seconds > 0


def test_the_table_is_that_of_the_runs():
    data = json.loads((RESULTS / "defaults.json").read_text(encoding="utf-8"))
    assert data["command"] == "python -m studies.experiments.sets.defaults"
    keys = ("task", "kind", "name", "seed")
    held = {tuple(cell[key] for key in keys) for cell in data["cells"]}
    assert held <= {tuple(cell[key] for key in keys) for cell in runs()}
    assert table(data["cells"]) == (RESULTS / "defaults.md").read_text(encoding="utf-8")


def test_variations_are_of_settings_or_of_training():
    known = set(Settings.__dataclass_fields__) | {"learning_rate"}
    assert all(set(changes) <= known for changes in VARIATIONS.values()) and SIZES.keys() == TRAINING.keys()


def test_target_encoding_is_compared_on_the_same_sets(monkeypatch):
    """Baskets follow their seed, and a row has a score per learner, two of averages, and the seconds."""
    monkeypatch.setattr(target_encoding, "NUM_SETS", 60)
    (sets, y), (again, y_again) = (target_encoding.baskets("user", 8, False) for _ in range(2))
    assert np.array_equal(y, y_again) and np.array_equal(sets.offsets, again.offsets)
    classes = target_encoding.baskets("mean", 8, True)[1]
    assert set(classes) == {"yes", "no"}
    monkeypatch.setattr(target_encoding, "BAGS", ["linear"])
    monkeypatch.setattr(target_encoding, "ENCODED", [{"strategy": "linear", "categories": "targets"}])
    row = target_encoding.row("baskets", sets, y)
    assert row[:2] == ["baskets", "60"] and len(row) == 7
    assert f"| {' | '.join(row)} |\n" in target_encoding.page([row])


def test_larger_sets_are_scored_with_and_without_the_choice(monkeypatch):
    for name, number in {"NUM_TRAINING": 60, "NUM_TEST": 20, "SECONDS": 2.0}.items():
        monkeypatch.setattr(larger_sets, name, number)
    of_seeds = [larger_sets.scores(larger_sets.TARGETS[1], seed) for seed in range(2)]
    assert all(chosen == "the average" and found[1] == found[2] for found, chosen, _ in of_seeds)  # for want of time
    row = larger_sets.row(larger_sets.TARGETS[1], of_seeds)
    assert row[0] == "pairs of one rank" and row[5] == "the average 2"
    assert f"| {' | '.join(row)} |\n" in larger_sets.page([row])


@given(st.lists(st.integers(0, 12), max_size=8), st.integers(0, 100))
def test_targets_of_larger_sets_are_those_of_all_tuples(ranks, seed):
    by_name = {target.name: target.of for target in larger_sets.TARGETS}
    x = np.array(ranks, dtype=int)[:, None]
    for name, k in (("pairs of one rank", 2), ("triples of one rank", 3)):
        assert by_name[name](x) == sum(len(set(some)) == 1 for some in combinations(ranks, k))
    points = np.random.default_rng(seed).normal(size=(len(ranks), 2))
    distances = [np.hypot(*(a - b)) for a, b in combinations(points, 2)]
    assert by_name["the sum of all distances"](points) == pytest.approx(sum(distances))
    assert by_name["pairs of points closer than 1"](points) == sum(each < 1 for each in distances)
