"""When means over tuples of tanh, or of the logistic function, are made of products of exponentials."""

import torch
from torch import Tensor

from janossy.evaluate.on_kernels import on_threads

LOGISTIC = {"tanh": 2.0, "sigmoid": 1.0}
"""s of the activations that are 1 − s/(1 + e^{sp})."""

MAX_ELEMENTS = 24
"""The largest sets whose tuples the kernel adds up in the working precision."""

FAR = {torch.float32: 40.0, torch.float64: 300.0}
"""The exponents up to which it may multiply two of its products, and stay below the largest number."""


def logistic_means(
    p: Tensor,
    places: Tensor | None,
    offsets: Tensor,
    sizes: tuple[int, int],
    increasing: bool,
    activation: str,
    with_slopes: bool,
) -> tuple[Tensor, Tensor] | None:
    """Computes what ``TUPLE_MEANS.kernel`` does for ``in_place(p, places)``, (means, slopes); or returns None.

    That is where sets are not small, or an exponent so large that a product might overflow. ``sizes``: the least and
    the largest set's. The slopes' last axis is filled up to whole vectors.
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
