"""The additive structure that TupleMLP declares, and when it declares none."""

import pytest
import torch
from torch import nn
from torch.func import functional_call

from janossy import GRU, TupleMLP
from janossy.functions import ACTIVATIONS, Additive, Recurrent, structure

pytestmark = pytest.mark.usefixtures("float64")


def close(a, b):
    torch.testing.assert_close(a, b, atol=1e-12, rtol=1e-12)


def law_additive(f, d):
    """Checks that rest(σ(Σ_j p_j(x_j))) is f, and that the zero vector projects only to the bias in position 0."""
    additive = structure(f)
    assert isinstance(additive, Additive)
    rows = torch.randn(6, additive.k, d)
    projections = additive.project(rows.flatten(0, 1)).unflatten(0, rows.shape[:2])
    total = sum(projections[:, j, j] for j in range(additive.k))
    close(additive.rest(ACTIVATIONS[additive.activation](total)), f(rows))
    zero = additive.project(torch.zeros(1, d))[0]
    close(zero[0], additive.bias)
    assert not zero[1:].any()


@pytest.mark.parametrize("out_features", [None, 3])
@pytest.mark.parametrize("hidden", [4, (5, 4)])
@pytest.mark.parametrize("k", [1, 3])
def test_it_is_f(k, hidden, out_features):
    for activation in ACTIVATIONS:
        f = TupleMLP(k, 2, hidden, out_features=out_features, activation=activation)
        law_additive(f, 2)
        assert structure(f).rest_is_affine == (hidden == 4)


def test_a_structure_that_is_off_is_found():
    class Wrong(TupleMLP):
        def _rest(self, x):
            return super()._rest(x) + structure(self).bias.sum()

        def structure(self):
            good = super().structure()
            return type(good)(**{**vars(good), "project": lambda x: good.project(x) + 1})

    with pytest.raises(AssertionError):
        law_additive(Wrong(2, 2, 4), 2)


def test_weights_are_those_of_the_call():
    f = TupleMLP(2, 3, 4)
    x = torch.randn(5, 3)
    before = structure(f).project(x)
    weights = {name: p.detach() + 1 for name, p in f.named_parameters()}

    class Projects(nn.Module):
        def __init__(self):
            super().__init__()
            self.f = f

        def forward(self, x):
            return structure(self.f).project(x)

    swapped = functional_call(Projects(), {f"f.{name}": p for name, p in weights.items()}, (x,))
    close(swapped, before + x.sum(1)[:, None, None] + torch.tensor([1.0, 0])[:, None])


@pytest.mark.parametrize("shape", [(5, 3), (5,), (5, 2, 2)])
def test_elements_that_do_not_fit(shape):
    with pytest.raises(ValueError, match=r"expects rows of shape \(T, 2, 2\); got \(5, 2.* Match its k"):
        structure(TupleMLP(2, 2, 3)).project(torch.zeros(shape))


class Doubled(nn.Linear):
    """A stand-in for LoRA: more than a linear layer's own forward."""

    def forward(self, x):
        return 2 * super().forward(x)


class Own(TupleMLP):
    def forward(self, x):
        return super().forward(x).square()


def edited(edit):
    f = TupleMLP(2, 3, (4, 5), out_features=6)
    edit(f)
    return f


UNDECLARED = {
    "an overridden forward": lambda: Own(2, 3, 4),
    "a forward of the object's": lambda: edited(lambda f: setattr(f, "forward", lambda x: x.sum((1, 2))[:, None])),
    "a hook": lambda: edited(lambda f: f.register_forward_hook(lambda *_: None)),
    "a hook before": lambda: edited(lambda f: f.register_forward_pre_hook(lambda *_: None)),
    "a hook on a layer": lambda: edited(lambda f: f.hidden[1].register_forward_hook(lambda *_: None)),
    "a hook on the way back": lambda: edited(lambda f: f.hidden[0].register_full_backward_hook(lambda *_: None)),
    "another first layer": lambda: edited(lambda f: f.hidden.__setitem__(0, Doubled(6, 4))),
    "a first layer that is no nn.Linear": lambda: edited(
        lambda f: f.hidden.__setitem__(0, nn.Sequential(nn.Linear(6, 4)))
    ),
    "a forward of the first layer's": lambda: edited(lambda f: setattr(f.hidden[0], "forward", lambda x: x[:, :4])),
}


@pytest.mark.parametrize("case", UNDECLARED)
def test_nothing_is_declared_that_would_bypass_code(case):
    f = UNDECLARED[case]()
    assert hasattr(f, "structure") and structure(f) is None


def test_nothing_is_declared_by_others():
    assert isinstance(structure(GRU(2, 3)), Recurrent)
    assert structure(nn.Linear(2, 3)) is None
    assert structure(lambda x: x.sum(1)) is None


def test_what_still_runs_is_declared():
    def with_a_square_before_the_output(f):
        f.output = nn.Sequential(nn.Linear(5, 6), Doubled(6, 6))

    law_additive(edited(with_a_square_before_the_output), 3)
    law_additive(edited(lambda f: nn.utils.parametrizations.weight_norm(f.hidden[0])), 3)
    law_additive(edited(lambda f: setattr(f.hidden[0], "bias", None)), 3)
    hooked = edited(lambda f: None)
    hooked.hidden[0].register_forward_hook(lambda *_: None).remove()
    law_additive(hooked, 3)


def test_the_rest_is_affine_only_if_its_output_layer_is():
    f = TupleMLP(2, 3, 4, out_features=5)
    assert structure(f).rest_is_affine
    f.output = Doubled(4, 5)
    assert not structure(f).rest_is_affine
    assert structure(TupleMLP(2, 3, 4)).rest_is_affine and not structure(TupleMLP(2, 3, (4, 4))).rest_is_affine
