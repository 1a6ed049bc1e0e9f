"""Activations as sums of sines or cosines, with proved bounds: what the spectral path (docs/spectral.md) rests on.

Every activation here is σ(t) = α + β t + γ Φ(κ t) with Φ in the table of ``FAMILIES``. On [−U, U], U ≥ |κ t|, each Φ is

    Φ(u) ≈ c + Σ_{m < M} a_m trig(ω_m u),   ω_m = (2m + 1) π / (2T'),   T' = (U + δ) / 2

the first M terms of the Fourier series of F(u) = Σ_j (−1)^j Φ(u − 2T'j), which changes its sign when u moves by 2T'.
Two errors, each held below ε/2 for the value *and* for the slope by the two numbers that ``margins`` returns:

*Images* (δ). Write Φ(u) = s(u) − r(u) with s = sign(u), |u| or |u| − ln 2 and a decaying r (for tanh, sign − tanh).
The image sum of s is the square or triangle wave, which is s itself on [−2T', 2T'] (a constant aside, kept in c). What
the images j and −j of r add is, at distance x = 2T'j − |u| ≥ 2T' − U = δ, at most r(x) + r(x + 2|u|) ≤ 2 r(x); over
j = 1, 2, … the terms alternate and fall, so the sum is at most its first term: 2 r(δ). The same holds for the slopes:
2 |r'(δ)|. With r ≤ ``rest(δ)`` and |r'| ≤ ``rest_slope(δ)``, both falling for δ ≥ 1.

*Truncation* (Ω = Mπ/T', half a step below ω_M). |a_m| ≤ (1/T') φ(ω_m) with φ from the table, so the slope loses at most
Σ_{m ≥ M} ω_m φ(ω_m)/T' ≤ (1/π) ∫_Ω^∞ ω φ(ω) dω: the midpoint rule with step π/T' for a convex function. As Ω ≥ 1, the
value loses no more than the slope. Neither number depends on U, so M = ⌈Ω T'/π⌉ grows linearly with U, and slowly,
as log 1/ε, with the tolerance.

An average of σ over tuples, and its slope by each pre-activation, inherit the bound ε: γ ≤ 1 and γ κ ≤ 1.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import erfc, exp, log, pi, sqrt
from typing import Any

import numpy as np

TANH, T_TANH, LOG_COSH, ERF, T_ERF, TRIG = range(6)


@dataclass(frozen=True)
class Family:
    """The bounds of one Φ: see the module's docstring.

    ``rest`` and ``rest_slope`` bound r and |r'| at x ≥ 1; ``lost`` bounds (1/π) ∫_Ω^∞ ω φ(ω) dω for Ω ≥ 2.5.
    """

    rest: Callable[[float], float]
    rest_slope: Callable[[float], float]
    lost: Callable[[float], float]


# sinh x ≥ (1 − e^(−2x)) e^x / 2; x = πω/2 ≥ 3.9 for ω ≥ 2.5: 1/sinh x ≤ 2.001 e^(−x), cosh x/sinh² x ≤ 2.003 e^(−x).
FAMILIES = {
    # a_m = (π/T')/sinh(πω/2): φ = 2.001 π e^(−πω/2)
    TANH: Family(
        lambda x: 2 * exp(-2 * x),
        lambda x: 4 * exp(-2 * x),
        lambda cut: 2.001 * (2 / pi) * (cut + 2 / pi) * exp(-pi * cut / 2),
    ),
    # a_m = −(π²/2T') cosh/sinh²(πω/2): φ = 1.002 π² e^(−πω/2)
    T_TANH: Family(
        lambda x: 2 * x * exp(-2 * x),
        lambda x: (2 + 4 * x) * exp(-2 * x),
        lambda cut: 1.002 * pi * (2 / pi) * (cut + 2 / pi) * exp(-pi * cut / 2),
    ),
    # a_m = −(π/T')/(ω sinh(πω/2)), smaller than tanh's for ω ≥ 1
    LOG_COSH: Family(
        lambda x: exp(-2 * x),
        lambda x: 2 * exp(-2 * x),
        lambda cut: 2.001 * (2 / pi) * (cut + 2 / pi) * exp(-pi * cut / 2),
    ),
    # a_m = (2/(T'ω)) e^(−ω²/4): ωφ = 2 e^(−ω²/4)
    ERF: Family(
        erfc,
        lambda x: 2 / sqrt(pi) * exp(-x * x),
        lambda cut: (2 / pi) * (2 / cut) * exp(-cut * cut / 4),
    ),
    # a_m = −(1/T')(2/ω² + 1) e^(−ω²/4): ωφ = (2/ω + ω) e^(−ω²/4)
    T_ERF: Family(
        lambda x: x * erfc(x),
        lambda x: erfc(x) + 2 * x / sqrt(pi) * exp(-x * x),
        lambda cut: (1 / pi) * (4 / cut**2 + 2) * exp(-cut * cut / 4),
    ),
}


@dataclass(frozen=True)
class Expansion:
    """σ(t) = alpha + beta t + gamma Φ(kappa t), Φ odd (sines) or even (cosines)."""

    family: int
    odd: bool
    alpha: float = 0.0
    beta: float = 0.0
    gamma: float = 1.0
    kappa: float = 1.0


EXPANSIONS = {
    "tanh": Expansion(TANH, True),
    "sigmoid": Expansion(TANH, True, alpha=0.5, gamma=0.5, kappa=0.5),
    "silu": Expansion(T_TANH, False, beta=0.5, kappa=0.5),  # t/2 + (t/2) tanh(t/2)
    "softplus": Expansion(LOG_COSH, False, alpha=log(2), beta=0.5, kappa=0.5),  # t/2 + ln 2 + log cosh(t/2)
    "erf": Expansion(ERF, True),
    "gelu": Expansion(T_ERF, False, beta=0.5, gamma=sqrt(0.5), kappa=sqrt(0.5)),  # t/2 + (t/2) erf(t/√2)
    "sine": Expansion(TRIG, True),
    "cosine": Expansion(TRIG, False),
}


SMALLEST_BOUND = 2.0**-3
"""Pre-activations are taken to reach at least so far: below it the number of harmonics hardly changes."""

TYPICAL_BOUND = 8.0
"""Pre-activations are assumed to reach so far where their number of harmonics has to be guessed."""


def num_harmonics(activation: str, tolerance: float, bound: Any) -> Any:
    """M for pre-activations within ±bound, a number or an array."""
    e = EXPANSIONS[activation]
    if e.family == TRIG:
        return np.ones_like(bound)
    delta, cut = margins(e.family, tolerance)
    return np.ceil(cut * 0.5 * (e.kappa * bound + delta) / pi)


def rounded_up(bounds: Any) -> Any:
    """Bounds to the next eighth of an octave: between these steps the series, and so the result, is smooth in p."""
    return np.exp2(np.ceil(8 * np.log2(np.maximum(bounds, SMALLEST_BOUND))) / 8)


@lru_cache(maxsize=256)
def margins(family: int, tolerance: float) -> tuple[float, float]:
    """(δ, Ω): how far the images must be, and where the series may be cut, for this tolerance of value and slope."""
    bounds = FAMILIES[family]
    delta = _first(lambda x: 2 * max(bounds.rest(x), bounds.rest_slope(x)) <= tolerance / 2, 1.0)
    return delta, _first(lambda cut: bounds.lost(cut) <= tolerance / 2, 2.5)


def _first(holds: Callable[[float], bool], low: float) -> float:
    """The least x ≥ low where a condition that stays true begins to hold, to 1 part in 10⁶ and on the safe side."""
    if holds(low):
        return low
    high = 2 * low
    while not holds(high):
        low, high = high, 2 * high
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
