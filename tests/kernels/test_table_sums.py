"""Gradients by a table's rows against sums over elements, one by one."""

import numpy as np
import pytest

from janossy.kernels import load

SIZES = (3, 0, 2, 5, 1)


@pytest.mark.skipif(load() is None, reason="needs numba")
@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.parametrize(("k", "H"), [(1, 1), (3, 8), (2, 21)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_over_the_elements_at_each_row(dtype, k, H, num_threads):
    random = np.random.default_rng(0)
    slopes, factors = (random.normal(size=shape).astype(dtype) for shape in ((11, k, H), (len(SIZES), H)))
    places = random.integers(0, 3, 11)  # of four rows: one is never looked up
    expected = np.zeros((4, k, H))
    for i, b in enumerate(np.repeat(np.arange(len(SIZES)), SIZES)):
        expected[places[i]] += slopes[i].astype(float) * factors[b]
    offsets = np.concatenate(([0], np.cumsum(SIZES)))
    found = load().table_sums(slopes, factors, offsets, places, 4, 1, num_threads)
    assert found.dtype == dtype and not found[3].any()
    atol = 1e-5 if dtype == np.float32 else 1e-13
    np.testing.assert_allclose(found, expected, atol=atol)
    wider = np.pad(slopes, ((0, 0), (0, 0), (0, 3)), constant_values=np.nan)
    np.testing.assert_array_equal(load().table_sums(wider, factors, offsets, places, 4, 1, num_threads), found)
    assert not load().table_sums(slopes[:0], factors[:0], offsets[:1], places[:0], 4, 1, num_threads).any()


@pytest.mark.skipif(load() is None, reason="needs numba")
@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.parametrize("of_a_mean", [False, True])
def test_networks_have_sets_and_rows_of_their_own(of_a_mean, num_threads):
    random, R, H = np.random.default_rng(0), 3, 21
    slopes = random.normal(size=(R * 11, 1, H))
    factors = random.normal(size=(R * len(SIZES), H))
    places = random.integers(0, 4, (R, 11)) + 4 * np.arange(R)[:, None]
    sizes = np.tile(SIZES, R)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    if of_a_mean:
        slopes[:] = (1 / np.maximum(sizes, 1)).repeat(sizes)[:, None, None]
    expected = load().table_sums(slopes, factors, offsets, places.ravel(), 4 * R, 1, 1)
    given = slopes[:0, 0, 0] if of_a_mean else slopes
    found = load().table_sums(given, factors, offsets, places.ravel(), 4 * R, R, num_threads)
    np.testing.assert_allclose(found, expected, atol=1e-13)
