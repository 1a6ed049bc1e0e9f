"""Losses of regressors by name: each is least at what it says, alone and after networks are averaged."""

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from scipy import optimize, stats

from janossy.estimators import SetRegressor, load, save
from janossy.estimators.tasks import HUBER, LOSSES, Regression

LEVELS = (0.1, 0.5, 0.8)
OF_NUMBERS = [loss for loss in LOSSES if loss != "cox"]
"""The losses of numbers alone; ``test_survival`` has that of times."""


def task_of(loss: str, num_targets: int = 1) -> Regression:
    return Regression(num_targets, loss, LEVELS if loss == "quantile" else ())


def oracle(loss: str, values: np.ndarray) -> np.ndarray:
    """Returns the constants that are best for these values, by statistics and scipy."""
    if loss == "quantile":
        return np.quantile(values, LEVELS)
    if loss == "huber":

        def total(x: float) -> float:
            errors = abs(values - x)
            return np.where(errors < HUBER, errors**2 / 2, HUBER * (errors - HUBER / 2)).sum()

        return np.array([optimize.minimize_scalar(total, (values.min(), values.max())).x])
    return np.array([values.mean()])


@settings(max_examples=10, deadline=None)
@given(st.sampled_from(OF_NUMBERS), st.integers(0, 99))
def test_the_best_constant_is_that_of_the_loss(loss, seed):
    values = np.random.default_rng(seed).gamma(2.0, 1.5, 501)
    targets = torch.from_numpy(values)[:, None]
    task = task_of(loss)
    outputs = torch.zeros(1, task.num_outputs, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([outputs], max_iter=200, line_search_fn="strong_wolfe", tolerance_change=1e-12)

    def loss_of_constant():
        optimizer.zero_grad()
        total = task.criterion(outputs.expand(len(values), -1), targets).mean()
        total.backward()
        return total

    for _ in range(10):
        optimizer.step(loss_of_constant)
    found = task.link(1.0)(outputs.detach())[0].numpy()
    assert found == pytest.approx(oracle(loss, values), rel=0.02, abs=0.02)
    if loss in ("poisson", "gamma"):  # scipy's likelihoods, but for what depends on the targets alone
        means = np.linspace(0.5, 5, 7)
        mine = task.losses(torch.from_numpy(means)[:, None], torch.full((7, 1), 3.0, dtype=torch.float64)).numpy()
        law = stats.poisson(means).logpmf(3) if loss == "poisson" else stats.gamma(1, scale=means).logpdf(3.0)
        assert np.ptp(mine + law) < 1e-9


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 999))
def test_quantiles_do_not_cross(seed):
    """Sorted outputs lose no more than those of the network, and an average of them ascends too."""
    generator = torch.Generator().manual_seed(seed)
    outputs = torch.randn(3, 20, 6, generator=generator)
    targets = torch.randn(20, 2, generator=generator)
    task = task_of("quantile", 2)
    mean = task.link(1.0)(outputs).mean(0)
    assert (mean.unflatten(1, (2, 3)).diff(dim=-1) >= 0).all()
    for each in outputs:
        assert (task.losses(task.link(1.0)(each), targets) <= task.losses(each, targets) + 1e-6).all()
    assert torch.equal(task.points(mean), mean.unflatten(1, (2, 3))[..., 1])


def counts(num: int = 300) -> tuple[list[np.ndarray], np.ndarray]:
    """Returns sets of words, and a number whose distribution depends on the set's first column."""
    rng = np.random.default_rng(0)
    kind = np.arange(num) % 3
    return [np.full((rng.integers(1, 4), 1), k, float) for k in kind], rng.gamma(2.0, 1.0 + kind) + 0.01


@pytest.mark.parametrize("loss", OF_NUMBERS)
def test_a_fit_finds_it_and_is_saved(tmp_path, loss):
    sets, y = counts()
    model = SetRegressor(
        "k1", loss=loss, quantiles=LEVELS, max_epochs=40, validation=0.2, categorical=[0], random_state=0
    ).fit(sets, y)
    of_kind = [y[k::3] for k in range(3)]
    found = model.predict(sets[:3])
    middle = np.median if loss in ("quantile", "huber") else np.mean
    assert found == pytest.approx([middle(values) for values in of_kind], rel=0.35)
    assert (found > 0).all() and found.shape == (3,)
    if loss == "quantile":
        told = model.predict_quantiles(sets)
        assert told.shape == (300, 3) and (np.diff(told) >= 0).all() and (told[:, 1] == model.predict(sets)).all()
        assert ((y[:, None] <= told).mean(0)) == pytest.approx(LEVELS, abs=0.08)
    else:
        with pytest.raises(AttributeError, match="loss='quantile'"):
            model.predict_quantiles(sets)
    again = load(save(model, tmp_path / "model"))
    assert (again.predict(sets) == model.predict(sets)).all() and again.task_ == model.task_


@pytest.mark.parametrize("loss", ["huber", "poisson", "quantile"])
def test_files_and_several_targets(tmp_path, loss):
    sets, y = counts(200)
    rows = {"x0": [each[:, 0].tolist() for each in sets], "y": y, "z": 2 * y[::-1]}
    parquet.write_table(pa.table(rows), tmp_path / "sets.parquet")
    model = SetRegressor("k1", loss=loss, quantiles=(0.2, 0.8), max_epochs=3, random_state=0)
    model.fit(str(tmp_path / "sets.parquet"), ["y", "z"])
    assert model.predict(sets).shape == (200, 2) and model.element_importance(sets[:2])[0].shape[1] == 2
    if loss == "quantile":
        assert model.predict_quantiles(sets).shape == (200, 2, 2)


def test_one_large_outlier_moves_huber_less():
    """One of 200 sets that are alike is wrong by 10,000: the mean moves by 50."""
    sets, y = [np.ones((1, 1))] * 200, np.random.default_rng(0).normal(5.0, 1.0, 200)
    y[7] = 10_000.0
    found = {}
    for loss in ("huber", "squared_error"):
        model = SetRegressor("k1", loss=loss, max_epochs=20, validation=0.2, random_state=0).fit(sets, y)
        found[loss] = float(model.predict(sets[:1])[0])
    assert found["huber"] == pytest.approx(5.0, abs=0.5) and abs(found["squared_error"] - 5.0) > 5


@pytest.mark.parametrize(
    ("options", "y", "message"),
    [
        ({"loss": "mse"}, [1.0, 2.0], "expects loss among 'squared_error'"),
        ({"loss": "huber", "strategy": "linear"}, [1.0, 2.0], "'linear' minimises squared errors"),
        ({"loss": "poisson"}, [1.0, -2.0], "no number below 0 in y; got -2"),
        ({"loss": "gamma"}, [1.0, 0.0], "numbers above 0 in y; got 0"),
        ({"loss": "quantile", "quantiles": [0.5, 0.1]}, [1.0, 2.0], "ascending"),
        ({"loss": "quantile", "quantiles": [0.0, 0.5]}, [1.0, 2.0], "between 0 and 1"),
    ],
)
def test_what_is_no_loss(options, y, message):
    with pytest.raises(ValueError, match=message):
        SetRegressor(**{"strategy": "k1", "max_epochs": 1, **options}).fit([[1.0], [2.0]] * 5, y * 5)
