"""The spectral kernel for injective tuples: power sums over sets of positions, and inclusion–exclusion.

docs/spectral.md tells why this way, and what the subtraction loses.
"""

import numpy as np
from numba import njit

from janossy.kernels.cpu.compiled import Kernel, kernel_maker
from janossy.kernels.cpu.harmonics import angles, first_harmonics, most_harmonics, next_harmonics, plan, take_lanes
from janossy.kernels.cpu.vector import inlined, load, store

FLUSH = 128
"""Elements summed in the working precision before their sums are added in float64."""


@inlined
def products(z, k, lanes, P):
    """P_S = Π_{j∈S} z_j for every non-empty set S of positions, a bit each; (2^k, 2, lanes)."""
    for j in range(k):
        c, d = load(z, 2 * j * lanes), load(z, (2 * j + 1) * lanes)
        bit = 1 << j
        store(P, 2 * bit * lanes, c)
        store(P, (2 * bit + 1) * lanes, d)
        for rest in range(1, bit):
            a, b = load(P, 2 * rest * lanes), load(P, (2 * rest + 1) * lanes)
            S = rest | bit
            store(P, 2 * S * lanes, a * c - b * d)
            store(P, (2 * S + 1) * lanes, a * d + b * c)


@njit
def injective_mean(sums, n, k, mu, F, A):
    """The mean of Π_j z_j[i_j] over injective tuples from the power sums, by the recursion over set partitions

        F[S] = Σ_{B ⊆ S, B ∋ min S} A_B F[S∖B],   A_B = (−1)^(|B|−1) (|B|−1)! P_B / n^|B|

    times n^k (n−k)!/n!, which is left to the caller. Fills F and A.
    """
    full = (1 << k) - 1
    F[0] = 1.0
    for S in range(1, full + 1):
        A[S] = mu[S] * sums[S]
        lowest = S & -S
        others = S ^ lowest
        total = 0j
        B = others
        while True:  # every subset of the others, down to the empty one
            total += A[B | lowest] * F[others ^ B]
            if B == 0:
                break
            B = (B - 1) & others
        F[S] = total


@njit
def injective_slopes(seed, k, mu, F, A, adjoint, W):
    """W_B = the derivative of Re(seed · F[full]) by P_B, as the complex number w with d = Re(w dP_B)."""
    full = (1 << k) - 1
    adjoint[:] = 0j
    W[:] = 0j
    adjoint[full] = seed
    for S in range(full, 0, -1):
        lowest = S & -S
        others = S ^ lowest
        B = others
        while True:
            W[B | lowest] += adjoint[S] * F[others ^ B]
            adjoint[others ^ B] += adjoint[S] * A[B | lowest]
            if B == 0:
                break
            B = (B - 1) & others
    for S in range(1, full + 1):
        W[S] *= mu[S]


@kernel_maker
def injective_kernel():
    """(expansion, p, offsets, sets, centres, bounds, delta, cut, taylor, lanes, work, out, slopes, first, last).

    ``expansion`` is ``coefficients``. Items are (set, block of ``lanes`` hidden units). Every set has n ≥ k.
    """

    def series_injective(
        expansion, p, offsets, sets, centres, bounds, delta, cut, taylor, lanes, work, out, slopes, first, last
    ):
        family, odd, beta, kappa = expansion[0], expansion[1] != 0.0, expansion[3], expansion[5]
        k, H = p.shape[1], p.shape[2]
        num_blocks = (H + lanes - 1) // lanes
        size = 1 << k
        most = most_harmonics(family, kappa, bounds, delta, cut, lanes, first, last)
        bound, omega, constants, lin = np.zeros(lanes), np.zeros(lanes), np.zeros(lanes), np.zeros(lanes)
        centre = np.zeros((k, lanes))
        weights = np.zeros(most * lanes)
        theta, gradient = np.zeros(k * lanes, work.dtype), np.zeros(k * lanes, work.dtype)
        z, turn = np.zeros(2 * k * lanes, work.dtype), np.zeros(2 * k * lanes, work.dtype)
        P = np.zeros(2 * size * lanes, work.dtype)
        part = np.zeros(most * 2 * size * lanes, work.dtype)
        total = np.zeros(most * 2 * size * lanes)
        mu = np.zeros(size)
        F, A, sums = np.zeros(size, np.complex128), np.zeros(size, np.complex128), np.zeros(size, np.complex128)
        adjoint, W = np.zeros(size, np.complex128), np.zeros(size, np.complex128)
        for item in range(first, last):
            s, h0 = item // num_blocks, (item % num_blocks) * lanes
            width = min(lanes, H - h0)
            start, n = offsets[sets[s]], offsets[sets[s] + 1] - offsets[sets[s]]
            lin[:], total[:], theta[:] = 0.0, 0.0, 0.0
            take_lanes(bounds, centres, s, h0, width, bound, centre)
            num = plan(expansion, bound, delta, cut, lanes, omega, weights, constants)
            for begin in range(0, n, FLUSH):
                part[:] = 0
                for i in range(start + begin, start + min(n, begin + FLUSH)):
                    angles(family, p[i], centre, omega, h0, width, lanes, theta)
                    if beta != 0.0:
                        for j in range(k):
                            for h in range(width):
                                lin[h] += p[i, j, h0 + h]
                    first_harmonics(theta, k, lanes, taylor, z, turn)
                    for m in range(num):
                        if m > 0:
                            next_harmonics(z, turn, k, lanes)
                        products(z, k, lanes, P)
                        for at in range(2 * lanes, 2 * size * lanes, lanes):
                            there = m * 2 * size * lanes + at
                            store(part, there, load(part, there) + load(P, at))
                for at in range(num * 2 * size * lanes):
                    total[at] += part[at]

            factor = 1.0  # n^k (n−k)!/n!
            for j in range(k):
                factor *= n / (n - j)
            for S in range(1, size):
                mu[S], bits = 1.0 / n, 0
                for j in range(k):
                    if S >> j & 1:
                        mu[S] *= 1.0 if bits == 0 else -bits / n
                        bits += 1
            for h in range(width):
                shift = 0.0
                for j in range(k):
                    shift += centre[j, h]
                value = constants[h] + beta * lin[h] / n
                for m in range(num):
                    at = m * 2 * size * lanes + h
                    for S in range(1, size):
                        sums[S] = total[at + 2 * S * lanes] + 1j * total[at + (2 * S + 1) * lanes]
                    injective_mean(sums, n, k, mu, F, A)
                    rate = (2 * m + 1) * omega[h]
                    seed = weights[m * lanes + h] * factor * (np.cos(rate * shift) + 1j * np.sin(rate * shift))
                    if odd:
                        seed *= -1j
                    value += (seed * F[size - 1]).real
                    if slopes.size > 0:
                        injective_slopes(rate * seed, k, mu, F, A, adjoint, W)
                        for S in range(1, size):
                            part[at + 2 * S * lanes] = W[S].real
                            part[at + (2 * S + 1) * lanes] = W[S].imag
                out[sets[s], h0 + h] = value

            if slopes.size == 0:
                continue
            for h in range(width, lanes):
                part[h::lanes] = 0
            for i in range(start, start + n):
                angles(family, p[i], centre, omega, h0, width, lanes, theta)
                first_harmonics(theta, k, lanes, taylor, z, turn)
                gradient[:] = beta / n
                for m in range(num):
                    if m > 0:
                        next_harmonics(z, turn, k, lanes)
                    products(z, k, lanes, P)
                    for S in range(1, size):  # d exp(iωp) = iω exp(iωp) dp, and Re(i w) = −Im(w)
                        re, im = 2 * S * lanes, (2 * S + 1) * lanes
                        there = m * 2 * size * lanes
                        y = load(part, there + re) * load(P, im) + load(part, there + im) * load(P, re)
                        for j in range(k):
                            if S >> j & 1:
                                store(gradient, j * lanes, load(gradient, j * lanes) - y)
                for j in range(k):
                    for h in range(width):
                        slopes[i, j, h0 + h] = gradient[j * lanes + h]

    return Kernel(series_injective, "series_injective")
