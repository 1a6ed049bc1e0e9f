"""RNN, GRU, LSTM: the kernel path equals the unrolled one and torch's module; L = 0 gives zero."""

import pytest
import torch
from torch import nn

from janossy import GRU, LSTM, RNN, Canonical, JanossyPooling, Ragged

pytestmark = pytest.mark.usefixtures("float64")

KINDS = [(RNN, nn.RNN), (GRU, nn.GRU), (LSTM, nn.LSTM)]
SHAPES = [{}, {"num_layers": 2}, {"bidirectional": True}, {"num_layers": 3, "bidirectional": True}]


def value_and_gradients(f, x, parameters):
    x = x.clone().requires_grad_()
    y = f(x)
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    return [y.detach(), *torch.autograd.grad((y * weights).sum(), [x, *parameters])]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("ours", "torchs"), KINDS)
def test_equals_torch_and_unrolled(ours, torchs, shape):
    reference = torchs(2, 3, batch_first=True, **shape)
    kernel, unrolled = ours(2, 3, **shape), ours(2, 3, unrolled=True, **shape)
    for f in (kernel, unrolled):
        f.load_state_dict(reference.state_dict())
        assert list(f.state_dict()) == list(reference.state_dict())
    directions = 2 if shape.get("bidirectional") else 1

    def last_hidden(x):
        last = reference(x)[1]
        last = last[0] if isinstance(last, tuple) else last
        return torch.cat(list(last[-directions:]), dim=1)

    x = torch.randn(4, 5, 2)
    expected = value_and_gradients(last_hidden, x, reference.parameters())
    assert expected[0].shape == (4, 3 * directions)
    for f in (kernel, unrolled):
        for got, want in zip(value_and_gradients(f, x, f.parameters()), expected, strict=True):
            torch.testing.assert_close(got, want, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("ours", "torchs"), KINDS)
def test_initialised_as_torchs(ours, torchs, shape):
    """The same weights under the same names, whose state loads, strictly; and as many numbers drawn."""
    states, numbers = [], []
    for kind in (ours, torchs):
        torch.manual_seed(5)
        states.append(kind(2, 3, **shape).state_dict())
        numbers.append(torch.rand(1))
    mine, theirs = states
    assert list(mine) == list(theirs) and torch.equal(*numbers)
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    torch.manual_seed(6)
    f = ours(2, 3, **shape)
    f.load_state_dict(theirs, strict=True)
    assert all(torch.equal(p, theirs[name]) for name, p in f.named_parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize(("ours", "torchs"), KINDS)
def test_empty_rows_give_zero(ours, torchs, dtype):
    f = ours(2, 3, bidirectional=True).to(dtype)
    y = f(torch.zeros(4, 0, 2, dtype=dtype))
    assert torch.equal(y, torch.zeros(4, 6, dtype=dtype))
    assert f(torch.zeros(0, 4, 2, dtype=dtype)).shape == (0, 6)


@pytest.mark.parametrize("unrolled", [False, True])
@pytest.mark.parametrize(("ours", "torchs"), KINDS)
def test_dropout_between_layers_only_in_training(ours, torchs, unrolled):
    f = ours(2, 8, num_layers=2, dropout=0.5, unrolled=unrolled)
    x = torch.randn(3, 4, 2)
    assert not torch.equal(f(x), f(x))
    f.eval()
    assert torch.equal(f(x), f(x))


@pytest.mark.parametrize("shape", [{}, {"num_layers": 2, "bidirectional": True}], ids=str)
@pytest.mark.parametrize(("ours", "torchs"), KINDS)
@pytest.mark.cover(1)
def test_parametrized_weights_are_the_ones_used(ours, torchs, shape):
    class Halved(nn.Module):
        def forward(self, weight):
            return weight / 2

    f, halved, x = ours(2, 3, **shape), ours(2, 3, **shape), torch.randn(4, 5, 2)
    halved.load_state_dict(f.state_dict())
    with torch.no_grad():
        halved.weight_hh_l0.div_(2)
    nn.utils.parametrize.register_parametrization(f, "weight_hh_l0", Halved())
    sets = Ragged.from_padded(x)
    for evaluate in ("gather", "packed"):
        layers = [JanossyPooling(each, Canonical(), evaluate=evaluate) for each in (f, halved)]
        torch.testing.assert_close(*(layer(sets) for layer in layers), atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize(("ours", "torchs"), KINDS)
def test_reset_parameters_draws_as_torch_does(ours, torchs):
    f, reference = ours(2, 3, num_layers=2, bidirectional=True), torchs(2, 3, num_layers=2, bidirectional=True)
    for module in (f, reference):
        torch.manual_seed(6)
        module.reset_parameters()
    assert all(torch.equal(a, b) for a, b in zip(f.parameters(), reference.parameters(), strict=True))


@pytest.mark.parametrize("unrolled", [False, True])
@pytest.mark.parametrize(("ours", "torchs"), KINDS)
def test_every_position(ours, torchs, unrolled):
    shape = {"num_layers": 2, "bidirectional": True}
    f, reference = ours(2, 3, per_position=True, unrolled=unrolled, **shape), torchs(2, 3, batch_first=True, **shape)
    f.load_state_dict(reference.state_dict())
    x = torch.randn(4, 5, 2)
    torch.testing.assert_close(f(x), reference(x)[0], atol=1e-12, rtol=1e-12)
    assert f(x[:, :0]).shape == (4, 0, 6)


@pytest.mark.parametrize(("ours", "torchs"), KINDS)
def test_errors(ours, torchs):
    message = rf"this {ours.__name__} expects rows of shape \(T, L, 2\); got \(4, 3\)"
    with pytest.raises(ValueError, match=message):
        ours(2, 3)(torch.zeros(4, 3))
    with pytest.raises(ValueError, match=r"got \(4, 3, 5\)"):
        ours(2, 3)(torch.zeros(4, 3, 5))
    assert "in_features=2, hidden_features=3)" in repr(ours(2, 3))
