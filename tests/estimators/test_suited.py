"""Settings of attention and relations that follow from the sets, and what "auto" takes of them."""

import numpy as np
import pytest
import torch

from janossy.estimators import SetClassifier
from janossy.estimators import suited as module
from janossy.estimators.candidates import AUTO, Candidate
from janossy.estimators.strategies import ENCODERS, build_network
from janossy.estimators.suited import suited
from janossy.tables.layout import Layout
from tests.estimators.sets import bags


@pytest.mark.parametrize(
    ("given", "sets", "expected"),
    [
        ({}, (19_999, 99.0), {}),
        ({}, (1_000, 100.0), {"num_seeds": 4}),
        ({}, (20_000, 10.0), {"num_blocks": 3, "width": 128, "num_heads": 8}),
        ({}, (20_000, 100.0), {"num_blocks": 3, "width": 128, "num_heads": 8, "num_seeds": 4, "num_points": 32}),
        ({"num_blocks": 4, "width": 8}, (50, 5.0), {"num_heads": 1, "num_blocks": 4, "width": 8}),
        ({"width": 90}, (50, 5.0), {"num_heads": 5, "width": 90}),
        ({"width": 90, "num_heads": 3}, (50, 5.0), {"width": 90, "num_heads": 3}),
        ({"width": 32, "dropout": 0.1}, (5_000, 5.0), {"num_heads": 2, "width": 32, "dropout": 0.1}),
    ],
)
def test_the_rule(given, sets, expected):
    """Whatever is given stays, and all widths can be built."""
    for strategy in ENCODERS:
        assert suited(strategy, given, *sets) == expected
        build_network(strategy, Layout((), 2), Layout(), 1, **expected)
    assert suited("k2", given, *sets) == given


@pytest.mark.parametrize("strategy", [*ENCODERS, "k1"])
def test_a_fit_takes_what_suits_its_sets(strategy, monkeypatch):
    monkeypatch.setattr(module, "MANY_SETS", 30)
    sets, labels = bags(30)
    model = SetClassifier(strategy, max_epochs=1, random_state=0).fit(sets, labels)
    assert model.trials_[0].settings == (
        {"num_blocks": 3, "width": 128, "num_heads": 8} if strategy in ENCODERS else {}
    )
    assert np.isfinite(model.predict_proba(sets)).all()


def test_what_auto_takes():
    """Points are no more than attention of all, where there are no more elements than points."""
    assert {"set-transformer", "induced", "relations"} <= {candidate.strategy for candidate in AUTO}
    assert Candidate("induced").least_size == 17 and Candidate("induced", {"num_points": 4}).least_size == 5
    assert Candidate("set-transformer").least_size == Candidate("relations").least_size == 2
    factory = Candidate("own", {}, lambda elements, context, out: torch.nn.Linear(2, 2))
    assert factory.suited(5, 5.0) is factory
