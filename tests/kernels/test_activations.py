from functools import cache

import numpy as np
import pytest
import torch
from torch.nn import functional

from janossy.kernels.cpu.activations import CODES, reduce_angles, value, value_and_slope
from janossy.kernels.cpu.compiled import Kernel
from janossy.kernels.cpu.vector import LANES, load, num_lanes, store

TORCH = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "gelu": functional.gelu,
    "silu": functional.silu,
    "softplus": functional.softplus,
    "sine": torch.sin,
    "cosine": torch.cos,
    "erf": torch.erf,
}
PERIODIC = ("sine", "cosine")
"""Their angles are reduced before they are added, so sums are within a few turns, however large the numbers."""

TOLERANCE = {"float32": 4e-7, "float64": 1e-14}
DTYPES = sorted(TOLERANCE)


@cache
def kernel(name):
    code = CODES[name]

    def both_ways(x, alone, y, slopes, first, last):
        for at in range(first, last, num_lanes(x)):
            store(alone, at, value(code, load(x, at)))
            both = value_and_slope(code, load(x, at))
            store(y, at, both[0])
            store(slopes, at, both[1])

    return Kernel(both_ways, f"both_ways_of_{name}")


def apply(name, x):
    """Returns the value alone, the value and the slope, each of whole arrays."""
    num = len(x)
    x = np.concatenate([x, np.zeros(-num % 16, x.dtype)])
    results = [np.empty_like(x) for _ in range(3)]
    kernel(name)(len(x), lambda: np.ones(len(x)), 1, x, *results)
    return [result[:num] for result in results]


def expected(name, x):
    """Returns torch's value and slope in float64."""
    x = torch.from_numpy(x.astype(np.float64)).requires_grad_()
    y = TORCH[name](x)
    (slopes,) = torch.autograd.grad(y.sum(), x)
    return y.detach().numpy(), slopes.numpy()


def error(got, want):
    return (np.abs(got - want) / np.maximum(1.0, np.abs(want))).max()


def test_every_activation_is_tested():
    assert TORCH.keys() == CODES.keys()


@pytest.mark.parametrize("name", sorted(CODES))
def test_values_and_slopes(name):
    for dtype in DTYPES:
        wide = [] if name in PERIODIC else [np.linspace(-150, 150, 20001), np.array([-1e30, -1e4, 1e4, 1e30])]
        # torch's softplus is x from 20 on: there it differs from log(1 + e^x) by 2e-9.
        reach = 20.0 if name == "softplus" and dtype == "float64" else 12.0
        grid = np.concatenate([np.linspace(-12, reach, 60001), *wide]).astype(dtype)
        alone, y, slopes = apply(name, grid)
        assert error(alone, y) < TOLERANCE[dtype]
        if name == "softplus":
            x = grid.astype(np.float64)
            want = np.logaddexp(0.0, x), expected("sigmoid", grid)[0]
        else:
            want = expected(name, grid)
        assert error(y, want[0]) < TOLERANCE[dtype]
        assert error(slopes, want[1]) < TOLERANCE[dtype]


@pytest.mark.parametrize("name", sorted(CODES))
def test_nan_and_infinity_as_in_torch_in_float64(name):
    """gelu(−∞) and silu(−∞) are NaN there (−∞ · 0), and sin and cos(±∞). Slopes: where torch's are finite."""
    for dtype in DTYPES:
        x = np.array([np.nan, np.inf, -np.inf], dtype)
        if name in PERIODIC:  # the kernel reduces the angles before it adds them
            x = np.concatenate([x, np.zeros(13, dtype)])
            reduce_angles(x, len(x))
            x = x[:3]
        _, y, slopes = apply(name, x)
        wanted, wanted_slopes = expected(name, np.array([np.nan, np.inf, -np.inf], dtype))
        np.testing.assert_allclose(y, wanted, atol=1e-8)
        finite = np.isfinite(wanted_slopes)
        np.testing.assert_allclose(slopes[finite], wanted_slopes[finite], atol=1e-6)


@pytest.mark.parametrize("name", ["tanh", "relu", "silu", "gelu", "sine"])
def test_relative_precision_near_zero(name):
    for dtype, tolerance in TOLERANCE.items():
        x = np.geomspace(1e-30, 1e-2, 500).astype(dtype)
        np.testing.assert_allclose(apply(name, x)[1], expected(name, x)[0], rtol=2 * tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
def test_reduced_angles(dtype):
    scales = np.repeat([1e-3, 1.0, 30.0, 9e3, 1e6, 1e15, 1e30], 64)
    x = (np.random.default_rng(0).standard_normal(len(scales)) * scales).astype(dtype)
    reduced = x.copy()
    reduce_angles(reduced, len(x) // LANES[dtype] * LANES[dtype])
    assert np.abs(reduced).max() < np.pi * (1 + 1e-6)
    wide, reduced = x.astype(np.float64), reduced.astype(np.float64)
    np.testing.assert_allclose(np.sin(reduced), np.sin(wide), atol=TOLERANCE[dtype])
    np.testing.assert_allclose(np.cos(reduced), np.cos(wide), atol=TOLERANCE[dtype])
