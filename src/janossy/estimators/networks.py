"""Networks of estimators: a JanossyNetwork, or any other module that maps sets to outputs."""

from collections.abc import Iterator
from inspect import signature
from typing import Any, TypeGuard, cast

import torch
from torch import Tensor, nn

from janossy.inference import Link, Prediction, predict
from janossy.inference.models import drawing_beside_pooling
from janossy.inference.prediction import exact, of_groups
from janossy.kernels.compilation import hurrying
from janossy.nn import InnerSets, SetEncoder
from janossy.nn.modes import evaluating
from janossy.nn.network import JanossyNetwork, check_network
from janossy.nn.readout import Readout
from janossy.nn.statistics import StatisticsNetwork
from janossy.orderings.contract import Orderings, as_random
from janossy.sets import Ragged
from janossy.sets.transfer import upload

BLOCKS = 5
"""The number of independent blocks of permutations from which an error bar is computed."""

MAX_SETS, MAX_ELEMENTS = 4096, 1_000_000
"""The most sets, and the most elements, whose samples are kept at once."""

SEED = 0
"""The default seed of permutations, always the same: a set's prediction then depends on the set alone."""


def check_set_network(network: object, owner: str) -> None:
    """Raises a TypeError unless the network is a JanossyNetwork, or a module with the same call.

    The call is network(sets, context=…, generator=…) -> (B, out). The arguments are a ``Ragged``, the sets' own columns
    (B, e) or None, and the source of random numbers in training.

    Raises: ValueError for a JanossyNetwork that ``predict_by`` cannot predict with.
    """
    if isinstance(network, JanossyNetwork):
        _check_draws_by_seed(network, owner)
        return
    if isinstance(network, nn.Module):
        try:
            signature(network.forward).bind(None, context=None, generator=None)
        except TypeError:
            pass
        else:
            return
    check_network(network, owner)


def _check_draws_by_seed(network: JanossyNetwork, owner: str) -> None:
    """Raises a ValueError unless training can draw anew, and a seed fixes all that a prediction samples."""
    in_training = as_random(network.pooling.orderings_train or network.pooling.orderings, owner)
    if in_training is not None and in_training.seed is not None:
        raise ValueError(
            f"{owner} expects orderings without a seed, as training draws anew at every step; got {in_training}. Leave "
            "the seed out. The fit's random state then decides what training draws; predictions repeat anyway."
        )
    drawn = as_random(network.pooling.orderings.in_prediction(), owner)
    if drawn is not None and not _takes_seed(drawn):
        raise ValueError(
            f"{owner} expects a network whose orderings take a seed, as a prediction is of the set alone; got {drawn}. "
            "Use Sampled or Distinct, or these as orderings_train beside Tuples or AllPermutations."
        )
    if beside := drawing_beside_pooling(network):
        name, orderings = next(iter(beside.items()))
        raise ValueError(
            f"{owner} expects a network in which only the pooling draws in evaluation; got {orderings} in {name}. "
            "Give that layer fixed_in_eval=True, a seed, Tuples or AllPermutations."
        )


def _takes_seed(orderings: Orderings) -> bool:
    drawn = as_random(orderings, "predict_by")
    try:
        return drawn is None or bool(drawn.redrawn(drawn.num_permutations, seed=SEED))
    except ValueError:
        return False


def draws(network: nn.Module) -> TypeGuard[JanossyNetwork]:
    """Returns True if a prediction averages over sampled permutations."""
    return (
        isinstance(network, JanossyNetwork)
        and as_random(network.pooling.orderings.in_prediction(), "draws") is not None
    )


def draws_single_orders(network: nn.Module) -> bool:
    """Returns True if each sample of a prediction is a single permutation, not a group of several."""
    if not isinstance(network, JanossyNetwork):
        return False
    drawn = as_random(network.pooling.orderings.in_prediction(), "draws")
    return drawn is not None and drawn.num_permutations == 1


def drawn_in_training(network: nn.Module) -> Orderings | None:
    """Returns the orderings that training samples from if a prediction takes all orders; else None."""
    return network.pooling.orderings_train if isinstance(network, JanossyNetwork) else None


def outputs_in_training(
    network: nn.Module, sets: Ragged, context: Tensor | None, generator: torch.Generator | None
) -> Tensor:
    """Returns the outputs (B, out) of a training step, or of the validation after an epoch.

    All pairs of large sets after every epoch would take longer than training. Validation therefore uses the samples of
    training, the same ones after every epoch.
    """
    drawn = drawn_in_training(network)
    if network.training or drawn is None:
        return cast(Tensor, network(sets, context=context, generator=generator))
    return cast(Tensor, network(sets, drawn, context=context, generator=torch.Generator(sets.device).manual_seed(0)))


def is_compiling(network: nn.Module, sets: Ragged, context: Tensor | None) -> bool:
    """Returns True if a step on these sets needs a kernel that another process still compiles, begun here if need be.

    The step is done in torch operations then.
    """
    with hurrying() as missed:
        outputs_in_training(
            network.train(), sets, context, torch.Generator(sets.device).manual_seed(0)
        ).sum().backward()
        return missed()


@torch.no_grad()
def exact_outputs(network: nn.Module, sets: Ragged, context: Tensor | None) -> Tensor:
    """Returns the outputs (B, out), in evaluation mode, of a network that samples nothing."""
    with evaluating(network):
        return cast(Tensor, network(sets, context=context, generator=None))


def orderings_for(network: JanossyNetwork, n: int) -> Orderings:
    """Returns the orderings that a prediction of a set of n elements averages over.

    If the network's own orderings need more rows than max_rows, they are those of training, if these take a seed. A
    network that has learnt from smaller sets can then predict larger ones.
    """
    orderings, drawn = network.pooling.orderings.in_prediction(), network.pooling.orderings_train
    if drawn is None or orderings.num_rows(n) <= orderings.max_rows or not _takes_seed(drawn):
        return orderings
    return drawn


def predict_by(
    network: nn.Module,
    sets: Ragged,
    context: Tensor | None,
    link: Link | None,
    num_permutations: int,
    *,
    seed: int = SEED,
) -> Prediction:
    """Predicts the sets of one of ``steps`` by one network, and keeps the outputs of each sample.

    Large sets may be sampled even if small sets use all orders (``orderings_for``). Sampled permutations form at least
    ``BLOCKS`` blocks.
    """
    if not isinstance(network, JanossyNetwork):
        outputs = exact_outputs(network, sets, context)
        return exact(outputs if link is None else link(outputs), keep_outputs=True)
    sizes_by: list[tuple[Orderings, set[int]]] = []
    for n in set(sets.sizes) or {0}:
        orderings = orderings_for(network, n)
        same = next((sizes for other, sizes in sizes_by if other == orderings), None)
        if same is None:
            sizes_by.append((orderings, same := set()))
        same.add(n)
    parts, groups = [], []
    for orderings, sizes in sizes_by:
        numbers = torch.tensor([b for b, n in enumerate(sets.sizes) if n in sizes], dtype=torch.long)
        num, block = num_permutations, None
        drawn = as_random(orderings, "predict")
        if drawn is not None and drawn.num_permutations == 1:
            block = None if drawn.block == 1 else max(1, num // BLOCKS)  # such as Distinct, which takes no other
        elif drawn is not None:
            num = max(num, BLOCKS * drawn.num_permutations)
        some, of_some = sets, context
        if len(numbers) < len(sets):
            some, of_some = sets[numbers], None if context is None else context[upload(numbers, context.device)]
        options: dict[str, Any] = {"context": of_some, "link": link, "block": block, "keep_outputs": True}
        parts.append(predict(network, some, num, orderings=orderings, seed=seed, **options))
        groups.append(numbers)
    return of_groups(parts, groups)


def pooled_by(network: nn.Module, sets: Ragged, context: Tensor | None, num_permutations: int) -> Tensor:
    """Returns the vector of each set, (B, c), that is read out.

    For a JanossyNetwork it is the pooled vector, normalised, without the context. For a classical learner it is the
    statistics. Raises: TypeError for another module.
    """
    if isinstance(network, StatisticsNetwork):
        return cast(Tensor, network.statistics(sets, context)).float()
    check_network(network, "transform")
    assert isinstance(network, JanossyNetwork)
    first = network.rho.first if isinstance(network.rho, Readout) else None
    pooled = JanossyNetwork(network.h, network.pooling, first, encoder=network.encoder)
    pooled.training = False  # only on the wrapper: other threads may use the parts
    parts = [predict_by(pooled, sets[some], None, None, num_permutations) for some in steps(sets)]
    return torch.cat([part.mean for part in parts])


def steps(sets: Ragged) -> Iterator[slice]:
    """Yields slices of sets whose samples are kept at once."""
    begin, num_elements = 0, 0
    for b, n in enumerate(sets.sizes):
        num_elements += n
        if b > begin and (b - begin >= MAX_SETS or num_elements > MAX_ELEMENTS):
            yield slice(begin, b)
            begin, num_elements = b, n
    yield slice(begin, len(sets))


def seconds_of(network: nn.Module, sets: Ragged, orderings: Orderings | None = None) -> float:
    """Returns the estimated seconds of a step in the network's mode, by its own or other orderings.

    The estimate is 0 for other modules. Raises: ValueError if the evaluator refuses because there are too many rows.
    """
    if isinstance(network, JanossyNetwork):
        return network.seconds(sets, orderings)
    return 0.0


def explained(network: nn.Module, sets: Ragged) -> str:
    """Returns the text of ``JanossyNetwork.explain``, for sets of sets of both levels, or another module's parts."""
    if not isinstance(network, JanossyNetwork):
        return str(network)
    layer = inner_layer(network)
    if layer is None or not isinstance(layer.inner, JanossyNetwork):
        return network.explain(sets)
    return f"inner sets: {layer.inner.explain(layer.split(sets)[0])}\n{network.explain(sets)}"


def inner_layer(network: JanossyNetwork) -> InnerSets | None:
    """Returns the layer that pools the inner sets of sets of sets; None without such a layer."""
    encoder = network.encoder
    first = encoder.layers[0] if isinstance(encoder, SetEncoder) else encoder
    return first if isinstance(first, InnerSets) else None
