"""Means of rows that sets look up, for several networks at once.

Networks have sets and rows of their own, so they are what threads share.
"""

from functools import partial

import numpy as np

from janossy.kernels.cpu.compiled import Kernel, kernel_maker
from janossy.kernels.cpu.vector import load, load_first, num_lanes, store_first


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


@kernel_maker
def _means() -> Kernel:
    def means(x, places, offsets, H, num_sets, out, first, last):
        lanes = num_lanes(x)
        zeros = np.zeros(lanes, x.dtype)
        zero = load(zeros, 0)
        for b in range(first * num_sets, last * num_sets):
            share = 1.0 / max(1, offsets[b + 1] - offsets[b])
            for v in range(0, H, lanes):
                total, width = zero, min(lanes, H - v)
                for i in range(offsets[b], offsets[b + 1]):
                    total = total + load_first(x, places[i] * H + v, width)
                store_first(out, b * H + v, total * share, width)

    return Kernel(means, "means_by_place")
