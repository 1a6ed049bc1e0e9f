"""The pooled vectors of sets: what ρ reads, whatever the batch and the order of the elements."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from torch import nn

from janossy.estimators import SetClassifier, SetRegressor
from janossy.tables import as_sets
from tests.estimators.sets import bags


@pytest.mark.parametrize("strategy", ["k1", "k2+features", "attention", "gru"])
def test_it_is_what_the_readout_reads(strategy):
    sets, y = bags(60)
    model = SetClassifier(strategy, max_epochs=2, validation=3, num_permutations=7, random_state=0).fit(sets, y)
    vectors = model.transform(sets)
    names = model.get_feature_names_out()
    assert vectors.shape == (60, len(names)) and vectors.dtype == np.float32 and len(set(names)) == len(names)
    assert names[0] == "network0_0" and names[-1].startswith("network2_")
    alone = np.concatenate([model.transform([each]) for each in sets[:5]])
    np.testing.assert_allclose(alone, vectors[:5], rtol=1e-4, atol=1e-5)
    if strategy == "gru":
        return  # orders are drawn by the order of the elements
    reordered = [each[::-1].copy() for each in sets]
    np.testing.assert_allclose(model.transform(reordered), vectors, rtol=1e-4, atol=1e-5)
    network, width = model.ensemble_.networks[0], len(names) // 3
    *hidden, last = network.rho.layers
    z = torch.from_numpy(vectors[:, :width])
    for layer in hidden:
        z = layer(z).relu()
    encoded = model.encoder_.transform(as_sets(sets)).elements
    torch.testing.assert_close(last(z), network(encoded), rtol=1e-4, atol=1e-4)


def test_in_scikit_learn():
    sets, y = bags(80)
    model = SetClassifier("max", max_epochs=10, validation=0.2, random_state=0)
    pipeline = make_pipeline(model, LogisticRegression(max_iter=1000)).fit(sets, y)
    assert pipeline.score(sets, y) > 0.8
    frame = model.set_output(transform="pandas").fit_transform(sets, y)
    assert isinstance(frame, pd.DataFrame) and list(frame.columns) == list(model.get_feature_names_out())
    assert not hasattr(model, "partial_fit") and "warm_start" not in model.get_params()


def test_a_classical_learner_gives_its_statistics():
    sets, y = bags(60)
    model = SetClassifier("linear", validation=2, random_state=0).fit(sets, y)
    vectors = model.transform(sets)
    assert vectors.shape == (60, len(model.get_feature_names_out())) and np.isfinite(vectors).all()
    assert {len(each) for each in sets} <= set(vectors[:, 0].tolist())  # the size is one of them


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1, 1)

    def forward(self, sets, *, context=None, generator=None):
        return self.layer(torch.tensor(sets.sizes, dtype=torch.float32)[:, None])


def test_a_module_without_pooling_has_none():
    model = SetRegressor(lambda *_: Own(), max_epochs=1).fit([[1.0], [2.0, 3.0]] * 5, [1.0, 2.0] * 5)
    with pytest.raises(TypeError, match="transform expects a JanossyNetwork; got Own"):
        model.transform([[1.0]])
