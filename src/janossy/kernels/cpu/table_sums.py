"""The gradient by a table's rows, from slopes by elements that are looked up in it: one pass, nothing written between.

One item is a position and a block of as many hidden units as a vector has lanes: no two items add to one number.
"""

from functools import cache

import numpy as np

from janossy.kernels.cpu.compiled import Kernel
from janossy.kernels.cpu.vector import LANES, load, load_first, num_lanes, store, store_first

ADDING = 0.25
"""Activations that take as long as one element's product and sum: most of it is the way from memory."""


def table_sums(
    slopes: np.ndarray, factors: np.ndarray, offsets: np.ndarray, places: np.ndarray, num_rows: int, num_threads: int
) -> np.ndarray:
    """Σ over the elements at each row's places of their slopes times the factors of their set.

    Shapes: slopes (N, k, H), factors (B, H), in one precision; offsets (B + 1,), places (N,) -> (num_rows, k, H)
    """
    slopes, factors = np.ascontiguousarray(slopes), np.ascontiguousarray(factors)
    N, k, H = slopes.shape
    out = np.zeros((num_rows, k, H), slopes.dtype)
    if N and H:
        lanes = LANES[slopes.dtype.name]
        costs = np.full(k * -(-H // lanes), ADDING * lanes * (N + num_rows))
        arguments = slopes, factors, np.ascontiguousarray(offsets), np.ascontiguousarray(places), out
        _kernel()(costs, num_threads, *arguments)
    return out


@cache
def _kernel() -> Kernel:
    def sums(slopes, factors, offsets, places, out, first, last):
        k, H, lanes = slopes.shape[1], slopes.shape[2], num_lanes(slopes)
        num_blocks = (H + lanes - 1) // lanes
        totals = np.empty(len(out) * lanes, slopes.dtype)
        for item in range(first, last):
            j, h = item // num_blocks, (item % num_blocks) * lanes
            width = min(lanes, H - h)
            totals[:] = 0
            for b in range(len(factors)):
                factor = load_first(factors, b * H + h, width)
                for i in range(offsets[b], offsets[b + 1]):
                    at = places[i] * lanes
                    slope = load_first(slopes, (i * k + j) * H + h, width)
                    store(totals, at, load(totals, at) + slope * factor)
            for row in range(len(out)):
                store_first(out, (row * k + j) * H + h, load(totals, row * lanes), width)

    return Kernel(sums, "table_sums")
