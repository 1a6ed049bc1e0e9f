"""Means over tuples by the kernels of Triton, against enumeration in float64."""

import numpy as np
import pytest
import torch

from janossy.kernels.cuda.activations import ACTIVATIONS, PERIODIC
from janossy.kernels.cuda.tuple_means import tuple_means
from tests.cuda.conftest import DEVICE, ON_GPU
from tests.kernels.test_tuple_means import assert_close, batch, enumerated

TOLERANCE = 1e-6


def run(p, offsets, *parameters, dtype=torch.float32, **given):
    means, slopes = tuple_means(
        torch.from_numpy(p).to(DEVICE, dtype), torch.from_numpy(offsets).to(DEVICE), *parameters, **given
    )
    assert means.dtype == slopes.dtype == dtype
    return means.double().cpu().numpy(), slopes.double().cpu().numpy()


def check(p, offsets, increasing, activation, tolerance=TOLERANCE):
    want = enumerated(p, offsets, increasing, activation)
    got = run(p, offsets, increasing, activation, True)
    assert_close(got, want, tolerance)
    means, slopes = run(p, offsets, increasing, activation, False)
    np.testing.assert_allclose(means, got[0], rtol=tolerance, atol=tolerance)
    assert slopes.shape == (0,)


@pytest.mark.usefixtures("num_splits")
@pytest.mark.parametrize("increasing", [False, True])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_equals_enumeration(k, increasing):
    check(*batch(k, 5, "float32", sizes=[0, 1, k - 1, k, 5]), increasing, "tanh")


@pytest.mark.filterwarnings("ignore:overflow")  # of the interpreter's exponential, whose infinity is meant
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_every_activation(activation, scale):
    check(*batch(2, 5, "float32", sizes=[4, 1], scale=scale), False, activation, 1e-6 if scale == 1 else 1e-5)


def test_activations_are_those_of_the_cpu():
    from janossy.kernels.cpu.activations import CODES  # noqa: PLC0415

    assert set(ACTIVATIONS) == set(CODES)


@pytest.mark.parametrize("width", [1, 32, 33])
def test_any_width(width):
    check(*batch(2, width, "float32", sizes=[3, 0, 4]), False, "silu")


@pytest.mark.parametrize("n", [7, 8, 9, 17])
@pytest.mark.parametrize("increasing", [False, True])
def test_sets_around_whole_blocks_of_elements(n, increasing):
    check(*batch(2, 3, "float32", sizes=[n]), increasing, "sigmoid")


@pytest.mark.usefixtures("num_splits")
def test_sums_long_enough_to_be_carried():
    p, offsets = batch(2, 3, "float32", sizes=[34])
    p[:17] = 0.3
    check(p, offsets, False, "tanh", 3e-7)


@pytest.mark.skipif(not ON_GPU, reason="takes the interpreter hours")
@pytest.mark.parametrize("k", [2, 3])
def test_long_sets_keep_their_precision(k):
    n = {2: 3000, 3: 200}[k]
    p = np.full((n, k, 64), 0.3, np.float32)
    means, slopes = run(p, np.array([0, n]), False, "tanh", True)
    exact = np.tanh(k * np.float64(np.float32(0.3)))
    assert np.abs(means - exact).max() < 5e-7
    assert np.abs(slopes * n - (1 - exact**2)).max() < 1e-6


@pytest.mark.parametrize("k", [1, 2, 3])
def test_bfloat16(k):
    """Sums are in float32: what is lost is the rounding of the elements, and of the result."""
    p, offsets = batch(k, 5, "float32", sizes=[4, 1, 0, 5])
    rounded = torch.from_numpy(p).bfloat16().float().numpy()
    for activation in ("gelu", "sine"):
        got = run(p, offsets, k == 2, activation, True, dtype=torch.bfloat16)
        assert_close(got, enumerated(rounded, offsets, k == 2, activation), 2.0**-8)


@pytest.mark.parametrize("activation", PERIODIC)
@pytest.mark.parametrize("scale", [1e3, 1e6, 1e30])
def test_large_angles(activation, scale):
    p, offsets = batch(2, 5, "float32", scale=scale, sizes=[4])
    wide = p.astype(np.float64)
    want = enumerated(np.arctan2(np.sin(wide), np.cos(wide)), offsets, False, activation)
    assert_close(run(p, offsets, False, activation, True), want, TOLERANCE)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid", "ignore:divide")
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, 1e30])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_nan_and_infinity_as_in_torch(activation, special):
    p, offsets = batch(2, 5, "float32", sizes=[3, 2])
    p[1, 0, 2], p[4, 1, 3] = special, special
    p[0, 0, 4], p[2, 1, 4] = np.inf, -np.inf
    if special == 1e30 and activation in PERIODIC:
        p[1, 0, 2], p[4, 1, 3] = np.float32(0), np.float32(0)
    want, want_slopes = enumerated(p, offsets, False, activation)
    means, slopes = run(p, offsets, False, activation, True)
    np.testing.assert_allclose(means, want, rtol=1e-6, atol=TOLERANCE)
    finite = np.isfinite(want_slopes)
    np.testing.assert_allclose(slopes[finite], want_slopes[finite], rtol=1e-6, atol=TOLERANCE)


@pytest.mark.usefixtures("num_splits")
def test_only_the_sets_that_are_wanted():
    p, offsets = batch(2, 5, "float32", sizes=[3, 4, 0, 2])
    out, slopes = torch.full((4, 5), 7.0, device=DEVICE), torch.full(p.shape, 7.0, device=DEVICE)
    wanted = torch.tensor([True, False, True, True], device=DEVICE)
    run(p, offsets, False, "silu", True, wanted=wanted, out=out, slopes=slopes)
    whole, whole_slopes = run(p, offsets, False, "silu", True)
    assert (out[1] == 7).all() and (slopes[3:7] == 7).all()
    keep = np.r_[0:3, 7:9]
    np.testing.assert_array_equal(out.double().cpu().numpy()[[0, 2, 3]], whole[[0, 2, 3]])
    np.testing.assert_array_equal(slopes.double().cpu().numpy()[keep], whole_slopes[keep])


@pytest.mark.usefixtures("num_splits")
def test_the_same_numbers_at_every_call():
    p, offsets = batch(2, 40, "float32", sizes=[9, 3])
    first, second = (run(p, offsets, False, "gelu", True) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("sizes", "width"), [([], 4), ([0, 0], 4), ([3, 2], 0)])
def test_nothing_to_compute(sizes, width):
    p, offsets = batch(2, width, "float32", sizes=sizes)
    means, slopes = run(p, offsets, False, "tanh", True)
    assert means.shape == (len(sizes), width) and slopes.shape == p.shape and not means.any()
