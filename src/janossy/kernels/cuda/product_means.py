"""Means over all k-tuples of Π_j z_j[i_j] on a CUDA device, with their slopes."""

import torch
import triton
from torch import Tensor

from janossy.kernels.cuda.device import empty, on_device_of, programs_wanted
from janossy.kernels.cuda.product_states import num_of_segment, num_states
from janossy.kernels.cuda.product_sums import CHUNK, scan, segments, slopes_of_segments
from janossy.kernels.cuda.tuple_sums import OPTIONS, WIDTH

FEWEST_ELEMENTS = 64
"""The elements of a segment on average: shorter ones would leave most of the work to the pass between."""


def product_means(z: Tensor, offsets: Tensor, increasing: bool, with_slopes: bool) -> tuple[Tensor, Tensor]:
    """The mean over k-tuples of Π_j z_j[i_j], with its slopes by z, or (0,).

    The tuples of a set of n < k elements are those of all n, at the first n positions; an empty set's mean is 1.

    Shapes: z (N, k, H), k from 1 to 4, float32 or bfloat16; offsets (B + 1,) -> means (B, H), slopes (N, k, H), of z's
        dtype. Memory: beside z and slopes up to 2^k/8 numbers for each of an element, and a few times 2^k for each set.
    """
    (N, k, H), B = z.shape, len(offsets) - 1
    means = z.new_empty(B, H)
    slopes = torch.empty_like(z) if with_slopes else z.new_empty(0)
    if B == 0 or H == 0:
        return means, slopes
    num_blocks = triton.cdiv(H, WIDTH)
    num_splits = max(1, min(-(-programs_wanted(z) // (B * num_blocks)), N // FEWEST_ELEMENTS))
    states = num_states(k, increasing)
    sums = empty(z, num_splits, B, num_blocks, num_of_segment(k, increasing), WIDTH)
    shape = num_splits, B, num_blocks, states, WIDTH
    prefixes, suffixes = (empty(z, *shape) for _ in range(2)) if with_slopes else (sums, sums)
    constants = {"K": k, "INCREASING": increasing, **OPTIONS}
    with on_device_of(z):
        segments[(B * num_blocks * num_splits,)](z, offsets, sums, B, H, num_splits, **constants)
        scan[(B * num_blocks,)](
            offsets, sums, prefixes, suffixes, means, B, H, num_splits, SLOPES=with_slopes, **constants
        )
        if with_slopes:
            kept = empty(z, N // CHUNK + num_splits * B, num_blocks, states, WIDTH)
            slopes_of_segments[(B * num_blocks * num_splits,)](
                z, offsets, prefixes, suffixes, kept, slopes, B, N, H, num_splits, **constants
            )
    return means, slopes
