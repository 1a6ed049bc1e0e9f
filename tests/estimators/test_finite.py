"""Targets of any size are predicted, and a prediction that is not finite is an error that names its set."""

import warnings

import numpy as np
import pyarrow as pa
import pytest
import torch

from janossy.batch import SetPredictor
from janossy.cli.workflow.scoring import scores
from janossy.estimators import SetClassifier, SetRegressor, save

SETTINGS = {"max_epochs": 3, "validation": 0.2, "random_state": 0}


def sets(num: int = 60) -> tuple[list[np.ndarray], np.ndarray]:
    random = np.random.default_rng(0)
    found = [random.normal(size=(n, 2)) for n in random.integers(1, 6, num)]
    return found, np.array([x.sum() for x in found])


@pytest.mark.parametrize("power", [-1000, -600, 600, 1000])
@pytest.mark.parametrize("strategy", ["k1", "gru"])
def test_targets_of_any_order_of_magnitude(power, strategy):
    """By a power of two they are the same numbers: 2**600 is 4e180."""
    X, y = sets()
    expected = SetRegressor(strategy, **SETTINGS).fit(X, y).predict(X, return_std=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = SetRegressor(strategy, **SETTINGS).fit(X, np.ldexp(y, power)).predict(X, return_std=True)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.ldexp(one, -power), other)


@pytest.mark.parametrize("power", [-1030, -600, 0, 600, 1020])
def test_a_score_has_no_unit(power):
    X, y = sets()
    expected = SetRegressor("linear", **SETTINGS).fit(X, y).score(X, y)
    y = np.ldexp(y, power)
    model = SetRegressor("linear", **SETTINGS).fit(X, y)
    assert expected < 0.999 and model.score(X, y) == pytest.approx(expected, abs=1e-6)
    of_command = scores(y, model.predict(X), "regression")
    assert of_command["R²"] == pytest.approx(expected, abs=1e-6)
    assert of_command["root mean squared error"] >= of_command["mean absolute error"] > 0


def test_targets_of_several_magnitudes():
    X, y = sets()
    model = SetRegressor("k1", **SETTINGS).fit(X, np.stack([y, 1e250 * y, 1e-250 * y], 1))
    np.testing.assert_allclose(model.y_scale_ / model.y_scale_[0], [1, 1e250, 1e-250], rtol=1e-12)
    assert np.isfinite(model.predict(X)).all()


def test_the_scale_of_constant_targets_is_one():
    X, _ = sets()
    model = SetRegressor("linear", **SETTINGS).fit(X, np.zeros(len(X)))
    assert model.y_scale_.tolist() == [1.0] and np.allclose(model.predict(X), 0)


def test_targets_too_far_apart():
    X, y = sets()
    y = np.where(np.arange(len(y)) == 0, -1.7e308, 1.7e308)
    with pytest.raises(
        ValueError, match=r"targets whose differences float64 holds; got numbers from -1.7e\+308 to 1.7e"
    ):
        SetRegressor("k1", **SETTINGS).fit(X, y)


@pytest.fixture(params=[SetClassifier, SetRegressor])
def broken(request):
    """Gives a model whose networks overflow for sets with large numbers."""
    X, y = sets()
    model = request.param("k1", **SETTINGS).fit(X, y > 0 if request.param is SetClassifier else y)
    for network in model.ensemble_.networks:
        network.h.limits = []
        with torch.no_grad():
            for weight in network.pooling.parameters():
                weight.mul_(1e8)
    return model


def test_a_prediction_that_is_not_finite(broken, tmp_path):
    X, _ = sets(5)
    assert np.isfinite(broken.predict(X).astype(float)).all()
    X[2] = np.full((1, 2), 1e32)
    X[4] = np.full((3, 2), 1e32)
    message = rf"{type(broken).__name__} expects finite predictions; got \[.*\] for set 2, and for 1 more, of 5. Look"
    asked = [broken.predict, broken.element_importance]
    asked += [broken.predict_proba, broken.change_probability] if isinstance(broken, SetClassifier) else []
    for ask in asked:
        with pytest.raises(FloatingPointError, match=message):
            ask(X)
    table = pa.table({f"x{j}": [x[:, j].tolist() for x in X] for j in (0, 1)})
    with pytest.raises(FloatingPointError, match=message):
        SetPredictor(save(broken, tmp_path / "model"))(table)


def test_numbers_that_only_their_unit_makes_infinite():
    X, y = sets()
    model = SetRegressor("linear", **SETTINGS).fit(X, y)
    model.y_scale_ = np.array([1.7e308])
    with pytest.raises(FloatingPointError, match=r"SetRegressor expects finite predictions; got \[-?inf\] for set"):
        model.predict([np.full((1, 2), 100.0), np.full((1, 2), -100.0)])
