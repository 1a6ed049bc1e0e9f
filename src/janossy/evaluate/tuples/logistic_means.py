"""Means over tuples of tanh, or of the logistic function, as products of exponentials."""

import torch
from torch import Tensor

from janossy.evaluate.on_kernels import on_threads

LOGISTIC = {"tanh": 2.0, "sigmoid": 1.0}
"""The number s of each activation of the form 1 − s/(1 + e^{sp})."""

MAX_ELEMENTS = 24
"""The size of the largest sets whose tuples the kernel adds up in the working precision."""

FAR = {torch.float32: 40.0, torch.float64: 300.0}
"""The largest exponents, per dtype, at which the product of two products does not overflow."""


def logistic_means(
    p: Tensor,
    places: Tensor | None,
    offsets: Tensor,
    sizes: tuple[int, int],
    increasing: bool,
    activation: str,
    with_slopes: bool,
) -> tuple[Tensor, Tensor] | None:
    """Computes (means, slopes) of ``in_place(p, places)``, as ``TUPLE_MEANS.kernel`` does; or returns None.

    It returns None if sets are not small, or if an exponent is so large that a product might overflow. ``sizes`` are
    the smallest and the largest size. The last axis of the slopes is filled up to whole vectors.
    """
    k, s = p.shape[1], LOGISTIC.get(activation, 0.0)
    if s == 0 or k not in (2, 3) or sizes[0] < k or sizes[1] > MAX_ELEMENTS:
        return None
    places = torch.arange(len(p)) if places is None else places
    arrays = (x.numpy() for x in (p.contiguous(), places, offsets))
    means_and_slopes = on_threads("logistic_means", *arrays, increasing, s, FAR[p.dtype] / k, with_slopes)
    if means_and_slopes is None:
        return None
    means, slopes = means_and_slopes
    return torch.from_numpy(means), torch.from_numpy(slopes)
