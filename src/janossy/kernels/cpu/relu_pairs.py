"""Means over pairs of relu(a_i + b_j), in O(n log n): the sum is over the pairs with b_j > −a_i.

Bottom-up merge sort of a and of b. Two neighbouring blocks, each in order, are about to be merged: one pass over
both finds, for every a of one, how many b of the other exceed −a, and their sum. Each pair of different elements meets
once, in the merge that brings them together; for increasing pairs a is taken from the earlier block only. Nothing is
subtracted, and the counts over the number of pairs are the slopes.

Cost: n log n for each set and hidden unit; memory O(n) a thread.
"""

import numpy as np

from janossy.kernels.cpu.compiled import Kernel, kernel_maker
from janossy.kernels.cpu.vector import inlined

SORTING_COST = {"float32": 150.0, "float64": 75.0}
"""The cost of one element, times log2 n, for one hidden unit: in activations of the enumeration, as measured on an AMD
EPYC with AVX-512. For 16 hidden units in float32 the two meet at n = 1600; for a single one at 70."""

_LEAST = -np.finfo(np.float64).max


@inlined
def _meet(a, a_at, low, high, b, b_at, bottom, top, num_a, num_b):
    """Twice the sum of relu(a + b) over two blocks in order; counts the pairs above 0 of each element."""
    total = tail = 0.0
    i = top
    for m in range(low, high):
        while i > bottom and b[i - 1] > -a[m]:
            i -= 1
            tail += 2.0 * b[i]
            num_b[b_at[i]] += high - m
        if i < top:
            total += (top - i) * (2.0 * a[m]) + tail
            num_a[a_at[m]] += top - i
    return total


@inlined
def _merge(x, at, low, middle, high, merged, merged_at):
    left, right = low, middle
    for m in range(low, high):
        if right >= high or (left < middle and x[left] <= x[right]):
            merged[m], merged_at[m] = x[left], at[left]
            left += 1
        else:
            merged[m], merged_at[m] = x[right], at[right]
            right += 1


@inlined
def _in_order(x):
    """x, such that comparing counts NaN as positive, as torch does: NaN and ∞ exceed −∞, which doubling restores."""
    if x == -np.inf:
        return _LEAST
    return x if x == x else np.inf


@kernel_maker
def relu_pair_kernel() -> Kernel:
    """(p, offsets, increasing, sets, out, slopes, with_slopes, first, last), over items (position in sets, unit)."""

    def relu_pairs(p, offsets, increasing, sets, out, slopes, with_slopes, first, last):
        H = p.shape[2]
        most = 1
        for s in range(first // H, (last - 1) // H + 1):
            most = max(most, offsets[sets[s] + 1] - offsets[sets[s]])
        a, b, next_a, next_b = np.empty(most), np.empty(most), np.empty(most), np.empty(most)
        a_at, b_at = np.empty(most, np.int64), np.empty(most, np.int64)
        next_a_at, next_b_at = np.empty(most, np.int64), np.empty(most, np.int64)
        num_a, num_b = np.empty(most, np.int64), np.empty(most, np.int64)
        for item in range(first, last):
            set_, h = sets[item // H], item % H
            start, n = offsets[set_], offsets[set_ + 1] - offsets[set_]
            has_nan = False
            for i in range(n):
                x, y = np.float64(p[start + i, 0, h]), np.float64(p[start + i, 1, h])
                has_nan |= (x != x and not (increasing and i == n - 1)) or (y != y and not (increasing and i == 0))
                a[i], b[i] = _in_order(x), _in_order(y)
                a_at[i] = b_at[i] = i
            num_a[:n] = 0
            num_b[:n] = 0
            total = 0.0
            width = 1
            while width < n:
                for low in range(0, n, 2 * width):
                    middle, high = min(n, low + width), min(n, low + 2 * width)
                    total += _meet(a, a_at, low, middle, b, b_at, middle, high, num_a, num_b)
                    if not increasing:
                        total += _meet(a, a_at, middle, high, b, b_at, low, middle, num_a, num_b)
                    _merge(a, a_at, low, middle, high, next_a, next_a_at)
                    _merge(b, b_at, low, middle, high, next_b, next_b_at)
                a, next_a, b, next_b = next_a, a, next_b, b
                a_at, next_a_at, b_at, next_b_at = next_a_at, a_at, next_b_at, b_at
                width *= 2
            num_pairs = n * (n - 1.0) * (0.5 if increasing else 1.0)
            out[set_, h] = np.nan if has_nan else 0.5 * total / num_pairs
            if with_slopes:
                for i in range(n):
                    slopes[(start + i) * 2 * H + h] = num_a[i] / num_pairs
                    slopes[((start + i) * 2 + 1) * H + h] = num_b[i] / num_pairs

    return Kernel(relu_pairs, "relu_pairs")
