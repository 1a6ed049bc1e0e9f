"""The activations and their slopes, in float32, by the device's exponential, logarithm and division.

Error, relative to max(1, |σ|): below 1e-6. NaN gives NaN; ±∞ and large numbers give what torch gives in float64. Angles
are reduced to a turn before they are added up (``within_a_turn``), so that sums of four are within four turns.
"""

import triton
import triton.language as tl
from torch import Tensor

ACTIVATIONS = ("tanh", "sigmoid", "relu", "gelu", "silu", "softplus", "erf", "sine", "cosine")
PERIODIC = ("sine", "cosine")

_INVERSE_PI = tl.constexpr(0.3183098861837907)
_PI_HIGH = tl.constexpr(3.140625)
"""π, less a rest, in so few digits that its product with a few hundred half turns is exact."""
_PI_LOW = tl.constexpr(0.0009676535897932385)


def within_a_turn(p: Tensor) -> Tensor:
    """Angles less whole turns, float32; torch's sine and cosine are right for every number."""
    wide = p.float()
    return wide.sin().atan2_(wide.cos())


@triton.jit
def sine_and_cosine(x):
    """sin x and cos x for |x| up to some hundred turns: Taylor polynomials, whose rest is below 6e-8."""
    half_turns = tl.floor(x * _INVERSE_PI + 0.5)
    r = (x - half_turns * _PI_HIGH) - half_turns * _PI_LOW
    y = r * r
    sine = y * -2.505210838544172e-8 + 2.7557319223985893e-6
    sine = sine * y - 1.984126984126984e-4
    sine = sine * y + 8.333333333333333e-3
    sine = sine * y - 0.16666666666666666
    sine = (sine * y) * r + r
    cosine = y * 2.08767569878681e-9 - 2.755731922398589e-7
    cosine = cosine * y + 2.48015873015873e-5
    cosine = cosine * y - 1.388888888888889e-3
    cosine = cosine * y + 4.1666666666666664e-2
    cosine = cosine * y - 0.5
    cosine = cosine * y + 1.0
    odd = half_turns - 2.0 * tl.floor(0.5 * half_turns)
    sign = 1.0 - 2.0 * odd
    return sine * sign, cosine * sign


@triton.jit
def value_and_slope(x, ACTIVATION: tl.constexpr):
    """σ(x) and σ′(x), of which the compiler drops what is not used; relu′(0) = 0."""
    if ACTIVATION == "tanh":
        r = 1.0 / (1.0 + tl.exp(2.0 * x))
        value = 1.0 - 2.0 * r
        slope = 4.0 * (r - r * r)
    elif ACTIVATION == "sigmoid":
        value = 1.0 / (1.0 + tl.exp(-x))
        slope = value - value * value
    elif ACTIVATION == "relu":
        value = tl.where(x <= 0.0, 0.0, x)
        slope = tl.where(x <= 0.0, 0.0, 1.0)
    elif ACTIVATION == "gelu":
        below = 0.5 + 0.5 * tl.erf(x * 0.7071067811865476)
        value = x * below
        slope = below + x * (tl.exp(-0.5 * x * x) * 0.3989422804014327)
    elif ACTIVATION == "silu":
        s = 1.0 / (1.0 + tl.exp(-x))
        value = x * s
        slope = s + value * (1.0 - s)
    elif ACTIVATION == "softplus":
        e = tl.exp(-tl.abs(x))
        value = tl.where(x <= 0.0, 0.0, x) + tl.log(1.0 + e)
        slope = tl.where(x <= 0.0, e, 1.0) / (1.0 + e)
    elif ACTIVATION == "erf":
        value = tl.erf(x)
        slope = tl.exp(-x * x) * 1.1283791670955126
    else:
        sine, cosine = sine_and_cosine(x)
        if ACTIVATION == "sine":
            value = sine
            slope = cosine
        else:
            tl.static_assert(ACTIVATION == "cosine", "no such activation")
            value = cosine
            slope = -sine
    return value, slope
