"""predict: the mean over permutations of link(ρ∘f), with its error, until it is small enough (Remark 2.2)."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from janossy.inference.draws import Control, Run, until
from janossy.inference.error_bars import check_confidence, margin
from janossy.inference.links import Link, named_link
from janossy.modes import evaluating
from janossy.network import JanossyNetwork
from janossy.orderings import ImportanceSampled, Sampled
from janossy.ragged import Ragged

BLOCKS = 5
"""Independent blocks that an error bar is made from, by default."""


@dataclass(frozen=True)
class Prediction:
    """The result of ``predict``.

    Shapes: mean, standard_error (B, out); num_permutations, num_blocks, finished (B,); change_probability (B,) or None;
    outputs (B, m, out) or None, m the most permutations of a set, NaN behind those of a set that took fewer.

    ``standard_error`` is that of the mean, over the draw of the permutations. Those that were drawn together, a block,
    depend on each other and count as one. It is NaN after a single block, and zero for a network that samples none
    (``num_permutations`` is then 0). ``finished``: which sets met the tolerance; all, without one.
    ``change_probability``, for link="softmax": about how probable it is that the mean over all permutations has another
    arg-max, by Student's t for each rival class, summed.
    """

    mean: Tensor
    standard_error: Tensor
    num_permutations: Tensor
    num_blocks: Tensor
    finished: Tensor
    change_probability: Tensor | None = None
    outputs: Tensor | None = None

    def margin(self, confidence: float = 0.95) -> Tensor:
        """Half the width of each mean's confidence interval, (B, out), by Student's t over the blocks.

        Raises: ValueError if confidence is not between 0 and 1, or if a set has a single block.
        """
        check_confidence(confidence)
        if (self.standard_error.isnan().any(1) & (self.num_blocks == 1)).any():
            raise ValueError(
                "an error bar expects at least 2 independent blocks of permutations for each set; got 1. "
                "Predict with num_permutations >= 2, and with a smaller block= if that was given."
            )
        return margin(self.standard_error, self.num_blocks, confidence)


@torch.no_grad()
def predict(
    network: JanossyNetwork,
    sets: Ragged,
    num_permutations: int = 20,
    *,
    link: str | Link | None = None,
    tolerance: float | Tensor | None = None,
    confidence: float = 0.95,
    block: int | None = None,
    control: Control | None = None,
    seed: int | None = None,
    generator: torch.Generator | None = None,
    keep_outputs: bool = False,
) -> Prediction:
    """ŷ(x) = E_π[link(ρ(f(h(x)_π)))], estimated by num_permutations permutations of each set (Eq. 11, Remark 2.2).

    For a network whose orderings are ``Sampled`` or ``ImportanceSampled``. h is computed once, and without a tolerance
    all permutations in one call. Under exact orderings the result is link(network(sets)). The network is in evaluation
    mode meanwhile.

    Args:
        num_permutations: of each set; with a tolerance, at most.
        link: applied to each permutation's output before averaging: "softmax" or "sigmoid" for a classifier that
            returns logits, any function (·, out) -> (·, out'), or None.
        tolerance: stop with a set as soon as the interval of each of its outputs is no wider than this to either side;
            a number, or one for each output. Nothing more is then computed for that set.
        confidence: that all the intervals of a set's output hold at which one looks whether to stop (Bonferroni over
            the looks, of which there are a few). ``Prediction.margin`` gives a single interval of any confidence.
        block: permutations that are drawn together and count as one for the error bar: by default a fifth of
            num_permutations, and pairs with a tolerance. Larger blocks make a better mean and a rougher error bar;
            ``block=num_permutations`` the best mean and none (docs/sampling.md).
        control: a ``ControlVariate``: subtracted from each permutation's output, and its exact mean added.
        seed: for a deterministic, exactly permutation-invariant prediction; fixes the permutations.
        generator: the source of the permutations, otherwise.
        keep_outputs: also return what was averaged.

    Shapes: sets.values (N, *features) -> mean (B, out).
    Invariance: unbiased for the mean over all permutations, whatever the scheme; exact with a seed. With a tolerance,
        how many permutations are taken depends on what they gave, so that the mean is unbiased only nearly.
    Cost: h once; f and ρ for num_permutations rows a set, or as many as the tolerance takes.
    Raises: ValueError if num_permutations < 1, or tolerance <= 0, or there is a tolerance and a set of a single block,
        if confidence is not between 0 and 1, for an unknown link, for reduce=None or a control with exact orderings, a
        seed that the orderings do not take, or both a seed and a generator.
    """
    _check(num_permutations, tolerance, confidence)
    linked = named_link(link, "predict")
    with evaluating(network):
        if not isinstance(network.pooling.orderings, Sampled | ImportanceSampled):
            return _exact(network, sets, linked, control, keep_outputs)
        orderings = _orderings(network.pooling.orderings, num_permutations, block, seed, pairs=tolerance is not None)
        run = Run(network, sets, orderings, linked, control, generator)
        if tolerance is None:
            sample = run.take(list(range(len(sets))), run.most_blocks)
            finished = torch.ones(len(sets), dtype=torch.bool, device=sets.device)
        else:
            sample, finished = until(run, tolerance, confidence)
    return Prediction(
        sample.mean,
        sample.standard_error,
        sample.num_permutations,
        sample.num_blocks,
        finished,
        sample.change_probability() if link == "softmax" else None,
        sample.padded() if keep_outputs else None,
    )


def _exact(
    network: JanossyNetwork, sets: Ragged, linked: Link, control: Control | None, keep_outputs: bool
) -> Prediction:
    """Of a network that draws nothing."""
    if network.pooling.reduce is None:
        raise ValueError("predict expects a pooling with one vector a set; got reduce=None. Choose a reduce.")
    if control is not None:
        raise ValueError(
            f"predict expects a control only where permutations are sampled; got {network.pooling.orderings}, which "
            "are exact. Leave the control out."
        )
    mean = linked(network(sets))
    none = torch.zeros(len(sets), dtype=torch.long, device=mean.device)
    return Prediction(
        mean, torch.zeros_like(mean), none, none, none == 0, outputs=mean[:, None] if keep_outputs else None
    )


def _orderings(
    orderings: Sampled | ImportanceSampled, num: int, block: int | None, seed: int | None, *, pairs: bool
) -> Sampled | ImportanceSampled:
    """The network's own, of so many permutations, in blocks that make an error bar."""
    if isinstance(orderings, ImportanceSampled):
        if seed is not None or block is not None:
            raise ValueError(f"ImportanceSampled takes no seed and no block; got seed={seed} and block={block}.")
        return replace(orderings, num=num)
    if block is None and orderings.scheme != "distinct":
        block = min(2, num // 2) if pairs else num // BLOCKS // 2 * 2 or min(2, num // 2)
        block = orderings.block or max(1, block)
    return replace(orderings, num=num, block=block, seed=orderings.seed if seed is None else seed)


def _check(num_permutations: int, tolerance: float | Tensor | None, confidence: float) -> None:
    if num_permutations < 1:
        raise ValueError(f"predict expects num_permutations >= 1; got {num_permutations}.")
    check_confidence(confidence)
    if tolerance is None:
        return
    if not (torch.as_tensor(tolerance) > 0).all():
        raise ValueError(f"predict expects a tolerance > 0, in the units of its outputs; got {tolerance}.")
    if num_permutations < 2:
        raise ValueError(
            f"predict expects num_permutations >= 2 with a tolerance, as one permutation has no error bar; got "
            f"{num_permutations}. It is the most that a set may take: 20, or 100."
        )
