"""FeaturedMLP: half of each layer reads the features alone."""

import pytest
import torch
from torch import nn

from janossy import JanossyPooling, TupleMLP, Tuples
from janossy.functions import FeaturedMLP, TupleFeatures, structure
from tests.examples import distinct_sets, generator
from tests.laws import close, law_invariant

pytestmark = pytest.mark.usefixtures("float64")


def features(k: int = 2) -> TupleFeatures:
    return TupleFeatures(k, 3, differences=[0], products=[2], distances=[[0, 1]])


@pytest.mark.parametrize(("hidden", "out"), [(8, None), ((7, 5), 2), ([6, 4, 2], None)])
@pytest.mark.parametrize("k", [2, 3])
def test_by_hand(k, hidden, out):
    f = FeaturedMLP(k, 3, hidden, features=features(k), out_features=out, activation="relu")
    rows = torch.randn(9, k, 3, generator=generator())
    phi = f.features(rows)
    a, b = torch.cat((rows.flatten(1), phi), dim=1), phi
    widths = [hidden] if isinstance(hidden, int) else hidden
    for one, other, width in zip(f.of_all, f.of_features, widths, strict=True):
        a, b = one(a).relu(), other(b).relu()
        assert a.shape[1] + b.shape[1] == width and a.shape[1] - b.shape[1] in (0, 1)
    hidden_units = torch.cat((a, b), dim=1)
    close(f(rows), hidden_units if out is None else f.output(hidden_units))


def test_half_of_the_units_see_no_place():
    """Only differences: moving all elements of a row by the same vector leaves them as they are."""
    f = FeaturedMLP(2, 3, (8, 6), features=TupleFeatures(2, 3, absolute_differences=[0, 1, 2]), activation="gelu")
    rows = torch.randn(5, 2, 3, generator=generator())
    there, here = f(rows + 10), f(rows)
    close(there[:, 3:], here[:, 3:], atol=1e-9, rtol=0)
    assert (there[:, :3] - here[:, :3]).abs().amax(0).min() > 1e-3


@pytest.mark.parametrize("k", [2, 3])
def test_the_mean_over_tuples_is_invariant(k):
    given = TupleFeatures(k, 2, differences=[0], products=[1], distances=[[0, 1]], periods={1: 1.0})
    law_invariant(JanossyPooling(FeaturedMLP(k, 2, 6, features=given), Tuples(k)), distinct_sets())


def test_no_evaluator_may_take_it_apart():
    f = FeaturedMLP(2, 3, 4, features=features())
    assert structure(f) is None
    with pytest.raises(ValueError, match="FeaturedMLP declares no additive structure"):
        JanossyPooling(f, Tuples(2), evaluate="projected")(distinct_sets())


def test_states_say_k_and_activation():
    state = FeaturedMLP(2, 3, 4, features=features(), activation="relu").state_dict()
    with pytest.raises(RuntimeError, match="has activation='tanh', and the state is of activation='relu'"):
        FeaturedMLP(2, 3, 4, features=features()).load_state_dict(state)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"features": TupleFeatures(2, 3)}, ValueError, "features of one column at least, .*; got 0 columns"),
        ({"hidden_features": (4, 1)}, ValueError, r"hidden_features >= 2, half of them for each; got .*\(4, 1\)"),
        ({"features": nn.ReLU()}, TypeError, r"says its out_features; got ReLU\(\). TupleFeatures is one"),
        ({"activation": "no"}, ValueError, "an activation among"),
    ],
)
def test_errors(arguments, error, message):
    with pytest.raises(error, match=message):
        FeaturedMLP(**{"k": 2, "in_features": 3, "hidden_features": 4, "features": features()} | arguments)


def test_rows_of_another_k_are_refused():
    with pytest.raises(ValueError, match=r"rows of shape \(T, 2, 3\); got \(5, 3, 3\)"):
        FeaturedMLP(2, 3, 4, features=features())(torch.zeros(5, 3, 3))
    assert TupleMLP(3, 3, 4)(torch.zeros(5, 3, 3)).shape == (5, 4)
