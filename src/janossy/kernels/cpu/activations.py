"""The activations, and their slopes, of SIMD vectors.

They use arithmetic alone, so that a sum over tuples stays in registers. Error, relative to max(1, |σ|): below 4e-7 in
float32, 4e-15 in float64. NaN gives NaN; ±∞ and large numbers give what torch gives in float64. No exponential needs
more of its argument than that rounded once: where |x| is large, |x|·e^−|x| is small.
"""

import math
from collections.abc import Callable

import numpy as np
from numba import njit
from numpy.polynomial import Chebyshev, Polynomial

from janossy.kernels.cpu.vector import (
    all_within,
    by_constants,
    inlined,
    load,
    maximum,
    minimum,
    multiply_add,
    negated_if_odd,
    num_lanes,
    polynomial,
    power_of_two,
    quotient,
    rounded,
    step,
    store,
    unless_at_most,
)

_TANH, _SIGMOID, _RELU, _GELU, _SILU, _SOFTPLUS, _ERF, _SINE, _COSINE = range(9)
CODES = {
    "tanh": _TANH,
    "sigmoid": _SIGMOID,
    "relu": _RELU,
    "gelu": _GELU,
    "silu": _SILU,
    "softplus": _SOFTPLUS,
    "erf": _ERF,
    "sine": _SINE,
    "cosine": _COSINE,
}

_LOG2_E = math.log2(math.e)
_CLAMP = 120.0
"""2^±120 are normal numbers in float32, and beside 1 they are exactly nothing, or everything, in float64."""


def _fit(
    f: Callable[[float], float],
    interval: tuple[float, float],
    degree: int,
    weight: Callable[[np.ndarray], np.ndarray] = np.ones_like,
) -> list[float]:
    """The coefficients of a polynomial that is f within a small multiple of the least possible error, weighted."""
    low, high = interval
    x = 0.5 * (low + high) + 0.5 * (high - low) * np.cos(np.pi * (np.arange(400) + 0.5) / 400)
    y = np.array([f(t) for t in x])
    return (
        Chebyshev.fit(x, y, degree, domain=[low, high], rcond=2.0**-60, w=weight(x))
        .convert(kind=Polynomial)
        .coef.tolist()
    )


def _fits(f: Callable[[float], float], interval: tuple[float, float], *degrees: int) -> dict[str, list[float]]:
    return {dtype: _fit(f, interval, d) for dtype, d in zip(("float32", "float64"), degrees, strict=True)}


_exp2m1_over_r = polynomial(_fits(lambda r: math.expm1(r * math.log(2)) / r, (-0.5, 0.5), 4, 10))
_log1p_over_e = polynomial(_fits(lambda u: math.log1p(0.5 * u + 0.5) / (0.5 * u + 0.5), (-1.0, 1.0), 7, 19))
_sin_over_r = polynomial(_fits(lambda y: math.sin(math.sqrt(y)) / math.sqrt(y), (0.0, 0.25 * math.pi**2), 4, 8))
_cos = polynomial(_fits(lambda y: math.cos(math.sqrt(y)), (0.0, 0.25 * math.pi**2), 4, 8))
"""The four are (2^r − 1)/r; log(1 + e)/e at u = 2e − 1; sin r / r and cos r at y = r²."""

_minus_pi = polynomial({"float32": [-float(np.float32(math.pi))], "float64": [-math.pi]})
_minus_pi_low = polynomial({"float32": [float(np.float32(math.pi)) - math.pi], "float64": [-1.2246467991473532e-16]})
_FAR = 1e4
"""The largest |x| for which π in two parts is precise enough."""

_DENSITY_AT_0 = 1.0 / math.sqrt(2.0 * math.pi)
_ENDS = {"float32": 6.0, "float64": 8.5}
"""The x from which on 1 − Φ(x), even times x, is nothing beside 1."""


def _tail_over_density(end: float, degree: int) -> list[float]:
    """(1 − Φ(a)) exp(a²/2), at u = 2a/end − 1."""

    def f(u: float) -> float:
        a = 0.5 * end * (u + 1.0)
        return 0.5 * math.erfc(a * math.sqrt(0.5)) * math.exp(0.5 * a * a)

    def weight(u: np.ndarray) -> np.ndarray:
        a = 0.5 * end * (u + 1.0)
        return np.maximum(1.0, a) * np.exp(-0.5 * a * a)

    return _fit(f, (-1.0, 1.0), degree, weight)


_end = polynomial({dtype: [end] for dtype, end in _ENDS.items()})
_normal_tail = polynomial(
    {dtype: _tail_over_density(_ENDS[dtype], d) for dtype, d in (("float32", 11), ("float64", 24))}
)


@inlined
def _exp2m1(z):
    """2^z − 1 for |z| ≤ 120, and near 0 to full relative precision."""
    r = z - rounded(z)
    power = power_of_two(z)
    return multiply_add(r * _exp2m1_over_r(r), power, power - 1.0)


@inlined
def _exp2(z):
    r = z - rounded(z)
    power = power_of_two(z)
    return multiply_add(r * _exp2m1_over_r(r), power, power)


@inlined
def exponential(x):
    """e^x for |x| ≤ 80, or 700 in float64."""
    n = rounded(x * _LOG2_E)
    r = multiply_add(x, _LOG2_E, n * -1.0)
    power = power_of_two(n)
    return multiply_add(r * _exp2m1_over_r(r), power, power)


@inlined
def _clamped(z):
    return minimum(maximum(z, -_CLAMP), _CLAMP)


@inlined
def _tanh(x):
    e = _exp2m1(_clamped(x * (2.0 * _LOG2_E)))
    return quotient(e, e + 2.0)


@inlined
def _sigmoid(x):
    return quotient(1.0, 1.0 + _exp2(_clamped(x * -_LOG2_E)))


@inlined
def _normal(x):
    """|x| up to where 1 − Φ vanishes, 1 − Φ(|x|), and exp(−x²/2)."""
    a = minimum(maximum(x, x * -1.0), _end(x))
    density = _exp2(a * a * (-0.5 * _LOG2_E))
    return a, density * _normal_tail(a * (2.0 / _end(x)) - 1.0), density


@inlined
def _erf(x):
    """erf(x) = sign(x) (1 − 2 (1 − Φ(√2 |x|))), and its slope."""
    _, tail, density = _normal(x * math.sqrt(2.0))
    return (step(x, 0.0) * 2.0 - 1.0) * (1.0 - 2.0 * tail), density * (2.0 / math.sqrt(math.pi))


@inlined
def _positive(x):
    """x where it is positive, else 0, but NaN at −∞, as torch's x · Φ(x) and x · sigmoid(x) are."""
    return x * step(x, 0.0)


@inlined
def _silu(x):
    """x, clamped; exp(−x) and sigmoid(x) there; and the value."""
    c = minimum(maximum(x, -_CLAMP / _LOG2_E), _CLAMP / _LOG2_E)
    e = _exp2(c * -_LOG2_E)
    s = 1.0 / (1.0 + e)
    return c, e, s, x * (s * step(x, -_CLAMP / _LOG2_E))


@inlined
def _softplus(x):
    """exp(−|x|) and the value."""
    e = _exp2(maximum(minimum(x, x * -1.0) * _LOG2_E, -_CLAMP))
    return e, maximum(x, 0.0) + e * _log1p_over_e(2.0 * e - 1.0)


@inlined
def _half_turns(x):
    """n and r, with x = nπ + r and |r| ≤ π/2."""
    n = rounded(x * (1.0 / math.pi))
    return n, multiply_add(n, _minus_pi_low(x), multiply_add(n, _minus_pi(x), x))


def value(code, x):
    """σ(x), for a code of ``CODES`` that is a constant where this is compiled."""


@by_constants(value)
def _value(code, x):
    constant = code.literal_value

    def implementation(code, x):
        if constant == _TANH:
            return _tanh(x)
        elif constant == _SIGMOID:
            return _sigmoid(x)
        elif constant == _RELU:
            return maximum(x, 0.0)
        elif constant == _GELU:
            a, tail, _ = _normal(x)
            return _positive(x) - a * tail
        elif constant == _SILU:
            return _silu(x)[3]
        elif constant == _SOFTPLUS:
            return _softplus(x)[1]
        elif constant == _ERF:
            return _erf(x)[0]
        elif constant == _SINE:
            n, r = _half_turns(x)
            return negated_if_odd(r * _sin_over_r(r * r), n)
        else:
            n, r = _half_turns(x)
            return negated_if_odd(_cos(r * r), n)

    return implementation


def value_and_slope(code, x):
    """σ(x) and σ′(x); relu′(0) = 0."""


@by_constants(value_and_slope)
def _value_and_slope(code, x):
    constant = code.literal_value

    def implementation(code, x):
        if constant == _TANH:
            t = _tanh(x)
            return t, 1.0 - t * t
        elif constant == _SIGMOID:
            s = _sigmoid(x)
            return s, s - s * s
        elif constant == _RELU:
            return maximum(x, 0.0), unless_at_most(x, 0.0)
        elif constant == _GELU:
            a, tail, density = _normal(x)
            positive = step(x, 0.0)
            t = tail - a * density * _DENSITY_AT_0
            return x * positive - a * tail, positive + (t - 2.0 * (positive * t))
        elif constant == _SILU:
            c, e, s, y = _silu(x)
            return y, s + c * s * (e * s)
        elif constant == _SOFTPLUS:
            e, y = _softplus(x)
            positive = step(x, 0.0)
            return y, (e + (positive - positive * e)) / (1.0 + e)
        elif constant == _ERF:
            return _erf(x)
        else:
            n, r = _half_turns(x)
            y = r * r
            sin, cos = negated_if_odd(r * _sin_over_r(y), n), negated_if_odd(_cos(y), n)
            if constant == _SINE:
                return sin, cos
            return cos, sin * -1.0

    return implementation


@njit
def reduce_angles(x, num):
    """Subtract whole turns from the first ``num`` numbers of x, whole vectors: |x| ≤ π then, whatever it was."""
    lanes = num_lanes(x)
    for at in range(0, num, lanes):
        v = load(x, at)
        if not all_within(v, _FAR):
            for i in range(at, at + lanes):
                if not abs(x[i]) <= _FAR:
                    x[i] = math.atan2(math.sin(np.float64(x[i])), math.cos(np.float64(x[i])))
            v = load(x, at)
        n = rounded(v * (0.5 / math.pi)) * 2.0
        store(x, at, multiply_add(n, _minus_pi_low(v), multiply_add(n, _minus_pi(v), v)))
