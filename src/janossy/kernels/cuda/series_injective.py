"""The series for injective tuples: power sums over sets of positions, and inclusion–exclusion (docs/spectral.md).

Three passes, each thread with a hidden unit of its own. ``power_sums`` adds up P_S = Π_{j∈S} z_j over a split's
elements, for HARMONICS harmonics at a time: as many as leave the sums in registers. ``partitions`` makes of the sums of
a set the mean of a harmonic, and its derivatives W_S by P_S. ``slopes_by_power_sums`` reads the elements once more, and
turns each through all harmonics.
"""

import triton
import triton.language as tl

from janossy.kernels.cuda.series_plan import segment
from janossy.kernels.cuda.sums import add, total_of
from janossy.kernels.cuda.sums_of_harmonics import (
    decode_first_pass,
    each_centre,
    harmonic_of,
    place,
    seed_of,
    times,
    turned,
    units_of,
    zeros_of,
)
from janossy.kernels.cuda.tuple_sums import WIDTH, decode

HARMONICS = {1: 8, 2: 4, 3: 2, 4: 2}
ELEMENTS = {1: 4, 2: 4, 3: 2, 4: 2}
"""The work of a thread at a time, by k: harmonics of one element in the first pass, elements in the last."""

CARRY = 32
"""Elements that are added up in registers before they go to the compensated sums in memory."""

_WIDTH, _CARRY = tl.constexpr(WIDTH), tl.constexpr(CARRY)


@triton.jit
def _products(z, K: tl.constexpr):
    """P_S = Π_{j∈S} z_j for every non-empty set S of positions, a bit each."""
    P = ()
    for j in tl.static_range(K):
        P = P + (z[2 * j], z[2 * j + 1])
        for rest in tl.static_range((1 << j) - 1):
            re, im = times(P[2 * rest], P[2 * rest + 1], z[2 * j], z[2 * j + 1])
            P = P + (re, im)
    return P


@triton.jit(do_not_specialize=["first", "H", "num_splits", "MOST"])
def power_sums(
    p, offsets, harmonics, centres, periods, high, low, first, B, H, num_splits, MOST, kappa,
    K: tl.constexpr, FAMILY: tl.constexpr, HARMONICS: tl.constexpr,
):  # fmt: skip
    """The sums, high + low (num_splits, B, blocks, MOST, 2 (2^K − 1), WIDTH), of harmonics from ``first`` on."""
    NUM: tl.constexpr = 2 * ((1 << K) - 1)
    block, b, start, n, split, m = decode_first_pass(offsets, H, num_splits, MOST, HARMONICS)
    if first + m < tl.load(harmonics + b):
        units, is_unit, omega, centre = units_of(centres, periods, b, block, H, kappa, K, FAMILY)
        to = place(split, b, block, m, B, tl.cdiv(H, _WIDTH), MOST, NUM)
        for s in tl.static_range(HARMONICS * NUM):
            tl.store(high + to + s * _WIDTH, tl.zeros([_WIDTH], tl.float32))
            tl.store(low + to + s * _WIDTH, tl.zeros([_WIDTH], tl.float32))
        begin, end = segment(n, split, num_splits)
        for some in range(begin, end, _CARRY):
            sums = zeros_of(HARMONICS * NUM)
            for i in range(some, tl.minimum(end, some + _CARRY)):
                z, turns = harmonic_of(p, start + i, first + m, omega, centre, units, is_unit, H, K)
                more = ()
                for h in tl.static_range(HARMONICS):
                    P = _products(z, K)
                    for s in tl.static_range(NUM):
                        more = more + (sums[h * NUM + s] + P[s],)
                    if h + 1 < HARMONICS:
                        z = turned(z, turns, K)
                sums = more
            for s in tl.static_range(HARMONICS * NUM):
                at = to + s * _WIDTH
                a, rest = add(tl.load(high + at), tl.load(low + at), sums[s])
                tl.store(high + at, a)
                tl.store(low + at, rest)


@triton.constexpr_function
def _is_block(block, S):
    """Returns True if a set of positions is part of S, and has its first position."""
    return block & S == block and block & S & -S != 0


@triton.constexpr_function
def _size(S):
    return S.bit_count()


@triton.jit
def _factor_of(n, S: tl.constexpr):
    """(−1)^(|S|−1) (|S|−1)! / n^|S|."""
    factor = 1.0 / n
    for size in tl.static_range(1, _size(S)):
        factor = factor * (-size / n)
    return factor


@triton.jit(do_not_specialize=["first", "H", "num_splits", "MOST"])
def partitions(
    offsets, harmonics, centres, periods, high, low, values, first, B, H, num_splits, MOST, gamma, kappa,
    K: tl.constexpr, FAMILY: tl.constexpr, ODD: tl.constexpr,
):  # fmt: skip
    """values (MOST, B, H), the terms of the harmonics, and into the first split of ``high`` ω_m times their W_S."""
    NUM: tl.constexpr = 2 * ((1 << K) - 1)
    FULL: tl.constexpr = (1 << K) - 1
    num_blocks = tl.cdiv(H, _WIDTH)
    block, m, b, _, n = decode(offsets, num_blocks, MOST)
    if first + m < tl.load(harmonics + b):
        units = block * _WIDTH + tl.arange(0, _WIDTH)
        is_unit = units < H
        sums, rests = zeros_of(NUM), zeros_of(NUM)
        for split in range(tl.cdiv(n, tl.cdiv(n, num_splits))):
            at = place(split, b, block, m, B, num_blocks, MOST, NUM)
            more, more_rests = (), ()
            for s in tl.static_range(NUM):
                a, rest = add(sums[s], rests[s], tl.load(high + at + s * _WIDTH))
                more, more_rests = more + (a,), more_rests + (rest + tl.load(low + at + s * _WIDTH),)
            sums, rests = more, more_rests
        A = ()
        for s in tl.static_range(NUM):
            A = A + (total_of(sums[s], rests[s]) * _factor_of(n, s // 2 + 1),)
        F = (tl.full([_WIDTH], 1.0, tl.float32), tl.zeros([_WIDTH], tl.float32))
        for S in tl.static_range(1, FULL + 1):
            re, im = tl.zeros([_WIDTH], tl.float32), tl.zeros([_WIDTH], tl.float32)
            for part in tl.static_range(1, S + 1):
                if _is_block(part, S):
                    x, y = times(A[2 * part - 2], A[2 * part - 1], F[2 * (S ^ part)], F[2 * (S ^ part) + 1])
                    re, im = re + x, im + y
            F = F + (re, im)
        factor = 1.0
        for j in tl.static_range(K):
            factor = factor * n / (n - j)
        centre = each_centre(centres, b, units, is_unit, H, K)
        period = tl.load(periods + b * H + units, is_unit, 1.0)
        re, im, rate = seed_of(centre, period, first + m, factor, gamma, kappa, FAMILY, ODD, K)
        tl.store(values + (m * B + b) * H + units, re * F[2 * FULL] - im * F[2 * FULL + 1], is_unit)
        to = place(0, b, block, m, B, num_blocks, MOST, NUM)
        for S in tl.static_range(1, FULL + 1):  # ∂F[all]/∂A_S is F of the other positions
            x, y = times(re * rate, im * rate, F[2 * (FULL ^ S)], F[2 * (FULL ^ S) + 1])
            tl.store(high + to + (2 * S - 2) * _WIDTH, x * _factor_of(n, S))
            tl.store(high + to + (2 * S - 1) * _WIDTH, y * _factor_of(n, S))


@triton.jit(do_not_specialize=["first", "H", "num_shares", "MOST"])
def slopes_by_power_sums(
    p, offsets, harmonics, centres, periods, weights, sums, slopes, first, B, H, num_shares, MOST, is_last, beta, kappa,
    K: tl.constexpr, FAMILY: tl.constexpr, ELEMENTS: tl.constexpr, CAST: tl.constexpr,
):  # fmt: skip
    """Add these harmonics' part to ``sums`` (N, K, H), and with the last ones write ``slopes``, which may be sums."""
    NUM: tl.constexpr = 2 * ((1 << K) - 1)
    num_blocks = tl.cdiv(H, _WIDTH)
    block, share, b, start, n = decode(offsets, num_blocks, num_shares)
    num = tl.load(harmonics + b)
    if (first < num) | (CAST & (is_last != 0) & (num > 0)):
        units, is_unit, omega, alone = units_of(centres, periods, b, block, H, kappa, K, FAMILY)
        omega, centre = omega[None, :], ()
        for j in tl.static_range(K):
            centre = centre + (alone[j][None, :],)
        for tile in range(share * ELEMENTS, n, num_shares * ELEMENTS):
            rows = (tile + tl.arange(0, ELEMENTS))[:, None]
            mask = (rows < n) & is_unit[None, :]
            columns = units[None, :]
            z, turns = harmonic_of(p, start + rows, first, omega, centre, columns, mask, H, K)
            slope = ()
            to = (start + rows) * K * H + columns
            for j in tl.static_range(K):
                slope = slope + (tl.load(sums + to + j * H, mask & (first > 0), beta / n),)
            for m in range(tl.minimum(MOST, tl.maximum(num - first, 0))):
                of_m = weights + place(0, b, block, m, B, num_blocks, MOST, NUM)[None, :]
                P = _products(z, K)
                for s in tl.static_range(NUM // 2):  # d exp(iωp) = iω exp(iωp) dp, and Re(iw) = −Im(w)
                    re = tl.load(of_m + 2 * s * _WIDTH)
                    im = tl.load(of_m + (2 * s + 1) * _WIDTH)
                    change = re * P[2 * s + 1] + im * P[2 * s]
                    less = ()
                    for j in tl.static_range(K):
                        if ((s + 1) >> j) & 1 == 1:
                            less = less + (slope[j] - change,)
                        else:
                            less = less + (slope[j],)
                    slope = less
                z = turned(z, turns, K)
            for j in tl.static_range(K):
                if CAST & (is_last != 0):
                    tl.store(slopes + to + j * H, slope[j].to(slopes.dtype.element_ty), mask)
                else:
                    tl.store(sums + to + j * H, slope[j], mask)
