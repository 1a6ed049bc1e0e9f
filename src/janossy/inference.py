"""predict: the mean over permutations of link(ρ∘f), and its standard error (Remark 2.2)."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from janossy.network import JanossyNetwork
from janossy.orderings import Sampled
from janossy.ragged import Ragged

LINKS: dict[str | None, Callable[[Tensor], Tensor]] = {
    None: lambda outputs: outputs,
    "sigmoid": torch.sigmoid,
    "softmax": lambda outputs: outputs.softmax(-1),
}


@dataclass(frozen=True)
class Prediction:
    """The result of ``predict``.

    Shapes: mean and standard_error (B, out); outputs (B, num_permutations, out), or (B, 1, out) if none are sampled.

    ``standard_error`` is that of the mean, over the draw of the permutations: NaN after one permutation, zero for a
    network that samples none (``num_permutations`` is then 0). ``outputs``, if asked for, are those averaged.
    """

    mean: Tensor
    standard_error: Tensor
    num_permutations: int
    outputs: Tensor | None = None


@torch.no_grad()
def predict(
    network: JanossyNetwork,
    sets: Ragged,
    num_permutations: int = 20,
    *,
    link: str | Callable[[Tensor], Tensor] | None = None,
    seed: int | None = None,
    generator: torch.Generator | None = None,
    keep_outputs: bool = False,
) -> Prediction:
    """ŷ(x) = E_π[link(ρ(f(h(x)_π)))], estimated by num_permutations permutations of each set (Eq. 11, Remark 2.2).

    For a network whose orderings are ``Sampled``. h is computed once, and all permutations in one call. Under exact
    orderings the result is link(network(sets)). The network is in evaluation mode meanwhile.

    Args:
        link: applied to each permutation's output before averaging: "softmax" or "sigmoid" for a classifier that
            returns logits, any function (·, out) -> (·, out'), or None.
        seed: for a deterministic, exactly permutation-invariant prediction; fixes the permutations.
        generator: the source of the permutations, otherwise.
        keep_outputs: also return what was averaged.

    Shapes: sets.values (N, *features) -> mean (B, out).
    Invariance: unbiased for the mean over all permutations; exact with a seed.
    Raises: ValueError if num_permutations < 1, for an unknown link, or for reduce=None with exact orderings.
    """
    if num_permutations < 1:
        raise ValueError(f"predict expects num_permutations >= 1; got {num_permutations}.")
    if isinstance(link, str) and link not in LINKS:
        raise ValueError(f"predict expects a link among {', '.join(map(repr, LINKS))} or a function; got {link!r}.")
    linked = link if callable(link) else LINKS[link]
    training = {module: module.training for module in network.modules()}
    network.eval()
    try:
        orderings = network.pooling.orderings
        if not isinstance(orderings, Sampled):
            if network.pooling.reduce is None:
                raise ValueError("predict expects a pooling with one vector a set; got reduce=None. Choose a reduce.")
            mean = linked(network(sets))
            return Prediction(mean, torch.zeros_like(mean), 0, mean[:, None] if keep_outputs else None)
        sampled = replace(orderings, num=num_permutations, seed=orderings.seed if seed is None else seed)
        outputs = linked(network.rows(sets, orderings=sampled, generator=generator).values)
    finally:
        for module, was_training in training.items():
            module.training = was_training
    outputs = outputs.unflatten(0, (len(sets), num_permutations))
    mean = outputs.mean(1)
    spread = outputs.std(1) if num_permutations > 1 else torch.full_like(mean, torch.nan)
    kept = outputs if keep_outputs else None
    return Prediction(mean, spread / num_permutations**0.5, num_permutations, kept)
