"""Means over tuples of products, by the kernel and by the tree in torch, against brute force and other formulas."""

from itertools import combinations, pairwise, permutations
from math import comb, fsum, perm, prod

import numpy as np
import pytest
import torch

from janossy.evaluate.tuples.product_means import product_means as in_torch
from janossy.kernels.cpu import compiled
from tests.laws import saved_bytes

SIZES = (3, 0, 7, 1, 9, 5, 2, 6, 4, 8)
TUPLES = {False: permutations, True: combinations}
both_kinds = pytest.mark.parametrize("increasing", [False, True])


def kernel(z, offsets, increasing=False, with_slopes=False, num_threads=1):
    products = pytest.importorskip("janossy.kernels.cpu.product_means", reason="needs numba", exc_type=ImportError)
    return products.product_means(z, np.asarray(offsets), increasing, with_slopes, num_threads)


def by_kernel(z, offsets, increasing=False):
    return kernel(z, offsets, increasing)[0]


def by_tree(z, offsets, increasing=False):
    return in_torch(torch.as_tensor(np.asarray(z)), np.diff(offsets).tolist(), increasing).numpy()


both = pytest.mark.parametrize("mean", [by_kernel, by_tree])


def draw(sizes, k, num_columns, seed=0):
    z = np.random.default_rng(seed).normal(size=(sum(sizes), k, num_columns))
    return z, np.cumsum([0, *sizes]).tolist()


def by_definition(z, offsets, increasing):
    """Returns one row at a time: of all n elements, at the first n positions, where a set is smaller than k."""
    means = []
    for a, b in pairwise(offsets):
        num = min(b - a, z.shape[1])
        rows = torch.tensor(list(TUPLES[increasing](range(a, b), num)), dtype=torch.long)
        factors = [z[rows[:, j], j] for j in range(num)]
        means.append(prod(factors, start=torch.ones(len(rows), z.shape[2], dtype=z.dtype)).sum(0) / len(rows))
    return torch.stack(means)


@both
def test_rows_as_long_as_segments(mean):
    """Eight positions can be filled by a segment of eight elements alone."""
    z, offsets = draw((9, 16, 8), 8, 2)
    expected = by_definition(torch.tensor(z), offsets, increasing=True)
    np.testing.assert_allclose(mean(z, offsets, increasing=True), expected, atol=1e-12, rtol=1e-12)


@both_kinds
@pytest.mark.parametrize("num_columns", [1, 8, 13])
@pytest.mark.parametrize("k", range(1, 7))
def test_values_and_slopes(k, num_columns, increasing):
    z, offsets = draw(SIZES, k, num_columns)
    tensor = torch.tensor(z, requires_grad=True)
    means = by_definition(tensor, offsets, increasing)
    np.testing.assert_allclose(by_tree(z, offsets, increasing), means.detach(), atol=1e-12, rtol=1e-12)
    got, slopes = kernel(z, offsets, increasing, with_slopes=True)
    np.testing.assert_allclose(got, means.detach(), atol=1e-12, rtol=1e-12)
    only, none = kernel(z, offsets, increasing)
    np.testing.assert_array_equal(only, got)
    assert none.shape == (0,)
    (of_z,) = torch.autograd.grad(means.sum(), tensor)
    np.testing.assert_allclose(slopes, of_z, atol=1e-12, rtol=1e-12)


@both_kinds
@pytest.mark.parametrize("k", [1, 3, 4])
def test_slopes_across_chunks(k, increasing):
    z, offsets = draw((40, 33, 1500, 64, 2), k, 3)
    tensor = torch.tensor(z, requires_grad=True)
    means = in_torch(tensor, np.diff(offsets).tolist(), increasing)
    weights = np.random.default_rng(1).normal(size=means.shape)
    (of_z,) = torch.autograd.grad(means, tensor, torch.tensor(weights))
    got, slopes = kernel(z, offsets, increasing, with_slopes=True)
    np.testing.assert_allclose(got, means.detach(), atol=1e-15, rtol=1e-10)
    by_element = np.repeat(weights, np.diff(offsets), axis=0)[:, None]
    np.testing.assert_allclose(slopes * by_element, of_z, atol=1e-15, rtol=1e-10)


@both
@both_kinds
def test_float32_is_float64_rounded(mean, increasing):
    z, offsets = draw((*SIZES, 300), 4, 13)
    z = z.astype(np.float32)
    exact = by_kernel(z.astype(float), offsets, increasing)
    got = mean(z, offsets, increasing)
    assert got.dtype == np.float32
    scale = by_kernel(abs(z).astype(float), offsets, increasing)
    # The kernel adds up in float64 and rounds once; the tree rounds a few times each step, log2(300) of them.
    assert (abs(got - exact) / scale).max() < (6e-8 if mean is by_kernel else 1e-6)


@both_kinds
def test_float32_slopes_are_float64_rounded(increasing):
    z, offsets = draw((*SIZES, 300), 4, 13)
    z = z.astype(np.float32)
    exact = kernel(z.astype(float), offsets, increasing, with_slopes=True)
    for got, want in zip(kernel(z, offsets, increasing, with_slopes=True), exact, strict=True):
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, want.astype(np.float32))


def dominated(n, k, num_columns=3):
    """Returns one element a million times the others, in float32, all positive."""
    z = np.random.default_rng(3).uniform(0.5, 1.5, (n, k, num_columns)).astype(np.float32)
    z[n // 3] *= 1e6
    return z, [0, n]


def by_sorted_sums(z, increasing=False):
    n, k, num_columns = z.shape
    rows = list(TUPLES[increasing](range(n), k))
    z = z.astype(float)
    return [fsum(prod(z[i, j, r] for j, i in enumerate(row)) for row in rows) / len(rows) for r in range(num_columns)]


def by_power_sums(z):
    """Computes inclusion–exclusion for k = 3, in the precision of z."""
    a, b, c = z[:, 0], z[:, 1], z[:, 2]
    n = len(z)
    sums = a.sum(0) * b.sum(0) * c.sum(0) + 2 * (a * b * c).sum(0)
    sums -= (a * b).sum(0) * c.sum(0) + (a * c).sum(0) * b.sum(0) + (b * c).sum(0) * a.sum(0)
    return sums / perm(n, 3)


@both
@both_kinds
@pytest.mark.parametrize(("n", "k"), [(12, 3), (9, 4), (6, 6), (8, 2)])
def test_one_element_a_million_times_the_others(mean, n, k, increasing):
    z, offsets = dominated(n, k)
    np.testing.assert_allclose(mean(z, offsets, increasing)[0], by_sorted_sums(z, increasing), rtol=1e-5)


def test_inclusion_exclusion_would_fail_there():
    z, _ = dominated(12, 3)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(by_power_sums(z), by_sorted_sums(z), rtol=1e-5)
    np.testing.assert_allclose(by_power_sums(z.astype(float)), by_sorted_sums(z), rtol=1e-3)


def test_slopes_where_one_element_dominates():
    z, offsets = dominated(9, 4)
    tensor = torch.tensor(z.astype(float), requires_grad=True)
    by_definition(tensor, offsets, False).sum().backward()
    np.testing.assert_allclose(kernel(z, offsets, with_slopes=True)[1], tensor.grad, rtol=1e-6)


@both
def test_long_sets(mean):
    z = np.random.default_rng(5).uniform(0.2, 1.8, (100_000, 3, 9)).astype(np.float32)
    np.testing.assert_allclose(mean(z, [0, len(z)])[0], by_power_sums(z.astype(float)), rtol=1e-5)
    a, b, c = z.astype(float).transpose(1, 0, 2)
    before = np.cumsum(a, 0) - a
    before = np.cumsum(b * before, 0) - b * before
    np.testing.assert_allclose(mean(z, [0, len(z)], True)[0], (c * before).sum(0) / comb(len(z), 3), rtol=1e-5)


@both
@both_kinds
@pytest.mark.cover(1)
def test_no_overflow(mean, increasing):
    z = np.full((100_000, 6, 2), 1e4, np.float32)
    np.testing.assert_allclose(mean(z, [0, len(z)], increasing), 1e24, rtol=1e-5)


@both_kinds
def test_no_overflow_of_slopes(increasing):
    z = np.full((100_000, 6, 1), 1e4, np.float32)
    _, slopes = kernel(z, [0, len(z)], increasing, with_slopes=True)
    np.testing.assert_allclose(slopes.sum(0, dtype=float), 1e20, rtol=1e-6)  # Euler: Σ_i z_j[i] ∂_ij = the mean


@both
@both_kinds
def test_largest_k(mean, increasing):
    z = np.full((12, 10, 2), 0.5)
    np.testing.assert_allclose(mean(z, [0, 11, 12], increasing), [[0.5**10] * 2, [0.5] * 2], rtol=1e-13)


@both
def test_duplicates_count_as_elements(mean):
    z = np.repeat(np.random.default_rng(6).normal(size=(2, 3, 4)), 3, axis=0)
    want = by_definition(torch.tensor(z), [0, 6], False)
    np.testing.assert_allclose(mean(z, [0, 6]), want, atol=1e-14)


@both
@both_kinds
@pytest.mark.parametrize("k", [1, 2, 5])
def test_elementary_symmetric_polynomials(mean, k, increasing):
    """With equal factors the mean is e_k over its number of terms, a coefficient of Π (1 + a_i t)."""
    a = np.random.default_rng(7).normal(size=11)
    z = np.repeat(a[:, None, None], k, axis=1)
    e = np.poly(-a)[k]
    np.testing.assert_allclose(mean(z, [0, 11], increasing), [[e / comb(11, k)]], rtol=1e-11)


@both
def test_whole_numbers_are_exact(mean):
    """Theorem 2.1's product: sums of whole numbers round once, in the division by their number."""
    x = [3, -1, 4, 1, -5, 9, 2]
    z = np.repeat(np.array(x, float)[:, None, None], 3, axis=1)
    want = sum(prod(row) for row in permutations(x, 3)) / perm(7, 3)
    assert mean(z, [0, 7]).item() == want


@both
def test_a_set_does_not_depend_on_its_batch(mean):
    z, offsets = draw((3, 0, 50, 7, 1), 3, 5)
    together = mean(z, offsets)
    for b, (begin, end) in enumerate(pairwise(offsets)):
        alone = mean(z[begin:end], [0, end - begin])
        np.testing.assert_allclose(alone[0], together[b], rtol=1e-14)


@both
@pytest.mark.parametrize("sizes", [(), (0,), (0, 0)])
def test_the_mean_over_no_elements_is_one(mean, sizes):
    got = mean(*draw(sizes, 3, 4))
    assert got.shape == (len(sizes), 4)
    assert (got == 1).all()


@both
def test_no_columns(mean):
    assert mean(*draw((2, 3), 2, 0)).shape == (2, 0)


@pytest.mark.usefixtures("worth_a_thread")
@both_kinds
def test_threads(increasing, monkeypatch):
    monkeypatch.setattr(compiled, "WORTH_A_THREAD", 100.0)
    z, offsets = draw((400, 30, 0, 500, 7), 4, 20)
    one, three = (kernel(z, offsets, increasing, True, num_threads) for num_threads in (1, 3))
    for a, b in zip(one, three, strict=True):
        np.testing.assert_array_equal(a, b)


def test_arrays_that_are_not_contiguous():
    z, offsets = draw(SIZES, 3, 5)
    want = kernel(z, offsets, with_slopes=True)
    for got, array in zip(kernel(np.asfortranarray(z), offsets, with_slopes=True), want, strict=True):
        np.testing.assert_array_equal(got, array)


TREE_SIZES = (0, 1, 2, 6)


def tree(increasing):
    return lambda z: in_torch(z, TREE_SIZES, increasing)


def tree_input(*batch):
    return torch.randn(*batch, 9, 3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(8))


@both_kinds
def test_derivatives_of_the_tree(increasing):
    z = tree_input().requires_grad_()
    torch.autograd.gradcheck(tree(increasing), z, check_forward_ad=True, check_batched_grad=True)
    torch.autograd.gradgradcheck(tree(increasing), z)


@both_kinds
def test_third_derivatives_of_the_tree(increasing):
    """k = 3: all third derivatives by one element of each position are the number of such tuples over all."""
    z = tree_input().requires_grad_()
    total = tree(increasing)(z)[3, 0]
    for i, j in ((4, 0), (5, 1), (8, 2)):
        (total,) = torch.autograd.grad(total, z, create_graph=True)
        total = total[i, j, 0]
    torch.testing.assert_close(total.item(), 1 / (comb(6, 3) if increasing else perm(6, 3)))


@both_kinds
def test_vmap_of_the_tree(increasing):
    f, z = tree(increasing), tree_input(4)
    torch.testing.assert_close(torch.func.vmap(f)(z), torch.stack([f(x) for x in z]))
    slope = torch.func.grad(lambda z: f(z).sin().sum())
    torch.testing.assert_close(torch.func.vmap(slope)(z), torch.stack([slope(x) for x in z]))


@pytest.mark.parametrize("increasing", [False, pytest.param(True, marks=pytest.mark.only_all)])
def test_compiled_tree(increasing):
    f = tree(increasing)
    torch.compiler.reset()
    results = []
    for g in (f, torch.compile(f, fullgraph=True, backend="aot_eager")):
        z = tree_input().requires_grad_()
        means = g(z)
        results.append((means, torch.autograd.grad(means.sin().sum(), z)[0]))
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_tree_in_half_precision(dtype):
    z = tree_input().to(dtype)
    got = tree(False)(z)
    assert got.dtype == dtype
    torch.testing.assert_close(got, tree(False)(z.double()).to(dtype))


def test_tree_keeps_states_and_not_terms():
    """For backward: for one segment 64 states where there are 729 terms."""
    z = torch.randn(256, 6, 8, requires_grad=True)
    # Of float32, 64 states of 8 columns for each of 256 leaves, and as many for the levels above them together.
    assert saved_bytes(lambda: in_torch(z, (256,), False)) < 4 * 8 * 256 * 64
