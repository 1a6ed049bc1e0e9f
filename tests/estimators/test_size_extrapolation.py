"""Sets larger than all of training: whether their size is told."""

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

from janossy.estimators import SetClassifier, SetRegressor
from janossy.estimators.size_extrapolation import LEVEL, largest_size

LARGEST = 20


def sizes_of(num: int, seed: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(1, LARGEST, num, endpoint=True))


DRAWS = {
    "noise": lambda n, random: random.normal(size=len(n)),
    "saturates below the median": lambda n, random: random.normal(np.minimum(n, 8), 1),
    "a mean, whose spread falls": lambda n, random: random.normal(0, 1 / np.sqrt(n)),
    "several": lambda n, random: random.normal(size=(len(n), 3)),
    "classes": lambda n, random: random.integers(5, size=len(n)),
    "a rare class": lambda n, random: random.binomial(1, 0.02, size=len(n)),
}
TRENDS = {
    "a sum": lambda n, random: random.normal(n, np.sqrt(n)),
    "falls": lambda n, random: random.normal(-np.log(n), 1),
    "a sum about 0": lambda n, random: random.normal(0, n),
    "one of several": lambda n, random: np.stack((random.normal(size=len(n)), random.normal(n, 5)), 1),
    "classes": lambda n, random: random.binomial(2, n / 50),
}


def size_of(draw, num: int, seed: int) -> int | None:
    sizes = sizes_of(num, seed)
    targets = torch.from_numpy(draw(sizes.numpy(), np.random.default_rng([seed, 1])))
    targets = targets.long() if targets.dtype == torch.int64 else targets.reshape(num, -1).float()
    return largest_size(targets, sizes, LARGEST)


@pytest.mark.parametrize("name", DRAWS)
def test_targets_that_do_not_go_with_the_size(name):
    """Told by chance in at most 2 % of draws, and then in more than 8 of 200 in 2 % of runs. The seeds are fixed."""
    assert sum(size_of(DRAWS[name], 1000, seed) is None for seed in range(200)) <= 8
    assert LEVEL == 0.01


@pytest.mark.parametrize("name", TRENDS)
def test_targets_that_go_with_the_size(name):
    assert [size_of(TRENDS[name], 5000, seed) for seed in range(20)] == [None] * 20


def test_of_few_sets_the_smaller_half_tells():
    """The larger half does not contradict: among 1000 such draws of 60 sums 13 were held."""
    assert [size_of(TRENDS["a sum"], 60, seed) for seed in range(50)].count(LARGEST) <= 3


def test_where_nothing_varies_the_largest_is_told():
    one, some = torch.full((9,), 5), torch.arange(9)
    assert largest_size(torch.randn(9, 1), one, 5) == 5
    assert largest_size(torch.ones(9, 2), some, 8) == 8
    assert largest_size(torch.ones(9).long(), some, 8) == 8
    assert largest_size(torch.tensor([[1.0], [2.0]]), torch.tensor([1, 2]), 2) == 2
    assert largest_size(torch.tensor([0, 0, 0]), torch.tensor([1, 2, 3]), 3) == 3


def test_a_class_of_small_sets_alone_does_not_go_on():
    sizes = torch.arange(1, 41)
    assert largest_size((sizes < 10).long(), sizes, 40) == 40


def repeated(sets, times: int):
    return [np.tile(x, (times, 1)) for x in sets]


@pytest.mark.parametrize("strategy", ["k1", "max", "attention"])
def test_a_larger_set_counts_as_one_of_the_largest_of_training(strategy):
    """A mean of elements does not change when each is there several times, and nor does the size that f is told."""
    random = np.random.default_rng(0)
    sets = [random.normal(size=(n, 2)) for n in random.integers(1, 7, 200)]
    largest = [x for x in sets if len(x) == 6]
    settings = {"max_epochs": 2, "random_state": 0, "validation": 0.2}
    held = SetRegressor(strategy, **settings).fit(sets, np.array([x[:, 0].mean() for x in sets]))
    np.testing.assert_allclose(held.predict(repeated(largest, 9)), held.predict(largest), atol=1e-5)
    model = SetRegressor(strategy, **settings).fit(sets, np.array([10.0 * len(x) for x in sets]))
    assert (np.abs(model.predict(repeated(largest, 9)) - model.predict(largest)) > 1e-3).all()


def test_what_is_told_of_classes_recurrences_and_sums():
    random = np.random.default_rng(1)
    sets = [random.normal(size=(n, 2)) for n in random.integers(1, 7, 60)]
    labels = np.array([x[0, 0] > 0 for x in sets])
    for strategy, largest in {"k2": 6, "gru": None, "sum": None}.items():
        model = SetClassifier(strategy, max_epochs=1, random_state=0).fit(sets, labels)
        assert {network.pooling.largest_size for network in model.ensemble_.networks} == {largest}


@pytest.mark.parametrize("target", [np.mean, np.sum])
def test_sets_in_files(target, tmp_path):
    random = np.random.default_rng(2)
    sets = [random.normal(1, 1, n) for n in random.integers(1, 7, 400)]
    parquet.write_table(pa.table({"x": sets, "y": [target(x) for x in sets]}), tmp_path / "sets.parquet")
    model = SetRegressor("k1", max_epochs=1, validation=0.4, random_state=0).fit(tmp_path / "sets.parquet", "y")
    expected = 6 if target is np.mean else None
    assert [network.pooling.largest_size for network in model.ensemble_.networks] == [expected]


def test_three_sets_on_a_line_are_a_trend_and_two_are_none():
    """The larger half of five sizes holds three sets, and that of three sizes two."""
    for num, expected in ((5, None), (3, 3)):
        sizes = torch.arange(1, num + 1)
        assert largest_size(sizes[:, None].double(), sizes, num) == expected


def test_a_sum_over_the_elements_holds_for_larger_sets():
    """The sum of |x|, learnt from up to 8 elements. With a perceptron as ρ, the error is 6 to 8, and here 0.2."""
    source = np.random.default_rng(0)
    sets, large = ([source.normal(size=(n, 1)) for n in sizes] for sizes in (source.integers(1, 9, 600), [80] * 100))
    y, expected = (np.array([np.abs(x).sum() for x in each]) for each in (sets, large))
    additive = {"strategy": "sum", "readout_depth": 0}
    model = SetRegressor(additive, validation=0.2, time_budget=None, random_state=0).fit(sets, y)
    assert np.abs(model.predict(large) - expected).mean() < 1
