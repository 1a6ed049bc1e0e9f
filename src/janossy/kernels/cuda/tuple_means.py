"""Means over all k-tuples of σ(p_1[i_1] + … + p_k[i_k]) on a CUDA device, by enumeration, with their slopes.

How many sets there are, how large on average, and how wide, is known without asking the device: nothing here waits for
it.
"""

import torch
import triton
from torch import Tensor

from janossy.kernels.cuda.activations import PERIODIC, within_a_turn
from janossy.kernels.cuda.device import on_device_of, programs_wanted, zeros
from janossy.kernels.cuda.tuple_sums import OPTIONS, WIDTH, tuple_means_of_sums, tuple_sums

MAX_BYTES_OF_SPLITS = 2**26
"""Bytes that the sums of the programs that share a set may take beside the arrays of a batch."""


def tuple_means(
    p: Tensor,
    offsets: Tensor,
    increasing: bool,
    activation: str,
    with_slopes: bool,
    wanted: Tensor | None = None,
    out: Tensor | None = None,
    slopes: Tensor | None = None,
    turned: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The mean of σ(Σ_j p_j[i_j]) over the tuples of each set, and its slopes by every p.

    The tuples are all injective ones, or those with i_1 < … < i_k; in a set of n < k elements, the orderings (or the
    increasing choice) of all n, and the later positions add nothing. An empty set gives 0. Only the ``wanted`` sets,
    (B,) of bool, are computed, if given, and only their rows of ``out`` and ``slopes`` are written; what
    is not given is made, and means nothing in other sets' rows. ``turned``: p within a turn, where that is known.

    Shapes: p (N, k, H), k from 1 to 4, float32 or bfloat16; offsets (B + 1,) -> out (B, H), slopes (N, k, H), or (0,)
        if not wanted, of p's dtype. Memory: beside p and slopes an array of slopes' shape in float32 (two for
        bfloat16; for sine and cosine one more), and at most 64 MiB where several programs share each set.
    """
    (N, k, H), B = p.shape, len(offsets) - 1
    x = (within_a_turn(p) if turned is None else turned) if activation in PERIODIC else p
    out = p.new_zeros(B, H) if out is None else out
    to_be_kept = wanted is not None and slopes is not None
    if not with_slopes:
        slopes = p.new_empty(0)
    elif slopes is None:
        slopes = torch.empty_like(p)
    if B == 0 or H == 0:
        return out, slopes
    num_blocks = triton.cdiv(H, WIDTH)
    num_splits = splits(p, B * num_blocks, with_slopes)
    sums = zeros(p, num_splits, B, H)
    high = low = sums
    if with_slopes:
        alone = num_splits == 1 and p.dtype == torch.float32 and not to_be_kept
        low = zeros(p, num_splits, N, k, H)
        high = slopes.zero_() if alone else torch.zeros_like(low)
    chosen = offsets if wanted is None else wanted
    constants = {"K": k, "INCREASING": increasing, "SLOPES": with_slopes, "SOME": wanted is not None, **OPTIONS}
    with on_device_of(p):
        tuple_sums[(B * num_splits * num_blocks,)](
            x, offsets, chosen, sums, high, low, B, N, H, num_splits, ACTIVATION=activation, **constants
        )
        columns = k * H if with_slopes else H
        tuple_means_of_sums[(B * num_splits * triton.cdiv(columns, 4 * WIDTH),)](
            offsets, chosen, sums, high, low, out, slopes, B, N, H, num_splits, num_splits, **constants
        )
    return out, slopes


def splits(p: Tensor, num_programs: int, with_slopes: bool) -> int:
    """Counts the programs that share a set: enough for the device to be busy, and no more than there is memory for."""
    N, k, H = p.shape
    fit = MAX_BYTES_OF_SPLITS // (8 * N * k * H) if with_slopes and N > 0 else N
    return max(1, min(-(-programs_wanted(p) // num_programs), fit, N))
