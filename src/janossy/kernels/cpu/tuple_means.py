"""Means over k-tuples of σ(p_1[i_1] + … + p_k[i_k]) by enumeration, fused: no tuple is ever written.

One item is a set and a block of as many hidden units as a vector has lanes. Partial sums are kept for the first k − 1
indices; the innermost loop, over the last one, adds, applies σ and accumulates in registers. The elements not yet
chosen are a linked list, from which choosing one removes it. With slopes the same loop accumulates σ′ for every element
and position: a tuple is evaluated once.

Sums of more than a few dozen terms are carried to float64, so that float32 keeps its precision for any number of
tuples. Cost: tuples · H activations; memory O(n·k) vectors a thread.
"""

from functools import lru_cache, partial

import numpy as np

from janossy.kernels.cpu.activations import CODES, reduce_angles, value, value_and_slope
from janossy.kernels.cpu.compiled import Kernel, kernel_maker
from janossy.kernels.cpu.relu_pairs import SORTING_COST, relu_pair_kernel
from janossy.kernels.cpu.vector import (
    CARRY,
    HALF,
    LANES,
    add_to_float64,
    load,
    load_first,
    num_lanes,
    store,
    store_first,
    store_first_float64,
)
from janossy.kernels.limits import num_tuples

KEEP_SETS = 2**12
"""The costs of larger batches are counted at every call rather than kept."""


def tuple_means(
    p: np.ndarray,
    offsets: np.ndarray,
    increasing: bool,
    activation: str,
    with_slopes: bool,
    num_threads: int,
    sets: np.ndarray | None = None,
    out: np.ndarray | None = None,
    slopes: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The mean of σ(Σ_j p_j[i_j]) over the tuples of each set, and its slopes by every p.

    The tuples are all injective ones, or those with i_1 < … < i_k; in a set of n < k elements, the orderings (or the
    increasing choice) of all n, and the later positions add nothing. An empty set gives 0. Only ``sets`` are computed,
    if given, and only their rows of ``out`` and ``slopes`` are written.

    Shapes: p (N, k, H), float32 or float64; offsets (B + 1,) -> out (B, H), slopes (N, k, H), or (0,) if not wanted
    """
    p, offsets, increasing = np.ascontiguousarray(p), np.ascontiguousarray(offsets, np.int64), bool(increasing)
    k, H = p.shape[1:]
    if sets is None and len(offsets) <= KEEP_SETS:
        sets, costs = _kept_costs(offsets.tobytes(), k, increasing)
    else:
        sets = np.arange(len(offsets) - 1) if sets is None else np.asarray(sets, np.int64)
        costs = _costs(offsets, sets, k, increasing)
    out = np.zeros((len(offsets) - 1, H), p.dtype) if out is None else out
    if not with_slopes:
        slopes = np.empty(0, p.dtype)
    elif slopes is None:
        slopes = np.empty_like(p)
    if len(sets) == 0 or H == 0:
        return out, slopes
    lanes = LANES[p.dtype.name]
    num_blocks, costs = -(-H // lanes), lanes * costs
    if activation == "relu" and k == 2:
        n = offsets[sets + 1] - offsets[sets]
        sorting_costs = SORTING_COST[p.dtype.name] * n * np.log2(np.maximum(n, 2))
        sorting = (n > 1) & (sorting_costs * H < costs * num_blocks)
        if sorting.any():
            each = partial(np.repeat, sorting_costs[sorting], H)
            arguments = (p, offsets, increasing, sets[sorting], out, slopes.reshape(-1), with_slopes)
            relu_pair_kernel()(int(sorting.sum()) * H, each, num_threads, *arguments)
            costs, sets = costs[~sorting], sets[~sorting]
    if len(sets):
        arguments = (p, offsets, increasing, sets, out, slopes.reshape(-1))
        each = partial(np.repeat, costs, num_blocks)
        tuple_kernel(activation)(len(sets) * num_blocks, each, num_threads, *arguments)
    return out, slopes


def _costs(offsets: np.ndarray, sets: np.ndarray, k: int, increasing: bool) -> np.ndarray:
    """The vectors that are read and the activations of each set, in a block of hidden units."""
    n = offsets[sets + 1] - offsets[sets]
    return n * float(k) + num_tuples(n, k, increasing)


@lru_cache(maxsize=32)
def _kept_costs(offsets: bytes, k: int, increasing: bool) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of all sets, and their costs: on a small batch counting takes as long as the kernel."""
    bounds = np.frombuffer(offsets, np.int64)
    sets = np.arange(len(bounds) - 1)
    return sets, _costs(bounds, sets, k, increasing)


@kernel_maker
def tuple_kernel(activation: str) -> Kernel:
    """(p, offsets, increasing, sets, out, slopes or (0,), first, last).

    Items are (position in sets, block of units).
    """
    code = CODES[activation]
    periodic = activation in ("sine", "cosine")

    def tuple_sums(p, offsets, increasing, sets, out, slopes, first, last):
        k, H, lanes, with_slopes = p.shape[1], p.shape[2], num_lanes(p), slopes.size > 0
        num_blocks = (H + lanes - 1) // lanes
        most = 1
        for s in range(first // num_blocks, (last - 1) // num_blocks + 1):
            most = max(most, offsets[sets[s] + 1] - offsets[sets[s]])
        x = np.empty(k * most * lanes, p.dtype)  # p, position by position
        partial = np.zeros((k + 1) * lanes, p.dtype)
        d = np.zeros(k * most * lanes if with_slopes else lanes, p.dtype)  # Σ σ′ for each element and position,
        wide_d = np.zeros(most * lanes if with_slopes else lanes)  # and what was carried of the last position's
        sub_d = np.zeros((k + 1) * lanes, p.dtype)  # Σ σ′ over the tuples that begin with the first few indices
        total, scratch = np.zeros(lanes), np.zeros(lanes, p.dtype)
        chosen = np.zeros(k, np.int64)
        after, before = np.zeros(most + 1, np.int64), np.zeros(most + 1, np.int64)
        zero = load(partial, 0)

        for item in range(first, last):
            b, h = sets[item // num_blocks], (item % num_blocks) * lanes
            width = min(lanes, H - h)
            start, n = offsets[b], offsets[b + 1] - offsets[b]
            depth = min(n, k)
            if n == 0:
                store_first(out, b * H + h, zero, width)
                continue
            for i in range(n):
                for j in range(depth):
                    store(x, (j * n + i) * lanes, load_first(p, ((start + i) * k + j) * H + h, width))
            if periodic:
                reduce_angles(x, depth * n * lanes)
            for i in range(n + 1):  # a ring, with n between its end and its beginning
                after[i] = i + 1
                before[i] = i - 1
            after[n], before[0] = 0, n
            total[:] = 0.0
            if with_slopes:
                d[: k * n * lanes] = 0
                wide_d[: n * lanes] = 0.0
            last_position, row = depth - 1, (depth - 1) * n
            summed, pending, visits, carried = zero, 0, 0, False
            count = 0

            level = 0
            chosen[0] = -1
            while level >= 0:
                if level == last_position:
                    q = load(partial, level * lanes)
                    if increasing and level > 0:
                        i = after[chosen[level - 1]]
                        left = n - i
                    else:
                        i = after[n]
                        left = n - level
                    count += left
                    slope_sum = zero
                    while left > 0:
                        chunk = min(left, CARRY)
                        left -= chunk
                        if with_slopes:
                            chunk_d = zero
                            for _ in range(chunk):
                                at = (row + i) * lanes
                                y, slope = value_and_slope(code, q + load(x, at))
                                summed = summed + y
                                chunk_d = chunk_d + slope
                                store(d, at, load(d, at) + slope)
                                i = after[i]
                            slope_sum = slope_sum + chunk_d
                        else:
                            for _ in range(chunk):
                                summed = summed + value(code, q + load(x, (row + i) * lanes))
                                i = after[i]
                        pending += chunk
                        if pending >= CARRY:
                            add_to_float64(total, 0, summed, scratch)
                            summed, pending = zero, 0
                    if with_slopes:
                        store(sub_d, level * lanes, slope_sum)
                        visits += 1
                        if visits == CARRY:
                            for i in range(n):
                                add_to_float64(wide_d, i * lanes, load(d, (row + i) * lanes), scratch)
                                store(d, (row + i) * lanes, zero)
                            visits, carried = 0, True
                    level -= 1
                    continue
                i = chosen[level]
                if i < 0:
                    i = after[chosen[level - 1]] if increasing and level > 0 else after[n]
                    if with_slopes:
                        store(sub_d, level * lanes, zero)
                else:
                    after[before[i]] = i
                    before[after[i]] = i
                    if with_slopes:
                        y = load(sub_d, (level + 1) * lanes)
                        at = (level * n + i) * lanes
                        store(d, at, load(d, at) + y)
                        store(sub_d, level * lanes, load(sub_d, level * lanes) + y)
                    i = after[i]
                if i >= (n - (last_position - level) if increasing else n):
                    level -= 1
                    continue
                chosen[level] = i
                after[before[i]] = after[i]
                before[after[i]] = before[i]
                store(partial, (level + 1) * lanes, load(partial, level * lanes) + load(x, (level * n + i) * lanes))
                level += 1
                chosen[level] = -1

            add_to_float64(total, 0, summed, scratch)
            share = 1.0 / count
            for half in range(0, width, HALF):
                store_first_float64(out, b * H + h + half, load(total, half) * share, min(HALF, width - half))
            if with_slopes:
                for i in range(n):
                    for j in range(k):
                        at, to = (j * n + i) * lanes, ((start + i) * k + j) * H + h
                        if carried and j == last_position:
                            add_to_float64(wide_d, i * lanes, load(d, at), scratch)
                            for half in range(0, width, HALF):
                                y = load(wide_d, i * lanes + half) * share
                                store_first_float64(slopes, to + half, y, min(HALF, width - half))
                        else:
                            store_first(slopes, to, load(d, at) * share, width)

    return Kernel(tuple_sums, f"tuple_sums_{activation}")
