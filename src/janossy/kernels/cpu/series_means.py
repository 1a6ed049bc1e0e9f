"""Means over all k-tuples by the spectral kernels where they are cheaper, and by enumeration where that is."""

from functools import partial

import numpy as np

from janossy.kernels.cpu.compiled import Kernel, kernel_maker
from janossy.kernels.cpu.harmonics import TAYLOR, coefficients
from janossy.kernels.cpu.series_increasing import LANES as INCREASING_LANES
from janossy.kernels.cpu.series_increasing import increasing_kernel
from janossy.kernels.cpu.series_injective import injective_kernel
from janossy.kernels.cpu.tuple_means import tuple_means
from janossy.kernels.cpu.vector import load_first, maximum, minimum, store_first
from janossy.kernels.expansions import EXPANSIONS, SMALLEST_BOUND, TRIG, margins, num_harmonics, rounded_up
from janossy.kernels.limits import LANES, enumerated
from janossy.kernels.series_choice import chosen_for_series

MAX_ENUMERATED = 2e10
"""The activations that are worth enumerating where the series cannot be used: about ten seconds."""


def series_means(
    p: np.ndarray,
    offsets: np.ndarray,
    increasing: bool,
    activation: str,
    tolerance: float,
    enumerate_up_to: int,
    with_slopes: bool,
    num_threads: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The means and slopes of ``tuple_means``, each to within ``tolerance`` (and the rounding of p's precision).

    Sets smaller than k, those of at most ``enumerate_up_to`` elements, and with -1 those that it is cheaper for, are
    enumerated. p (N, k, H) -> means (B, H), slopes (N, k, H) or (0,).

    Raises: ValueError for a set with pre-activations too large or not finite that is also too large to enumerate.
    """
    p, offsets = np.ascontiguousarray(p), np.ascontiguousarray(offsets, np.int64)
    k, H = p.shape[1:]
    n = np.diff(offsets)
    e = EXPANSIONS[activation]
    out = np.zeros((len(n), H), p.dtype)
    slopes = np.empty(p.shape if with_slopes else (0, k, H), p.dtype)
    fewest = num_harmonics(activation, tolerance, SMALLEST_BOUND)
    small = enumerated(n, k, increasing, fewest, enumerate_up_to)
    if small.all():
        tuple_means(p, offsets, increasing, activation, with_slopes, num_threads, None, out, slopes)
        return out, slopes if with_slopes else slopes.reshape(-1)

    low, high, finite = extents(p, offsets, num_threads)
    with np.errstate(invalid="ignore", over="ignore"):  # infinities, and numbers with an infinite sum
        bounds = np.maximum(abs(low.sum(1)), abs(high.sum(1)))
        # Angles are within a turn as they are: less a large centre they would lose digits.
        centres = np.zeros_like(low) if e.family == TRIG else 0.5 * (low + high)
    finite &= np.isfinite(bounds).all(1)
    bounds = rounded_up(np.where(np.isfinite(bounds), bounds, 0.0))
    by_series, cost = chosen_for_series(
        n, k, H, increasing, activation, tolerance, enumerate_up_to, small, bounds.max(1, initial=0.0), finite,
        MAX_ENUMERATED,
    )  # fmt: skip
    if not by_series.all():
        sets = np.flatnonzero(~by_series)
        tuple_means(p, offsets, increasing, activation, with_slopes, num_threads, sets, out, slopes)
    delta, cut = (0.0, 0.0) if e.family == TRIG else margins(e.family, tolerance)
    periods = e.kappa * bounds.max(1, initial=0.0) + delta
    precise = (p.dtype == np.float64) | increasing | (rounding(n, k, periods) > tolerance / 2)
    for work, of_this in (("float32", ~precise), ("float64", precise)):
        sets = np.flatnonzero(by_series & of_this)
        if len(sets) == 0:
            continue
        lanes = INCREASING_LANES if increasing else LANES[work]
        num_blocks = -(-H // lanes)
        each = partial(np.repeat, cost[sets] * lanes, num_blocks)
        arguments = (coefficients(activation), p, offsets, sets, centres[sets], bounds[sets], delta, cut, TAYLOR[work])
        if increasing:
            increasing_kernel()(len(sets) * num_blocks, each, num_threads, *arguments, out, slopes)
        else:
            scratch = np.empty(0, work)
            injective_kernel()(len(sets) * num_blocks, each, num_threads, *arguments, lanes, scratch, out, slopes)
    return out, slopes if with_slopes else slopes.reshape(-1)


def rounding(n: np.ndarray, k: int, period: np.ndarray) -> np.ndarray:
    """An estimate of the float32 kernel's own error: of phases, and of the inclusion–exclusion when n is near k."""
    cancelled = np.ones(len(n))
    for j in range(k):
        cancelled *= (n + j) / np.maximum(n - j, 1)
    return 2.0**-24 * (2 + period) * cancelled


def extents(p: np.ndarray, offsets: np.ndarray, num_threads: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The least and greatest p of each set, position and unit, (B, k, H) float64; and which sets are finite, (B,)."""
    B = len(offsets) - 1
    low, high, finite = (np.zeros((B, *p.shape[1:]), p.dtype) for _ in range(3))

    def costs() -> np.ndarray:
        return np.diff(offsets) * (p.shape[1] * p.shape[2] / 8.0)

    _extents_kernel()(B, costs, num_threads, p, offsets, LANES[p.dtype.name], low, high, finite)
    return low.astype(np.float64), high.astype(np.float64), (finite == 0).all((1, 2))


@kernel_maker
def _extents_kernel() -> Kernel:
    def extents(p, offsets, lanes, low, high, finite, first, last):
        width = p.shape[1] * p.shape[2]
        for b in range(first, last):
            if offsets[b] == offsets[b + 1]:
                continue
            for at in range(0, width, lanes):
                num = min(lanes, width - at)
                x = load_first(p, offsets[b] * width + at, num)
                least, most, zero = x, x, x * 0.0
                for i in range(offsets[b] + 1, offsets[b + 1]):
                    x = load_first(p, i * width + at, num)
                    least, most, zero = minimum(least, x), maximum(most, x), zero + x * 0.0
                store_first(low, b * width + at, least, num)
                store_first(high, b * width + at, most, num)
                store_first(finite, b * width + at, zero, num)

    return Kernel(extents, "extents")
