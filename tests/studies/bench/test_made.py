"""Data that are made: folds are others, and always the same; images of the tests are of no training set."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from studies.bench.data import clouds, digits, jets, one_element, orders
from studies.bench.data.clouds import draw_points
from studies.bench.data.digits import digits_distinct, digits_sum, draw_distinct
from studies.bench.data.jets import draw_jets
from studies.bench.data.orders import draw_orders

MADE = {
    **{"orders": orders.orders, "jets": jets.jets, "digits_sum": digits_sum, "digits_distinct": digits_distinct},
    **one_element.LOADERS,
    **clouds.LOADERS,
}


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Makes the data sets small, but large enough for a comparison."""
    monkeypatch.setattr(digits, "NUM_TRAINING", 300)
    for module in (orders, one_element):
        monkeypatch.setattr(module, "NUM_TRAINING", 300)
    monkeypatch.setattr(orders, "NUM_TEST", 100)


def values(sample):
    return np.stack([column.values for column in sample.sets.elements.values()], 1)


@pytest.mark.parametrize("name", MADE)
def test_folds_are_others_and_always_the_same(name):
    data = MADE[name]()
    first, again, other = data.fold(0), data.fold(0), data.fold(1)
    test = next(iter(first.tests))
    for one, same, new in (
        (first.train, again.train, other.train),
        (first.tests[test](), again.tests[test](), other.tests[test]()),
    ):
        assert np.array_equal(values(one), values(same)) and np.array_equal(one.targets, same.targets)
        assert not np.array_equal(one.targets, new.targets)
        assert len(one.sets) == len(one.targets) and one.sets.sizes.min() >= 1


def test_orders_and_jets_are_those_that_are_drawn():
    """Columns are as drawn, codes as what they stand for."""
    for module, draw, codes in ((orders, draw_orders, 1), (jets, draw_jets, 0)):
        found = module.sample(60, 4)
        drawn, labels = draw(60, 4)
        assert np.array_equal(found.targets, labels.numpy()) and set(found.targets) == {0, 1}
        assert np.array_equal(found.sets.offsets, drawn.offsets.numpy())
        for place, column in enumerate(found.sets.elements.values()):
            assert np.array_equal(column.decoded().astype(np.float32), drawn.values[:, place].numpy())
            assert (column.kind == "categorical") == (place < codes)


@pytest.mark.parametrize("make", [digits_sum, digits_distinct])
def test_images_of_tests_are_of_no_training_set(make):
    """And what they add up to, or how many different ones there are, is that of their labels."""
    pixels, shown = load_digits(return_X_y=True)
    of = {image.astype(np.float32).tobytes(): digit for image, digit in zip(pixels, shown, strict=True)}
    assert len(of) == len(pixels)
    fold = make().fold(2)
    train, test = fold.train, fold.tests["size 5"]()
    seen, new = ({image.tobytes() for image in values(sample)} for sample in (train, test))
    assert not seen & new and len(new) > 400
    labels = np.array([of[image.tobytes()] for image in values(test)]).reshape(-1, 5)
    expected = labels.sum(1) if make is digits_sum else [len(set(row)) for row in labels.tolist()]
    assert np.array_equal(test.targets, expected)


def test_points_lie_in_inked_pixels():
    """Pixels have points by their ink; the binomial counts of 20,000 points are within six standard deviations."""
    image = load_digits().data[7]
    x, y = draw_points(image, 20_000, np.random.default_rng(0)).T
    counts = np.zeros(64)
    np.add.at(counts, (8 * -np.floor(y) + np.floor(x)).astype(int), 1)
    share = image / image.sum()
    assert np.all(np.abs(counts - 20_000 * share) <= 6 * np.sqrt(20_000 * share * (1 - share)))
    for name, (smallest, largest) in clouds.SIZES.items():
        sizes = clouds.cloud(name).fold(0).train.sets.sizes
        assert (sizes.min(), sizes.max()) == (smallest, largest)


def test_one_element_decides():
    """Targets are those of the numbers; the odd point stands farther from the others, and is there in half of sets."""
    for name, of in (("maximum", np.max), ("median", np.median)):
        sample = one_element.LOADERS[name]().fold(0).train
        sets = np.split(values(sample)[:, 0], sample.sets.offsets[1:-1])
        assert np.allclose([of(numbers) for numbers in sets], sample.targets, rtol=1e-6)
    sample = one_element.odd_one_out().fold(0).train
    sets = np.split(values(sample), sample.sets.offsets[1:-1])
    farthest = np.array([np.linalg.norm(x - np.median(x, 0), axis=1).max() for x in sets])
    assert 0.4 < sample.targets.mean() < 0.6
    assert farthest[sample.targets == 1].mean() > farthest[sample.targets == 0].mean() + 0.3


@given(st.integers(1, 30), st.integers(0, 10))
def test_numbers_of_different_digits_are_possible(size, seed):
    drawn = draw_distinct(size, np.random.default_rng(seed))
    assert (
        len(drawn) == size and 1 <= len(set(drawn.tolist())) <= min(size, 10) and set(drawn.tolist()) <= set(range(10))
    )
