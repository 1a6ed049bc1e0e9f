"""Means of σ(p_1[i] + p_2[j]) over the others j of each element i of a set, by harmonics, and their gradient.

As σ(t) is a sum of a_m trig(ω_m t), the mean is Σ_m a_m Re(z_1[i] (S_m − z_2[i]))/(n − 1) with z = exp(iω_m p) and
S_m = Σ_j z_2[j]: one pass over the elements for the sums, and one that reads them. A gradient g of the means takes
sums of g_i z_1[i] beside them. docs/spectral.md has the series and its bounds.
"""

from functools import partial

import numpy as np

from janossy.kernels.cpu.compiled import Kernel, kernel_maker
from janossy.kernels.cpu.harmonics import TAYLOR, angles, first_harmonics, most_harmonics, next_harmonics, plan
from janossy.kernels.cpu.series_means import MAX_STATES, extents, rounding
from janossy.kernels.cpu.vector import load, store
from janossy.kernels.expansions import EXPANSIONS, TRIG, margins, num_harmonics, rounded_up
from janossy.kernels.limits import LANES

FLUSH = 128
"""Elements summed in the working precision before their sums are added in float64."""

HARMONIC_COST = 12.0
"""The cost of one harmonic of one element and unit, in activations."""


def relation_means(
    p: np.ndarray, offsets: np.ndarray, activation: str, tolerance: float, weights: np.ndarray | None, num_threads: int
) -> np.ndarray:
    """The means (N, H) for projections p (N, 2, H), each within ``tolerance``; zero where a set has one element.

    With ``weights`` g (N, H): the gradient of Σ g · means by p instead, (N, 2, H). For a set whose projections are not
    finite, all is NaN.

    Raises: ValueError for projections that reach so far that the series would be too long.
    """
    p, offsets = np.ascontiguousarray(p), np.ascontiguousarray(offsets, np.int64)
    H, n, e = p.shape[2], np.diff(offsets), EXPANSIONS[activation]
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
    precise = (p.dtype == np.float64) | (rounding(n, 2, periods) > tolerance / 2)
    for work, of_this in (("float32", ~precise), ("float64", precise)):
        sets = np.flatnonzero((n > 1) & finite & of_this)
        if len(sets) == 0:
            continue
        lanes = LANES[work]
        num_blocks = -(-H // lanes)
        each = partial(np.repeat, n[sets] * harmonics[sets] * HARMONIC_COST * lanes, num_blocks)
        arguments = p, offsets, sets, centres[sets], bounds[sets], delta, cut, TAYLOR[work], lanes, np.empty(0, work)
        items = len(sets) * num_blocks, each, num_threads
        if weights is None:
            relation_kernel(activation)(*items, *arguments, out)
        else:
            relation_gradient_kernel(activation)(*items, *arguments, np.ascontiguousarray(weights), out)
    return out


@kernel_maker
def relation_kernel(activation):
    """(p, offsets, sets, centres, bounds, delta, cut, taylor, lanes, work, out, first, last) over (set, block)."""
    e = EXPANSIONS[activation]
    family, odd, beta, expansion = e.family, e.odd, e.beta, (e.family, e.alpha, e.gamma, e.kappa)
    kappa = e.kappa

    def relations(p, offsets, sets, centres, bounds, delta, cut, taylor, lanes, work, out, first, last):
        H = p.shape[2]
        num_blocks = (H + lanes - 1) // lanes
        most = most_harmonics(family, kappa, bounds, delta, cut, lanes, first, last)
        bound, omega, constants, lin = np.zeros(lanes), np.zeros(lanes), np.zeros(lanes), np.zeros(lanes)
        centre, weights = np.zeros((2, lanes)), np.zeros(most * lanes)
        theta, z, turn = (
            np.zeros(2 * lanes, work.dtype),
            np.zeros(4 * lanes, work.dtype),
            np.zeros(4 * lanes, work.dtype),
        )
        value = np.zeros(lanes, work.dtype)
        part, by_one = np.zeros(most * 2 * lanes, work.dtype), np.zeros(most * 2 * lanes, work.dtype)
        total = np.zeros(most * 2 * lanes)
        for item in range(first, last):
            s, h0 = item // num_blocks, (item % num_blocks) * lanes
            width = min(lanes, H - h0)
            start, n = offsets[sets[s]], offsets[sets[s] + 1] - offsets[sets[s]]
            bound[:], centre[:], lin[:], total[:], theta[:] = 0.0, 0.0, 0.0, 0.0, 0.0
            for h in range(width):
                bound[h] = bounds[s, h0 + h]
                for j in range(2):
                    centre[j, h] = centres[s, j, h0 + h]
            num = plan(expansion, bound, delta, cut, lanes, omega, weights, constants)
            for begin in range(0, n, FLUSH):
                part[:] = 0
                for i in range(start + begin, start + min(n, begin + FLUSH)):
                    angles(family, p[i, 1:], centre[1:], omega, h0, width, lanes, theta)
                    for h in range(width):
                        lin[h] += p[i, 1, h0 + h]
                    first_harmonics(theta, 1, lanes, taylor, z, turn)
                    for m in range(num):
                        if m > 0:
                            next_harmonics(z, turn, 1, lanes)
                        for at in range(0, 2 * lanes, lanes):
                            there = m * 2 * lanes + at
                            store(part, there, load(part, there) + load(z, at))
                for at in range(num * 2 * lanes):
                    total[at] += part[at]
            for m in range(num):
                for h in range(lanes):
                    re, im = m * 2 * lanes + h, m * 2 * lanes + lanes + h
                    rate = (2 * m + 1) * omega[h]
                    shift = centre[0, h] + centre[1, h]
                    c = weights[m * lanes + h] / (n - 1) * (np.cos(rate * shift) + 1j * np.sin(rate * shift))
                    if odd:
                        c *= -1j
                    by_sum = c * (total[re] + 1j * total[im])
                    part[re], part[im], by_one[re], by_one[im] = by_sum.real, by_sum.imag, c.real, c.imag
            for i in range(start, start + n):
                angles(family, p[i], centre, omega, h0, width, lanes, theta)
                first_harmonics(theta, 2, lanes, taylor, z, turn)
                value[:] = 0
                for m in range(num):
                    if m > 0:
                        next_harmonics(z, turn, 2, lanes)
                    re, im = m * 2 * lanes, m * 2 * lanes + lanes
                    a, b, c, d = load(z, 0), load(z, lanes), load(z, 2 * lanes), load(z, 3 * lanes)
                    x, y = load(by_one, re), load(by_one, im)
                    u, v = load(part, re) - (x * c - y * d), load(part, im) - (x * d + y * c)
                    store(value, 0, load(value, 0) + (a * u - b * v))
                for h in range(width):
                    linear = p[i, 0, h0 + h] + (lin[h] - p[i, 1, h0 + h]) / (n - 1)
                    out[i, h0 + h] = constants[h] + beta * linear + value[h]

    return Kernel(relations, f"relations_{activation}")


@kernel_maker
def relation_gradient_kernel(activation):
    """(p, …, work, weights, out, first, last): the gradient, with the arguments of ``relation_kernel``."""
    e = EXPANSIONS[activation]
    family, odd, beta, expansion = e.family, e.odd, e.beta, (e.family, e.alpha, e.gamma, e.kappa)
    kappa = e.kappa

    def relation_gradients(
        p, offsets, sets, centres, bounds, delta, cut, taylor, lanes, work, gradient, out, first, last
    ):
        H = p.shape[2]
        num_blocks = (H + lanes - 1) // lanes
        most = most_harmonics(family, kappa, bounds, delta, cut, lanes, first, last)
        bound, omega, constants, lin = np.zeros(lanes), np.zeros(lanes), np.zeros(lanes), np.zeros(lanes)
        centre, weights = np.zeros((2, lanes)), np.zeros(most * lanes)
        theta, z, turn = (
            np.zeros(2 * lanes, work.dtype),
            np.zeros(4 * lanes, work.dtype),
            np.zeros(4 * lanes, work.dtype),
        )
        g, values = np.zeros(lanes, work.dtype), np.zeros(2 * lanes, work.dtype)
        part, by_one = np.zeros(most * 4 * lanes, work.dtype), np.zeros(most * 2 * lanes, work.dtype)
        total = np.zeros(most * 4 * lanes)
        for item in range(first, last):
            s, h0 = item // num_blocks, (item % num_blocks) * lanes
            width = min(lanes, H - h0)
            start, n = offsets[sets[s]], offsets[sets[s] + 1] - offsets[sets[s]]
            bound[:], centre[:], lin[:], total[:], theta[:], g[:] = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            for h in range(width):
                bound[h] = bounds[s, h0 + h]
                for j in range(2):
                    centre[j, h] = centres[s, j, h0 + h]
            num = plan(expansion, bound, delta, cut, lanes, omega, weights, constants)
            for begin in range(0, n, FLUSH):
                part[:] = 0
                for i in range(start + begin, start + min(n, begin + FLUSH)):
                    angles(family, p[i], centre, omega, h0, width, lanes, theta)
                    for h in range(width):
                        g[h] = gradient[i, h0 + h]
                        lin[h] += gradient[i, h0 + h]
                    first_harmonics(theta, 2, lanes, taylor, z, turn)
                    for m in range(num):
                        if m > 0:
                            next_harmonics(z, turn, 2, lanes)
                        for at in range(0, 2 * lanes, lanes):  # S, and the sums of g z_1 behind it
                            there = m * 4 * lanes + at
                            store(part, there, load(part, there) + load(z, 2 * lanes + at))
                            there += 2 * lanes
                            store(part, there, load(part, there) + load(g, 0) * load(z, at))
                for at in range(num * 4 * lanes):
                    total[at] += part[at]
            for m in range(num):
                for h in range(lanes):
                    at, one = m * 4 * lanes + h, m * 2 * lanes + h
                    rate = (2 * m + 1) * omega[h]
                    shift = centre[0, h] + centre[1, h]
                    c = weights[m * lanes + h] / (n - 1) * (np.cos(rate * shift) + 1j * np.sin(rate * shift))
                    c *= rate if odd else rate * 1j
                    by_sum = c * (total[at] + 1j * total[at + lanes])
                    by_others = c * (total[at + 2 * lanes] + 1j * total[at + 3 * lanes])
                    part[at], part[at + lanes] = by_sum.real, by_sum.imag
                    part[at + 2 * lanes], part[at + 3 * lanes] = by_others.real, by_others.imag
                    by_one[one], by_one[one + lanes] = c.real, c.imag
            for i in range(start, start + n):
                angles(family, p[i], centre, omega, h0, width, lanes, theta)
                first_harmonics(theta, 2, lanes, taylor, z, turn)
                for h in range(width):
                    g[h] = gradient[i, h0 + h]
                values[:] = 0
                for m in range(num):
                    if m > 0:
                        next_harmonics(z, turn, 2, lanes)
                    at, one = m * 4 * lanes, m * 2 * lanes
                    a, b, c, d = load(z, 0), load(z, lanes), load(z, 2 * lanes), load(z, 3 * lanes)
                    x, y = load(by_one, one), load(by_one, one + lanes)
                    own = x * (a * c - b * d) - y * (a * d + b * c)
                    mine = load(part, at) * a - load(part, at + lanes) * b
                    others = load(part, at + 2 * lanes) * c - load(part, at + 3 * lanes) * d
                    store(values, 0, load(values, 0) + (mine - own))
                    store(values, lanes, load(values, lanes) + (others - load(g, 0) * own))
                for h in range(width):
                    out[i, 0, h0 + h] = g[h] * (beta + values[h])
                    out[i, 1, h0 + h] = beta * (lin[h] - g[h]) / (n - 1) + values[lanes + h]

    return Kernel(relation_gradients, f"relation_gradients_{activation}")
