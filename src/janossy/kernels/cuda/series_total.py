"""The terms of the harmonics added up: what the series' passes for means end with."""

import triton
import triton.language as tl

from janossy.kernels.cuda.series_plan import constant
from janossy.kernels.cuda.sums import add, total_of
from janossy.kernels.cuda.tuple_sums import WIDTH

_WIDTH = tl.constexpr(WIDTH)


@triton.jit(do_not_specialize=["first", "H", "MOST"])
def means_of_values(
    harmonics, periods, linear, values, means, out, first, B, H, MOST, is_last, alpha, beta, gamma,
    FAMILY: tl.constexpr,
):  # fmt: skip
    """Add a round's terms (MOST, B, H) to ``means`` (B, H), and after the last one write the sets' rows of ``out``."""
    num_blocks = tl.cdiv(H, _WIDTH)
    block, b = tl.program_id(0) % num_blocks, (tl.program_id(0) // num_blocks).to(tl.int64)
    num = tl.load(harmonics + b)
    units = block * _WIDTH + tl.arange(0, _WIDTH)
    is_unit = units < H
    at = b * H + units
    if num > 0:
        total, rest = tl.load(means + at, is_unit & (first > 0), 0.0), tl.zeros([_WIDTH], tl.float32)
        if first == 0:
            period = tl.load(periods + at, is_unit, 1.0)
            total = alpha + gamma * constant(period, FAMILY)
            rest = beta * tl.load(linear + at, is_unit, 0.0)
        for m in range(tl.minimum(MOST, num - first)):
            total, rest = add(total, rest, tl.load(values + (m * B + b) * H + units, is_unit, 0.0))
        total = total_of(total, rest)
        tl.store(means + at, total, is_unit)
        if is_last != 0:
            tl.store(out + at, total.to(out.dtype.element_ty), is_unit)
