"""Sums over all k-tuples of a set of σ(p_1[i_1] + … + p_k[i_k]) and of its slopes: the first pass, and the second.

A program is one warp: it has WIDTH hidden units, one a thread, of one set, and every ``num_splits``-th choice of the
first element. It takes UNROLL elements for the last position at a time, and for these goes through the choices of all
elements before. So every thread adds numbers of its own: no tuple is written, nothing is exchanged between threads, and
each tuple's activation and slope are made once, whichever sums they go into. Slopes by the last position stay in
registers, and those by others are added in memory, UNROLL tuples at a time.

Sums of more than CARRY terms are compensated. Programs that share a set write sums of their own, which the second pass
adds up in their order: the same numbers at every call.
"""

import triton
import triton.language as tl

from janossy.kernels.cuda.activations import value_and_slope
from janossy.kernels.cuda.sums import add, add_in_memory, total_of

WIDTH = 32
UNROLL = 8
CARRY = 32

OPTIONS = {"num_warps": 1, "num_stages": 1, "maxnreg": 128, "enable_fp_fusion": True}

_WIDTH, _UNROLL, _CARRY = tl.constexpr(WIDTH), tl.constexpr(UNROLL), tl.constexpr(CARRY)


@triton.jit
def _row(p, row, POSITION: tl.constexpr, H, K: tl.constexpr, units, is_unit):
    return tl.load(p + (row * K + POSITION) * H + units, is_unit, 0.0).to(tl.float32)


@triton.jit
def _through(
    p, start, q, x, left, last, high, low, to, begin, end, step, chosen, also, total, rest, d, d_rest,
    units, is_unit, H, POSITION: tl.constexpr, K: tl.constexpr,
    INCREASING: tl.constexpr, ACTIVATION: tl.constexpr, SLOPES: tl.constexpr,
):  # fmt: skip
    """Go through the element before the ``last`` ones, from ``begin`` to ``end``; two others were chosen, or −1."""
    slopes, slopes_rest = tl.zeros_like(total), tl.zeros_like(total)
    for first in range(begin, end, step * _CARRY):
        some, some_d = tl.zeros_like(x), tl.zeros_like(x)
        for i in range(first, min(end, first + step * _CARRY), step):
            r = q + _row(p, start + i, POSITION, H, K, units, is_unit)
            y, slope = value_and_slope(r[None, :] + x, ACTIVATION)
            counts = left & (last > i) if INCREASING else left & (last != i) & (chosen != i) & (also != i)
            some += tl.where(counts, y, 0.0)
            if SLOPES:
                slope = tl.where(counts, slope, 0.0)
                some_d += slope
                of_i = tl.sum(slope, 0)
                add_in_memory(high, low, to + (i * K + POSITION) * H + units, of_i, is_unit)
                slopes, slopes_rest = add(slopes, slopes_rest, of_i)
        total, rest = add(total, rest, tl.sum(some, 0))
        if SLOPES:
            d, d_rest = add(d, d_rest, some_d)
    return total, rest, d, d_rest, slopes, slopes_rest


@triton.jit
def _sums(
    p, start, n, high, low, to, split, num_splits, units, is_unit, H,
    DEPTH: tl.constexpr, K: tl.constexpr, INCREASING: tl.constexpr, ACTIVATION: tl.constexpr, SLOPES: tl.constexpr,
):  # fmt: skip
    """The sum over a split's tuples of DEPTH elements, (WIDTH,); adds slopes to ``high`` and ``low`` from ``to`` on."""
    total = tl.zeros([_WIDTH], tl.float32)
    rest = tl.zeros([_WIDTH], tl.float32)
    for tile in range(split * _UNROLL if DEPTH == 1 else 0, n, num_splits * _UNROLL if DEPTH == 1 else _UNROLL):
        last = (tile + tl.arange(0, _UNROLL))[:, None]
        left = (last < n) & is_unit[None, :]
        x = tl.load(p + ((start + last) * K + (DEPTH - 1)) * H + units[None, :], left, 0.0).to(tl.float32)
        end = min(n, tile + _UNROLL - 1) if INCREASING else n
        d, d_rest = tl.zeros_like(x), tl.zeros_like(x)
        if DEPTH == 1:
            y, d = value_and_slope(x, ACTIVATION)
            total, rest = add(total, rest, tl.sum(tl.where(left, y, 0.0), 0))
        elif DEPTH == 2:
            total, rest, d, d_rest, _, _ = _through(
                p, start, tl.zeros_like(total), x, left, last, high, low, to, split, end, num_splits, -1, -1,
                total, rest, d, d_rest, units, is_unit, H, 0, K, INCREASING, ACTIVATION, SLOPES,
            )  # fmt: skip
        else:
            for i in range(split, end, num_splits):
                q = _row(p, start + i, 0, H, K, units, is_unit)
                not_i = left & (last != i)
                if DEPTH == 3:
                    total, rest, d, d_rest, slopes, slopes_rest = _through(
                        p, start, q, x, not_i, last, high, low, to, i + 1 if INCREASING else 0, end, 1, i, -1,
                        total, rest, d, d_rest, units, is_unit, H, 1, K, INCREASING, ACTIVATION, SLOPES,
                    )  # fmt: skip
                else:
                    slopes, slopes_rest = tl.zeros_like(total), tl.zeros_like(total)
                    for j in range(i + 1 if INCREASING else 0, end):
                        not_j = not_i if INCREASING else not_i & (last != j) & (i != j)
                        r = q + _row(p, start + j, 1, H, K, units, is_unit)
                        total, rest, d, d_rest, of_j, of_j_rest = _through(
                            p, start, r, x, not_j, last, high, low, to, j + 1 if INCREASING else 0, end, 1, j, i,
                            total, rest, d, d_rest, units, is_unit, H, 2, K, INCREASING, ACTIVATION, SLOPES,
                        )  # fmt: skip
                        if SLOPES:
                            add_in_memory(high, low, to + (j * K + 1) * H + units, total_of(of_j, of_j_rest), is_unit)
                            slopes, slopes_rest = add(slopes, slopes_rest, total_of(of_j, of_j_rest))
                if SLOPES:
                    add_in_memory(high, low, to + i * K * H + units, total_of(slopes, slopes_rest), is_unit)
        if SLOPES:
            there = to + (last * K + (DEPTH - 1)) * H + units[None, :]
            tl.store(high + there, d, left)
            tl.store(low + there, d_rest, left)
    return total_of(total, rest)


@triton.jit
def decode(offsets, num_blocks, num_splits):
    """The block of hidden units, the split and the set of this program, and where the set begins and ends."""
    program = tl.program_id(0)
    block, split = program % num_blocks, program // num_blocks % num_splits
    b = (program // num_blocks // num_splits).to(tl.int64)
    start = tl.load(offsets + b)
    return block, split, b, start, (tl.load(offsets + b + 1) - start).to(tl.int32)


@triton.jit(do_not_specialize=["N", "H", "num_splits"])
def tuple_sums(
    p, offsets, wanted, sums, high, low, B, N, H, num_splits,
    K: tl.constexpr, INCREASING: tl.constexpr, ACTIVATION: tl.constexpr, SLOPES: tl.constexpr, SOME: tl.constexpr,
):  # fmt: skip
    """sums (num_splits, B, H) and slopes' sums, high + low (num_splits, N, K, H); with SOME of ``wanted`` sets only.

    A set of n < K elements has tuples of all n, at the first n positions.
    """
    block, split, b, start, n = decode(offsets, tl.cdiv(H, _WIDTH), num_splits)
    if SOME:
        n = tl.where(tl.load(wanted + b) != 0, n, 0)
    units = block * _WIDTH + tl.arange(0, _WIDTH)
    is_unit = units < H
    to = (split * N + start) * K * H
    total = tl.zeros([_WIDTH], tl.float32)
    for depth in tl.static_range(1, K + 1):
        if (n == depth) | ((depth == K) & (n > depth)):
            total = _sums(
                p, start, n, high, low, to, split, num_splits, units, is_unit, H,
                depth, K, INCREASING, ACTIVATION, SLOPES,
            )  # fmt: skip
    tl.store(sums + (split * B + b) * H + units, total, is_unit)


@triton.jit
def num_tuples(n, K: tl.constexpr, INCREASING: tl.constexpr):
    """float64, to be rounded once."""
    count = tl.full((), 1.0, tl.float64)
    for j in tl.static_range(K):
        factor = (n - j).to(tl.float64)
        if INCREASING:
            factor = factor / (j + 1.0)
        count = tl.where(n > j, count * factor, count)
    return count


@triton.jit(do_not_specialize=["N", "H", "num_splits", "num_shares"])
def tuple_means_of_sums(
    offsets, wanted, sums, high, low, out, slopes, B, N, H, num_splits, num_shares,
    K: tl.constexpr, INCREASING: tl.constexpr, SLOPES: tl.constexpr, SOME: tl.constexpr,
):  # fmt: skip
    """The second pass: out (B, H) and slopes (N, K, H), from the splits' sums; slopes may be ``high`` of one split.

    ``num_shares`` programs share a set's elements.
    """
    columns_of_all = K * H if SLOPES else H
    block, share, b, start, n = decode(offsets, tl.cdiv(columns_of_all, 4 * _WIDTH), num_shares)
    columns = block * 4 * _WIDTH + tl.arange(0, 4 * _WIDTH)
    weight = (1.0 / num_tuples(n, K, INCREASING)).to(tl.float32)
    is_wanted = True
    if SOME:
        is_wanted = tl.load(wanted + b) != 0
    if is_wanted:
        if share == 0:
            is_unit = columns < H
            total, rest = tl.zeros([4 * _WIDTH], tl.float32), tl.zeros([4 * _WIDTH], tl.float32)
            for split in range(num_splits):
                total, rest = add(total, rest, tl.load(sums + (split * B + b) * H + columns, is_unit, 0.0))
            mean = total_of(total, rest) * weight
            tl.store(out + b * H + columns, mean.to(out.dtype.element_ty), is_unit)
        if SLOPES:
            is_column = columns < columns_of_all
            for i in range(share, n, num_shares):
                total, rest = tl.zeros([4 * _WIDTH], tl.float32), tl.zeros([4 * _WIDTH], tl.float32)
                for split in range(num_splits):
                    at = (split * N + start + i) * K * H + columns
                    total, rest = add(total, rest, tl.load(high + at, is_column, 0.0))
                    rest += tl.load(low + at, is_column, 0.0)
                slope = total_of(total, rest) * weight
                tl.store(slopes + (start + i) * K * H + columns, slope.to(slopes.dtype.element_ty), is_column)
