"""Before the series of a batch: how far its pre-activations reach, and so how many harmonics each set takes.

All of it stays on the device. ``extents`` reads the elements, ``plan`` decides for each set: ``harmonics`` is their
number, 0 for a set that is enumerated. One that no kernel can compute has a harmonic of a period that is NaN.
"""

import triton
import triton.language as tl

from janossy.kernels.cuda.sums import add, total_of
from janossy.kernels.cuda.tuple_sums import WIDTH, decode, num_tuples
from janossy.kernels.expansions import ERF, LOG_COSH, SMALLEST_BOUND, T_ERF, T_TANH, TANH, TRIG

MAX_HARMONICS = 128
"""The longest series: beyond, its phases lose more than the default tolerance in float32, and the set is enumerated."""

MAX_CANCELLED = 8.0
"""The most that inclusion–exclusion may magnify rounding, Π_j (n + j)/(n − j), before a set is enumerated instead."""

MAX_ENUMERATED = 1e12
"""The activations that are worth enumerating where the series cannot be used: seconds."""

COLUMNS = 4 * WIDTH
"""The numbers of an element that one program of ``extents`` reads."""

_WIDTH, _COLUMNS = tl.constexpr(WIDTH), tl.constexpr(COLUMNS)
_TANH, _T_TANH, _LOG_COSH, _ERF, _T_ERF, _TRIG = (
    tl.constexpr(family) for family in (TANH, T_TANH, LOG_COSH, ERF, T_ERF, TRIG)
)
_MAX_CANCELLED = tl.constexpr(MAX_CANCELLED)
_SMALLEST_BOUND, _PI = tl.constexpr(SMALLEST_BOUND), tl.constexpr(3.141592653589793)


@triton.jit
def share_of(i, j, n, K: tl.constexpr):
    """The share of the increasing tuples that have element i in position j, C(i, j) C(n−1−i, k−1−j) / C(n, k)."""
    share = 1.0 / n
    before, behind = i * 1.0, (n - 1 - i) * 1.0
    for r in tl.static_range(K - 1):
        ahead = r < j
        ways = tl.where(ahead, (before - r) / (r + 1.0), (behind - (r - j)) / tl.maximum(r - j + 1.0, 1.0))
        share = share * tl.maximum(ways, 0.0) * (r + 1.0) / tl.maximum(n - 1.0 - r, 1.0)
    return share * K


@triton.jit
def segment(n, split, num_splits):
    """Returns the beginning and the end of a split's elements."""
    length = tl.cdiv(n, num_splits)
    return split * length, tl.minimum(n, (split + 1) * length)


@triton.jit(do_not_specialize=["H", "num_splits"])
def extents(p, offsets, parts, B, H, num_splits, K: tl.constexpr, INCREASING: tl.constexpr):
    """parts (num_splits, B, 4, K·H): least and greatest p, Σ 0·p, and the mean of p over the tuples' positions."""
    width = K * H
    block, split, b, start, n = decode(offsets, tl.cdiv(width, _COLUMNS), num_splits)
    columns = block * _COLUMNS + tl.arange(0, _COLUMNS)
    is_column = columns < width
    begin, end = segment(n, split, num_splits)
    n = tl.maximum(n, 1)
    low, high = tl.full([_COLUMNS], float("inf"), tl.float32), tl.full([_COLUMNS], float("-inf"), tl.float32)
    bad, total, rest = tl.zeros_like(low), tl.zeros_like(low), tl.zeros_like(low)
    for i in range(begin, end):
        x = tl.load(p + (start + i) * width + columns, is_column, 0.0).to(tl.float32)
        low, high, bad = tl.minimum(low, x), tl.maximum(high, x), bad + x * 0.0
        share = share_of(i, columns // H, n, K) if INCREASING else 1.0 / n
        total, rest = add(total, rest, x * share)
    at = parts + (split * B + b) * 4 * width + columns
    tl.store(at, low, is_column)
    tl.store(at + width, high, is_column)
    tl.store(at + 2 * width, bad, is_column)
    tl.store(at + 3 * width, total_of(total, rest), is_column)


@triton.jit
def _cost(n, harmonics, K: tl.constexpr, INCREASING: tl.constexpr):
    """``series_cost`` of kernels/counts.py."""
    each = 4.0 * K if INCREASING else 1.5 * (1 << K)
    return n * harmonics * each + 40.0 * harmonics


@triton.jit(do_not_specialize=["H", "num_splits", "up_to"])
def plan(
    parts, offsets, centres, periods, linear, harmonics, wanted, B, H, num_splits, up_to,
    kappa, delta, cut, fewest, most, max_enumerated,
    K: tl.constexpr, INCREASING: tl.constexpr, FAMILY: tl.constexpr,
):  # fmt: skip
    """centres (B, K, H), periods T′ and the means of Σ_j p_j (B, H), harmonics (B,), and whether to enumerate (B,)."""
    b = tl.program_id(0).to(tl.int64)
    n = (tl.load(offsets + b + 1) - tl.load(offsets + b)).to(tl.int32)
    finite = tl.full((), 1, tl.int32)
    longest = tl.full((), 1.0, tl.float32)
    for first in range(0, H, _WIDTH):
        units = first + tl.arange(0, _WIDTH)
        is_unit = units < H
        least, greatest = tl.zeros([_WIDTH], tl.float32), tl.zeros([_WIDTH], tl.float32)
        bad, mean = tl.zeros_like(least), tl.zeros_like(least)
        for j in tl.static_range(K):
            low, high = tl.full([_WIDTH], float("inf"), tl.float32), tl.full([_WIDTH], float("-inf"), tl.float32)
            for split in range(num_splits):
                at = parts + ((split * B + b) * 4 * K + j) * H + units
                low, high = (
                    tl.minimum(low, tl.load(at, is_unit, 0.0)),
                    tl.maximum(high, tl.load(at + K * H, is_unit, 0.0)),
                )
                bad += tl.load(at + 2 * K * H, is_unit, 0.0)
                mean += tl.load(at + 3 * K * H, is_unit, 0.0)
            low, high = tl.where(low <= high, low, 0.0), tl.where(low <= high, high, 0.0)
            centre = 0.5 * low + 0.5 * high
            if FAMILY == _TRIG:
                centre = tl.zeros_like(low)  # angles less a large centre would lose digits
            tl.store(centres + (b * K + j) * H + units, centre, is_unit)
            least, greatest = least + low, greatest + high
        bound = tl.maximum(tl.abs(least), tl.abs(greatest))
        fits = (bad == 0.0) & (bound < 1e6)
        finite = tl.minimum(finite, tl.min(tl.where(fits | (is_unit == 0), 1, 0), 0))
        bound = tl.where(fits, tl.maximum(bound, _SMALLEST_BOUND), 1.0)
        period = 0.5 * (kappa * tl.exp2(tl.ceil(8.0 * tl.log2(bound)) / 8.0) + delta)
        tl.store(periods + b * H + units, period, is_unit)
        tl.store(linear + b * H + units, mean, is_unit)
        if FAMILY != _TRIG:
            longest = tl.maximum(longest, tl.max(tl.where(is_unit, tl.ceil(period * cut / _PI), 1.0), 0))
    tuples = num_tuples(n, K, INCREASING)
    usable = longest <= most
    if FAMILY != _TRIG:
        usable = usable & (finite == 1)
    if not INCREASING:
        cancelled = tl.full((), 1.0, tl.float32)
        for j in tl.static_range(1, K):
            cancelled = cancelled * (n + j) / tl.maximum(n - j, 1)
        usable = usable & (cancelled <= _MAX_CANCELLED)
    small = (n < K) | (n <= up_to)
    cheap = (up_to < 0) & (tuples <= _cost(n, tl.where(usable, longest, fewest), K, INCREASING))
    hopeless = (small == 0) & (usable == 0) & (tuples * H > max_enumerated)
    enumerate = (hopeless == 0) & (small | cheap | (usable == 0))
    tl.store(wanted + b, enumerate)
    tl.store(harmonics + b, tl.where(hopeless, 1, tl.where(enumerate, 0, longest.to(tl.int32))))
    if hopeless:
        for first in range(0, H, _WIDTH):
            units = first + tl.arange(0, _WIDTH)
            tl.store(periods + b * H + units, tl.full([_WIDTH], float("nan"), tl.float32), units < H)


@triton.jit
def omega_of(period, kappa, FAMILY: tl.constexpr):
    """ω_0 in units of the pre-activations."""
    return tl.full([_WIDTH], 1.0, tl.float32) if FAMILY == _TRIG else kappa / period * (0.5 * _PI)


@triton.jit
def coefficient(period, m, FAMILY: tl.constexpr):
    """a_m of kernels/expansions.py, computed in float64."""
    T = period.to(tl.float64)
    omega = (2.0 * m + 1.0) / T * (0.5 * _PI)
    if FAMILY == _TRIG:
        value = tl.full([_WIDTH], 1.0, tl.float64)
    elif (FAMILY == _ERF) | (FAMILY == _T_ERF):
        bell = tl.exp(-0.25 * omega * omega) / T
        value = 2.0 * bell / omega if FAMILY == _ERF else -(2.0 / (omega * omega) + 1.0) * bell
    else:
        e = tl.exp(omega * (0.5 * _PI))
        sinh, tanh = 0.5 * (e - 1.0 / e), 1.0 - 2.0 / (e * e + 1.0)
        if FAMILY == _TANH:
            value = 1.0 / (T * sinh) * _PI
        elif FAMILY == _T_TANH:
            value = 1.0 / (T * sinh * tanh) * (-0.5 * _PI * _PI)  # cosh / sinh² would be ∞/∞
        else:
            tl.static_assert(FAMILY == _LOG_COSH, "no such family")
            value = -1.0 / (T * sinh * omega) * _PI
    return value.to(tl.float32)


@triton.jit
def constant(period, FAMILY: tl.constexpr):
    """c of kernels/expansions.py."""
    if (FAMILY == _T_TANH) | (FAMILY == _T_ERF):
        value = period
    elif FAMILY == _LOG_COSH:
        value = period - 0.6931471805599453
    else:
        value = tl.zeros_like(period)
    return value
