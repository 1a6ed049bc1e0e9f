"""What estimators train: a JanossyNetwork, or any other module that maps sets to outputs."""

from inspect import signature
from typing import TypeGuard

import torch
from torch import Tensor, nn

from janossy.nn.modes import evaluating
from janossy.nn.network import JanossyNetwork, check_network
from janossy.orderings.contract import Orderings, as_random
from janossy.sets import Ragged


def check_set_network(network: object, owner: str) -> None:
    """Raise a TypeError unless it is a JanossyNetwork, or a module that is called as one.

    That is network(sets, context=…, generator=…) -> (B, out): of a ``Ragged``, the sets' own columns (B, e) or None,
    and the source of the random numbers of training.
    """
    if isinstance(network, nn.Module):
        try:
            signature(network.forward).bind(None, context=None, generator=None)
        except TypeError:
            pass
        else:
            return
    check_network(network, owner)


def draws(network: nn.Module) -> TypeGuard[JanossyNetwork]:
    """Whether a prediction averages over permutations that are drawn."""
    return (
        isinstance(network, JanossyNetwork)
        and as_random(network.pooling.orderings.in_prediction(), "draws") is not None
    )


def drawn_in_training(network: nn.Module) -> Orderings | None:
    """What is drawn in training, where a prediction takes all; else None."""
    return network.pooling.orderings_train if isinstance(network, JanossyNetwork) else None


def outputs_in_training(
    network: nn.Module, sets: Ragged, context: Tensor | None, generator: torch.Generator | None
) -> Tensor:
    """The outputs (B, out) of a step of training, or of one by which sets left out are judged after an epoch.

    To look at all pairs of large sets after every epoch would take longer than to train: those are judged by what is
    drawn in training, the same draws after every epoch.
    """
    drawn = drawn_in_training(network)
    if network.training or drawn is None:
        return network(sets, context=context, generator=generator)
    return network(sets, drawn, context=context, generator=torch.Generator(sets.device).manual_seed(0))


@torch.no_grad()
def exact_outputs(network: nn.Module, sets: Ragged, context: Tensor | None) -> Tensor:
    """The outputs (B, out), in evaluation, of a network that draws nothing."""
    with evaluating(network):
        return network(sets, context=context, generator=None)


def orderings_for(network: JanossyNetwork, n: int) -> Orderings:
    """What a prediction of a set of n elements averages over.

    Of more rows than the orderings take it is what training draws, if it does: who has learnt from smaller sets is to
    predict larger ones, which no set of training has told of.
    """
    orderings, drawn = network.pooling.orderings.in_prediction(), network.pooling.orderings_train
    if drawn is None or orderings.num_rows(n) <= orderings.max_rows:
        return orderings
    return drawn


def seconds_of(network: nn.Module, sets: Ragged, orderings: Orderings | None = None) -> float:
    """An estimate of the time that a step takes, in its mode and by its orderings, or others; 0 of other modules.

    Raises: ValueError where the evaluator refuses, as there are too many rows.
    """
    if isinstance(network, JanossyNetwork):
        return network.pooling.cost(network.elements(sets), orderings, keys=sets).seconds
    return 0.0


def explained(network: nn.Module, sets: Ragged) -> str:
    """What ``JanossyNetwork.explain`` says; of other modules, their parts."""
    return network.explain(sets) if isinstance(network, JanossyNetwork) else str(network)
