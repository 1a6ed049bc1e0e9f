"""The series for increasing tuples, k ≥ 2: a chain of prefix sums (docs/spectral.md), cut into segments.

D[a, b] of a segment is the sum of z_a[i_a] … z_{b−1}[i_{b−1}] over its i_a < … < i_{b−1}, divided by n for each factor.
Segments combine: s[b] += Σ_{a<b} s[a] D[a, b]. ``chains`` makes D of every segment. ``scan`` goes through the segments,
to the prefixes at each segment's end and the suffixes behind it. ``slopes_by_chains`` walks each segment from its end,
building the suffixes and taking the prefixes back by the steps that made them: |z| = 1, so that this loses no more than
a rounding each step, and what is rounded is added up too.
"""

import triton
import triton.language as tl

from janossy.kernels.cuda.series_plan import segment, share_of
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

HARMONICS = {2: 4, 3: 2, 4: 2}
"""Harmonics of one element that are taken at a time, by k."""

_WIDTH = tl.constexpr(WIDTH)


@triton.constexpr_function
def _of(a, b, before=0):
    """The number of D[a, b], a < b, in a list of D after ``before`` others."""
    return before + b * (b - 1) // 2 + a


@triton.jit
def _number(high, low, at: tl.constexpr):
    """One number of a list of compensated sums."""
    return high[2 * at] + low[2 * at], high[2 * at + 1] + low[2 * at + 1]


@triton.jit
def _load_number(x, at: tl.constexpr):
    """One number of a list in memory."""
    return tl.load(x + 2 * at * _WIDTH), tl.load(x + (2 * at + 1) * _WIDTH)


@triton.jit
def _with(x, at: tl.constexpr, value):
    """A list with another value at one place."""
    changed = ()
    for s in tl.static_range(len(x)):
        if s == at:
            changed = changed + (value,)
        else:
            changed = changed + (x[s],)
    return changed


@triton.jit
def _add_to(high, low, at: tl.constexpr, re, im):
    """Add a complex number to the compensated sum of that number."""
    sums, rests = (), ()
    for s in tl.static_range(len(high)):
        if s // 2 == at:
            if s % 2 == 0:
                total, rest = add(high[s], low[s], re)
            else:
                total, rest = add(high[s], low[s], im)
            sums, rests = sums + (total,), rests + (rest,)
        else:
            sums, rests = sums + (high[s],), rests + (low[s],)
    return sums, rests


@triton.jit(do_not_specialize=["first", "H", "num_splits", "MOST"])
def chains(
    p, offsets, harmonics, centres, periods, high, low, first, B, H, num_splits, MOST, kappa,
    K: tl.constexpr, FAMILY: tl.constexpr, HARMONICS: tl.constexpr,
):  # fmt: skip
    """D of segments, high + low (num_splits, B, blocks, MOST, K (K + 1), WIDTH), of harmonics from ``first`` on."""
    NUM: tl.constexpr = K * (K + 1)
    block, b, start, n, split, m = decode_first_pass(offsets, H, num_splits, MOST, HARMONICS)
    if first + m < tl.load(harmonics + b):
        units, is_unit, omega, centre = units_of(centres, periods, b, block, H, kappa, K, FAMILY)
        begin, end = segment(n, split, num_splits)
        D, rest = zeros_of(HARMONICS * NUM), zeros_of(HARMONICS * NUM)
        for i in range(begin, end):
            z, turns = harmonic_of(p, start + i, first + m, omega, centre, units, is_unit, H, K)
            for h in tl.static_range(HARMONICS):
                for j in tl.static_range(K - 1, -1, -1):
                    re, im = z[2 * j] / n, z[2 * j + 1] / n
                    D, rest = _add_to(D, rest, _of(j, j + 1, h * NUM // 2), re, im)
                    for a in tl.static_range(j):
                        x, y = _number(D, rest, _of(a, j, h * NUM // 2))
                        x, y = times(x, y, re, im)
                        D, rest = _add_to(D, rest, _of(a, j + 1, h * NUM // 2), x, y)
                if h + 1 < HARMONICS:
                    z = turned(z, turns, K)
        to = place(split, b, block, m, B, tl.cdiv(H, _WIDTH), MOST, NUM)
        for s in tl.static_range(HARMONICS * NUM):
            tl.store(high + to + s * _WIDTH, D[s])
            tl.store(low + to + s * _WIDTH, rest[s])


@triton.jit(do_not_specialize=["first", "H", "num_splits", "MOST"])
def scan(
    offsets, harmonics, centres, periods, high, low, values, first, B, H, num_splits, MOST, gamma, kappa,
    K: tl.constexpr, FAMILY: tl.constexpr, ODD: tl.constexpr,
):  # fmt: skip
    """values (MOST, B, H), the terms of the harmonics, and into ``low``, in place of what D lacked:

    of every segment the prefixes s[1] … s[K−1] at its end and the suffixes E[1] … E[K−1] behind it; of the first also
    ω_m γ a_m exp(iω_m Σ_j centre_j) n^k / C(n, k).
    """
    NUM: tl.constexpr = K * (K + 1)
    num_blocks = tl.cdiv(H, _WIDTH)
    block, m, b, _, n = decode(offsets, num_blocks, MOST)
    if first + m < tl.load(harmonics + b):
        units = block * _WIDTH + tl.arange(0, _WIDTH)
        is_unit = units < H
        num_segments = tl.cdiv(n, tl.cdiv(n, num_splits))
        s, rest = zeros_of(2 * K), zeros_of(2 * K)
        for split in range(num_segments):
            at = place(split, b, block, m, B, num_blocks, MOST, NUM)
            for j in tl.static_range(K, 0, -1):
                for a in tl.static_range(j):
                    x, y = _load_number(high + at, _of(a, j))
                    x_rest, y_rest = _load_number(low + at, _of(a, j))
                    x, y = x + x_rest, y + y_rest
                    if a > 0:
                        x, y = times(*_number(s, rest, a - 1), x, y)
                    s, rest = _add_to(s, rest, j - 1, x, y)
            for t in tl.static_range(2 * (K - 1)):
                tl.store(low + at + t * _WIDTH, total_of(s[t], rest[t]))
        factor = 1.0  # n^k / C(n, k)
        for j in tl.static_range(K):
            factor = factor * n * (j + 1.0) / (n - j)
        centre = each_centre(centres, b, units, is_unit, H, K)
        period = tl.load(periods + b * H + units, is_unit, 1.0)
        re, im, rate = seed_of(centre, period, first + m, factor, gamma, kappa, FAMILY, ODD, K)
        total, total_im = total_of(s[2 * K - 2], rest[2 * K - 2]), total_of(s[2 * K - 1], rest[2 * K - 1])
        tl.store(values + (m * B + b) * H + units, re * total - im * total_im, is_unit)
        to = low + place(0, b, block, m, B, num_blocks, MOST, NUM) + 4 * (K - 1) * _WIDTH
        tl.store(to, re * rate / n)
        tl.store(to + _WIDTH, im * rate / n)
        E, rest = zeros_of(2 * K), zeros_of(2 * K)  # E[j] is number j − 1
        for back in range(num_segments):
            at = place(num_segments - 1 - back, b, block, m, B, num_blocks, MOST, NUM)
            for t in tl.static_range(2 * (K - 1)):
                tl.store(low + at + (2 * (K - 1) + t) * _WIDTH, total_of(E[t], rest[t]))
            for a in tl.static_range(1, K):
                for above in tl.static_range(a + 1, K + 1):
                    x, y = _load_number(high + at, _of(a, above))
                    if above < K:
                        x, y = times(*_number(E, rest, above - 1), x, y)
                    E, rest = _add_to(E, rest, a - 1, x, y)


@triton.jit(do_not_specialize=["first", "H", "num_splits", "MOST"])
def slopes_by_chains(
    p, offsets, harmonics, centres, periods, low, sums, slopes, first, B, H, num_splits, MOST, is_last, beta, kappa,
    K: tl.constexpr, FAMILY: tl.constexpr, HARMONICS: tl.constexpr, CAST: tl.constexpr,
):  # fmt: skip
    """Add these harmonics' part to ``sums`` (N, K, H), and with the last ones write ``slopes``, which may be sums."""
    NUM: tl.constexpr = K * (K + 1)
    STATES: tl.constexpr = 2 * (K - 1)
    num_blocks = tl.cdiv(H, _WIDTH)
    block, split, b, start, n = decode(offsets, num_blocks, num_splits)
    num = tl.load(harmonics + b)
    units, is_unit, omega, centre = units_of(centres, periods, b, block, H, kappa, K, FAMILY)
    begin, end = segment(n, split, num_splits)
    for m in range(0, tl.minimum(MOST, num - first), HARMONICS):
        seeds, s, E = (), (), ()
        for h in tl.static_range(HARMONICS):
            is_there = first + m + h < num
            of_set = low + place(0, b, block, m + h, B, num_blocks, MOST, NUM) + 2 * STATES * _WIDTH
            seeds = seeds + (tl.load(of_set, is_there, 0.0), tl.load(of_set + _WIDTH, is_there, 0.0))
            at = low + place(split, b, block, m + h, B, num_blocks, MOST, NUM)
            for t in tl.static_range(STATES):
                s = s + (tl.load(at + t * _WIDTH, is_there & (begin < end), 0.0),)
                E = E + (tl.load(at + (STATES + t) * _WIDTH, is_there & (begin < end), 0.0),)
        rest, rest_of_E = zeros_of(HARMONICS * STATES), zeros_of(HARMONICS * STATES)
        for back in range(tl.maximum(end - begin, 0)):
            i = end - 1 - back
            z, turns = harmonic_of(p, start + i, first + m, omega, centre, units, is_unit, H, K)
            slope = ()
            to = (start + i) * K * H + units
            for j in tl.static_range(K):
                now = tl.load(sums + to + j * H, is_unit & (first + m > 0), 0.0)
                slope = slope + (tl.where(first + m > 0, now, beta * share_of(i, j, n, K)),)
            for h in tl.static_range(HARMONICS):
                # Of this harmonic s[j] is number h (K − 1) + j − 1, and E[j] the same; s[0] = E[K] = 1.
                for j in tl.static_range(K):
                    re, im = z[2 * j] / n, z[2 * j + 1] / n
                    if j + 1 < K:  # takes this element from s[j + 1], by s[j] without it
                        x, y = re, im
                        if j > 0:
                            x, y = times(*_number(s, rest, h * (K - 1) + j - 1), x, y)
                        s, rest = _add_to(s, rest, h * (K - 1) + j, -x, -y)
                    x, y = times(seeds[2 * h], seeds[2 * h + 1], z[2 * j], z[2 * j + 1])
                    if j > 0:
                        x, y = times(*_number(s, rest, h * (K - 1) + j - 1), x, y)
                    if j + 1 < K:
                        x, y = times(*_number(E, rest_of_E, h * (K - 1) + j), x, y)
                    slope = _with(slope, j, slope[j] - y)
                    if j > 0:  # and to E[j], by E[j + 1] behind it
                        x, y = re, im
                        if j + 1 < K:
                            x, y = times(*_number(E, rest_of_E, h * (K - 1) + j), x, y)
                        E, rest_of_E = _add_to(E, rest_of_E, h * (K - 1) + j - 1, x, y)
                if h + 1 < HARMONICS:
                    z = turned(z, turns, K)
            for j in tl.static_range(K):
                tl.store(sums + to + j * H, slope[j], is_unit)
    if CAST & (is_last != 0) & (num > 0):
        for i in range(begin, end):
            for j in tl.static_range(K):
                there = ((start + i) * K + j) * H + units
                tl.store(slopes + there, tl.load(sums + there, is_unit, 0.0).to(slopes.dtype.element_ty), is_unit)
