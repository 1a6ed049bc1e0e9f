"""The estimated time of layers from sets to sets, from the sizes of the sets and the widths."""

from torch import nn

from janossy.evaluate.cost import Cost, Rates, Work
from janossy.evaluate.gpu import rates_on
from janossy.sets import Ragged

RATES = Rates(flops_per_second=1.8e10, activations_per_second=5e8, overhead=6e-5)
"""The rates, fitted on one thread to layers of width 64 and 128, for 4 to 64 sets of 5 to 2,000 elements."""

ATTENDED = 2_000
"""The least work of attention per set and head, in activations, however small the set is."""


def seconds_of(sets: Ragged, *, flops: float = 0.0, activations: float = 0.0) -> float:
    """Returns the seconds of a forward and a backward pass; ``flops`` are those of the forward pass."""
    return Cost(flops, 0.0, activations, rates_on(sets.device, RATES)).seconds


def seconds_by_weights(module: nn.Module, sets: Ragged) -> float:
    """Returns the seconds of a module whose every weight is used once per element."""
    work, (num, width) = Work.of(module, whole_rows=True), sets.values.shape
    return seconds_of(sets, flops=float(num * work.flops(1)), activations=float(num * (work.outputs + width)))


def seconds_of_attention(sets: Ragged, pairs: int, num_heads: int) -> float:
    """Returns the seconds of scores and weighted means for ``pairs`` of queries and keys, over all heads."""
    scores = num_heads * (pairs + ATTENDED * len(sets))
    return seconds_of(sets, flops=4.0 * pairs * sets.values.shape[1], activations=float(scores))


def outline(of_none: Ragged, sizes: tuple[int, ...]) -> Ragged:
    """Returns sets of these sizes with zeros that take no memory, as wide as ``of_none``.

    ``of_none`` is a layer's result for no sets.
    """
    values = of_none.values
    return Ragged.from_sizes(values.new_zeros(1, 1).expand(sum(sizes), values.shape[1]), list(sizes))
