"""The gradient by a table's rows, from slopes by elements that are looked up in it: one pass, nothing written between.

Networks have sets and rows of their own, one network's after the other's. One item is a network, a position and a block
of as many hidden units as a vector has lanes: no two items add to one number.
"""

from functools import partial

import numpy as np

from janossy.kernels.cpu.compiled import Kernel, kernel_maker
from janossy.kernels.cpu.vector import LANES, load, load_first, num_lanes, store, store_first

ADDING = 0.25
"""Activations that take as long as one element's product and sum: most of it is the way from memory."""


def table_sums(
    slopes: np.ndarray,
    factors: np.ndarray,
    offsets: np.ndarray,
    places: np.ndarray,
    num_rows: int,
    num_networks: int,
    num_threads: int,
) -> np.ndarray:
    """Σ over the elements at each row's places of their slopes times the factors of their set.

    Shapes: slopes (N, k, H or more), or (0,) for k = 1 and those of a mean, 1/n; factors (B, H), in one precision;
    offsets (B + 1,), places (N,) -> (num_rows, k, H)
    """
    slopes, factors = np.ascontiguousarray(slopes), np.ascontiguousarray(factors)
    (k, width), H, lanes = slopes.shape[1:] or (1, 0), factors.shape[1], LANES[slopes.dtype.name]
    out = np.empty((num_rows, k, H), slopes.dtype)
    num_items = num_networks * k * -(-H // lanes)
    costs = partial(np.full, num_items, ADDING * lanes * (len(places) + num_rows) / num_networks)
    arrays = slopes.reshape(-1), factors, np.ascontiguousarray(offsets), np.ascontiguousarray(places), out
    _kernel(slopes.ndim == 3)(num_items, costs, num_threads, *arrays, k, width, num_networks)
    return out


@kernel_maker
def _kernel(by_slopes: bool) -> Kernel:
    def sums(slopes, factors, offsets, places, out, k, width, num_networks, first, last):
        H, lanes = factors.shape[1], num_lanes(slopes)
        num_blocks, num_sets, num_rows = (
            (H + lanes - 1) // lanes,
            len(factors) // num_networks,
            len(out) // num_networks,
        )
        totals = np.empty(num_rows * lanes, slopes.dtype)
        for item in range(first, last):
            network, j, h = item // (k * num_blocks), item // num_blocks % k, (item % num_blocks) * lanes
            num, begin = min(lanes, H - h), network * num_rows
            totals[:] = 0
            for b in range(network * num_sets, (network + 1) * num_sets):
                share = 1.0 if by_slopes else 1.0 / max(1, offsets[b + 1] - offsets[b])
                factor = load_first(factors, b * H + h, num) * share
                for i in range(offsets[b], offsets[b + 1]):
                    at, more = (places[i] - begin) * lanes, factor
                    if by_slopes:
                        more = more * load_first(slopes, (i * k + j) * width + h, num)
                    store(totals, at, load(totals, at) + more)
            for row in range(num_rows):
                store_first(out, ((begin + row) * k + j) * H + h, load(totals, row * lanes), num)

    return Kernel(sums, f"table_sums{'_of_slopes' if by_slopes else ''}")
