"""The common part of the kernels of both kinds of tuples: an element's angles, harmonics, and a harmonic's place.

A tuple of tensors is a list of complex numbers: re, im, re, im, …
"""

import triton
import triton.language as tl

from janossy.kernels.cuda.activations import sine_and_cosine
from janossy.kernels.cuda.series_plan import coefficient, omega_of
from janossy.kernels.cuda.tuple_sums import WIDTH, decode

_WIDTH = tl.constexpr(WIDTH)


@triton.jit
def times(a, b, c, d):
    """(a + bi)(c + di)."""
    return a * c - b * d, a * d + b * c


@triton.jit
def zeros_of(NUM: tl.constexpr):
    """So many sums that are 0."""
    zeros = ()
    for _ in tl.static_range(NUM):
        zeros = zeros + (tl.zeros([_WIDTH], tl.float32),)
    return zeros


@triton.jit
def each_centre(centres, b, units, is_unit, H, K: tl.constexpr):
    """The centres of a set's positions."""
    found = ()
    for j in tl.static_range(K):
        found = found + (tl.load(centres + (b * K + j) * H + units, is_unit, 0.0),)
    return found


@triton.jit
def decode_first_pass(offsets, H, num_splits, MOST, HARMONICS: tl.constexpr):
    """The block of units, the set, its beginning and size, the split, and the first of HARMONICS harmonics."""
    num_chunks = tl.cdiv(MOST, HARMONICS)
    block, share, b, start, n = decode(offsets, tl.cdiv(H, _WIDTH), num_splits * num_chunks)
    return block, b, start, n, share // num_chunks, share % num_chunks * HARMONICS


@triton.jit
def units_of(centres, periods, b, block, H, kappa, K: tl.constexpr, FAMILY: tl.constexpr):
    """A block's units, which of them there are, their ω_0 and their centres."""
    units = block * _WIDTH + tl.arange(0, _WIDTH)
    is_unit = units < H
    omega = omega_of(tl.load(periods + b * H + units, is_unit, 1.0), kappa, FAMILY)
    return units, is_unit, omega, each_centre(centres, b, units, is_unit, H, K)


@triton.jit
def harmonic_of(p, row, m, omega, centre, units, mask, H, K: tl.constexpr):
    """exp(i(2m + 1)θ_j) of an element's angles θ_j = ω_0 (p_j − centre_j), and exp(2iθ_j), from each to the next."""
    z, turns = (), ()
    for j in tl.static_range(K):
        angle = omega * (tl.load(p + (row * K + j) * H + units, mask, 0.0).to(tl.float32) - centre[j])
        sine, cosine = sine_and_cosine(angle * (2 * m + 1))
        z = z + (cosine, sine)
        sine, cosine = sine_and_cosine(2.0 * angle)
        turns = turns + (cosine, sine)
    return z, turns


@triton.jit
def turned(z, turns, K: tl.constexpr):
    """The next harmonic of each position."""
    found = ()
    for j in tl.static_range(K):
        re, im = times(z[2 * j], z[2 * j + 1], turns[2 * j], turns[2 * j + 1])
        found = found + (re, im)
    return found


@triton.jit
def place(split, b, block, m, B, num_blocks, MOST, NUM: tl.constexpr):
    """Returns the place of the NUM sums of a split's harmonic in (splits, B, blocks of units, MOST, NUM, WIDTH).

    WIDTH numbers apart, which instructions hold: addresses WIDTH · H apart would take a register each.
    """
    return ((((split * B + b) * num_blocks + block) * MOST + m) * NUM) * _WIDTH + tl.arange(0, _WIDTH)


@triton.jit
def seed_of(centre, period, m, factor, gamma, kappa, FAMILY: tl.constexpr, ODD: tl.constexpr, K: tl.constexpr):
    """γ a_m · factor · exp(iω_m Σ_j centre_j), times −i for sines: Re(seed · mean of Π z_j) is a term; and ω_m."""
    rate = omega_of(period, kappa, FAMILY) * (2 * m + 1)
    shift = tl.zeros_like(period)
    for j in tl.static_range(K):
        shift += rate * centre[j]
    sine, cosine = sine_and_cosine(shift)
    weight = gamma * coefficient(period, m, FAMILY) * factor
    if ODD:
        re, im = weight * sine, -weight * cosine
    else:
        re, im = weight * cosine, weight * sine
    return re, im, rate
