"""Means over all k-tuples on a CUDA device by the series of the activation where that is cheaper, else by enumeration.

Which sets are enumerated, and how many harmonics the others take, is decided on the device, from the numbers. What is
launched follows from shapes: every round of harmonics, of which those beyond a set's own return at once.
"""

from math import isqrt
from typing import Any, NamedTuple, cast

import torch
import triton
from torch import Tensor

from janossy.kernels.cuda import series_increasing, series_injective
from janossy.kernels.cuda.activations import PERIODIC, within_a_turn
from janossy.kernels.cuda.device import empty, on_device_of, programs_wanted
from janossy.kernels.cuda.series_plan import COLUMNS, MAX_ENUMERATED, MAX_HARMONICS, extents
from janossy.kernels.cuda.series_plan import plan as plan_sets
from janossy.kernels.cuda.series_total import means_of_values
from janossy.kernels.cuda.tuple_means import tuple_means
from janossy.kernels.cuda.tuple_sums import OPTIONS, WIDTH
from janossy.kernels.expansions import EXPANSIONS, SMALLEST_BOUND, TRIG, margins, num_harmonics

BYTES_OF_SUMS = 2**26
"""Bytes of the sums of a round of harmonics in a small batch; in a large one, as much as ARRAYS_OF_SUMS."""

ARRAYS_OF_SUMS = 1.5

FEWEST_ELEMENTS = 64
"""The elements of a segment: shorter ones would leave most of the work to the pass between."""


def series_means(
    p: Tensor,
    offsets: Tensor,
    increasing: bool,
    activation: str,
    tolerance: float,
    enumerate_up_to: int,
    with_slopes: bool,
) -> tuple[Tensor, Tensor]:
    """The means and slopes of ``tuple_means``, each to within ``tolerance`` and the rounding of float32.

    Enumerated are sets smaller than k, those of at most ``enumerate_up_to`` elements, with -1 those that it is cheaper
    for, and those that float32 cannot compute otherwise: pre-activations that are not finite or reach too far, and
    injective tuples of nearly all elements. Where there are too many tuples for that, the set's results are NaN.

    Shapes: p (N, k, H), k from 1 to 4, float32 or bfloat16; offsets (B + 1,) -> means (B, H), slopes (N, k, H), or
        (0,) if not wanted, of p's dtype. Memory: beside p and slopes at most two arrays of their shape in float32.
    """
    (N, k, H), B = p.shape, len(offsets) - 1
    if B == 0 or H == 0 or N == 0:
        return p.new_zeros(B, H), torch.zeros_like(p) if with_slopes else p.new_empty(0)
    x = within_a_turn(p) if activation in PERIODIC else p
    increasing = increasing and k > 1
    plan, wanted = plan_for(x, offsets, increasing, activation, tolerance, enumerate_up_to)
    out, slopes = tuple_means(p, offsets, increasing, activation, with_slopes, wanted, turned=x)
    with on_device_of(p):
        _series(x, plan, increasing, activation, out, slopes if with_slopes else None)
    return out, slopes


class SeriesPlan(NamedTuple):
    """The facts about the sets that are known before their series."""

    offsets: Tensor
    harmonics: Tensor
    centres: Tensor
    periods: Tensor
    linear: Tensor


def plan_for(
    x: Tensor, offsets: Tensor, increasing: bool, activation: str, tolerance: float, up_to: int
) -> tuple[SeriesPlan, Tensor]:
    """The plan, and which sets are to be enumerated."""
    e = EXPANSIONS[activation]
    (_, k, H), B = x.shape, len(offsets) - 1
    num_blocks = triton.cdiv(k * H, COLUMNS)
    num_splits = splits(x, B, num_blocks, FEWEST_ELEMENTS)
    parts = empty(x, num_splits, B, 4, k, H)
    centres, periods, linear = empty(x, B, k, H), empty(x, B, H), empty(x, B, H)
    harmonics, wanted = x.new_empty(B, dtype=torch.int32), x.new_empty(B, dtype=torch.bool)
    delta, cut = (0.0, 0.0) if e.family == TRIG else margins(e.family, tolerance)
    fewest = float(num_harmonics(activation, tolerance, SMALLEST_BOUND))
    constants = {"K": k, "INCREASING": increasing, **OPTIONS}
    with on_device_of(x):
        extents[(B * num_splits * num_blocks,)](x, offsets, parts, B, H, num_splits, **constants)
        plan_sets[(B,)](
            parts, offsets, centres, periods, linear, harmonics, wanted, B, H, num_splits, up_to,
            e.kappa, delta, cut, fewest, MAX_HARMONICS, MAX_ENUMERATED, FAMILY=e.family, **constants,
        )  # fmt: skip
    return SeriesPlan(offsets, harmonics, centres, periods, linear), wanted


def _series(x: Tensor, plan: SeriesPlan, increasing: bool, activation: str, out: Tensor, slopes: Tensor | None) -> None:
    """Write the rows of the sets that have harmonics, in rounds of as many as there is memory for."""
    e, kernels = EXPANSIONS[activation], cast("Any", series_increasing if increasing else series_injective)
    (N, k, H), B = x.shape, len(out)
    total, each = (1, 1) if e.family == TRIG else (MAX_HARMONICS, kernels.HARMONICS[k])
    num_sums = k * (k + 1) if increasing else 2 * (2**k - 1)
    num_blocks = triton.cdiv(H, WIDTH)
    num_splits = splits(x, B, num_blocks, FEWEST_ELEMENTS)
    bytes_of_harmonic = 4 * B * (2 * num_sums * num_splits * num_blocks * WIDTH + H)
    may_take = max(BYTES_OF_SUMS, ARRAYS_OF_SUMS * 4 * N * k * H)
    while each > 1 and each * bytes_of_harmonic > may_take:  # of many small sets
        each //= 2
    most = min(total, each * max(1, int(may_take / bytes_of_harmonic / each)))

    high, low = (empty(x, num_splits, B, num_blocks, most, num_sums, WIDTH) for _ in range(2))
    values, means = empty(x, most, B, H), empty(x, B, H)
    is_cast = slopes is not None and slopes.dtype != torch.float32
    sums = empty(x, N, k, H) if is_cast else slopes
    known, constants = plan[:-1], {"K": k, "FAMILY": e.family, **OPTIONS}
    of_elements = {"HARMONICS": each, **constants}
    for first in range(0, total, most):
        at, is_last = (first, B, H), int(first + most >= total)
        launch = kernels.chains if increasing else kernels.power_sums
        launch[(B * num_blocks * num_splits * triton.cdiv(most, each),)](
            x, *known, high, low, *at, num_splits, most, e.kappa, **of_elements
        )
        launch = kernels.scan if increasing else kernels.partitions
        launch[(B * num_blocks * most,)](
            *known, high, low, values, *at, num_splits, most, e.gamma, e.kappa, ODD=e.odd, **constants
        )
        means_of_values[(B * num_blocks,)](
            plan.harmonics, plan.periods, plan.linear, values, means, out, *at, most, is_last, e.alpha, e.beta, e.gamma,
            FAMILY=e.family, **OPTIONS,
        )  # fmt: skip
        if slopes is None:
            continue
        rest = most, is_last, e.beta, e.kappa
        if increasing:
            kernels.slopes_by_chains[(B * num_blocks * num_splits,)](
                x, *known, low, sums, slopes, *at, num_splits, *rest, CAST=is_cast, **of_elements
            )
        else:
            num_elements = kernels.ELEMENTS[k]
            num_shares = splits(x, B, num_blocks, num_elements)
            kernels.slopes_by_power_sums[(B * num_blocks * num_shares,)](
                x, *known, high, sums, slopes, *at, num_shares, *rest, ELEMENTS=num_elements, CAST=is_cast, **constants
            )


def splits(x: Tensor, num_sets: int, num_blocks: int, fewest: int) -> int:
    """Counts the programs that share a set: enough for the device to be busy, and each with at least ``fewest``
    elements, were sets of sizes between all equal and all elements in one of them.
    """
    wanted = -(-programs_wanted(x) // (num_sets * num_blocks))
    return max(1, min(wanted, len(x) // (fewest * isqrt(num_sets))))
