"""Means over tuples of Π_j z_j[i_j], by a recursion over the sets of filled positions (docs/spectral.md).

D[S] is the sum, over all ways to fill the positions S with distinct elements of those seen so far, of the products.
The next element fills one of the positions of S or none:

    D[S] ← D[S] + Σ_{j∈S} z_j[i] · D[S∖j]

For increasing tuples S is the first s positions, and only j = s is filled next. Each term is a product of z's and
nothing is subtracted: unlike inclusion–exclusion over power sums this loses no digits where n is close to k, nor where
one element outweighs all others. The slopes come from the same recursion run backwards, E[S] for the elements that are
still to come and the positions outside S,

    ∂/∂z_j[i] = Σ_{S∌j} D_before[S] · E_after[S∪j]

with D kept every few elements and recomputed between, never undone by subtraction. All sums are in float64.

Cost: n·k·2^(k−1) products (increasing: n·k) of 8 columns at once, four times that with slopes; memory, for one block
of 8 columns, 2·2^k·√n vectors.
"""

import numpy as np

from janossy.kernels.cpu.compiled import Kernel, kernel_maker
from janossy.kernels.cpu.vector import inlined, load, load_first_float64, store, store_first_float64
from janossy.kernels.limits import LANES

_LANES = LANES["float64"]


def product_means(
    z: np.ndarray, offsets: np.ndarray, increasing: bool, with_slopes: bool, num_threads: int
) -> tuple[np.ndarray, np.ndarray]:
    """The mean over k-tuples of Π_j z_j[i_j], with its slopes by z, or (0,).

    The tuples of a set of n < k elements are those of all n, at the first n positions; an empty set's mean is 1.

    Shapes: z (N, k, R), offsets (B + 1,) -> means (B, R), slopes (N, k, R)
    """
    z, offsets = np.ascontiguousarray(z), np.ascontiguousarray(offsets, np.int64)
    k, num_columns = z.shape[1:]
    means = np.empty((len(offsets) - 1, num_columns), z.dtype)
    slopes = np.empty(z.shape if with_slopes else (0, k, num_columns), z.dtype)
    steps_per_element = k if increasing else k << (k - 1)
    num_blocks = -(-num_columns // _LANES)

    def costs() -> np.ndarray:
        return np.repeat((np.diff(offsets) * steps_per_element + k) * float(_LANES), num_blocks)

    kernel = _kernel(k, increasing and k > 1)  # single elements are increasing and injective
    kernel(len(means) * num_blocks, costs, num_threads, z, offsets, with_slopes, means, slopes)
    return means, slopes if with_slopes else slopes.reshape(-1)


# States: a bit set of the filled positions or, increasing, their number.


@inlined
def _filled(s, j, increasing):
    """Returns True if position j may have been the last to be filled in state s."""
    return j == s - 1 if increasing else s >> j & 1 == 1


@inlined
def _free(s, j, increasing):
    """Returns True if position j may be filled next in state s."""
    return j == s if increasing else s >> j & 1 == 0


@inlined
def _without(s, j, increasing):
    return s - 1 if increasing else s ^ (1 << j)


@inlined
def _with(s, j, increasing):
    return s + 1 if increasing else s ^ (1 << j)


@inlined
def _read(z, at, num_columns, width, num, k, scale, x):
    """z_j · scale of one element, and 0 for positions that no element fills."""
    for j in range(k):
        y = load_first_float64(z, at + j * num_columns, width if j < num else 0)
        store(x, j * _LANES, y * scale)


@inlined
def _advance(x, D, source, target, k, increasing, num_states):
    """One element's step of D, from one row of states to another or in place."""
    for s in range(num_states - 1, 0, -1):
        total = load(D, (source + s) * _LANES)
        for j in range(k):
            if _filled(s, j, increasing):
                total = total + load(x, j * _LANES) * load(D, (source + _without(s, j, increasing)) * _LANES)
        store(D, (target + s) * _LANES, total)
    store(D, target * _LANES, load(D, source * _LANES))


@inlined
def _retreat(x, E, k, increasing, num_states):
    """One element's step of E."""
    for s in range(num_states - 1):
        total = load(E, s * _LANES)
        for j in range(k):
            if _free(s, j, increasing):
                total = total + load(x, j * _LANES) * load(E, _with(s, j, increasing) * _LANES)
        store(E, s * _LANES, total)


@inlined
def _copy(source, at, target, there, num_states):
    for s in range(num_states):
        store(target, (there + s) * _LANES, load(source, (at + s) * _LANES))


@kernel_maker
def _kernel(k, increasing):
    """(z, offsets, with_slopes, means, slopes, first, last) over items (set, 8 columns)."""
    num_states = k + 1 if increasing else 1 << k

    def products(z, offsets, with_slopes, means, slopes, first, last):
        num_columns = z.shape[2]
        num_blocks = (num_columns + _LANES - 1) // _LANES
        longest = 0
        for b in range(first // num_blocks, (last - 1) // num_blocks + 1):
            longest = max(longest, offsets[b + 1] - offsets[b])
        chunk = max(32, int(np.sqrt(longest)))
        x = np.zeros(k * _LANES)
        rows = np.zeros((chunk + 1) * num_states * _LANES)  # D before each element of a chunk and after the last
        kept = np.zeros((longest // chunk + 1 if with_slopes else 0) * num_states * _LANES)  # D before each chunk
        E = np.zeros(num_states * _LANES)
        zero = load(E, 0)

        for item in range(first, last):
            b, column = item // num_blocks, item % num_blocks * _LANES
            width = min(_LANES, num_columns - column)
            start, n = offsets[b], offsets[b + 1] - offsets[b]
            num = min(n, k)
            full = num if increasing else (1 << num) - 1
            scale = 1.0  # a power of two about 1/n keeps D in range and rounds nothing
            while scale * n > 1.0:
                scale *= 0.5
            num_tuples = 1.0  # times scale^num
            for j in range(num):
                num_tuples *= (n - j) * scale
            if increasing:
                for j in range(num):
                    num_tuples /= j + 1
            for s in range(num_states):
                store(rows, s * _LANES, zero)
            store(rows, 0, zero + 1.0)
            num_chunks = max(1, (n + chunk - 1) // chunk)
            for c in range(num_chunks - 1):
                if with_slopes:
                    _copy(rows, 0, kept, c * num_states, num_states)
                for i in range(start + c * chunk, start + (c + 1) * chunk):
                    _read(z, i * k * num_columns + column, num_columns, width, num, k, scale, x)
                    _advance(x, rows, 0, 0, k, increasing, num_states)
            mean = zero
            for c in range(num_chunks - 1, -1, -1):
                begin, end = start + c * chunk, start + min(n, (c + 1) * chunk)
                if c < num_chunks - 1:
                    _copy(kept, c * num_states, rows, 0, num_states)
                for i in range(begin, end):
                    row = (i - begin) * num_states
                    _read(z, i * k * num_columns + column, num_columns, width, num, k, scale, x)
                    _advance(x, rows, row, row + num_states, k, increasing, num_states)
                if c == num_chunks - 1:
                    mean = load(rows, ((end - begin) * num_states + full) * _LANES) / num_tuples
                    store_first_float64(means, b * num_columns + column, mean, width)
                    if not with_slopes:
                        break
                    for s in range(num_states):
                        store(E, s * _LANES, zero)
                    store(E, full * _LANES, zero + scale / num_tuples)
                for i in range(end - 1, begin - 1, -1):
                    row = (i - begin) * num_states
                    _read(z, i * k * num_columns + column, num_columns, width, num, k, scale, x)
                    for j in range(k):
                        total = zero
                        for s in range(num_states):
                            if _free(s, j, increasing):
                                y = load(E, _with(s, j, increasing) * _LANES)
                                total = total + load(rows, (row + s) * _LANES) * y
                        y = total if j < num else zero
                        store_first_float64(slopes, (i * k + j) * num_columns + column, y, width)
                    _retreat(x, E, k, increasing, num_states)

    return Kernel(products, f"products_{k}_increasing" if increasing else f"products_{k}")
