"""Means of σ(p_1[i] + p_2[j]) over the others j of each element i of a set, by harmonics, and their gradient; and of
σ(p_1[i] + p_2[j] + p_3[l]) over all pairs of others.

As σ(t) is a sum of a_m trig(ω_m t), the mean is Σ_m a_m Re(z_1[i] (S_m − z_2[i]))/(n − 1) with z = exp(iω_m p) and
S_m = Σ_j z_2[j]: one pass over the elements for the sums, and one that reads them. A gradient g of the means takes
U = Σ_i u_i, u = g z_1, beside them. For triples S − z_2 becomes A B − (S_23 − z_2 z_3), A = S_2 − z_2, B = S_3 − z_3,
over (n − 1)(n − 2), and the gradient takes Σ u A and Σ u B too. docs/spectral.md has the series and its bounds.
"""

from functools import partial

import numpy as np

from janossy.kernels.cpu.compiled import Kernel, kernel_maker
from janossy.kernels.cpu.harmonics import (
    TAYLOR,
    angles,
    coefficients,
    first_harmonics,
    most_harmonics,
    next_harmonics,
    plan,
    take_lanes,
)
from janossy.kernels.cpu.series_means import extents, rounding
from janossy.kernels.cpu.vector import FLUSH, inlined, load, store
from janossy.kernels.expansions import EXPANSIONS, TRIG, margins, num_harmonics, rounded_up
from janossy.kernels.limits import LANES
from janossy.kernels.series_choice import MAX_STATES

HARMONIC_COST = 12.0
"""The cost of one harmonic of one element and unit, in activations."""


def relation_means(
    p: np.ndarray, offsets: np.ndarray, activation: str, tolerance: float, weights: np.ndarray | None, num_threads: int
) -> np.ndarray:
    """The means (N, H) for projections p (N, k, H), k = 2 or 3, each within ``tolerance``; zero for sets of n < k.

    With ``weights`` g (N, H): the gradient of Σ g · means by p instead, (N, k, H). For a set whose projections are not
    finite, all is NaN.

    Raises: ValueError for projections that reach so far that the series would be too long.
    """
    p, offsets = np.ascontiguousarray(p), np.ascontiguousarray(offsets, np.int64)
    (_, k, H), n, e = p.shape, np.diff(offsets), EXPANSIONS[activation]
    out = np.zeros((len(p), H) if weights is None else p.shape, p.dtype)
    low, high, finite = extents(p, offsets, num_threads)
    with np.errstate(invalid="ignore", over="ignore"):
        bounds = np.maximum(abs(low.sum(1)), abs(high.sum(1)))
        centres = np.zeros_like(low) if e.family == TRIG else 0.5 * (low + high)
    finite &= np.isfinite(bounds).all(1)
    bounds = rounded_up(np.where(finite[:, None], bounds, 0.0))
    harmonics = num_harmonics(activation, tolerance, bounds.max(1, initial=0.0))
    if (harmonics > MAX_STATES >> 3).any():
        b = int(harmonics.argmax())
        raise ValueError(
            f"Relations expects elements whose pre-activations a series can reach; got {bounds[b].max():.1g} in set "
            f"{b}. Scale the elements, or use evaluate='gather'."
        )
    out[np.repeat(~finite, n)] = np.nan
    delta, cut = (0.0, 0.0) if e.family == TRIG else margins(e.family, tolerance)
    periods = e.kappa * bounds.max(1, initial=0.0) + delta
    precise = (p.dtype == np.float64) | (rounding(n, k, periods) > tolerance / 2)
    for work, of_this in (("float32", ~precise), ("float64", precise)):
        sets = np.flatnonzero((n >= k) & finite & of_this)
        if len(sets) == 0:
            continue
        lanes = LANES[work]
        num_blocks = -(-H // lanes)
        each = partial(np.repeat, n[sets] * harmonics[sets] * HARMONIC_COST * lanes, num_blocks)
        series = coefficients(activation), p, offsets, sets, centres[sets], bounds[sets], delta, cut, TAYLOR[work]
        arguments = *series, lanes, np.empty(0, work)
        items = len(sets) * num_blocks, each, num_threads
        if weights is None:
            relation_kernel(k)(*items, *arguments, out)
        else:
            relation_gradient_kernel(k)(*items, *arguments, np.ascontiguousarray(weights), out)
    return out


@inlined
def real_of_three(a, b, c, d, e, f):
    """Re((a + ib)(c + id)(e + if))."""
    return (a * c - b * d) * e - (a * d + b * c) * f


@inlined
def others_of_two(part, at, lanes, c, d, e, f):
    """(S_2 − z_2)(S_3 − z_3) − (S_23 − z_2 z_3), for z_2 = c + id and z_3 = e + if: a sum over two others."""
    a, b = load(part, at) - c, load(part, at + lanes) - d
    x, y = load(part, at + 2 * lanes) - e, load(part, at + 3 * lanes) - f
    r, t = load(part, at + 4 * lanes) - (c * e - d * f), load(part, at + 5 * lanes) - (c * f + d * e)
    return a * x - b * y - r, a * y + b * x - t


@inlined
def add_product(of_one, one, of_other, other, part, at, lanes):
    """Adds the product of two complex numbers per lane."""
    a, b, c, d = load(of_one, one), load(of_one, one + lanes), load(of_other, other), load(of_other, other + lanes)
    store(part, at, load(part, at) + (a * c - b * d))
    store(part, at + lanes, load(part, at + lanes) + (a * d + b * c))


@kernel_maker
def relation_kernel(k):
    """(expansion, p, offsets, sets, centres, bounds, delta, cut, taylor, lanes, work, out, first, last).

    Items are (set, block of ``lanes`` hidden units).
    """
    num_sums = 2 * k - 3

    def relations(expansion, p, offsets, sets, centres, bounds, delta, cut, taylor, lanes, work, out, first, last):
        family, odd, beta, kappa = expansion[0], expansion[1] != 0.0, expansion[3], expansion[5]
        H = p.shape[2]
        num_blocks, stride = (H + lanes - 1) // lanes, num_sums * 2 * lanes
        most = most_harmonics(family, kappa, bounds, delta, cut, lanes, first, last)
        bound, omega, constants, lin = np.zeros(lanes), np.zeros(lanes), np.zeros(lanes), np.zeros(lanes)
        centre, weights = np.zeros((k, lanes)), np.zeros(most * lanes)
        theta, z, turn = (
            np.zeros(k * lanes, work.dtype),
            np.zeros(2 * k * lanes, work.dtype),
            np.zeros(2 * k * lanes, work.dtype),
        )
        value = np.zeros(lanes, work.dtype)
        part, by_one = np.zeros(most * stride, work.dtype), np.zeros(most * 2 * lanes, work.dtype)
        total = np.zeros(most * stride)
        for item in range(first, last):
            s, h0 = item // num_blocks, (item % num_blocks) * lanes
            width = min(lanes, H - h0)
            start, n = offsets[sets[s]], offsets[sets[s] + 1] - offsets[sets[s]]
            tuples = n - 1.0 if k == 2 else (n - 1.0) * (n - 2.0)
            lin[:], total[:], theta[:] = 0.0, 0.0, 0.0
            take_lanes(bounds, centres, s, h0, width, bound, centre)
            num = plan(expansion, bound, delta, cut, lanes, omega, weights, constants)
            for begin in range(0, n, FLUSH):
                part[:] = 0
                for i in range(start + begin, start + min(n, begin + FLUSH)):
                    angles(family, p[i, 1:], centre[1:], omega, h0, width, lanes, theta)
                    for j in range(1, k):
                        for h in range(width):
                            lin[h] += p[i, j, h0 + h]
                    first_harmonics(theta, k - 1, lanes, taylor, z, turn)
                    for m in range(num):
                        if m > 0:
                            next_harmonics(z, turn, k - 1, lanes)
                        for at in range(0, 2 * (k - 1) * lanes, lanes):  # S_2, and S_3 behind it
                            there = m * stride + at
                            store(part, there, load(part, there) + load(z, at))
                        if k == 3:
                            add_product(z, 0, z, 2 * lanes, part, m * stride + 4 * lanes, lanes)
                for at in range(num * stride):
                    total[at] += part[at]
            for m in range(num):
                for h in range(lanes):
                    at, one = m * stride + h, m * 2 * lanes + h
                    rate = (2 * m + 1) * omega[h]
                    shift = centre[:, h].sum()
                    c = weights[m * lanes + h] / tuples * (np.cos(rate * shift) + 1j * np.sin(rate * shift))
                    if odd:
                        c *= -1j
                    by_one[one], by_one[one + lanes] = c.real, c.imag
                    if k == 2:
                        c = c * (total[at] + 1j * total[at + lanes])
                        part[at], part[at + lanes] = c.real, c.imag
                    else:
                        for each in range(at, at + stride, lanes):
                            part[each] = total[each]
            for i in range(start, start + n):
                angles(family, p[i], centre, omega, h0, width, lanes, theta)
                first_harmonics(theta, k, lanes, taylor, z, turn)
                value[:] = 0
                for m in range(num):
                    if m > 0:
                        next_harmonics(z, turn, k, lanes)
                    at, one = m * stride, m * 2 * lanes
                    a, b, c, d = load(z, 0), load(z, lanes), load(z, 2 * lanes), load(z, 3 * lanes)
                    x, y = load(by_one, one), load(by_one, one + lanes)
                    if k == 2:
                        u, v = load(part, at) - (x * c - y * d), load(part, at + lanes) - (x * d + y * c)
                    else:
                        e, f = load(z, 4 * lanes), load(z, 5 * lanes)
                        r, t = others_of_two(part, at, lanes, c, d, e, f)
                        u, v = x * r - y * t, x * t + y * r
                    store(value, 0, load(value, 0) + (a * u - b * v))
                for h in range(width):
                    own = p[i, 1, h0 + h] if k == 2 else p[i, 1, h0 + h] + p[i, 2, h0 + h]
                    linear = p[i, 0, h0 + h] + (lin[h] - own) / (n - 1)
                    out[i, h0 + h] = constants[h] + beta * linear + value[h]

    return Kernel(relations, f"relations_{k}")


@kernel_maker
def relation_gradient_kernel(k):
    """(expansion, …, work, weights, out, first, last): the gradient, with the arguments of ``relation_kernel``."""
    num_sums = 4 * k - 6

    def relation_gradients(
        expansion, p, offsets, sets, centres, bounds, delta, cut, taylor, lanes, work, gradient, out, first, last
    ):
        family, odd, beta, kappa = expansion[0], expansion[1] != 0.0, expansion[3], expansion[5]
        H = p.shape[2]
        num_blocks, stride = (H + lanes - 1) // lanes, num_sums * 2 * lanes
        most = most_harmonics(family, kappa, bounds, delta, cut, lanes, first, last)
        bound, omega, constants, lin = np.zeros(lanes), np.zeros(lanes), np.zeros(lanes), np.zeros(lanes)
        centre, weights = np.zeros((k, lanes)), np.zeros(most * lanes)
        theta, z, turn = (
            np.zeros(k * lanes, work.dtype),
            np.zeros(2 * k * lanes, work.dtype),
            np.zeros(2 * k * lanes, work.dtype),
        )
        g, values = np.zeros(lanes, work.dtype), np.zeros(k * lanes, work.dtype)
        weighed = np.zeros(2 * lanes, work.dtype)
        part, by_one = np.zeros(most * stride, work.dtype), np.zeros(most * 2 * lanes, work.dtype)
        total = np.zeros(most * stride)
        for item in range(first, last):
            s, h0 = item // num_blocks, (item % num_blocks) * lanes
            width = min(lanes, H - h0)
            start, n = offsets[sets[s]], offsets[sets[s] + 1] - offsets[sets[s]]
            tuples = n - 1.0 if k == 2 else (n - 1.0) * (n - 2.0)
            lin[:], total[:], theta[:], g[:] = 0.0, 0.0, 0.0, 0.0
            take_lanes(bounds, centres, s, h0, width, bound, centre)
            num = plan(expansion, bound, delta, cut, lanes, omega, weights, constants)
            for begin in range(0, n, FLUSH):
                part[:] = 0
                for i in range(start + begin, start + min(n, begin + FLUSH)):
                    angles(family, p[i], centre, omega, h0, width, lanes, theta)
                    for h in range(width):
                        g[h] = gradient[i, h0 + h]
                        lin[h] += gradient[i, h0 + h]
                    first_harmonics(theta, k, lanes, taylor, z, turn)
                    for m in range(num):
                        if m > 0:
                            next_harmonics(z, turn, k, lanes)
                        at = m * stride
                        for there in range(0, 2 * (k - 1) * lanes, lanes):  # S_2, and S_3 behind it
                            store(part, at + there, load(part, at + there) + load(z, 2 * lanes + there))
                        at += 2 * (k - 1) * lanes
                        for there in range(0, 2 * lanes, lanes):  # U, the sum of g z_1
                            store(weighed, there, load(g, 0) * load(z, there))
                            store(part, at + there, load(part, at + there) + load(weighed, there))
                        if k == 3:
                            add_product(z, 2 * lanes, z, 4 * lanes, part, at + 2 * lanes, lanes)
                            add_product(weighed, 0, z, 2 * lanes, part, at + 4 * lanes, lanes)
                            add_product(weighed, 0, z, 4 * lanes, part, at + 6 * lanes, lanes)
                for at in range(num * stride):
                    total[at] += part[at]
            for m in range(num):
                for h in range(lanes):
                    at, one = m * stride + h, m * 2 * lanes + h
                    rate = (2 * m + 1) * omega[h]
                    shift = centre[:, h].sum()
                    c = weights[m * lanes + h] / tuples * (np.cos(rate * shift) + 1j * np.sin(rate * shift))
                    c *= rate if odd else rate * 1j
                    by_one[one], by_one[one + lanes] = c.real, c.imag
                    if k == 2:
                        by_sum = c * (total[at] + 1j * total[at + lanes])
                        by_others = c * (total[at + 2 * lanes] + 1j * total[at + 3 * lanes])
                        part[at], part[at + lanes] = by_sum.real, by_sum.imag
                        part[at + 2 * lanes], part[at + 3 * lanes] = by_others.real, by_others.imag
                    else:  # S_2, S_3, S_23, U, and the sums of u B and u A
                        s_2, s_3 = (
                            total[at] + 1j * total[at + lanes],
                            total[at + 2 * lanes] + 1j * total[at + 3 * lanes],
                        )
                        u = total[at + 4 * lanes] + 1j * total[at + 5 * lanes]
                        by_2 = u * s_2 - (total[at + 8 * lanes] + 1j * total[at + 9 * lanes])
                        by_3 = u * s_3 - (total[at + 10 * lanes] + 1j * total[at + 11 * lanes])
                        for each in range(0, 4 * lanes, lanes):
                            part[at + each] = total[at + each]
                        for each in range(0, 2 * lanes, lanes):
                            part[at + 4 * lanes + each] = total[at + 6 * lanes + each]
                            part[at + 6 * lanes + each] = total[at + 4 * lanes + each]
                        part[at + 8 * lanes], part[at + 9 * lanes] = by_3.real, by_3.imag
                        part[at + 10 * lanes], part[at + 11 * lanes] = by_2.real, by_2.imag
            for i in range(start, start + n):
                angles(family, p[i], centre, omega, h0, width, lanes, theta)
                first_harmonics(theta, k, lanes, taylor, z, turn)
                for h in range(width):
                    g[h] = gradient[i, h0 + h]
                values[:] = 0
                for m in range(num):
                    if m > 0:
                        next_harmonics(z, turn, k, lanes)
                    at, one = m * stride, m * 2 * lanes
                    a, b, c, d = load(z, 0), load(z, lanes), load(z, 2 * lanes), load(z, 3 * lanes)
                    x, y = load(by_one, one), load(by_one, one + lanes)
                    if k == 2:
                        own = x * (a * c - b * d) - y * (a * d + b * c)
                        mine = load(part, at) * a - load(part, at + lanes) * b
                        others = load(part, at + 2 * lanes) * c - load(part, at + 3 * lanes) * d
                        store(values, 0, load(values, 0) + (mine - own))
                        store(values, lanes, load(values, lanes) + (others - load(g, 0) * own))
                    else:
                        e, f = load(z, 4 * lanes), load(z, 5 * lanes)
                        r, t = others_of_two(part, at, lanes, c, d, e, f)
                        store(values, 0, load(values, 0) + real_of_three(x, y, a, b, r, t))
                        u, v = load(g, 0) * a, load(g, 0) * b
                        left, over = load(part, at + 6 * lanes) - u, load(part, at + 7 * lanes) - v
                        for j in range(1, 3):  # j, and the other position of the two
                            q, w, o_re, o_im = (c, d, e, f) if j == 1 else (e, f, c, d)
                            of_other, by = at + (2 - j) * 2 * lanes, at + (6 + 2 * j) * lanes
                            p_re, p_im = load(part, of_other) - o_re, load(part, of_other + lanes) - o_im
                            r = load(part, by) - (u * p_re - v * p_im) - (o_re * left - o_im * over)
                            t = load(part, by + lanes) - (u * p_im + v * p_re) - (o_re * over + o_im * left)
                            store(values, j * lanes, load(values, j * lanes) + real_of_three(x, y, q, w, r, t))
                for h in range(width):
                    out[i, 0, h0 + h] = g[h] * (beta + values[h])
                    for j in range(1, k):
                        out[i, j, h0 + h] = beta * (lin[h] - g[h]) / (n - 1) + values[j * lanes + h]

    return Kernel(relation_gradients, f"relation_gradients_{k}")
