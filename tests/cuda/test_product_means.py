"""Means over tuples of products by the kernels of Triton, against brute force in float64."""

import numpy as np
import pytest
import torch

from janossy.kernels.cuda import product_means as module
from janossy.kernels.cuda.product_means import product_means
from tests.cuda.conftest import DEVICE
from tests.kernels.test_product_means import by_definition, by_sorted_sums, dominated, draw

both_kinds = pytest.mark.parametrize("increasing", [False, True])


@pytest.fixture(params=["at once", "in parts"])
def parts(request, monkeypatch):
    """Puts each set in one segment, or in several of a few elements."""
    if request.param == "in parts":
        monkeypatch.setattr(module, "programs_wanted", lambda z: 1000)
        monkeypatch.setattr(module, "FEWEST_ELEMENTS", 5)


def run(z, offsets, increasing, with_slopes=True, dtype=torch.float32):
    z, offsets = torch.as_tensor(z).to(DEVICE, dtype), torch.as_tensor(offsets).to(DEVICE)
    means, slopes = product_means(z, offsets, increasing, with_slopes)
    assert means.dtype == slopes.dtype == dtype
    return means.double().cpu().numpy(), slopes.double().cpu().numpy()


def exactly(z, offsets, increasing):
    z = torch.tensor(z, dtype=torch.float64, requires_grad=True)
    means = by_definition(z, offsets, increasing)
    return means.detach().numpy(), torch.autograd.grad(means.sum(), z)[0].numpy()


def check(z, offsets, increasing):
    """Checks equality to a few roundings of the mean of the products' magnitudes."""
    z = z.astype(np.float32)
    want, most = exactly(z, offsets, increasing), exactly(abs(z), offsets, increasing)
    for got, exact, scale in zip(run(z, offsets, increasing), want, most, strict=True):
        assert (abs(got - exact) <= 6e-7 * scale).all()


@pytest.mark.usefixtures("parts")
@both_kinds
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_values_and_slopes(k, increasing):
    check(*draw((k - 1, 0, 6), k, 3), increasing)


@pytest.mark.usefixtures("parts")
@both_kinds
def test_sets_of_several_chunks(increasing):
    check(*draw((8, 17), 2, 2), increasing)


@both_kinds
def test_means_alone(increasing):
    z, offsets = draw((3, 0, 1, 4), 3, 2)
    means, slopes = run(z, offsets, increasing, with_slopes=False)
    np.testing.assert_array_equal(means, run(z, offsets, increasing)[0])
    assert slopes.shape == (0,)


@pytest.mark.parametrize("width", [1, 32, 33])
def test_any_width(width):
    check(*draw((3, 4), 2, width), False)


@both_kinds
def test_one_element_a_million_times_the_others(increasing):
    z, offsets = dominated(7, 3)
    np.testing.assert_allclose(run(z, offsets, increasing)[0][0], by_sorted_sums(z, increasing), rtol=2e-6)


@both_kinds
def test_no_overflow(increasing):
    z = np.full((9, 4, 1), 1.1e9, np.float32)
    means, slopes = run(z, [0, 9], increasing)
    exact = float(z[0, 0, 0])
    np.testing.assert_allclose(means, exact**4, rtol=1e-6)
    np.testing.assert_allclose(slopes.sum(0), exact**3, rtol=1e-6)  # Euler: Σ_i z_j[i] ∂_ij = the mean


@both_kinds
def test_long_sums_are_compensated(increasing):
    z = np.full((90, 2, 1), 0.3, np.float32)
    means, slopes = run(z, [0, 90], increasing)
    np.testing.assert_allclose(means, float(z[0, 0, 0]) ** 2, rtol=2e-7)
    np.testing.assert_allclose(slopes.sum(0), float(z[0, 0, 0]), rtol=2e-7)


@pytest.mark.parametrize("k", [2, 3])
def test_bfloat16(k):
    z, offsets = draw((4, 1, 0, 5), k, 3)
    rounded = torch.from_numpy(z).bfloat16().double().numpy()
    want = exactly(rounded, offsets, k == 2)
    for got, exact in zip(run(z, offsets, k == 2, dtype=torch.bfloat16), want, strict=True):
        np.testing.assert_allclose(got, exact, rtol=2.0**-7, atol=1e-6)


@pytest.mark.usefixtures("parts")
def test_the_same_numbers_at_every_call():
    z, offsets = draw((9, 3), 2, 3)
    for a, b in zip(run(z, offsets, False), run(z, offsets, False), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("sizes", "width"), [((), 4), ((0, 0), 4), ((3, 2), 0)])
def test_nothing_to_compute(sizes, width):
    z, offsets = draw(sizes, 2, width)
    means, slopes = run(z, offsets, False)
    assert means.shape == (len(sizes), width) and slopes.shape == z.shape and (means == 1).all()
