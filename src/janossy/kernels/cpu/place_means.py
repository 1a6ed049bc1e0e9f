"""Means of rows that sets look up, for several networks at once.

Networks have sets and rows of their own, so they are what threads share.
"""

from functools import partial

import numpy as np

from janossy.kernels.cpu.compiled import Kernel, kernel_maker
from janossy.kernels.cpu.vector import (
    FLUSH,
    HALF,
    add_to_float64,
    inlined,
    load,
    load_first,
    num_lanes,
    store_first,
    store_first_float64,
)


def means_by_place(
    x: np.ndarray, places: np.ndarray, offsets: np.ndarray, num_networks: int, num_threads: int
) -> np.ndarray:
    """The mean of the rows x[places] of each set, 0 of an empty one.

    Shapes: x (U, H), places (N,), offsets (B + 1,) -> (B, H).
    """
    H, num_sets = x.shape[1], len(offsets) - 1
    out = np.empty((num_sets, H), x.dtype)
    costs = partial(np.full, num_networks, 0.1 * len(places) * H / num_networks)
    arguments = x.reshape(-1), places, offsets, H, num_sets // num_networks, out.reshape(-1)
    _means()(num_networks, costs, num_threads, *arguments)
    return out


@inlined
def _sum(x, places, begin, end, H, v, width, zero):
    """The sum of the rows at these places, at the units from v on."""
    total = zero
    for i in range(begin, end):
        total = total + load_first(x, places[i] * H + v, width)
    return total


@kernel_maker
def _means() -> Kernel:
    def means(x, places, offsets, H, num_sets, out, first, last):
        lanes = num_lanes(x)
        total, scratch = np.zeros(lanes), np.zeros(lanes, x.dtype)
        zero = load(scratch, 0)
        for b in range(first * num_sets, last * num_sets):
            share = 1.0 / max(1, offsets[b + 1] - offsets[b])
            for v in range(0, H, lanes):
                begin, end, width = offsets[b], offsets[b + 1], min(lanes, H - v)
                if end - begin <= FLUSH:
                    store_first(out, b * H + v, _sum(x, places, begin, end, H, v, width, zero) * share, width)
                    continue
                total[:] = 0.0
                for at in range(begin, end, FLUSH):
                    part = _sum(x, places, at, min(end, at + FLUSH), H, v, width, zero)
                    add_to_float64(total, 0, part, scratch)
                for half in range(0, width, HALF):
                    y = load(total, half) * share
                    store_first_float64(out, b * H + v + half, y, min(HALF, width - half))

    return Kernel(means, "means_by_place")
