"""The number of threads of a fit follows from the size of its batches, and from nothing else."""

import threading

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from janossy.estimators import SetClassifier, SetRegressor
from janossy.estimators import threads as numbers
from janossy.estimators.classical import paths
from janossy.estimators.threads import Threads, usable_threads, using_threads
from janossy.sets import Ragged
from tests.estimators.sets import bags


@pytest.fixture(autouse=True)
def three_threads(monkeypatch):
    monkeypatch.setattr(numbers.joblib, "cpu_count", lambda: 8)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    assert torch.get_num_threads() == 3
    torch.set_num_threads(before)


def test_small_batches_take_one_and_large_ones_all():
    small, large = (Ragged.from_sizes(torch.zeros(10 * n, 2), [n] * 10) for n in (4, 200))
    assert Threads().of(small, 32) == 1
    assert Threads().of(large, 512) == 3
    assert Threads(available=7).of(large, 512) == 7
    assert Threads(asked=2).of(large, 512) == Threads(asked=2).of(small, 32) == 2


def test_no_more_threads_than_usable_cores(monkeypatch):
    monkeypatch.setattr(numbers.joblib, "cpu_count", lambda: 2)
    assert Threads().available == usable_threads() == 2
    monkeypatch.setattr(numbers, "SMALL_BATCH", 0)
    sets, y = bags(60)
    assert SetClassifier("k1", max_epochs=1, random_state=0).fit(sets, y).num_threads_ == 2


def test_a_fit_says_and_restores_them(tmp_path, monkeypatch):
    sets, y = bags(60)
    model = SetClassifier("k1", max_epochs=1, random_state=0).fit(sets, y)
    assert model.num_threads_ == 1
    assert SetClassifier("k1", max_epochs=1, random_state=0, num_threads=2).fit(sets, y).num_threads_ == 2
    monkeypatch.setattr(numbers, "SMALL_BATCH", 0)
    options = {"max_epochs": 1, "random_state": 0, "checkpoint": tmp_path / "saved"}
    first = SetRegressor("k1", **options).fit(sets, y.astype(float))
    assert first.num_threads_ == 3
    torch.set_num_threads(1)  # on another machine the fit goes on by as many threads
    try:
        again = SetRegressor("k1", **options).fit(sets, y.astype(float))
    finally:
        torch.set_num_threads(3)
    assert again.num_threads_ == 3
    assert np.array_equal(again.predict(sets), first.predict(sets))
    with pytest.raises(ValueError, match="num_threads"):
        SetClassifier("k1", num_threads=0).fit(sets, y)


def test_fits_that_overlap_restore_what_was_there():
    first_in, second_in, first_out = threading.Event(), threading.Event(), threading.Event()

    def first():
        with using_threads(1):
            first_in.set()
            second_in.wait(10)
        first_out.set()

    thread = threading.Thread(target=first)
    thread.start()
    first_in.wait(10)
    with using_threads(2):
        second_in.set()
        first_out.wait(10)
    thread.join()


@pytest.mark.parametrize(
    ("strategy", "learner", "library", "asked", "small", "num"),
    [
        ("linear", "LogisticRegression", "blas", None, 0, 1),
        ("trees", "HistGradientBoostingClassifier", "openmp", None, 10**6, 1),
        ("trees", "HistGradientBoostingClassifier", "openmp", None, 0, 3),
        ("trees", "HistGradientBoostingClassifier", "openmp", 2, 0, 2),
    ],
)
def test_threads_of_the_libraries_of_classical_learners(monkeypatch, strategy, learner, library, asked, small, num):
    def threads_of_libraries() -> list[int]:
        return [each["num_threads"] for each in threadpool_info() if each["user_api"] == library]

    class Watched(getattr(paths, learner)):
        def fit(self, *arguments, **options):
            found.append(threads_of_libraries())
            return super().fit(*arguments, **options)

    found: list[list[int]] = []
    monkeypatch.setattr(paths, learner, Watched)
    monkeypatch.setattr(paths, "SMALL_TABLE", small)
    sets, y = bags(60)
    before = threads_of_libraries()
    SetClassifier(strategy, random_state=0, num_threads=asked).fit(sets, y)
    assert found and {each for one in found for each in one} == {num}
    assert threads_of_libraries() == before
