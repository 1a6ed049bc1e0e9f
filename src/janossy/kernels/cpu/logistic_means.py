"""Means over pairs and triples of tanh or the logistic function of sums, by products of exponentials.

e^{s(a + b + c)} is the product of three numbers, each known for its element, so a tuple costs no exponential: with
r = 1/(1 + e^{st}), the logistic function (s = 1) is 1 − r with slope r − r², and tanh (s = 2) is 1 − 2r with slope
4(r − r²). Two tuples share a division. The exponentials are read through places, so that they are made once for each
distinct element.

Errors are those of sums in the working precision, of at most MAX_ELEMENTS³ terms, partial sums first.
"""

from functools import partial

import numpy as np

from janossy.kernels.cpu.activations import exponential
from janossy.kernels.cpu.compiled import Kernel, kernel_maker
from janossy.kernels.cpu.vector import all_within, load, load_first, num_lanes, quotient, store, store_first
from janossy.kernels.limits import LANES, num_tuples


def logistic_means(
    p: np.ndarray,
    places: np.ndarray,
    offsets: np.ndarray,
    increasing: bool,
    factor: float,
    far: float,
    with_slopes: bool,
    num_threads: int,
) -> tuple[np.ndarray, np.ndarray] | None:
    """The mean of 1 − s·r, s = factor, over the tuples of each set, and its slopes; None if some |s·p| > far, or NaN.

    Shapes: p (U, k, H), k = 2 or 3; places (N,), offsets (B + 1,), sets of k elements at least -> out (B, H), slopes
        (N, k, H filled up to whole vectors) or (0,).
    """
    U, k, H = p.shape
    lanes = LANES[p.dtype.name]
    num_blocks, num_sets = -(-H // lanes), len(offsets) - 1
    e, is_far = np.empty((U, k, num_blocks * lanes), p.dtype), np.zeros(1, np.bool_)
    row_costs = partial(np.full, U, 0.5 * k * H)
    _exponentials()(U, row_costs, num_threads, p.reshape(-1), e.reshape(-1), is_far, k, H, float(factor), float(far))
    if is_far[0]:
        return None
    out = np.empty((num_sets, H), e.dtype)
    slopes = np.empty((len(places), k, num_blocks * lanes) if with_slopes else 0, e.dtype)

    def costs() -> np.ndarray:
        sizes = np.diff(offsets).astype(np.float64)
        return np.repeat(0.4 * lanes * num_tuples(sizes, k, increasing), num_blocks)

    arguments = e.reshape(-1), places, offsets, bool(increasing), H, float(factor), out.reshape(-1), slopes.reshape(-1)
    _kernel(k, with_slopes)(num_sets * num_blocks, costs, num_threads, *arguments)
    return out, slopes


@kernel_maker
def _exponentials() -> Kernel:
    def exponentials(p, e, is_far, k, H, factor, far, first, last):
        """e^(s·p), each row filled up to whole vectors by ones."""
        lanes = num_lanes(p)
        at = first * k * ((H + lanes - 1) // lanes * lanes)
        for row in range(first * k, last * k):
            for v in range(0, H, lanes):
                x = load_first(p, row * H + v, min(lanes, H - v)) * factor
                if not all_within(x, far):
                    is_far[0] = True
                store(e, at, exponential(x))
                at += lanes

    return Kernel(exponentials, "exponentials")


@kernel_maker
def _kernel(k: int, with_slopes: bool) -> Kernel:
    """(e, places, offsets, increasing, H, factor, out, slopes, first, last), over items (set, block of units)."""

    def logistic_sums(e, places, offsets, increasing, H, factor, out, slopes, first, last):
        lanes = num_lanes(e)
        num_blocks = (H + lanes - 1) // lanes
        whole = num_blocks * lanes
        most = 1
        for b in range(first // num_blocks, (last - 1) // num_blocks + 1):
            most = max(most, offsets[b + 1] - offsets[b])
        x = np.ones(k * most * lanes, e.dtype)  # position by position
        d = np.zeros(k * most * lanes, e.dtype)  # Σ (r − r²) for each element and position
        zeros, ones = np.zeros(lanes, e.dtype), np.ones(lanes, e.dtype)
        zero, one = load(zeros, 0), load(ones, 0)
        for item in range(first, last):
            b, h = item // num_blocks, (item % num_blocks) * lanes
            start, n = offsets[b], offsets[b + 1] - offsets[b]
            for i in range(n):
                row = places[start + i] * k * whole + h
                for j in range(k):
                    store(x, (j * n + i) * lanes, load(e, row + j * whole))
            if with_slopes:  # by whole vectors, as they are read next: a CPU waits where a read spans two writes
                for i in range(k * n):
                    store(d, i * lanes, zero)
            total, count, last_row = zero, 0, (k - 1) * n
            for i in range(n if k == 3 else 1):
                first_factor, of_i, slope_of_i = one, zero, zero
                if k == 3:
                    first_factor = load(x, i * lanes)
                for j in range(i + 1 if k == 3 and increasing else 0, n):
                    if k == 3 and i == j:
                        continue
                    at_j = ((k - 2) * n + j) * lanes
                    q = first_factor * load(x, at_j)
                    of_j, slope_of_j = zero, zero
                    low, high = (min(i, j), max(i, j)) if k == 3 else (j, n)
                    # The last index runs over what is left: all behind j, or the stretches between i and j.
                    for stretch in range(1 if increasing else 3):
                        if increasing:
                            m, end = j + 1, n
                        elif stretch == 0:
                            m, end = 0, low
                        elif stretch == 1:
                            m, end = low + 1, high
                        else:
                            m, end = high + 1, n
                        count += max(0, end - m)
                        while m + 1 < end:
                            at = (last_row + m) * lanes
                            z, w = 1.0 + q * load(x, at), 1.0 + q * load(x, at + lanes)
                            both = quotient(1.0, z * w)
                            r, t = both * w, both * z
                            of_j = of_j + (r + t)
                            if with_slopes:
                                r = r - r * r
                                t = t - t * t
                                store(d, at, load(d, at) + r)
                                store(d, at + lanes, load(d, at + lanes) + t)
                                slope_of_j = slope_of_j + (r + t)
                            m += 2
                        if m < end:
                            at = (last_row + m) * lanes
                            r = quotient(1.0, 1.0 + q * load(x, at))
                            of_j = of_j + r
                            if with_slopes:
                                r = r - r * r
                                store(d, at, load(d, at) + r)
                                slope_of_j = slope_of_j + r
                    of_i = of_i + of_j
                    if with_slopes:
                        store(d, at_j, load(d, at_j) + slope_of_j)
                        slope_of_i = slope_of_i + slope_of_j
                total = total + of_i
                if with_slopes and k == 3:
                    store(d, i * lanes, slope_of_i)
            store_first(out, b * H + h, 1.0 - total * (factor / count), min(lanes, H - h))
            if with_slopes:
                share = factor * factor / count
                for i in range(n):
                    for j in range(k):
                        store(slopes, ((start + i) * k + j) * whole + h, load(d, (j * n + i) * lanes) * share)

    return Kernel(logistic_sums, f"logistic_sums_{k}{'_and_slopes' if with_slopes else ''}")
