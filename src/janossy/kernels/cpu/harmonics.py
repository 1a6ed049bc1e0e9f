"""The common part of the two spectral kernels: coefficients, and each element's angles and first harmonics."""

from functools import cache
from math import factorial

import numpy as np
from numba import njit

from janossy.kernels.cpu.vector import inlined, load, store
from janossy.kernels.expansions import ERF, EXPANSIONS, LOG_COSH, T_ERF, T_TANH, TANH, TRIG

TAYLOR = {
    dtype: np.array([[(-1.0) ** i / factorial(2 * i + odd) for i in range(terms, -1, -1)] for odd in (0, 1)])
    for dtype, terms in (("float32", 9), ("float64", 15))
}
"""Coefficients of cos x and sin x / x in x², for |x| ≤ π: π^20/20! and π^32/32! are below the precisions."""


@cache
def coefficients(activation: str) -> np.ndarray:
    """An activation of ``EXPANSIONS`` as a kernel takes it. It is no constant there: one kernel serves them all."""
    e = EXPANSIONS[activation]
    return np.array([e.family, e.odd, e.alpha, e.beta, e.gamma, e.kappa])


@inlined
def coefficient(family, omega, period):
    """a_m of kernels/expansions.py."""
    x = 0.5 * np.pi * omega
    if family == TANH:
        return np.pi / period / np.sinh(x)
    if family == T_TANH:
        # cosh x / sinh² x, which is ∞/∞ from x = 711 on, where a batch-mate or another unit takes many harmonics
        return -(np.pi**2) / (2.0 * period) / (np.sinh(x) * np.tanh(x))
    if family == LOG_COSH:
        return -np.pi / period / np.sinh(x) / omega
    if family == ERF:
        return 2.0 / (period * omega) * np.exp(-0.25 * omega * omega)
    if family == T_ERF:
        return -(2.0 / omega**2 + 1.0) / period * np.exp(-0.25 * omega * omega)
    return 1.0


@inlined
def constant(family, period):
    """c of kernels/expansions.py."""
    if family in (T_TANH, T_ERF):
        return period
    return period - np.log(2.0) if family == LOG_COSH else 0.0


@njit
def plan(expansion, bound, delta, cut, lanes, omega, weights, constants):
    """The series of each lane: ω_0 in units of t, γ a_m (M, lanes) and α + γ c; returns M, enough for every lane.

    ``expansion`` is ``coefficients``; ``bound`` (lanes,) is T ≥ |t|.
    """
    family, alpha, gamma, kappa = expansion[0], expansion[2], expansion[4], expansion[5]
    num = 1
    for h in range(lanes):
        period = 0.5 * (kappa * bound[h] + delta)
        omega[h] = 1.0 if family == TRIG else kappa * np.pi / (2.0 * period)
        if family != TRIG:
            num = max(num, int(np.ceil(cut * period / np.pi)))
        constants[h] = alpha + gamma * constant(family, period)
    for m in range(num):
        for h in range(lanes):
            period = 0.5 * (kappa * bound[h] + delta)
            weights[m * lanes + h] = gamma * coefficient(family, (2 * m + 1) * omega[h] / kappa, period)
    return num


@njit
def num_harmonics(family, kappa, bound, delta, cut):
    """M for |t| ≤ bound."""
    return 1 if family == TRIG else int(np.ceil(cut * 0.5 * (kappa * bound + delta) / np.pi))


@njit
def most_harmonics(family, kappa, bounds, delta, cut, lanes, first, last):
    """The largest M among the hidden units of items ``first`` to ``last`` - 1, each a (set, block of ``lanes``)."""
    H = bounds.shape[1]
    num_blocks = (H + lanes - 1) // lanes
    most = 1
    for item in range(first, last):
        s, h0 = item // num_blocks, (item % num_blocks) * lanes
        for h in range(h0, min(H, h0 + lanes)):
            most = max(most, num_harmonics(family, kappa, bounds[s, h], delta, cut))
    return most


@inlined
def take_lanes(bounds, centres, s, h0, width, bound, centre):
    """Copies the bounds and centres (k, lanes) of the hidden units h0 to h0 + width - 1 of set s. Other lanes are 0."""
    bound[:], centre[:] = 0.0, 0.0
    for h in range(width):
        bound[h] = bounds[s, h0 + h]
        for j in range(len(centre)):
            centre[j, h] = centres[s, j, h0 + h]


@inlined
def _within_a_turn(x):
    """x less whole turns."""
    turns = np.rint(x / (2.0 * np.pi))
    if abs(turns) > 1e4:
        return np.arctan2(np.sin(x), np.cos(x))
    # 2π in two parts: the first has so few digits that its product with the turns is exact.
    return (x - turns * 6.28125) - turns * 0.0019353071795864769


@inlined
def angles(family, row, centre, omega, h0, width, lanes, theta):
    """θ_j = ω_0 (p_j − centre_j) of one element, within [−π, π], into theta (k · lanes); 0 beyond ``width``."""
    for j in range(row.shape[0]):
        if family == TRIG:
            for h in range(width):
                theta[j * lanes + h] = _within_a_turn(omega[h] * (np.float64(row[j, h0 + h]) - centre[j, h]))
        else:
            for h in range(width):
                theta[j * lanes + h] = omega[h] * (np.float64(row[j, h0 + h]) - centre[j, h])


@inlined
def first_harmonics(theta, k, lanes, taylor, z, turn):
    """z_j = exp(iθ_j), and turn_j = exp(2iθ_j) that leads from each harmonic to the next; (k, 2, lanes) each."""
    for j in range(k):
        x = load(theta, j * lanes)
        square = x * x
        cos, sin = square * taylor[0, 0] + taylor[0, 1], square * taylor[1, 0] + taylor[1, 1]
        for i in range(2, taylor.shape[1]):
            cos, sin = cos * square + taylor[0, i], sin * square + taylor[1, i]
        sin = x * sin
        store(z, 2 * j * lanes, cos)
        store(z, (2 * j + 1) * lanes, sin)
        store(turn, 2 * j * lanes, cos * cos - sin * sin)
        store(turn, (2 * j + 1) * lanes, 2.0 * cos * sin)


@inlined
def next_harmonics(z, turn, k, lanes):
    """z_j times turn_j, in place."""
    for j in range(k):
        re, im = 2 * j * lanes, (2 * j + 1) * lanes
        a, b, c, d = load(z, re), load(z, im), load(turn, re), load(turn, im)
        store(z, re, a * c - b * d)
        store(z, im, a * d + b * c)
