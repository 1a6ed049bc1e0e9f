"""MinGRU equals its recurrence, step by step, for gates of every size; L = 0 gives zero."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call, stack_module_state, vmap

from janossy.functions.min_gru import MinGRU
from tests.laws import close, saved_bytes

pytestmark = pytest.mark.usefixtures("float64")


def step_by_step(f, x):
    """Returns the definition, one state after the other, with the weights of f."""
    for gate, candidate in zip(f.gates, f.candidates, strict=True):
        h, states = x.new_zeros(len(x), f.hidden_features), []
        for x_t in x.unbind(1):
            z = torch.sigmoid(x_t @ gate.weight.T + gate.bias)
            h = (1 - z) * h + z * (x_t @ candidate.weight.T + candidate.bias)
            states.append(h)
        x = torch.stack(states, 1)
    return h


def value_and_gradients(run, f, x):
    x = x.clone().requires_grad_()
    y = run(f, x)
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    return [y.detach(), *torch.autograd.grad((y * weights).sum(), [x, *f.parameters()])]


def law_equals_step_by_step(f, x, tolerance):
    for got, want in zip(
        value_and_gradients(lambda f, x: f(x), f, x), value_and_gradients(step_by_step, f, x), strict=True
    ):
        assert got.isfinite().all()
        close(got, want, atol=tolerance * max(1.0, want.abs().max().item()), rtol=0)


TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5}


@given(st.integers(1, 40), st.integers(1, 3), st.sampled_from(list(TOLERANCES)), st.integers(0, 99))
def test_equals_the_recurrence(length, num_layers, dtype, seed):
    torch.manual_seed(seed)
    f = MinGRU(2, 3, num_layers=num_layers).to(dtype)
    law_equals_step_by_step(f, 3 * torch.randn(4, length, 2, dtype=dtype), TOLERANCES[dtype])


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("bias", [-40.0, -7.0, 7.0, 40.0])
@pytest.mark.cover(1)
def test_nearly_closed_and_nearly_open_gates(bias, dtype):
    """Up to logits of ±40 and of both signs in one row, over 300 steps."""
    f = MinGRU(2, 3, num_layers=2).to(dtype)
    for gate in f.gates:
        nn.init.constant_(gate.bias, bias)
    x = torch.randn(2, 300, 2, dtype=dtype)
    law_equals_step_by_step(f, x, TOLERANCES[dtype])
    nn.init.constant_(f.gates[0].weight, 10.0)
    law_equals_step_by_step(f, x, TOLERANCES[dtype])


def test_the_law_finds_a_forgotten_step():
    f = MinGRU(2, 3)
    f.forward = lambda x: step_by_step(f, x[:, 1:])
    with pytest.raises(AssertionError):
        law_equals_step_by_step(f, torch.randn(4, 5, 2), 1e-12)


def test_closed_gates_keep_nothing_and_open_gates_the_last():
    f, x = MinGRU(2, 3), torch.randn(4, 9, 2)
    nn.init.zeros_(f.gates[0].weight)
    nn.init.constant_(f.gates[0].bias, -800.0)
    assert torch.equal(f(x), torch.zeros(4, 3))
    nn.init.constant_(f.gates[0].bias, 800.0)
    close(f(x), f.candidates[0](x[:, -1]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_empty_rows_give_zero(dtype):
    f = MinGRU(2, 3, num_layers=2).to(dtype)
    assert torch.equal(f(torch.zeros(4, 0, 2, dtype=dtype)), torch.zeros(4, 3, dtype=dtype))
    for length in (0, 1, 4, 5):
        assert f(torch.zeros(0, length, 2, dtype=dtype)).shape == (0, 3)


@pytest.mark.parametrize("length", [1, 7, 33])
def test_a_row_does_not_depend_on_the_others(length):
    f, x = MinGRU(2, 8, num_layers=2), torch.randn(1, length, 2)
    x = torch.cat((x, torch.randn(5, length, 2), x))
    together = f(x)
    for row, y in zip(x, together, strict=True):
        close(f(row[None])[0], y)
    close(together[0], together[-1])


@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("length", [1, 2, 5, 8])
def test_derivatives(length, num_layers):
    f = MinGRU(2, 3, num_layers=num_layers)
    names = [name for name, _ in f.named_parameters()]

    def run(x, *parameters):
        return functional_call(f, dict(zip(names, parameters, strict=True)), x)

    inputs = [torch.randn(2, length, 2).requires_grad_(), *f.parameters()]
    assert gradcheck(run, inputs, fast_mode=True)
    assert gradgradcheck(run, inputs, fast_mode=True)


def test_many_at_once():
    models, x = [MinGRU(2, 3, num_layers=2) for _ in range(4)], torch.randn(5, 7, 2)
    parameters, buffers = stack_module_state(models)
    together = vmap(lambda p, b: functional_call(models[0], (p, b), (x,)))(parameters, buffers)
    close(together, torch.stack([f(x) for f in models]))


@pytest.mark.parametrize("length", [*(pytest.param(n, marks=pytest.mark.only_all) for n in (1, 6)), 13])
def test_compiled(length):
    torch.compiler.reset()
    f, x = MinGRU(2, 3, num_layers=2), torch.randn(4, length, 2)
    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    for got, want in zip(
        value_and_gradients(lambda _, x: compiled(x), f, x), value_and_gradients(lambda f, x: f(x), f, x), strict=True
    ):
        close(got, want)


def test_dropout_between_layers_only_in_training():
    x = torch.randn(3, 4, 2)
    f = MinGRU(2, 8, num_layers=2, dropout=0.5)
    assert not torch.equal(f(x), f(x))
    f.eval()
    assert torch.equal(f(x), f(x))
    alone = MinGRU(2, 8, dropout=0.5)
    assert torch.equal(alone(x), alone(x))


@pytest.mark.parametrize("num_layers", [1, 2, 3])
@pytest.mark.parametrize("length", [127, 128, 1000])
def test_memory_is_as_stated_whatever_the_length(length, num_layers):
    f, x = MinGRU(16, 16, num_layers=num_layers), torch.randn(2, length, 16)
    saved = saved_bytes(lambda: f(x), list(f.parameters())) / (8 * x.numel())
    assert saved - 1 == pytest.approx(6 + 8 * (num_layers - 1), rel=0.05)  # the 1 is x


def test_errors():
    with pytest.raises(ValueError, match=r"this MinGRU expects rows of shape \(T, L, 2\); got \(4, 3\)\."):
        MinGRU(2, 3)(torch.zeros(4, 3))
    with pytest.raises(ValueError, match=r"got \(4, 3, 5\)"):
        MinGRU(2, 3)(torch.zeros(4, 3, 5))
    for arguments in ((0, 3, 1), (2, 0, 1), (2, 3, 0)):
        with pytest.raises(ValueError, match=r"all >= 1.*got in_features="):
            MinGRU(*arguments[:2], num_layers=arguments[2])
    with pytest.raises(ValueError, match=r"dropout in \[0, 1\]; got .*dropout=1\.5"):
        MinGRU(2, 3, dropout=1.5)


def test_repr():
    assert "in_features=2, hidden_features=3\n" in repr(MinGRU(2, 3))


@given(
    st.lists(st.integers(0, 9), max_size=4).map(lambda lengths: [*lengths, 1]), st.integers(1, 3), st.integers(0, 99)
)
def test_masked_equals_alone(lengths, num_layers, seed):
    """Wherever the padding stands, whatever it holds, in value and gradients."""
    torch.manual_seed(seed)
    f = MinGRU(2, 3, num_layers=num_layers)
    mask = torch.rand(len(lengths), 9).argsort(1).argsort(1) < torch.tensor(lengths)[:, None]
    x = torch.randn(len(lengths), 9, 2).masked_fill(~mask[..., None], torch.nan)

    def alone(f, x):
        return torch.cat([f(row[real][None]) for row, real in zip(x, mask, strict=True)])

    for got, want in zip(
        value_and_gradients(lambda f, x: f(x, mask), f, x), value_and_gradients(alone, f, x), strict=True
    ):
        close(got, want)


def test_without_its_mask_padding_counts():
    f, x, mask = MinGRU(2, 3), torch.randn(1, 5, 2), torch.arange(5)[None] < 3
    assert not torch.allclose(f(x), f(x, mask))


def test_masks_it_does_not_take():
    f, x = MinGRU(2, 3), torch.randn(4, 5, 2)
    for mask in (torch.ones(4, 4).bool(), torch.ones(4, 5)):
        with pytest.raises(ValueError, match=r"a mask of shape \(4, 5\) and dtype torch\.bool; got"):
            f(x, mask)
