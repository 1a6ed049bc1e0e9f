"""Classical learners on several splits: how many are fitted in a time, and logistic regression's first steps."""

from math import inf

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from janossy.estimators.classical import paths
from janossy.estimators.classical.together import Together
from janossy.estimators.interrupts import time_by
from janossy.estimators.training import Ending


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Told(paths.Path):
    """A path of told losses, one per step, each of which takes a second."""

    def __init__(self, clock, losses, chosen=True, seconds=1.0):
        self.clock, self.told, self.chosen, self.seconds = clock, losses, chosen, seconds
        super().__init__(paths.ClassicalSettings(), None)

    def _start(self):
        pass

    def step(self, until=inf):
        self.clock.now += self.seconds
        self.losses.append(self.told[len(self.losses)])
        self.ended = len(self.losses) == len(self.told)

    def module(self, point):
        raise NotImplementedError


CURVE = (5.0, 4.0, 3.0, 2.0, 1.0, 1.5, 1.6, 1.7)
"""A learner with this curve takes seven steps: two after the best, the fifth."""


def together(clock, curves, deadline=inf, **path):
    with time_by(clock):
        return Together(lambda number: Told(clock, curves[number], **path), [1.0] * len(curves), deadline)


@pytest.mark.parametrize(("seconds", "num_splits"), [(3, 1), (7, 1), (13, 1), (14, 2), (20, 2), (21, 3), (35, 5)])
def test_a_learner_of_which_a_point_is_chosen_is_fitted_to_splits_that_there_is_time_for(seconds, num_splits):
    found = together(Clock(), [CURVE] * 5, seconds + 0.5)
    assert len(found.paths) == num_splits
    assert [len(path.losses) for path in found.paths] == [min(7, seconds + 1)] * num_splits
    assert found.point == min(seconds, 4) and found.ending is (Ending.OUT_OF_TIME if seconds < 7 else Ending.AS_PLANNED)


def test_without_a_deadline_the_point_is_that_of_the_mean_loss_of_all_splits():
    """The first split alone would have stopped at its second point."""
    curves = [(2.0, 1.0, 1.1, 1.2, 1.2, 1.2, 1.2, 1.2), (9.0, 8.0, 7.0, 6.0, 5.0, 6.0, 7.0, 8.0)]
    found = together(Clock(), curves)
    assert found.point == 4 and [len(path.losses) for path in found.paths] == [7, 7]
    assert found.ending is Ending.AS_PLANNED


def test_no_split_goes_on_when_the_mean_loss_no_longer_falls():
    """The first split alone takes all its eight steps."""
    found = together(Clock(), [(2.0, 1.9, 1.8, 1.7, 1.6, 1.5, 1.4, 1.3), (1.0, 5.0, 6.0, 7.0, 8.0, 9.0, 9.0, 9.0)])
    assert found.point == 0 and [len(path.losses) for path in found.paths] == [8, 3]


def test_splits_that_are_slower_than_the_first_are_left_out_at_the_deadline():
    clock = Clock()
    with time_by(clock):
        found = Together(lambda number: Told(clock, CURVE, seconds=1 + number), [1.0] * 3, 21.5)
    assert len(found.paths) == 1 and found.point == 4 and found.ending is Ending.OUT_OF_TIME


def test_a_forest_is_begun_on_all_splits():
    found = together(Clock(), [[np.nan] * 4] * 3, 7.5, chosen=False)
    assert [len(path.losses) for path in found.paths] == [3, 3, 2] and found.point == 1


def test_an_interrupt_leaves_what_there_is():
    clock = Clock()
    with time_by(clock):
        found = Together(lambda number: Told(clock, CURVE), [1.0] * 3, interrupted=lambda: clock.now > 2)
    assert [len(path.losses) for path in found.paths] == [3] and found.ending is Ending.INTERRUPTED


def data(num_classes, loss, weights=None, num=300, seed=0):
    """Returns rare counts, which are not centred, and classes that differ in frequency."""
    source = np.random.default_rng(seed)
    x = source.poisson(0.05, (num, 40)).astype(np.float32)
    y = np.minimum(source.geometric(0.5, num) - 1, num_classes - 1)
    y[:num_classes] = np.arange(num_classes)
    weights = np.ones(num) if weights is None else weights(y)
    return paths.Data(x, y, weights, np.arange(num_classes), num_classes, torch.from_numpy(x), loss, float, 0)


@pytest.mark.parametrize("num_classes", [2, 5])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_the_strongest_regularisation_takes_few_iterations(monkeypatch, num_classes, is_sparse):
    """From zero it takes several times as many with five classes. The result is scikit-learn's."""
    monkeypatch.setattr(paths, "WIDE", 3 if is_sparse else 1000)
    some = data(num_classes, lambda scores: 0.0)
    path = paths.LinearPath(paths.ClassicalSettings(), some)
    path.step()
    assert path.model.n_iter_.max() <= 20
    exact = LogisticRegression(C=paths.STRENGTHS[0], max_iter=10_000, tol=1e-9).fit(path.scaled, some.y)
    found = torch.softmax(path.module(0)(some.valid_x), 1).numpy()
    np.testing.assert_allclose(found, exact.predict_proba(path.scaled), atol=2e-3)


@pytest.mark.parametrize("num_classes", [2, 3])
def test_a_class_without_weight(num_classes):
    some = data(num_classes, lambda scores: float(scores.isfinite().all()), lambda y: (y != 1).astype(float))
    path = paths.LinearPath(paths.ClassicalSettings(), some)
    while not path.ended:
        path.advance()
    assert path.losses == [1.0] * len(paths.STRENGTHS) and path.ends == list(range(1, len(paths.STRENGTHS) + 1))
