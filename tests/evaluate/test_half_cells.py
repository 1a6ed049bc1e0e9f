"""Recurrences under autocast to bfloat16: compiled steps between torch's products."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("numba", reason="compiled kernels need numba, the extra janossy[fast]")

from numba import njit

from janossy import GRU, LSTM, RNN, AllPermutations, JanossyEquivariant, JanossyPooling, Ragged, Sampled
from janossy.evaluate.cells import layers
from janossy.kernels.cpu.vector import load, num_lanes, store
from tests.examples import D, distinct_sets

EPS = torch.finfo(torch.bfloat16).eps
KINDS = st.sampled_from([RNN, GRU, LSTM])
SIZES = st.lists(st.integers(0, 7), min_size=1, max_size=6).filter(any)
LAYERS = st.sampled_from([{}, {"num_layers": 2}, {"bidirectional": True}, {"per_position": True}])


@njit
def _copied(x, y):
    for i in range(0, len(x), num_lanes(x)):
        store(y, i, load(x, i))


@given(st.integers(0, 2**32 - 1))
def test_numbers_are_rounded_as_torch_rounds_them(seed):
    """All exponents, and ties, infinities and NaN among them."""
    bits = np.random.default_rng(seed).integers(0, 2**32, 256, dtype=np.uint32)
    bits[::4] &= 0xFFFF8000  # ties, and numbers of bfloat16
    bits[:8] = [0, 2**31, 0x7F800000, 0xFF800000, 0x7F7FFFFF, 0x7FFFFFFF, 0x7F800001, 0xFFFFFFFF]
    x, rounded, again = bits.view(np.float32), np.zeros(256, np.uint16), np.zeros(256, np.float32)
    _copied(x, rounded)
    _copied(rounded, again)
    expected = torch.from_numpy(x).bfloat16()
    torch.testing.assert_close(torch.from_numpy(rounded).view(torch.bfloat16), expected, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(torch.from_numpy(again), expected.float(), rtol=0, atol=0, equal_nan=True)


def results(layer, sets, *, half):
    """Returns the output, and the gradients of a fixed loss by elements and weights, in float64."""
    values = sets.values.detach().clone().requires_grad_()
    layer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        output = layer(sets.with_values(values))
    numbers = output.values if isinstance(output, Ragged) else output
    numbers.double().mul(torch.linspace(-1, 1, numbers.shape[-1])).sum().backward()
    return [x.detach().double() for x in (numbers, values.grad, *(p.grad for p in layer.parameters()))]


def errors(got, exact):
    """Returns the errors, relative to the largest number of each tensor."""
    return [((a - b).abs().max() / b.abs().max().clamp(min=1e-9)).item() for a, b in zip(got, exact, strict=True)]


@given(KINDS, LAYERS, st.sampled_from([16, 21, 40]), SIZES, st.booleans())
def test_is_as_near_to_float64_as_torch_operations(kind, settings, H, sizes, shared):
    """Value and gradients, over paths and trees of prefixes."""
    torch.manual_seed(0)
    f, sets = kind(D, H, **settings), distinct_sets(sizes)
    if "per_position" in settings:
        layer = JanossyEquivariant(f, Sampled(2, seed=0))
    elif shared and max(sizes) <= 4 and "bidirectional" not in settings:
        layer = JanossyPooling(f, AllPermutations(), evaluate="shared_prefixes")
    else:
        layer = JanossyPooling(f, Sampled(3, seed=0), evaluate="packed")
    layer.double()
    exact = results(layer, sets.to(torch.float64), half=False)
    layer, calls = layer.float(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layers, "HalfCells", _counted(layers.HalfCells, calls))
        got = results(layer, sets, half=True)
        patch.setattr(layers, "takes_half_cells", lambda *_: False)
        by_torch = results(layer, sets, half=True)
    assert calls
    for ours, theirs in zip(errors(got, exact), errors(by_torch, exact), strict=True):
        assert ours <= 1.5 * theirs + 2 * EPS


def _counted(function, calls):
    class Counted:
        @staticmethod
        def apply(*arguments):
            calls.append(arguments)
            return function.apply(*arguments)

    return Counted


@pytest.mark.parametrize("kind", [RNN, GRU, LSTM])
def test_second_derivatives_are_those_of_torch_operations(kind, monkeypatch):
    torch.manual_seed(0)
    layer, sets = JanossyPooling(kind(D, 16), Sampled(2, seed=0)).float(), distinct_sets((3, 0, 5)).to(torch.float32)

    def second():
        values = sets.values.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16):
            output = layer(sets.with_values(values))
        (slope,) = torch.autograd.grad(output.float().square().sum(), values, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), [values, *layer.parameters()])

    got = second()
    monkeypatch.setattr(layers, "takes_half_cells", lambda *_: False)
    for error in errors(got, second()):
        assert error <= 16 * EPS


@pytest.mark.parametrize(("H", "dtype"), [(8, torch.bfloat16), (16, torch.float16)])
def test_others_take_torch_operations(H, dtype, monkeypatch):
    """Fewer hidden units than a vector has lanes, and another half precision."""
    monkeypatch.setattr(layers, "HalfCells", None)
    layer, sets = JanossyPooling(LSTM(D, H), Sampled(2)).float(), distinct_sets((3, 2)).to(torch.float32)
    with torch.autocast("cpu", dtype):
        assert layer(sets).isfinite().all()


@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.usefixtures("worth_a_thread")
def test_threads_give_the_same_bits(num_threads):
    torch.manual_seed(0)
    layer, sets = JanossyPooling(LSTM(D, 16), Sampled(2, seed=0)).float(), distinct_sets((9, 4, 7)).to(torch.float32)
    alone = results(layer, sets, half=True)
    before = torch.get_num_threads()
    torch.set_num_threads(num_threads)
    try:
        for got, want in zip(results(layer, sets, half=True), alone, strict=True):
            assert (got == want).all()
    finally:
        torch.set_num_threads(before)
