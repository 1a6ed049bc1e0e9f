"""Statistics of batch norms that keep up with weights that change fast: those of encoders."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from janossy.nn import PooledNorm, SetEncoder

RECENT = 8
"""The number of the latest batches from which statistics are computed anew."""

OUTRUN = 0.5
"""The distance of the latest batch from running means, in standard deviations, from which they are computed anew."""


@torch.no_grad()
def renew_statistics(network: nn.Module, forward: Sequence[Callable[[], object]]) -> bool:
    """Computes the running statistics of norms anew if weights have outrun them, and returns True if so.

    Running statistics average over the weights of the last steps. The pooled vectors of large sets differ little from
    set to set. A few steps may then move all of them by many standard deviations, and the network fails in evaluation.
    Statistics of some batches by the weights of now do not lag behind (Wu and Johnson, 2021, "precise BatchNorm").

    That is done for networks with an encoder. Others lag less, and were a little better with running statistics.

    Args:
        forward: functions that each pass a batch through the network, the latest batch first. They are called in
            training mode.
    """
    norms = [part for part in network.modules() if isinstance(part, PooledNorm) and part.track_running_stats]
    has_encoder = any(isinstance(part, SetEncoder) for part in network.modules())
    if not has_encoder or not norms or not forward:
        return False
    network.train()
    kept = [{name: each.clone() for name, each in norm.state_dict().items()} for norm in norms]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean of all batches
    try:
        forward[0]()
        is_outrun = any(_distance(norm, before) > OUTRUN for norm, before in zip(norms, kept, strict=True))
        if is_outrun:
            for each in forward[1:]:
                each()
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
    if not is_outrun:
        for norm, before in zip(norms, kept, strict=True):
            norm.load_state_dict(before)
    return is_outrun


def _distance(norm: PooledNorm, before: Mapping[str, Tensor]) -> float:
    """Returns the root mean square over features of the distance of means, in standard deviations of now."""
    assert norm.running_mean is not None and norm.running_var is not None
    return float(((norm.running_mean - before["running_mean"]).square() / (norm.running_var + norm.eps)).mean().sqrt())
