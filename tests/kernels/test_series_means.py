"""The spectral kernels, and the same in torch operations, against brute force: values and slopes to the tolerance."""

from itertools import combinations, permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from janossy.evaluate.tuples.series_means import Series
from janossy.evaluate.tuples.series_means import series_means as in_torch
from janossy.kernels.cpu import compiled
from janossy.kernels.cpu.series_means import series_means
from janossy.kernels.expansions import EXPANSIONS
from tests.kernels.test_expansions import SIGMA

ACTIVATIONS = sorted(EXPANSIONS)
NEVER, CHEAPER = 0, -1


def by_definition(p, sizes, increasing, activation):
    """Returns values and slopes in float64, by itertools and autograd."""
    x = torch.from_numpy(p).double().requires_grad_()
    results = []
    for one in x.split(list(sizes)):
        length = min(len(one), p.shape[1])
        tuples = list((combinations if increasing else permutations)(range(len(one)), length))
        if not length:
            results.append(one.sum((0, 1)))
            continue
        sums = torch.stack([sum(one[i, j] for j, i in enumerate(chosen)) for chosen in tuples])
        results.append(SIGMA[activation](sums).mean(0))
    result = torch.stack(results)
    return result.detach().numpy(), torch.autograd.grad(result.sum(), x)[0].numpy()


def offsets_of(sizes):
    return np.cumsum([0, *sizes])


def draw(sizes, k, H=5, scale=1.0, seed=0, dtype=np.float64):
    return (scale * np.random.default_rng(seed).normal(size=(sum(sizes), k, H))).astype(dtype)


def check(p, sizes, increasing, activation, tolerance, enumerate_up_to=NEVER, rounding=0.0):
    arguments = increasing, activation, tolerance, enumerate_up_to
    value, slope = by_definition(p, sizes, increasing, activation)
    out, slopes = series_means(p, offsets_of(sizes), *arguments, True, 2)
    assert out.dtype == slopes.dtype == p.dtype
    magnitude = 1 + abs(p).max(initial=0.0) * p.shape[1]
    allowed = tolerance + rounding * magnitude + 1e-13 * magnitude
    assert abs(out - value).max(initial=0) <= allowed
    assert abs(slopes - slope).max(initial=0) <= allowed
    only, none = series_means(p, offsets_of(sizes), *arguments, False, 1)
    assert none.size == 0
    np.testing.assert_allclose(only, out, rtol=4 * np.finfo(p.dtype).eps, atol=1e-15)

    x = torch.from_numpy(p).requires_grad_()
    again = in_torch(x, sizes, *arguments)
    assert abs(again.detach().numpy() - value).max(initial=0) <= allowed
    assert abs(torch.autograd.grad(again.sum(), x)[0].numpy() - slope).max(initial=0) <= allowed


@pytest.mark.parametrize("increasing", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@settings(max_examples=12)
@given(data=st.data())
def test_within_the_tolerance(activation, increasing, data):
    """Any sizes, scales, tolerances and k."""
    k = data.draw(st.integers(1, 4))
    sizes = data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=4))
    scale = 10 ** data.draw(st.floats(-3, 1.5))
    tolerance = 10.0 ** -data.draw(st.integers(2, 10))
    p = draw(sizes, k, scale=scale, seed=data.draw(st.integers(0, 9)))
    check(p, tuple(sizes), increasing, activation, tolerance, data.draw(st.sampled_from([NEVER, CHEAPER, 4])))


@pytest.mark.parametrize("increasing", [False, True])
@pytest.mark.parametrize("k", [5, pytest.param(6, marks=pytest.mark.only_all)])
def test_more_positions(k, increasing):
    check(draw((k, k + 1, 2), k), (k, k + 1, 2), increasing, "tanh", 1e-8)


@pytest.mark.parametrize("increasing", [False, True])
@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.0, 30.0])
@pytest.mark.parametrize("activation", ["tanh", "gelu", "sine"])
def test_float32(activation, scale, increasing):
    sizes = (7, 3, 0, 12)
    check(draw(sizes, 3, 33, scale, dtype=np.float32), sizes, increasing, activation, 1e-5, rounding=4e-7)


@pytest.mark.parametrize("n", [4, 5, 6])
def test_float32_where_inclusion_and_exclusion_cancel(n):
    """Without float64 inside, n = k = 6 would lose 2e-5."""
    p = draw((n,), n, dtype=np.float32)
    check(p, (n,), False, "tanh", 2e-6, rounding=2e-7)


@pytest.mark.parametrize("increasing", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("bound", [0.0, 1e-9, 1.0, 100.0, 1000.0])
def test_every_range(activation, bound, increasing):
    """T from 0 to large, with elements all equal, and with positions that cancel."""
    p = draw((6,), 2)
    p *= bound / abs(p).max()
    equal = np.repeat(p[:1], 6, axis=0)
    cancelling = p.copy()
    cancelling[:, 0] += 1000
    cancelling[:, 1] -= 1000
    for x in (p, equal, cancelling):
        check(x, (6,), increasing, activation, 1e-6, rounding=1e-12)


@pytest.mark.parametrize("activation", ["tanh", "softplus", "cosine"])
@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf, 1e30])
def test_what_is_not_finite_is_enumerated(activation, poison):
    """Enumeration goes as far as that is possible; the other sets and units do not notice."""
    sizes, p = (5, 4), draw((5, 4), 2, dtype=np.float32)
    p[1, 0, 3] = poison
    with np.errstate(invalid="ignore"):
        exact = np.arctan2(np.sin(p), np.cos(p)) if activation == "cosine" else p  # 1e30 + 1 is 1e30 in float64
    value, _ = by_definition(exact, sizes, False, activation)
    out, _ = series_means(p, offsets_of(sizes), False, activation, 1e-5, NEVER, False, 1)
    np.testing.assert_allclose(out, value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("increasing", [False, True])
@pytest.mark.parametrize("activation", ["sine", "cosine"])
def test_an_angle_of_many_turns_costs_the_others_no_digits(activation, increasing):
    for dtype, tolerance in ((np.float64, 1e-14), (np.float32, 1e-6)):
        p = draw((6,), 3, dtype=dtype)
        p[1, 0] = 1e12
        wide = p.astype(np.float64)
        value, slope = by_definition(np.arctan2(np.sin(wide), np.cos(wide)), (6,), increasing, activation)
        out, slopes = series_means(p, offsets_of((6,)), increasing, activation, 1e-5, NEVER, True, 1)
        assert abs(out - value).max() < tolerance and abs(slopes - slope).max() < tolerance
        x = torch.from_numpy(p).requires_grad_()
        again = in_torch(x, (6,), increasing, activation, 1e-5, NEVER)
        again_slopes = torch.autograd.grad(again.sum(), x)[0].numpy()
        assert abs(again.detach().numpy() - value).max() < tolerance and abs(again_slopes - slope).max() < tolerance


@pytest.mark.parametrize(
    ("poison", "message"),
    [(np.nan, "not all finite"), (np.inf, "not all finite"), (1e9, r"reach 1e\+09, which takes")],
)
def test_what_cannot_be_enumerated_is_an_error(poison, message):
    sizes = (3, 20_000)
    p = draw(sizes, 3, 2)
    p[100, 1, 0] = poison
    with pytest.raises(ValueError, match=rf"cannot compute set 1: .*{message}.*20000 elements.*Check the elements"):
        series_means(p, offsets_of(sizes), False, "tanh", 1e-5, CHEAPER, True, 2)


def test_a_large_set_with_units_of_different_ranges():
    """Against the torch operations, which share no code with the kernels but the bounds."""
    sizes = (250, 10, 120)
    p = draw(sizes, 3, 9, dtype=np.float32) * np.logspace(-2, 1, 9, dtype=np.float32)
    out, slopes = series_means(p, offsets_of(sizes), False, "tanh", 1e-6, CHEAPER, True, 2)
    x = torch.from_numpy(p).double().requires_grad_()
    value = in_torch(x, sizes, False, "tanh", 1e-10)
    (slope,) = torch.autograd.grad(value.sum(), x)
    assert abs(out - value.detach().numpy()).max() < 3e-6
    assert abs(slopes - slope.numpy()).max() < 3e-6 / 10


@pytest.mark.usefixtures("worth_a_thread")
@pytest.mark.parametrize("increasing", [False, True])
def test_a_set_does_not_notice_its_batch_mates_or_the_threads(increasing, monkeypatch):
    monkeypatch.setattr(compiled, "WORTH_A_THREAD", 100.0)
    sizes = (40, 0, 3, 200, 41)
    p = draw(sizes, 3, 20)
    out, slopes = series_means(p, offsets_of(sizes), increasing, "silu", 1e-6, CHEAPER, True, 1)
    threaded = series_means(p, offsets_of(sizes), increasing, "silu", 1e-6, CHEAPER, True, 4)
    np.testing.assert_array_equal(threaded[0], out)
    np.testing.assert_array_equal(threaded[1], slopes)
    for b, (start, end) in enumerate(zip(offsets_of(sizes)[:-1], offsets_of(sizes)[1:], strict=True)):
        one = p[start:end].copy(), np.array([0, end - start])
        alone, _ = series_means(*one, increasing, "silu", 1e-6, CHEAPER, True, 1)
        np.testing.assert_array_equal(alone[0], out[b])


def test_smooth_between_steps_of_the_range():
    """A finite difference of 1e-6 sees the slope, not the error of the expansion."""
    p, step = draw((12,), 2), np.zeros((12, 2, 5))
    step[5, 1] = 1e-6

    def value(x):
        return series_means(x, np.array([0, 12]), False, "tanh", 1e-3, NEVER, False, 1)[0]

    _, slopes = series_means(p, np.array([0, 12]), False, "tanh", 1e-3, NEVER, True, 1)
    difference = (value(p + step) - value(p - step)) / 2e-6
    np.testing.assert_allclose(difference[0], slopes[5, 1], atol=1e-9)


def test_no_sets_and_no_units():
    out, slopes = series_means(np.zeros((0, 2, 4)), np.array([0]), False, "tanh", 1e-5, CHEAPER, True, 2)
    assert out.shape == (0, 4) and slopes.shape == (0, 2, 4)
    out, _ = series_means(np.zeros((0, 2, 4)), np.array([0, 0, 0]), False, "tanh", 1e-5, CHEAPER, True, 2)
    assert out.shape == (2, 4) and not out.any()


@pytest.mark.parametrize("increasing", [False, True])
@pytest.mark.parametrize("activation", ["silu", "softplus", "tanh", "gelu"])
def test_a_short_period_beside_long_ones(activation, increasing):
    """Units, and sets, whose ranges are in the ratio 1000: the shortest period's last harmonics are beyond a float."""
    sizes, p = (8, 8), draw((8, 8), 2)
    p *= 700 / abs(p).max()
    p[:, :, 1:3] /= 1000
    check(p, sizes, increasing, activation, 1e-6, rounding=1e-12)
    p[8:] /= 1000
    check(p, sizes, increasing, activation, 1e-6, rounding=1e-12)


def mean_of_pairs(x, increasing=False):
    """Returns the mean of tanh over the pairs of one set, (n, 2, H) -> (H,)."""
    is_pair = np.triu(np.ones((len(x), len(x))), 1) > 0 if increasing else ~np.eye(len(x), dtype=bool)
    return np.tanh(x[:, None, 0] + x[None, :, 1])[is_pair].mean(0)


@pytest.mark.parametrize("increasing", [False, True])
@pytest.mark.parametrize("poison", [np.nan, np.inf, 1e30])
def test_in_torch_operations_a_set_beyond_the_series_is_enumerated_alone(poison, increasing):
    sizes, p = (300, 3, 300), draw((300, 3, 300), 2)
    p[3, 0, 1] = poison
    x = torch.from_numpy(p).requires_grad_()
    out = in_torch(x, sizes, increasing, "tanh", 1e-5, CHEAPER)
    expected = [mean_of_pairs(one, increasing) for one in np.split(p, offsets_of(sizes)[1:-1])]
    np.testing.assert_allclose(out.detach().numpy(), expected, atol=1e-5)
    (slopes,) = torch.autograd.grad(out.sum(), x)
    assert slopes[sizes[0] :].isfinite().all()


def test_in_torch_operations_far_sets_cost_no_harmonics(monkeypatch):
    """A hundred elements that reach 1e5 would take 1.5e5 harmonics, and have 9900 pairs."""
    sizes, p = (100, 300), draw((100, 300), 2)
    p[:100] *= 1e5
    seen, coefficient = [], Series.coefficient
    monkeypatch.setattr(Series, "coefficient", lambda self, *x: seen.append(self.num) or coefficient(self, *x))
    out = in_torch(torch.from_numpy(p), sizes, False, "tanh", 1e-5, CHEAPER)
    np.testing.assert_allclose(out.numpy(), [mean_of_pairs(x) for x in np.split(p, [100])], atol=1e-5)
    assert seen and max(seen) < 100


@pytest.mark.parametrize(("poison", "message"), [(np.nan, "not all finite"), (1e9, r"reach 1e\+09, which takes")])
def test_in_torch_operations_what_cannot_be_enumerated_is_an_error(poison, message):
    sizes = (3, 5000)
    p = draw(sizes, 3, 2)
    p[100, 1, 0] = poison
    with pytest.raises(ValueError, match=rf"cannot compute set 1: .*{message}.*5000 elements.*Check the elements"):
        in_torch(torch.from_numpy(p), sizes, False, "tanh", 1e-5, CHEAPER)
