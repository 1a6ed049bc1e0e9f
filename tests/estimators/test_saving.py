"""Saved estimators predict what they predicted, and what was not saved by us is an error in a line."""

import json
from pathlib import Path

import numpy as np
import pytest

from janossy.estimators import SetClassifier, SetRegressor, as_sets, load, save
from janossy.saved import SavedModelError

RNG = np.random.default_rng(0)
SIZES = RNG.integers(0, 5, 60)
SETS = as_sets(
    {
        "item": [["abc"[i] for i in RNG.integers(0, 3, n)] for n in SIZES],
        "price": [RNG.normal(size=n).tolist() for n in SIZES],
        "hour": RNG.integers(0, 24, 60).tolist(),
    }
)
QUICK = {"max_epochs": 2, "random_state": 0, "validation": 0.3}
SUMS = np.array([sum(each.elements["price"].values) for each in SETS])
FITS = {
    "text": lambda: SetClassifier(["k1", "gru"], **QUICK).fit(SETS, np.where(SUMS > 0, "more", "less")),
    "bools": lambda: SetClassifier("gru", **QUICK).fit(SETS, SUMS > 0),
    "numbers": lambda: SetClassifier("k1", **QUICK, class_weight={2: 1.0, 7: 2.0}).fit(SETS, np.where(SUMS > 0, 7, 2)),
    "one target": lambda: SetRegressor("k1", **QUICK).fit(SETS, SUMS),
    "two targets": lambda: SetRegressor("k1", **QUICK).fit(SETS, np.stack((SUMS, SUMS**2), 1)),
}


@pytest.fixture(scope="module")
def models():
    return {name: fit() for name, fit in FITS.items()}


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("ending", ["", ".zip"])
def test_what_is_loaded_predicts_the_same(name, ending, models, tmp_path):
    model = models[name]
    loaded = load(save(model, tmp_path / f"model{ending}"))
    assert type(loaded) is type(model)
    for ours, theirs in zip(model.predict(SETS, return_std=True), loaded.predict(SETS, return_std=True), strict=True):
        assert np.array_equal(ours, theirs) and ours.dtype.kind == theirs.dtype.kind and ours.shape == theirs.shape
    if isinstance(model, SetClassifier):
        assert np.array_equal(model.predict_proba(SETS), loaded.predict_proba(SETS))
    assert [trial.loss for trial in loaded.trials_] == [trial.loss for trial in model.trials_]


def set_at(where: str, value: object):
    def change(description: dict) -> None:
        *path, last = where.split(".")
        for name in path:
            description = description[int(name) if name.isdigit() else name]
        description[last] = value

    return change


CHANGES = {
    "no estimator": lambda description: description.pop("estimator"),
    "another kind": set_at("estimator", "os.system"),
    "a network less": lambda description: description["networks"].pop(),
    "a weight less": lambda description: description["weights"].pop(),
    "weights are text": set_at("weights", ["1.0"]),
    "no encoder": set_at("encoder", {}),
    "columns that the network does not read": lambda description: description["encoder"]["elements"].pop(),
    "no classes": set_at("fitted", {}),
    "more classes": set_at("fitted.classes_.values", ["a", "b", "c"]),
    "one class twice": set_at("fitted.classes_.values", ["a", "a"]),
    "a dtype that unpickles": set_at("fitted.classes_.dtype", "O,O"),
    "classes of objects": set_at("fitted.classes_.values", [{}, []]),
    "a temperature of 0": set_at("fitted.temperature_", 0.0),
    "trials of other fields": set_at("trials", [{"loss": 1.0}]),
    "settings of a wrong type": set_at("settings", ["strategy"]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_was_edited_is_an_error(name, models, tmp_path):
    path = save(models["text"], tmp_path / "model")
    file = Path(path) / "model.json"
    description = json.loads(file.read_text(encoding="utf-8"))
    CHANGES[name](description)
    file.write_text(json.dumps(description), encoding="utf-8")
    with pytest.raises(SavedModelError) as error:
        load(path)
    assert "\n" not in str(error.value) and len(str(error.value)) < 600


def test_models_of_new_sets_have_not_seen_them(models):
    """Each set is left out once, by a model that is part of the whole; with folds, all are."""
    model = SetRegressor("k1", **QUICK | {"validation": 3}).fit(SETS, SUMS)
    parts = list(model.as_of_new_sets())
    assert sorted(np.concatenate([sets for _, sets in parts]).tolist()) == list(range(len(SETS)))
    whole = np.mean([part.predict(SETS) for part, _ in parts], 0)
    assert np.allclose(whole, model.predict(SETS), atol=1e-5)
