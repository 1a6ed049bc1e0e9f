"""Means of rows that sets look up, and gradients put back where they were looked up, for several networks at once.

Networks have sets and rows of their own, so they are what threads share.
"""

from functools import cache

import numpy as np

from janossy.kernels.cpu.compiled import Kernel
from janossy.kernels.cpu.vector import load, load_first, num_lanes, store, store_first
from janossy.kernels.limits import LANES


def means_by_place(
    x: np.ndarray, places: np.ndarray, offsets: np.ndarray, num_networks: int, num_threads: int
) -> np.ndarray:
    """The mean of the rows x[places] of each set, 0 of an empty one.

    Shapes: x (U, H), places (N,), offsets (B + 1,) -> (B, H).
    """
    H, num_sets = x.shape[1], len(offsets) - 1
    out = np.empty((num_sets, H), x.dtype)
    costs = np.full(num_networks, 0.1 * len(places) * H / num_networks)
    _means()(costs, num_threads, x.reshape(-1), places, offsets, H, num_sets // num_networks, out.reshape(-1))
    return out


def add_by_place(
    slopes: np.ndarray,
    gradient: np.ndarray,
    places: np.ndarray,
    offsets: np.ndarray,
    num_rows: int,
    num_networks: int,
    num_threads: int,
) -> np.ndarray:
    """For each row the sum, over where it is looked up, of the slopes there times their set's gradient.

    Shapes: slopes (N, k, H filled up to whole vectors), or (0,) for k = 1 and those of a mean, 1/n; gradient (B, H) ->
        (num_rows, k, H).
    """
    H, num_sets = gradient.shape[1], len(offsets) - 1
    k = slopes.shape[1] if slopes.ndim == 3 else 1
    out = np.zeros((num_rows, k, H - H % -LANES[gradient.dtype.name]), gradient.dtype)
    costs = np.full(num_networks, 0.1 * len(places) * k * H / num_networks)
    arrays = (slopes.reshape(-1), gradient.reshape(-1), places, offsets, k, H, num_sets // num_networks)
    _sums(slopes.ndim == 3)(costs, num_threads, *arrays, out.reshape(-1))
    return out[..., :H]


@cache
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


@cache
def _sums(by_slopes: bool) -> Kernel:
    def sums(slopes, gradient, places, offsets, k, H, num_sets, out, first, last):
        lanes = num_lanes(gradient)
        filled = (H + lanes - 1) // lanes * lanes  # a row of out; one of slopes is as long
        change = np.zeros(filled, gradient.dtype)
        for b in range(first * num_sets, last * num_sets):
            share = 1.0 if by_slopes else 1.0 / max(1, offsets[b + 1] - offsets[b])
            for v in range(0, H, lanes):
                store(change, v, load_first(gradient, b * H + v, min(lanes, H - v)) * share)
            for i in range(offsets[b], offsets[b + 1]):
                at, slope_at = places[i] * k * filled, i * k * filled
                for j in range(0, k * filled, filled):
                    for v in range(0, filled, lanes):
                        more = load(change, v)
                        if by_slopes:
                            more = more * load(slopes, slope_at + j + v)
                        store(out, at + j + v, load(out, at + j + v) + more)

    return Kernel(sums, f"sums_by_place{'_of_slopes' if by_slopes else ''}")
