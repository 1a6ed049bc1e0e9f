import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from janossy import saving
from janossy.estimators import SetClassifier, SetRegressor, load, save
from janossy.functions import TupleMLP
from janossy.nn.network import JanossyNetwork
from janossy.nn.pooling import JanossyPooling
from janossy.orderings import Tuples
from janossy.saving import SavedModelError
from janossy.saving.reading import DESCRIPTION
from janossy.tables import as_sets
from tests.estimators.sets import bags, sums
from tests.saving.signing import resigned

QUICK = {"max_epochs": 2, "random_state": 0}


@pytest.fixture(scope="module")
def classifier() -> SetClassifier:
    sets, labels = bags(40)
    model = SetClassifier([{"strategy": "k1", "width": 4}, {"strategy": "gru", "width": 4}], **QUICK)
    return model.fit(sets, np.where(labels, "yes", "no"))


@pytest.fixture
def written(classifier, tmp_path) -> Path:
    return save(classifier, tmp_path / "model")


@pytest.mark.parametrize("name", ["model", "model.zip"])
def test_a_loaded_classifier_predicts_the_same_bits(classifier, tmp_path, name):
    again = load(save(classifier, tmp_path / name))
    sets, _ = bags(30, seed=1)
    for one, other in zip(
        classifier.predict_proba(sets, return_std=True), again.predict_proba(sets, return_std=True), strict=True
    ):
        assert (one == other).all()
    assert (again.predict(sets) == classifier.predict(sets)).all() and again.classes_.dtype == classifier.classes_.dtype
    assert again.trials_ == classifier.trials_ and again.strategy == classifier.strategy
    assert again.get_params()["max_epochs"] == 2
    again.fit(*bags(20))  # settings and all


def test_a_loaded_regressor_predicts_the_same_bits(tmp_path):
    sets, y = sums(40)
    frame = pd.DataFrame(
        {"x": [x[:, 0] for x in sets], "kind": [list("abcde"[: len(x)]) for x in sets], "height": y + 1}
    )
    model = SetRegressor({"strategy": "k2+features", "width": 4}, **QUICK).fit(frame, np.stack((y, 10 + y), 1))
    again = load(save(model, tmp_path / "model"))
    assert (again.predict(frame) == model.predict(frame)).all() and again.predict(frame).shape == (40, 2)
    assert list(again.feature_names_in_) == ["x", "kind", "height"]
    with pytest.raises(ValueError, match="feature names should match"):
        again.predict(frame[["x", "kind"]])


@pytest.mark.parametrize(
    "labels",
    [np.array([1, 5]), np.array([False, True]), np.array([1.0, 2.0]), np.array(["a", "b"]), np.array(["a", "b"], "O")],
    ids=lambda labels: str(labels.dtype),
)
def test_labels_come_back(labels, tmp_path):
    sets, y = bags(20)
    model = SetClassifier({"strategy": "k1", "width": 2}, max_epochs=1, validation=0.5)
    model.fit(sets, labels[y.astype(int)])
    again = load(save(model, tmp_path / "model"))
    assert again.classes_.dtype == model.classes_.dtype and (again.classes_ == model.classes_).all()


def test_labels_in_half_precision_stay_numbers(tmp_path):
    sets, y = bags(20)
    model = SetClassifier({"strategy": "k1", "width": 2}, max_epochs=1, validation=0.5)
    model.fit(sets, y.astype(np.float16))
    again = load(save(model, tmp_path / "model"))
    assert again.classes_.dtype == np.float64 and again.classes_.tolist() == [0.0, 1.0]
    assert (again.predict(sets) == model.predict(sets)).all()


def test_class_weights_of_numbers_can_be_saved(tmp_path):
    sets, y = bags(20)
    model = SetClassifier("k1", **QUICK, class_weight={0: 1.0, 1: 2.0}).fit(
        [*sets, np.zeros((0, 2))], [*y.astype(int), 0]
    )
    again = load(save(model, tmp_path / "model.zip"))
    assert (again.predict_proba([np.zeros((0, 2)), *sets]) == model.predict_proba([np.zeros((0, 2)), *sets])).all()


def test_settings_serve_a_fit_after_loading(tmp_path, capsys):
    sets, y = bags(20)
    table = {"x": [x[:, 0] for x in sets], "a": y, "b": np.arange(20)}
    model = SetClassifier(
        "k1", **QUICK, set_columns=pd.Index(["a"]), progress=print, class_weight={0: 1.0, 1: 2.0}
    ).fit({name: table[name] for name in ("x", "a")}, y.astype(int))
    again = load(save(model, tmp_path / "model"))
    assert again.set_columns == ["a"] and again.progress is None and again.class_weight == {0: 1.0, 1: 2.0}
    capsys.readouterr()
    again.fit(table, y.astype(int))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("pairs", [[1, 2], [[0]], [[[0], 1.0]]])
def test_class_weights_that_are_none_are_refused(tmp_path, pairs):
    model = SetClassifier("k1", **QUICK, class_weight={0: 1.0, 1: 2.0})
    model.fit(*(part[:20] for part in (bags(20)[0], bags(20)[1].astype(int))))
    folder = save(model, tmp_path / "model")
    description = json.loads((folder / DESCRIPTION).read_text())
    description["settings"]["class_weight"] = pairs
    resigned(folder, description)
    with pytest.raises(SavedModelError, match="expects pairs of a class and its weight"):
        load(folder)


def test_what_cannot_be_saved(tmp_path):
    with pytest.raises(TypeError, match="save expects a SetClassifier or SetRegressor; got Linear"):
        save(nn.Linear(1, 1), tmp_path / "model")

    class Own(nn.Module):
        def forward(self, x):
            return x[:, 0]

    def own(element_layout, context_layout, num_outputs):
        return JanossyNetwork(None, JanossyPooling(Own(), Tuples(1)), nn.Linear(2, num_outputs))

    model = SetClassifier(own, max_epochs=1, validation=0.5).fit(*bags(20))
    with pytest.raises(ValueError, match=r"expects parts that janossy or torch have, .*; got network\.pooling\.f"):
        save(model, tmp_path / "model")


def test_a_function_is_saved_by_its_name(tmp_path):
    def own(element_layout, context_layout, num_outputs):
        return JanossyNetwork(None, JanossyPooling(TupleMLP(1, 2, 4), Tuples(1)), nn.Linear(4, num_outputs))

    model = SetClassifier(own, max_epochs=1, validation=0.5).fit(*bags(20))
    again = load(save(model, tmp_path / "model"))
    assert again.strategy == "own"
    assert (again.predict_proba(bags(5)[0]) == model.predict_proba(bags(5)[0])).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: ["a", "b", "c"], "expects 3 outputs, one for each class or target; got 2"),
        (lambda: ["a", "b" * 20_000], "length <= 10000"),
        (lambda: [f"{i:05}" + "x" * (9_000 if i == 0 else 0) for i in range(20_000)], "67108864 bytes in all"),
    ],
    ids=["outputs", "long", "bomb"],
)
def test_classes_fit_the_network_and_the_memory(change, message, tmp_path):
    def own(element_layout, context_layout, num_outputs):
        return JanossyNetwork(None, JanossyPooling(TupleMLP(1, 2, 4), Tuples(1)), nn.Linear(4, num_outputs))

    path = save(SetClassifier(own, max_epochs=1, validation=0.5).fit(*bags(20)), tmp_path / "model")
    classes = {"values": change(), "dtype": "str"}
    with pytest.raises(SavedModelError, match=message):
        load(edited(path, "fitted", "classes_", value=classes))


def test_a_network_is_no_estimator(tmp_path):
    network = JanossyNetwork(None, JanossyPooling(TupleMLP(1, 2, 4), Tuples(1)), None)
    with pytest.raises(SavedModelError, match=r"expects a saved estimator; .* janossy\.saving\.load reads networks"):
        load(saving.save(network, tmp_path / "model"))


def edited(path: Path, *keys: str | int, value: Any) -> Path:
    """Returns the model with one value of its description replaced, or, by ..., left out."""
    file = path / "model.json"
    description = json.loads(file.read_text())
    place = description
    for key in keys[:-1]:
        place = place[key]
    if value is ...:
        del place[keys[-1]]
    else:
        place[keys[-1]] = value
    resigned(path, description)
    return path


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("estimator",), "os.system"),
        (("estimator",), ["SetClassifier"]),
        (("settings", "callback"), 1),
        (("settings",), []),
        (("settings", "max_epochs"), -1),
        (("settings", "num_permutations"), "many"),
        (("encoder",), ...),
        (("encoder", "elements", 0, "scale"), "1"),
        (("encoder", "elements", 0, "kind"), "pickle"),
        (("encoder", "elements"), []),
        (("networks",), ...),
        (("networks",), []),
        (("networks", 0, "rho", "out_features"), 3),
        (("networks", 0, "h", "num_numbers"), 5),
        (("networks", 0, "part"), "subprocess.Popen"),
        (("weights",), [0.1]),
        (("weights", 0), -1.0),
        (("weights",), [0.5, 0.4]),
        (("weights", 0), "1"),
        (("fitted", "temperature_"), 0.0),
        (("fitted", "temperature_"), None),
        (("fitted", "classes_", "values"), ["no", "perhaps", "yes"]),
        (("fitted", "classes_", "values"), ["no", "no"]),
        (("fitted", "classes_", "values"), [{}, []]),
        (("fitted", "classes_", "dtype"), "U1000000000"),
        (("fitted", "n_features_in_"), 1.5),
        (("fitted",), ...),
        (("trials",), {}),
        (("trials", 0, "loss"), "best"),
        (("trials", 0, "strategy"), ...),
        (("trials", 0, "history"), [1]),
    ],
    ids=str,
)
def test_an_edited_description_is_an_error(written, keys, value):
    with pytest.raises(SavedModelError) as error:
        load(edited(written, *keys, value=value))
    assert "\n" not in str(error.value) and len(str(error.value)) < 1000


def test_weights_of_another_network_are_an_error(written):
    file = written / "model.safetensors"
    tensors = load_file(file)
    save_file({name.replace("0/", "99/"): tensor for name, tensor in tensors.items()}, file)
    with pytest.raises(SavedModelError, match=r"expects model\.safetensors with the digest"):
        load(written)
    resigned(written)
    with pytest.raises(SavedModelError):
        load(written)
    save_file({name: torch.zeros(1) for name in tensors}, file)
    resigned(written)
    with pytest.raises(SavedModelError, match="of shape"):
        load(written)


@pytest.mark.parametrize("amounts", ["quantile", "by-category", "codes"])
def test_forms_of_numbers_are_in_the_saved_model(tmp_path, amounts):
    rng = np.random.default_rng(0)
    rows = {"set": np.arange(120) // 3, "kind": rng.choice(list("abc"), 120), "x": rng.lognormal(0, 2, 120)}
    rows["x"] = rng.integers(0, 9, 120) if amounts == "codes" else rows["x"]
    sets = as_sets(rows, set_id="set")
    model = SetRegressor({"strategy": "k1", "amounts": amounts}, **QUICK).fit(sets, np.arange(40.0))
    raw = SetRegressor("k1", **QUICK).fit(sets, np.arange(40.0))
    assert (model.predict(sets) != raw.predict(sets)).any()
    assert (load(save(model, tmp_path / "model")).predict(sets) == model.predict(sets)).all()
