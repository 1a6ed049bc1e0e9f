"""Means over tuples of Π_j z_j[i_j], and slopes: the recursions of kernels/cpu/product_means.py, cut into segments.

D[s] is the sum, over all ways to fill the positions of state s with elements so far, of the products; E[s] that over
all ways to fill the others with elements still to come. ``segments`` makes D of every segment alone; ``scan`` goes
through the segments, to D before and E behind each; ``slopes_of_segments`` walks each of them, D kept every CHUNK
elements and computed again between. Each thread has a column of its own, and nothing is subtracted.
"""

import triton
import triton.language as tl

from janossy.kernels.cuda.product_states import all_of, before, less, num_of_segment, num_states
from janossy.kernels.cuda.series_plan import segment
from janossy.kernels.cuda.sums import add, total_of
from janossy.kernels.cuda.sums_of_harmonics import zeros_of
from janossy.kernels.cuda.tuple_sums import WIDTH, decode, num_tuples

CHUNK = 8

_WIDTH, _CHUNK = tl.constexpr(WIDTH), tl.constexpr(CHUNK)


@triton.jit
def _scale(n):
    """A power of two about 1/n: it keeps D in range and rounds nothing."""
    scale = tl.full((), 1.0, tl.float32)
    for _ in tl.static_range(31):
        scale = tl.where(scale * n > 1.0, 0.5 * scale, scale)
    return scale


@triton.jit
def _factors(z, row, n, scale, columns, is_column, H, K: tl.constexpr):
    """z_j · scale of one element, and 0 for positions that no element fills."""
    found = ()
    for j in tl.static_range(K):
        found = found + (tl.load(z + (row * K + j) * H + columns, is_column & (j < n), 0.0).to(tl.float32) * scale,)
    return found


@triton.jit
def _advanced(D, rest, x, K: tl.constexpr, INCREASING: tl.constexpr, OF_SEGMENT: tl.constexpr):
    """D after one more element, as compensated sums."""
    whole, sums, rests = (), (), ()
    for s in tl.static_range(len(D)):
        whole = whole + (total_of(D[s], rest[s]),)
    for s in tl.static_range(1, len(D) + 1):
        more = tl.zeros([_WIDTH], tl.float32)
        for j in tl.static_range(K):
            if before(s, j, INCREASING, OF_SEGMENT) == 0:
                more += x[j]
            elif before(s, j, INCREASING, OF_SEGMENT) > 0:
                more += x[j] * whole[before(s, j, INCREASING, OF_SEGMENT) - 1]
        total, lacks = add(D[s - 1], rest[s - 1], more)
        sums, rests = sums + (total,), rests + (lacks,)
    return sums, rests


@triton.jit
def _place(split, b, block, B, num_blocks, NUM: tl.constexpr):
    """Returns the place of the numbers of a segment in (splits, B, blocks of columns, NUM, WIDTH)."""
    return ((split * B + b) * num_blocks + block) * NUM * _WIDTH + tl.arange(0, _WIDTH)


@triton.jit(do_not_specialize=["H", "num_splits"])
def segments(z, offsets, sums, B, H, num_splits, K: tl.constexpr, INCREASING: tl.constexpr):
    """sums (num_splits, B, blocks, states of a segment, WIDTH): D of every segment."""
    num_blocks = tl.cdiv(H, _WIDTH)
    block, split, b, start, n = decode(offsets, num_blocks, num_splits)
    columns = block * _WIDTH + tl.arange(0, _WIDTH)
    begin, end = segment(n, split, num_splits)
    scale = _scale(n)
    D, rest = zeros_of(num_of_segment(K, INCREASING)), zeros_of(num_of_segment(K, INCREASING))
    for i in range(begin, end):
        x = _factors(z, start + i, n, scale, columns, columns < H, H, K)
        D, rest = _advanced(D, rest, x, K, INCREASING, True)
    to = sums + _place(split, b, block, B, num_blocks, num_of_segment(K, INCREASING))
    for s in tl.static_range(len(D)):
        tl.store(to + s * _WIDTH, total_of(D[s], rest[s]))


@triton.jit(do_not_specialize=["H", "num_splits"])
def scan(
    offsets, sums, prefixes, suffixes, means, B, H, num_splits,
    K: tl.constexpr, INCREASING: tl.constexpr, SLOPES: tl.constexpr,
):  # fmt: skip
    """means (B, H), and (num_splits, B, blocks, states, WIDTH) D before every segment and E behind it."""
    num_blocks = tl.cdiv(H, _WIDTH)
    block, _, b, _, n = decode(offsets, num_blocks, 1)
    NUM: tl.constexpr = num_states(K, INCREASING)
    OF_SEGMENT: tl.constexpr = num_of_segment(K, INCREASING)
    columns = block * _WIDTH + tl.arange(0, _WIDTH)
    count, scale = num_tuples(n, K, INCREASING), _scale(n)
    for j in tl.static_range(K):
        count = tl.where(n > j, count * scale, count)
    D, rest = zeros_of(NUM), zeros_of(NUM)
    for split in range(num_splits):
        if SLOPES:
            to = prefixes + _place(split, b, block, B, num_blocks, NUM)
            for s in tl.static_range(NUM):
                tl.store(to + s * _WIDTH, total_of(D[s], rest[s]))
        of_segment = sums + _place(split, b, block, B, num_blocks, OF_SEGMENT)
        found, found_rests = (), ()
        for s in tl.static_range(1, NUM + 1):
            total, lacks = D[s - 1], rest[s - 1]
            for t in tl.static_range(1, OF_SEGMENT + 1):
                if less(s, t, INCREASING) == 0:
                    total, lacks = add(total, lacks, tl.load(of_segment + (t - 1) * _WIDTH))
                elif less(s, t, INCREASING) > 0:
                    from_s = total_of(D[less(s, t, INCREASING) - 1], rest[less(s, t, INCREASING) - 1])
                    total, lacks = add(total, lacks, tl.load(of_segment + (t - 1) * _WIDTH) * from_s)
            found, found_rests = found + (total,), found_rests + (lacks,)
        D, rest = found, found_rests
    mean = tl.full([_WIDTH], 1.0, tl.float64)
    for filled in tl.static_range(1, K + 1):
        total = total_of(D[all_of(filled, INCREASING) - 1], rest[all_of(filled, INCREASING) - 1])
        mean = tl.where(tl.minimum(n, K) == filled, total.to(tl.float64) / count, mean)
    tl.store(means + b * H + columns, mean.to(tl.float32).to(means.dtype.element_ty), columns < H)
    if SLOPES:
        E, lacking = (), zeros_of(NUM)
        for s in tl.static_range(1, NUM + 1):
            is_full = tl.zeros([_WIDTH], tl.int32)
            for filled in tl.static_range(1, K + 1):
                if all_of(filled, INCREASING) == s:
                    is_full += tl.where(tl.minimum(n, K) == filled, 1, 0)
            E = E + (tl.where(is_full > 0, (scale / count).to(tl.float32), 0.0),)
        for back in range(num_splits):
            split = num_splits - 1 - back
            to = suffixes + _place(split, b, block, B, num_blocks, NUM)
            for s in tl.static_range(NUM):
                tl.store(to + s * _WIDTH, total_of(E[s], lacking[s]))
            of_segment = sums + _place(split, b, block, B, num_blocks, OF_SEGMENT)
            found, found_rests = (), ()
            for s in tl.static_range(1, NUM + 1):
                total, lacks = E[s - 1], lacking[s - 1]
                for u in tl.static_range(s + 1, NUM + 1):
                    for t in tl.static_range(1, OF_SEGMENT + 1):
                        if less(u, t, INCREASING) == s:
                            x = tl.load(of_segment + (t - 1) * _WIDTH)
                            total, lacks = add(total, lacks, x * total_of(E[u - 1], lacking[u - 1]))
                found, found_rests = found + (total,), found_rests + (lacks,)
            E, lacking = found, found_rests


@triton.jit(do_not_specialize=["N", "H", "num_splits"])
def slopes_of_segments(
    z, offsets, prefixes, suffixes, kept, slopes, B, N, H, num_splits, K: tl.constexpr, INCREASING: tl.constexpr
):
    """slopes (N, K, H); kept (N // CHUNK + num_splits · B, blocks, states, WIDTH) is written and read."""
    num_blocks = tl.cdiv(H, _WIDTH)
    block, split, b, start, n = decode(offsets, num_blocks, num_splits)
    NUM: tl.constexpr = num_states(K, INCREASING)
    columns = block * _WIDTH + tl.arange(0, _WIDTH)
    is_column = columns < H
    begin, end = segment(n, split, num_splits)
    scale = _scale(n)
    chunks = (start + begin) // _CHUNK + b * num_splits + split  # no two segments' are the same
    D, E = (), ()
    of_segment = _place(split, b, block, B, num_blocks, NUM)
    for s in tl.static_range(NUM):
        D, E = D + (tl.load(prefixes + of_segment + s * _WIDTH),), E + (tl.load(suffixes + of_segment + s * _WIDTH),)
    rest, lacking = zeros_of(NUM), zeros_of(NUM)
    for i in range(begin, end):
        if (i - begin) % _CHUNK == 0:
            to = kept + _place(0, chunks + (i - begin) // _CHUNK, block, B, num_blocks, NUM)
            for s in tl.static_range(NUM):
                tl.store(to + s * _WIDTH, total_of(D[s], rest[s]))
        x = _factors(z, start + i, n, scale, columns, is_column, H, K)
        D, rest = _advanced(D, rest, x, K, INCREASING, False)
    for back in range(tl.maximum(end - begin, 0)):
        i = end - 1 - back
        first = i - (i - begin) % _CHUNK
        at = kept + _place(0, chunks + (i - begin) // _CHUNK, block, B, num_blocks, NUM)
        D, rest = (), zeros_of(NUM)
        for s in tl.static_range(NUM):
            D = D + (tl.load(at + s * _WIDTH),)
        for r in range(first, i):
            x = _factors(z, start + r, n, scale, columns, is_column, H, K)
            D, rest = _advanced(D, rest, x, K, INCREASING, False)
        x = _factors(z, start + i, n, scale, columns, is_column, H, K)
        behind = ()
        for s in tl.static_range(NUM):
            behind = behind + (total_of(E[s], lacking[s]),)
        for j in tl.static_range(K):
            slope = tl.zeros([_WIDTH], tl.float32)
            for s in tl.static_range(1, NUM + 1):
                if before(s, j, INCREASING, False) == 0:
                    slope += behind[s - 1]
                elif before(s, j, INCREASING, False) > 0:
                    slope += D[before(s, j, INCREASING, False) - 1] * behind[s - 1]
            tl.store(slopes + ((start + i) * K + j) * H + columns, slope.to(slopes.dtype.element_ty), is_column)
        found, found_rests = (), ()
        for s in tl.static_range(1, NUM + 1):
            more = tl.zeros([_WIDTH], tl.float32)
            for u in tl.static_range(s + 1, NUM + 1):
                for j in tl.static_range(K):
                    if before(u, j, INCREASING, False) == s:
                        more += x[j] * behind[u - 1]
            total, lacks = add(E[s - 1], lacking[s - 1], more)
            found, found_rests = found + (total,), found_rests + (lacks,)
        E, lacking = found, found_rests
