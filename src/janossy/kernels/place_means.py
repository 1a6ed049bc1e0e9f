"""Means of rows that sets look up, and gradients put back where they were looked up, for several networks at once.

Networks have sets and rows of their own, so they are what threads share.
"""

from functools import cache

import numpy as np

from janossy.kernels.compiled import Kernel
from janossy.kernels.vector import load, num_lanes, store


def means_by_place(
    x: np.ndarray, places: np.ndarray, offsets: np.ndarray, num_networks: int, num_threads: int
) -> np.ndarray:
    """The mean of the rows x[places] of each set, 0 of an empty one.

    Shapes: x (U, H), H whole vectors; places (N,), offsets (B + 1,) -> (B, H).
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

    Shapes: slopes (N, k, H), or (0,) for k = 1 and those of a mean, 1/n; gradient (B, H), H whole vectors ->
        (num_rows, k, H).
    """
    H, num_sets = gradient.shape[1], len(offsets) - 1
    k = slopes.shape[1] if slopes.ndim == 3 else 1
    out = np.zeros((num_rows, k, H), gradient.dtype)
    costs = np.full(num_networks, 0.1 * len(places) * k * H / num_networks)
    arrays = (slopes.reshape(-1), gradient.reshape(-1), places, offsets, k, H, num_sets // num_networks)
    _sums(slopes.ndim == 3)(costs, num_threads, *arrays, out.reshape(-1))
    return out


@cache
def _means() -> Kernel:
    def means(x, places, offsets, H, num_sets, out, first, last):
        lanes = num_lanes(x)
        zeros = np.zeros(lanes, x.dtype)
        zero = load(zeros, 0)
        for b in range(first * num_sets, last * num_sets):
            share = 1.0 / max(1, offsets[b + 1] - offsets[b])
            for v in range(0, H, lanes):
                total = zero
                for i in range(offsets[b], offsets[b + 1]):
                    total = total + load(x, places[i] * H + v)
                store(out, b * H + v, total * share)

    return Kernel(means, "means_by_place")


@cache
def _sums(by_slopes: bool) -> Kernel:
    def sums(slopes, gradient, places, offsets, k, H, num_sets, out, first, last):
        lanes = num_lanes(gradient)
        for b in range(first * num_sets, last * num_sets):
            share = 1.0 / max(1, offsets[b + 1] - offsets[b])
            for v in range(0, H, lanes):
                change = load(gradient, b * H + v)
                if not by_slopes:
                    change = change * share
                for i in range(offsets[b], offsets[b + 1]):
                    for j in range(k):
                        at = (places[i] * k + j) * H + v
                        if by_slopes:
                            store(out, at, load(out, at) + change * load(slopes, (i * k + j) * H + v))
                        else:
                            store(out, at, load(out, at) + change)

    return Kernel(sums, f"sums_by_place{'_of_slopes' if by_slopes else ''}")
