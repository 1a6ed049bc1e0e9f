"""TupleMLP against its formula, for each activation."""

from math import cos, erf, exp, log, sin, sqrt, tanh

import pytest
import torch

from janossy import TupleMLP
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
    assert "k=2, activation=sine" in repr(TupleMLP(2, 2, 3, activation="sine"))
