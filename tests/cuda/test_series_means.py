"""Means over tuples by the series' kernels of Triton: against enumeration, and against the kernels in float64."""

import numpy as np
import pytest
import torch

from janossy.kernels.cuda import series_means as module
from janossy.kernels.cuda.series_means import series_means
from janossy.kernels.expansions import EXPANSIONS, TRIG, num_harmonics, rounded_up
from tests.cuda.conftest import DEVICE, INTERPRETED
from tests.kernels.test_series_means import by_definition
from tests.kernels.test_tuple_means import batch

NEVER, CHEAPER = 0, -1
TOLERANCE, ROUNDING = 1e-2, 3e-6
"""A tolerance that takes few harmonics, as the interpreter has to go through each; and what float32 may add."""

FEWEST = {1: 3, 2: 4, 3: 5, 4: 7}
"""The smallest sets that injective tuples are not enumerated of, for few of them cancel."""


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch):
    """Skips launches for harmonics that no set needs, which cost the interpreter a millisecond per set each."""
    if INTERPRETED:
        monkeypatch.setattr(module, "MAX_HARMONICS", 16)


@pytest.fixture(params=["at once", "in parts"])
def parts(request, monkeypatch):
    """Sets one segment and one round of harmonics, or three segments and rounds of the fewest harmonics."""
    num = 3 if request.param == "in parts" else 1
    monkeypatch.setattr(module, "splits", lambda *_: num)
    if num > 1:
        monkeypatch.setattr(module, "BYTES_OF_SUMS", 0)
        monkeypatch.setattr(module, "ARRAYS_OF_SUMS", 0)


def run(p, offsets, *parameters, with_slopes=True, dtype=torch.float32):
    x = torch.from_numpy(p).to(DEVICE, dtype)
    means, slopes = series_means(x, torch.from_numpy(offsets).to(DEVICE), *parameters, with_slopes)
    assert means.dtype == slopes.dtype == dtype
    return means.double().cpu().numpy(), slopes.double().cpu().numpy()


def check(p, offsets, increasing, activation, tolerance=TOLERANCE, rounding=ROUNDING):
    parameters = increasing, activation, tolerance, NEVER
    got = run(p, offsets, *parameters)
    for found, exact in zip(got, by_definition(p, np.diff(offsets), increasing, activation), strict=True):
        assert abs(found - exact).max() < tolerance + rounding
    return got


def in_float64(p, offsets, *parameters):
    cpu = pytest.importorskip("janossy.kernels.cpu.series_means", reason="needs numba", exc_type=ImportError)
    return cpu.series_means(p.astype(np.float64), offsets, *parameters, True, 1)


@pytest.mark.usefixtures("parts")
@pytest.mark.parametrize("increasing", [False, True])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.cover(1)
def test_the_series_is_that_of_the_cpu_s_kernels(k, increasing):
    p, offsets = batch(k, 3, "float32", sizes=[k - 1, k + 1 if increasing else FEWEST[k]], scale=0.5)
    got = check(p, offsets, increasing, "tanh")
    for found, same in zip(got, in_float64(p, offsets, increasing, "tanh", TOLERANCE, NEVER), strict=True):
        assert abs(found - same).max() < ROUNDING


@pytest.mark.parametrize("activation", sorted(EXPANSIONS))
def test_every_activation(activation):
    p, offsets = batch(2, 3, "float32", sizes=[4])
    got = check(p, offsets, False, activation)
    allowed = 1e-6 if EXPANSIONS[activation].family == TRIG else ROUNDING
    for found, same in zip(got, in_float64(p, offsets, False, activation, TOLERANCE, NEVER), strict=True):
        assert abs(found - same).max() < allowed


@pytest.mark.parametrize("increasing", [False, True])
def test_means_alone(increasing):
    p, offsets = batch(2, 3, "float32", sizes=[4, 0, 1])
    means, slopes = run(p, offsets, increasing, "softplus", TOLERANCE, NEVER, with_slopes=False)
    np.testing.assert_array_equal(means, run(p, offsets, increasing, "softplus", TOLERANCE, NEVER)[0])
    assert slopes.shape == (0,)


@pytest.mark.parametrize("increasing", [False, True])
@pytest.mark.usefixtures("parts")
@pytest.mark.cover(1)
def test_sums_are_compensated(increasing):
    """More elements than are added up in registers, and one much larger than the others."""
    p, offsets = batch(2, 2, "float32", sizes=[70])
    p[:65] = 0.3
    check(p, offsets, increasing, "cosine", 1e-9, 8e-7)


def test_harmonics_are_as_many_as_the_bound_takes():
    sizes, scales = [6, 2, 6, 0], [0.1, 1.0, 2.0, 1.0]
    p, offsets = batch(3, 4, "float32", sizes=sizes)
    p *= np.repeat(np.float32(scales), sizes)[:, None, None]
    x, places = torch.from_numpy(p).to(DEVICE), torch.from_numpy(offsets).to(DEVICE)
    plan, wanted = module.plan_for(x, places, False, "gelu", 1e-3, NEVER)
    for b, n in enumerate(sizes):
        of_set = p[offsets[b] : offsets[b + 1]].astype(np.float64)
        assert wanted[b].item() == (n < 3)
        if n >= 3:
            reach = np.maximum(abs(of_set.min(0).sum(0)), abs(of_set.max(0).sum(0)))
            assert plan.harmonics[b].item() == num_harmonics("gelu", 1e-3, rounded_up(reach).max())


def test_sets_are_enumerated_where_that_is_cheaper_or_asked_for():
    p, offsets = batch(2, 3, "float32", sizes=[3, 40, 5])
    x, places = torch.from_numpy(p).to(DEVICE), torch.from_numpy(offsets).to(DEVICE)
    for up_to, enumerated in ((NEVER, [0, 0, 0]), (3, [1, 0, 0]), (5, [1, 0, 1]), (CHEAPER, [1, 1, 1])):
        assert module.plan_for(x, places, False, "tanh", TOLERANCE, up_to)[-1].tolist() == enumerated
    p, offsets = batch(3, 3, "float32", sizes=[40, 8])
    x, places = torch.from_numpy(p).to(DEVICE), torch.from_numpy(offsets).to(DEVICE)
    assert module.plan_for(x, places, False, "tanh", TOLERANCE, CHEAPER)[-1].tolist() == [0, 1]


@pytest.mark.parametrize("k", [2, 3])
def test_bfloat16(k):
    p, offsets = batch(k, 5, "float32", sizes=[4, 1, 0, 5])
    rounded = torch.from_numpy(p).bfloat16().float().numpy()
    want = by_definition(rounded, np.diff(offsets), k == 2, "sine")
    for a, b in zip(run(p, offsets, k == 2, "sine", 1e-5, NEVER, dtype=torch.bfloat16), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=2.0**-7, atol=1e-6)


@pytest.mark.parametrize("increasing", [False, pytest.param(True, marks=pytest.mark.only_all)])
def test_bfloat16_in_rounds(increasing, monkeypatch):
    monkeypatch.setattr(module, "BYTES_OF_SUMS", 0)
    monkeypatch.setattr(module, "ARRAYS_OF_SUMS", 0)
    p, offsets = batch(2, 2, "float32", sizes=[1, 4])
    rounded = torch.from_numpy(p).bfloat16().float().numpy()
    want = run(rounded, offsets, increasing, "silu", TOLERANCE, NEVER)
    for a, b in zip(run(p, offsets, increasing, "silu", TOLERANCE, NEVER, dtype=torch.bfloat16), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=2.0**-7, atol=1e-6)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid", "ignore:divide")
@pytest.mark.parametrize("poison", [np.nan, np.inf, 1e9])
def test_what_the_series_cannot_take_is_enumerated(poison, monkeypatch):
    p, offsets = batch(2, 3, "float32", sizes=[4, 4])
    p[1, 0, 0] = poison
    with np.errstate(all="ignore"):
        exact = by_definition(p, [4, 4], False, "tanh")
        for found, want in zip(run(p, offsets, False, "tanh", TOLERANCE, NEVER), exact, strict=True):
            np.testing.assert_allclose(found, want, atol=TOLERANCE)
        monkeypatch.setattr(module, "MAX_ENUMERATED", 1.0)
        means, slopes = run(p, offsets, False, "tanh", TOLERANCE, NEVER)
    assert np.isnan(means[0]).all() and np.isnan(slopes[:4]).all()
    np.testing.assert_allclose(means[1], exact[0][1], atol=TOLERANCE)
    np.testing.assert_allclose(slopes[4:], exact[1][4:], atol=TOLERANCE)


@pytest.mark.parametrize("width", [1, 32, 33])
@pytest.mark.parametrize("increasing", [False, True])
def test_any_width(width, increasing):
    p, offsets = batch(2, width, "float32", sizes=[3, 4])
    check(p, offsets, increasing, "sine", 1e-9, 1e-6)


@pytest.mark.usefixtures("parts")
@pytest.mark.parametrize("increasing", [False, True])
@pytest.mark.cover(1)
def test_the_same_numbers_at_every_call(increasing):
    p, offsets = batch(2, 3, "float32", sizes=[5])
    first, second = (run(p, offsets, increasing, "erf", TOLERANCE, NEVER) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("sizes", "width"), [([], 4), ([0, 0], 4), ([3, 2], 0)])
def test_nothing_to_compute(sizes, width):
    p, offsets = batch(2, width, "float32", sizes=sizes)
    means, slopes = run(p, offsets, False, "tanh", TOLERANCE, NEVER)
    assert means.shape == (len(sizes), width) and slopes.shape == p.shape and not means.any()
