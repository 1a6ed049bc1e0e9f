"""TupleMLP against its formula, for each activation."""

from math import cos, erf, exp, log, sin, sqrt, tanh

import pytest
import torch

from janossy import JanossyPooling, Ragged, TupleMLP, Tuples
from janossy.functions import ACTIVATIONS

pytestmark = pytest.mark.usefixtures("float64")

FORMULAS = {
    "tanh": tanh,
    "sigmoid": lambda t: 1 / (1 + exp(-t)),
    "relu": lambda t: max(t, 0.0),
    "gelu": lambda t: t * (1 + erf(t / sqrt(2))) / 2,
    "silu": lambda t: t / (1 + exp(-t)),
    "softplus": lambda t: log(1 + exp(t)),
    "sine": sin,
    "cosine": cos,
    "erf": erf,
}


def test_every_activation_has_its_formula():
    assert set(FORMULAS) == set(ACTIVATIONS)


@pytest.mark.parametrize("out_features", [None, 3])
@pytest.mark.parametrize("hidden", [4, (4,), (5, 4)])
@pytest.mark.parametrize("activation", FORMULAS)
def test_formula(activation, hidden, out_features):
    f = TupleMLP(3, 2, hidden, out_features=out_features, activation=activation)
    x = torch.randn(6, 3, 2)
    y = torch.cat((x[:, 0], x[:, 1], x[:, 2]), dim=1)
    layers = [m for m in f.modules() if isinstance(m, torch.nn.Linear)]
    for layer in layers:
        y = y @ layer.weight.detach().T + layer.bias.detach()
        if layer is not f.output:
            y = y.apply_(FORMULAS[activation])
    assert y.shape == (6, out_features or 4)
    torch.testing.assert_close(f(x).detach(), y, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 2, 3), "all >= 1; got k=0"),
        ((1, 0, 3), "in_features=0"),
        ((1, 2, ()), r"all >= 1; got.*hidden_features=\(\)"),
        ((1, 2, (3, 0)), r"hidden_features=\(3, 0\)"),
        ((1, 2, 3, 0), "out_features=0"),
        ((1, 2, 3, None, "swish"), "among tanh, sigmoid, relu, gelu, silu, softplus, sine, cosine, erf; got 'swish'"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        TupleMLP(*arguments[:3], **dict(zip(("out_features", "activation"), arguments[3:], strict=False)))


@pytest.mark.parametrize("shape", [(5, 3, 2), (5, 2, 3), (5, 4), (5,)])
def test_rows_that_do_not_fit(shape):
    with pytest.raises(ValueError, match=r"expects rows of shape \(T, 2, 2\); got .* Match its k"):
        TupleMLP(2, 2, 3)(torch.zeros(shape))


def test_repr():
    assert "k=2, in_features=2, hidden_features=[3], activation='sine'" in repr(TupleMLP(2, 2, 3, activation="sine"))


@pytest.mark.parametrize("hidden", [4, (5, 4)])
def test_norms_and_dropout(hidden):
    f, x = TupleMLP(2, 2, hidden, out_features=3, dropout=0.5, norm="layer"), torch.randn(6, 2, 2)
    y = x.flatten(1)
    for layer, norm in zip(f.hidden, f.norms, strict=True):
        y = norm(torch.tanh(layer(y)))
    torch.testing.assert_close(f.eval()(x), f.output(y))
    f.train()
    assert not torch.equal(f(x), f(x))
    assert {"dropout=0.5", "norm='layer'"} <= set(f.extra_repr().split(", "))
    assert TupleMLP(**f.config()).state_dict().keys() == f.state_dict().keys()


def test_the_mean_over_dropped_units_is_that_of_evaluation():
    """One hidden layer and an affine output: seeded, eight standard errors."""
    torch.manual_seed(0)
    layer = JanossyPooling(TupleMLP(2, 2, 5, out_features=1, dropout=0.3), Tuples(2))
    sets = Ragged.from_sizes(torch.randn(5, 2), [5])
    draws = torch.stack([layer(sets) for _ in range(500)])
    assert (draws.mean(0) - layer.eval()(sets)).abs() < 8 * draws.std(0) / 500**0.5


@pytest.mark.parametrize("name", ["fused", "spectral"])
def test_evaluators_of_activations_say_why_dropout_is_not_theirs(name):
    layer, sets = (
        JanossyPooling(TupleMLP(2, 2, 4, dropout=0.1), Tuples(2), evaluate=name),
        Ragged.from_sizes(torch.randn(3, 2), [3]),
    )
    with pytest.raises(ValueError, match=r"applies dropout in training; it applies in evaluation, by \.eval"):
        layer(sets)
    gathered = JanossyPooling(layer.f, Tuples(2), evaluate="gather").eval()
    torch.testing.assert_close(layer.eval()(sets), gathered(sets), atol=1e-4, rtol=1e-4)


def test_device_dtype_and_new_weights():
    f = TupleMLP(2, 3, (4, 4), out_features=2, norm="layer", device="meta", dtype=torch.float16)
    assert {(p.device.type, p.dtype) for p in f.parameters()} == {("meta", torch.float16)}
    f = TupleMLP(2, 3, 4, out_features=2)
    before = [p.clone() for p in f.parameters()]
    f.reset_parameters()
    assert not any(torch.equal(a, b) for a, b in zip(before, f.parameters(), strict=True))


@pytest.mark.parametrize("wrong", [{"dropout": -0.1}, {"dropout": "a"}, {"norm": "batch"}, {"norm": 1}])
def test_bad_norms_and_dropout(wrong):
    with pytest.raises((TypeError, ValueError), match=r"TupleMLP expects .*got"):
        TupleMLP(2, 3, 4, **wrong)
