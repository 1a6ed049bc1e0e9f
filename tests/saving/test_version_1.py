"""Files that the first version of the format left: they load, and predict as they did."""

import json

import numpy as np
import pytest

from janossy import estimators, saving
from tests.saving.v1 import make

EXPECTED = json.loads((make.HERE / "expected.json").read_text())


@pytest.mark.parametrize("name", EXPECTED["networks"])
def test_networks(name):
    network = saving.load(make.HERE / "networks" / make.place(name))
    assert np.allclose(make.outputs(name, network, EXPECTED["inputs"]), EXPECTED["networks"][name], atol=1e-6)


@pytest.mark.parametrize("name", EXPECTED["estimators"])
def test_estimators(name):
    model = estimators.load(make.HERE / "estimators" / make.place(name))
    found = make.predictions(name, model, EXPECTED["sets"])
    assert np.allclose(found, EXPECTED["estimators"][name], atol=1e-5)


def test_every_file_is_tested():
    for kind in ("networks", "estimators"):
        files = {entry.name for entry in (make.HERE / kind).iterdir()}
        assert files == set(map(make.place, EXPECTED[kind])) and len(files) > 3
