from itertools import combinations, pairwise, permutations
from math import comb, perm

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import janossy.kernels.cpu.tuple_means as module
from janossy.kernels.cpu import compiled
from janossy.kernels.cpu.activations import CODES
from janossy.kernels.cpu.tuple_means import tuple_means
from janossy.kernels.limits import num_tuples

ACTIVATIONS = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "silu": torch.nn.functional.silu,
    "softplus": lambda x: -torch.nn.functional.logsigmoid(-x),  # torch's softplus is x from 20 on
    "sine": torch.sin,
    "cosine": torch.cos,
    "erf": torch.erf,
}
PERIODIC = ("sine", "cosine")
TOLERANCE = {"float32": 1e-6, "float64": 1e-14}
TUPLES = {False: permutations, True: combinations}


def enumerated(p, offsets, increasing, activation):
    """Returns the means and slopes by itertools, in float64."""
    p = torch.from_numpy(p.astype(np.float64)).requires_grad_()
    k, width = p.shape[1:]
    means = []
    for start, stop in pairwise(offsets.tolist()):
        rows = list(TUPLES[increasing](range(start, stop), min(k, stop - start)))
        if start == stop:
            means.append(p.new_zeros(width))
            continue
        total = sum(p[[row[j] for row in rows], j] for j in range(len(rows[0])))
        means.append(ACTIVATIONS[activation](total).mean(0))
    out = torch.stack(means)
    if not out.requires_grad:
        return out.numpy(), np.zeros(p.shape)
    (slopes,) = torch.autograd.grad(out.sum(), p)
    return out.detach().numpy(), slopes.numpy()


def batch(k, width, dtype="float64", scale=1.0, sizes=None, seed=0):
    sizes = [0, 1, k - 1, k, 5, 3] if sizes is None else sizes
    offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    p = np.random.default_rng(seed).standard_normal((offsets[-1], k, width)) * scale
    return p.astype(dtype), offsets


def assert_close(got, want, tolerance):
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape
        finite = np.isfinite(b)
        largest = np.abs(b[finite]).max(initial=1.0)
        np.testing.assert_allclose(a, b, atol=tolerance * largest, rtol=tolerance)


def check(p, offsets, increasing, activation, tolerance):
    want = enumerated(p, offsets, increasing, activation)
    got = tuple_means(p, offsets, increasing, activation, True, 1)
    assert_close(got, want, tolerance)
    out, slopes = tuple_means(p, offsets, increasing, activation, False, 1)
    np.testing.assert_allclose(out, got[0], rtol=tolerance, atol=tolerance)
    assert slopes.shape == (0,)


FEW_IN_FLOAT32 = ("tanh", "relu", "gelu", "sine")
"""One of each kind of activation: the same loop around others, which test_activations.py has in both dtypes."""

IN_FLOAT32 = [
    pytest.param(activation, marks=() if activation in FEW_IN_FLOAT32 else pytest.mark.only_all)
    for activation in sorted(CODES)
]


@pytest.mark.parametrize("activation", sorted(CODES))
def test_equals_enumeration(activation):
    equals_enumeration(activation, "float64")


@pytest.mark.parametrize("activation", IN_FLOAT32)
def test_equals_enumeration_in_float32(activation):
    equals_enumeration(activation, "float32")


def equals_enumeration(activation, dtype):
    for k in range(1, 5):
        for increasing in (False, True):
            check(*batch(k, 7, dtype), increasing, activation, TOLERANCE[dtype])


@pytest.mark.parametrize("width", [1, 7, 8, 16, 30, 33])
@pytest.mark.parametrize("dtype", sorted(TOLERANCE))
def test_any_width(width, dtype):
    for increasing in (False, True):
        check(*batch(2, width, dtype), increasing, "tanh", TOLERANCE[dtype])


@pytest.mark.parametrize("scale", [1e-3, 30.0, 1e4, 1e30])
@pytest.mark.parametrize("activation", sorted(CODES))
def test_any_scale(activation, scale):
    for k, increasing in ((2, False), (3, True)):
        p, offsets = batch(k, 7, scale=scale)
        if activation in PERIODIC and scale > 1e3:  # sums of such angles are noise in float64: compare them reduced
            p = p.astype(np.float32)
            got = tuple_means(p.astype(np.float64), offsets, increasing, activation, True, 1)
            wide = p.astype(np.float64)
            assert_close(
                got, enumerated(np.arctan2(np.sin(wide), np.cos(wide)), offsets, increasing, activation), 1e-13
            )
        else:
            check(p, offsets, increasing, activation, 1e-14 * max(1.0, scale if activation in PERIODIC else 1.0))


@pytest.mark.parametrize("activation", IN_FLOAT32)
def test_float32_at_scale_30(activation):
    check(*batch(3, 7, "float32", scale=30.0), False, activation, 1e-5)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("activation", sorted(CODES))
def test_nan_and_infinity_as_in_torch(activation, special):
    for k, increasing in ((1, False), (2, False), (2, True)):
        p, offsets = batch(k, 7, sizes=[4, 0, 4, 3])
        p[1, 0, 2] = special
        p[4, k - 1, 3] = special
        p[2, 0, 5], p[3, k - 1, 5] = np.inf, -np.inf
        want, want_slopes = enumerated(p, offsets, increasing, activation)
        got, slopes = tuple_means(p, offsets, increasing, activation, True, 1)
        np.testing.assert_allclose(got, want, atol=1e-13)
        finite = np.isfinite(want_slopes)
        np.testing.assert_allclose(slopes[finite], want_slopes[finite], atol=1e-13)


def test_duplicates():
    p, offsets = batch(3, 7, sizes=[6, 5])
    p[1:5] = p[0]
    for increasing in (False, True):
        check(p, offsets, increasing, "gelu", 1e-14)


@given(st.lists(st.integers(0, 6), max_size=5), st.integers(1, 4), st.booleans(), st.integers(0, 2**32 - 1))
def test_ragged_batches(sizes, k, increasing, seed):
    p, offsets = batch(k, 9, sizes=sizes, seed=seed)
    out, slopes = tuple_means(p, offsets, increasing, "tanh", True, 1)
    if sizes:
        assert_close((out, slopes), enumerated(p, offsets, increasing, "tanh"), 1e-14)
    else:
        assert out.shape == (0, 9)


@pytest.mark.parametrize("increasing", [False, True])
@pytest.mark.parametrize("n, k", [(33, 2), (150, 2), (40, 3)])
def test_sums_long_enough_to_be_carried(n, k, increasing):
    p, offsets = batch(k, 5, sizes=[n, 2, n - 1])
    check(p, offsets, increasing, "tanh", 1e-14)
    check(p.astype(np.float32), offsets, increasing, "tanh", 1e-6)


def test_float32_keeps_its_precision_over_a_million_equal_tuples():
    p = np.full((1000, 2, 16), 0.3, np.float32)
    out, slopes = tuple_means(p, np.array([0, 1000]), False, "tanh", True, 1)
    exact = np.tanh(2.0 * np.float64(np.float32(0.3)))
    assert np.abs(out - exact).max() < 5e-7
    assert np.abs(slopes * 1000 - (1 - exact**2)).max() < 1e-6


def test_only_the_sets_asked_for():
    p, offsets = batch(2, 9, sizes=[3, 4, 0, 5])
    out, slopes = np.full((4, 9), 7.0), np.full_like(p, 7.0)
    sets = np.array([3, 0])
    results = tuple_means(p, offsets, False, "silu", True, 1, sets, out, slopes)
    assert results[0] is out and results[1] is slopes
    whole, whole_slopes = tuple_means(p, offsets, False, "silu", True, 1)
    np.testing.assert_array_equal(out[sets], whole[sets])
    assert (out[[1, 2]] == 7).all()
    np.testing.assert_array_equal(slopes[:3], whole_slopes[:3])
    assert (slopes[3:7] == 7).all()
    np.testing.assert_array_equal(slopes[7:], whole_slopes[7:])
    assert (tuple_means(p, offsets, False, "silu", False, 1, np.array([2]), out)[0][2] == 0).all()


@pytest.mark.usefixtures("worth_a_thread")
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_threads_change_nothing(activation, monkeypatch):
    monkeypatch.setattr(compiled, "WORTH_A_THREAD", 100.0)
    p, offsets = batch(2, 33, sizes=[200, 3, 0, 150, 40])
    for with_slopes in (False, True):
        one = tuple_means(p, offsets, False, activation, with_slopes, 1)
        four = tuple_means(p, offsets, False, activation, with_slopes, 4)
        for a, b in zip(one, four, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("increasing", [False, True])
def test_num_tuples(increasing):
    sizes = [0, 1, 2, 3, 4, 5, 6, 10_000]
    for k in range(1, 5):
        exact = [(comb if increasing else perm)(n, min(n, k)) for n in sizes]
        np.testing.assert_allclose(num_tuples(sizes, k, increasing), exact, rtol=1e-14)
        assert num_tuples([], k, increasing).shape == (0,)


@pytest.fixture
def sorting(monkeypatch):
    """Makes sorting compute ReLU pairs, whatever the size."""
    monkeypatch.setattr(module, "SORTING_COST", dict.fromkeys(TOLERANCE, 0.0))


@pytest.mark.usefixtures("sorting")
@pytest.mark.parametrize("dtype", sorted(TOLERANCE))
@pytest.mark.parametrize("increasing", [False, True])
class TestReluPairs:
    def test_equal_enumeration(self, dtype, increasing):
        check(*batch(2, 5, dtype, sizes=[2, 3, 4, 5, 7, 8, 33, 50]), increasing, "relu", TOLERANCE[dtype])

    def test_ties_at_zero(self, dtype, increasing):
        p, offsets = batch(2, 5, sizes=[2, 3, 9, 30])
        check(np.round(p).astype(dtype), offsets, increasing, "relu", TOLERANCE[dtype])
        check(np.zeros_like(p, dtype), offsets, increasing, "relu", TOLERANCE[dtype])

    def test_nan_and_infinity(self, dtype, increasing):
        p, offsets = batch(2, 300, dtype, sizes=[2, 3, 5, 8])
        generator = np.random.default_rng(1)
        chosen = generator.random(p.shape) < 0.1
        p[chosen] = generator.choice([np.nan, np.inf, -np.inf], chosen.sum(), p=[0.1, 0.45, 0.45])
        want, want_slopes = enumerated(p, offsets, increasing, "relu")
        assert {0.0, np.inf}.issubset(want.flat) and np.isnan(want).any()
        assert_close(tuple_means(p, offsets, increasing, "relu", True, 1), (want, want_slopes), TOLERANCE[dtype])


def test_relu_pairs_are_sorted_when_that_is_cheaper(monkeypatch):
    p, offsets = batch(2, 1, sizes=[500])
    monkeypatch.setattr(module, "tuple_kernel", None)
    by_sorting = tuple_means(p, offsets, False, "relu", True, 1)
    monkeypatch.undo()
    monkeypatch.setattr(module, "SORTING_COST", dict.fromkeys(TOLERANCE, np.inf))
    assert_close(by_sorting, tuple_means(p, offsets, False, "relu", True, 1), 1e-13)
