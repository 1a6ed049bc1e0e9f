"""The spectral kernel for increasing tuples: a chain of prefix sums (docs/spectral.md), in float64.

s_j, the sum of z_1[i_1] … z_j[i_j] over i_1 < … < i_j so far, takes one product for each element and position. The
slope needs the prefix before each element and the suffix behind it: a second pass walks backwards, building the
suffixes and taking the prefixes back by the same steps. |z| = 1, so that loses no more than a rounding each step.
"""

import numpy as np
from numba import njit

from janossy.kernels.cpu.compiled import Kernel, kernel_maker
from janossy.kernels.cpu.harmonics import angles, first_harmonics, most_harmonics, next_harmonics, plan, take_lanes
from janossy.kernels.cpu.vector import inlined, load, store

LANES = 8


@inlined
def add_product(sums, target, sign, a, b, c, d):
    """sums[target] += sign · (a + bi)(c + di)."""
    store(sums, target, load(sums, target) + (a * c - b * d) * sign)
    store(sums, target + LANES, load(sums, target + LANES) + (a * d + b * c) * sign)


@njit
def shares(k, n, i, share):
    """share[j]: the fraction of increasing tuples that have element i in position j, C(i, j) C(n−1−i, k−1−j) / C(n, k).

    From those of element i − 1, by the ratio of the binomials.
    """
    for j in range(k - 1, -1, -1):
        if i < j:
            share[j] = 0.0
        elif i == j:
            share[j] = 1.0
            for r in range(j + 1):
                share[j] *= (k - r) / (n - r)
        else:
            share[j] *= i / (i - j) * max(0.0, (n - i - (k - 1 - j)) / (n - i))


@kernel_maker
def increasing_kernel():
    """(expansion, p, offsets, sets, centres, bounds, delta, cut, taylor, out, slopes, first, last).

    ``expansion`` is ``coefficients``. Items are (set, block of LANES hidden units). Every set has n ≥ k.
    """

    def series_increasing(expansion, p, offsets, sets, centres, bounds, delta, cut, taylor, out, slopes, first, last):
        family, odd, beta, kappa = expansion[0], expansion[1] != 0.0, expansion[3], expansion[5]
        k, H = p.shape[1], p.shape[2]
        num_blocks = (H + LANES - 1) // LANES
        most = most_harmonics(family, kappa, bounds, delta, cut, LANES, first, last)
        bound, omega, constants, lin = np.zeros(LANES), np.zeros(LANES), np.zeros(LANES), np.zeros(LANES)
        centre, share, weights = np.zeros((k, LANES)), np.zeros(k), np.zeros(most * LANES)
        theta, gradient = np.zeros(k * LANES), np.zeros(k * LANES)
        z, turn = np.zeros(2 * k * LANES), np.zeros(2 * k * LANES)
        # Prefixes and suffixes over j = 0 … k of every harmonic; s_0 = E_{k+1} = 1.
        states = 2 * (k + 1) * LANES
        prefix, suffix = np.zeros(most * states), np.zeros(most * states)
        seeds = np.zeros(most * 2 * LANES)
        for item in range(first, last):
            s, h0 = item // num_blocks, (item % num_blocks) * LANES
            width = min(LANES, H - h0)
            start, n = offsets[sets[s]], offsets[sets[s] + 1] - offsets[sets[s]]
            lin[:], theta[:] = 0.0, 0.0
            prefix[:], suffix[:], seeds[:] = 0.0, 0.0, 0.0
            take_lanes(bounds, centres, s, h0, width, bound, centre)
            num = plan(expansion, bound, delta, cut, LANES, omega, weights, constants)
            for m in range(num):
                for h in range(LANES):
                    prefix[m * states + h] = 1.0
                    suffix[m * states + 2 * k * LANES + h] = 1.0
            scale = 1.0 / n
            for i in range(n):
                row = p[start + i]
                angles(family, row, centre, omega, h0, width, LANES, theta)
                if beta != 0.0:
                    shares(k, n, i, share)
                    for j in range(k):
                        for h in range(width):
                            lin[h] += share[j] * row[j, h0 + h]
                first_harmonics(theta, k, LANES, taylor, z, turn)
                for m in range(num):
                    if m > 0:
                        next_harmonics(z, turn, k, LANES)
                    for j in range(k - 1, -1, -1):
                        at = m * states + 2 * j * LANES
                        c, d = load(z, 2 * j * LANES) * scale, load(z, (2 * j + 1) * LANES) * scale
                        add_product(prefix, at + 2 * LANES, 1.0, load(prefix, at), load(prefix, at + LANES), c, d)

            factor = 1.0  # n^k / C(n, k)
            for j in range(k):
                factor *= n * (j + 1.0) / (n - j)
            for h in range(width):
                shift = 0.0
                for j in range(k):
                    shift += centre[j, h]
                value = constants[h] + beta * lin[h]
                for m in range(num):
                    rate = (2 * m + 1) * omega[h]
                    seed = weights[m * LANES + h] * factor * (np.cos(rate * shift) + 1j * np.sin(rate * shift))
                    if odd:
                        seed *= -1j
                    at = m * states + 2 * k * LANES + h
                    value += (seed * (prefix[at] + 1j * prefix[at + LANES])).real
                    seeds[m * 2 * LANES + h] = (seed * rate * scale).real
                    seeds[m * 2 * LANES + LANES + h] = (seed * rate * scale).imag
                out[sets[s], h0 + h] = value

            if slopes.size == 0:
                continue
            for i in range(n - 1, -1, -1):
                row = p[start + i]
                angles(family, row, centre, omega, h0, width, LANES, theta)
                first_harmonics(theta, k, LANES, taylor, z, turn)
                gradient[:] = 0
                for m in range(num):
                    if m > 0:
                        next_harmonics(z, turn, k, LANES)
                    e, f = load(seeds, m * 2 * LANES), load(seeds, m * 2 * LANES + LANES)
                    for j in range(k):
                        at = m * states + 2 * j * LANES
                        c, d = load(z, 2 * j * LANES), load(z, (2 * j + 1) * LANES)
                        add_product(prefix, at + 2 * LANES, -scale, load(prefix, at), load(prefix, at + LANES), c, d)
                        # seed · z · prefix before · suffix behind; d exp(iωp) = iω exp(iωp) dp, and Re(iw) = −Im(w).
                        a, b = c * e - d * f, c * f + d * e
                        before, before_im = load(prefix, at), load(prefix, at + LANES)
                        x, y = a * before - b * before_im, a * before_im + b * before
                        behind, behind_im = load(suffix, at + 2 * LANES), load(suffix, at + 3 * LANES)
                        store(gradient, j * LANES, load(gradient, j * LANES) - (x * behind_im + y * behind))
                        add_product(suffix, at, scale, behind, behind_im, c, d)
                for j in range(k):
                    for h in range(width):
                        slopes[start + i, j, h0 + h] = gradient[j * LANES + h]
            if beta != 0.0:
                for i in range(n):
                    shares(k, n, i, share)
                    for j in range(k):
                        for h in range(width):
                            slopes[start + i, j, h0 + h] += beta * share[j]

    return Kernel(series_increasing, "series_increasing")
