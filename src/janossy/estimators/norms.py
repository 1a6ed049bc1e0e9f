"""Statistics of batch norms that keep up with weights that change fast: those of encoders."""

from collections.abc import Callable, Sequence

import torch
from torch import nn

from janossy.nn import PooledNorm, SetEncoder

RECENT = 8
"""The number of the latest batches from which statistics are computed anew."""


def norms_that_lag(network: nn.Module) -> list[PooledNorm]:
    """Returns the norms whose running statistics lag behind the weights: those of a network with an encoder.

    Networks without an encoder lag less, and were a little better with running statistics.
    """
    if not any(isinstance(part, SetEncoder) for part in network.modules()):
        return []
    return [part for part in network.modules() if isinstance(part, PooledNorm) and part.track_running_stats]


@torch.no_grad()
def renew_statistics(norms: Sequence[PooledNorm], forward: Sequence[Callable[[], object]]) -> None:
    """Computes the running statistics of norms anew.

    Running statistics average over the weights of the last steps. The pooled vectors of large sets differ little from
    set to set. A few steps may then move all of them by many standard deviations, and the network fails in evaluation.
    Statistics of some batches by the weights of now do not lag behind (Wu and Johnson, 2021, "precise BatchNorm").

    Args:
        forward: functions that each pass a batch through the norms, which are in training mode. Without any, the
            statistics stay.
    """
    if not forward:
        return
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean of all batches
    try:
        for each in forward:
            each()
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
