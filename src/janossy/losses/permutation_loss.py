"""PermutationLoss: a loss of sampled permutations that declares its estimand (Section 2.3)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite, log
from typing import cast

import torch
from torch import Tensor, nn

from janossy.checks import check_function, check_generator, check_integer, check_number
from janossy.evaluate.validation import check_sets
from janossy.functions.shown import arguments_shown
from janossy.nn.network import JanossyNetwork, check_network
from janossy.orderings import Orderings, RandomOrderings
from janossy.orderings.contract import as_random
from janossy.orderings.drawn import draws_of
from janossy.sets import Ragged

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Estimand:
    """The quantity that a ``PermutationLoss`` estimates: ``of`` in its docstring's symbols, ``text`` in words.

    ``unbiased`` is True if the expectation over the permutations is exactly ``of``. The gradient's expectation is then
    exactly the gradient of ``of``.

    Shapes: none.
    """

    of: str
    unbiased: bool
    text: str


OBJECTIVES = {
    "average_loss": Estimand("J̄", True, "the mean over permutations of the loss (π-SGD), for every loss"),
    "exact_squared": Estimand("L̄", True, "the squared loss of the average prediction, which it may undershoot"),
    "average_output": Estimand(
        "L̄", False, "the loss of the average prediction, from above: between L̄ and J̄ for a convex loss"
    ),
}


def _log_mean_softmax(outputs: Tensor) -> Tensor:
    return outputs.log_softmax(-1).logsumexp(1) - log(outputs.shape[1])


def _logit_mean_sigmoid(outputs: Tensor) -> Tensor:
    # log p̄ − log(1 − p̄), where neither is computed as 1 minus the other, so no probability rounds to 0 or to 1.
    return nn.functional.logsigmoid(outputs).logsumexp(1) - nn.functional.logsigmoid(-outputs).logsumexp(1)


AVERAGES: dict[str | None, Callable[[Tensor], Tensor]] = {
    None: lambda outputs: outputs.mean(1),
    "sigmoid": _logit_mean_sigmoid,
    "softmax": _log_mean_softmax,
}


ELEMENTWISE = (
    nn.MSELoss,
    nn.L1Loss,
    nn.SmoothL1Loss,
    nn.HuberLoss,
    nn.BCELoss,
    nn.BCEWithLogitsLoss,
    nn.SoftMarginLoss,
)
"""torch's losses of a number and its target, which would broadcast, or fail with unclear errors."""


class PermutationLoss(nn.Module):
    """A loss of m draws of each set's permutations, which declares its estimand.

    Let f_π = network(x) for one draw π of its orderings. That is ρ(f(h(x)_π)) for one permutation, and ρ of the mean of
    f over num permutations otherwise. Let ŷ = E_π[f_π] and D = E‖f_π − f_π′‖² for independent π and π′, where ‖·‖² is a
    mean over outputs.

    - J̄ = E_π[loss(f_π, y)] is the objective of π-SGD (Eq. 10).
    - L̄ = loss(ŷ, y) is the loss of the result of ``predict``. The paper's L̄ has ρ of the average of f instead of ŷ,
      which is the same if ρ is affine.

    Objectives, with e_s = y − f_s the errors of m draws:

    - "average_loss": mean_s loss(f_s, y). It is unbiased for J̄, for every loss and m >= 1.
    - "exact_squared": mean_{s≠s′} e_s·e_s′. It is unbiased for the squared loss's L̄ = J̄ − D/2, for m >= 2. It can be
      negative. The draws must be independent, and are made so whatever the network's scheme: antithetic or distinct
      permutations would make it biased.
    - "average_output": loss(mean_s f_s, y), m >= 2. It is unbiased for neither. If the loss is convex in the
      prediction, its expectation is between L̄ and J̄. For independent permutations it falls from J̄ (m = 1) to L̄
      (m → ∞).

    The penalty is λ·mean_{s≠s′}‖f_s − f_s′‖², unbiased for λ·D (fraternal; Zolna et al., 2017). It is of outputs before
    any link, from m >= 2 independent draws. Losses, squares and penalty are means over the outputs and over the sets,
    as torch's are. So for squared loss "average_loss" with penalty −½ equals "exact_squared" in every draw.

    The expectations are over permutations. Dropout in f and ρ is drawn with each permutation, and in h once for all m.

    Args:
        loss: any torch loss with reduction="none", or such a function of (predictions, target); None for squared loss.
            Class weights multiply losses, and ignored targets count as zero. The mean itself has no weights.
        objective: "average_loss", "exact_squared" (squared loss only) or "average_output".
        num_permutations: m, the draws of each set; None for the fewest possible, 1 or 2. Each is of the num
            permutations of the network's orderings.
        penalty: λ, which may be negative.
        link: the link of "average_output", applied before averaging. The loss then reads the average in the log
            domain. "softmax" gives log-probabilities, for ``NLLLoss``. "sigmoid" gives logits, for
            ``BCEWithLogitsLoss``. For a function it is the mean of the results, such as of torch.sigmoid for
            ``BCELoss``.

    Shapes: sets of B, target (B, *any) -> scalar.
    Invariance: unbiased for a permutation-invariant objective, or a bound of one: see ``estimates``.
    Cost: m·num·B rows; h is computed once. All objectives are O(m).
    Raises:
        TypeError: for an argument, a network or sets of another type.
        ValueError: for an unknown objective or link, too few permutations, or a loss that reduces or broadcasts.
        ValueError: for a target that does not fit the outputs, or a generator or target on another device.
        ValueError: for a network whose orderings are not random, or have a seed.

    Example:
        >>> network = JanossyNetwork(nn.Embedding(10, 4), JanossyPooling(GRU(4, 8), Sampled()), nn.Linear(8, 1))
        >>> loss = PermutationLoss(objective="exact_squared")
        >>> sets = Ragged.from_sets([torch.tensor([3, 1, 4]), torch.tensor([1, 5])])
        >>> loss(network, sets, torch.tensor([[8.0], [6.0]])).shape
        torch.Size([])
        >>> loss.estimates.of, loss.estimates.unbiased
        ('L̄', True)
    """

    def __init__(
        self,
        loss: Loss | None = None,
        *,
        objective: str = "average_loss",
        num_permutations: int | None = None,
        penalty: float = 0.0,
        link: str | Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        check_function("PermutationLoss", "loss", loss, "Write nn.L1Loss(reduction='none').")
        if not isinstance(objective, str) or objective not in OBJECTIVES:
            known = ", ".join(map(repr, OBJECTIVES))
            error: type[Exception] = ValueError if isinstance(objective, str) else TypeError
            raise error(f"PermutationLoss expects an objective among {known}; got {objective!r}.")
        reduction = getattr(loss, "reduction", "none")
        if reduction != "none":
            raise ValueError(f"PermutationLoss expects a loss with reduction='none'; got {loss}, of {reduction!r}.")
        if objective == "exact_squared" and not (loss is None or isinstance(loss, nn.MSELoss)):
            raise ValueError(
                f"objective='exact_squared' expects loss=None, squared loss; got {loss}. Use 'average_output', which "
                "bounds L̄ for any convex loss."
            )
        if not callable(link) and not (isinstance(link, str | None) and link in AVERAGES):
            known = ", ".join(map(repr, AVERAGES))
            wrong = ValueError if isinstance(link, str) else TypeError
            raise wrong(f"PermutationLoss expects a link among {known} or a function; got {link!r}.")
        if link is not None and objective != "average_output":
            raise ValueError(f"link belongs to objective='average_output'; got {objective!r}. Put it into loss or rho.")
        if link == "sigmoid" and isinstance(loss, nn.BCELoss):
            raise ValueError("link='sigmoid' returns logits, and BCELoss expects none; use BCEWithLogitsLoss.")
        check_number("PermutationLoss", "penalty", penalty, 0.1)
        if not isfinite(penalty):
            raise ValueError(f"PermutationLoss expects a finite penalty; got {penalty}.")
        self.loss = nn.MSELoss(reduction="none") if loss is None else loss
        self.objective = objective
        self.penalty = penalty
        self.link = link
        self.fewest = 1 if objective == "average_loss" and not penalty else 2
        self.num_permutations = self.fewest if num_permutations is None else num_permutations
        self._check_number(self.num_permutations)

    def forward(
        self,
        network: JanossyNetwork,
        sets: Ragged,
        target: Tensor,
        *,
        context: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Returns the objective on these sets for fresh permutations.

        ``context`` holds the features of each set as a whole, for the network's ρ. ``generator`` is the source of the
        permutations, on the sets' device.
        """
        check_network(network, "PermutationLoss")
        check_sets(sets, "PermutationLoss")
        if not isinstance(target, Tensor):
            raise TypeError(f"PermutationLoss expects a tensor as target; got {type(target).__name__}.")
        check_generator("PermutationLoss", generator, sets.device)
        orderings = _random(network.pooling.orderings)
        independent = self.objective == "exact_squared" or bool(self.penalty)
        drawn = draws_of(orderings, self.num_permutations, sets, generator, independent=independent)
        outputs = network(sets, drawn.apart(orderings.num_rows), context=context)
        return self.of_outputs(outputs.unflatten(0, (len(sets), self.num_permutations)), target)

    def of_outputs(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Returns the objective of given outputs: m draws of each set, by any network.

        Shapes: outputs (B, m, *out), target (B, *any) -> scalar.
        """
        if outputs.dim() < 2 or target.dim() < 1 or len(outputs) != len(target):
            raise ValueError(
                "PermutationLoss expects outputs (B, m, *out) and one target per set, (B, *any); "
                f"got {tuple(outputs.shape)} and {tuple(target.shape)}."
            )
        if outputs.device != target.device:
            raise ValueError(
                f"PermutationLoss expects a target on the outputs' device, {outputs.device}; got {target.device}. "
                "Move it with .to()."
            )
        self._check_number(outputs.shape[1])
        value = self._objective(outputs, target)
        # Over pairs s ≠ s′, the mean of (f_s − f_s′)² is twice the unbiased variance.
        return value + self.penalty * 2 * outputs.var(1).mean() if self.penalty else value

    def each(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Returns the loss of each of m draws of each set, a mean over its outputs, without objective and penalty.

        Shapes: outputs (B, m, *out), target (B, *any) -> (B, m).
        """
        m = outputs.shape[1]
        losses = self._losses(outputs.flatten(0, 1), target.repeat_interleave(m, 0))
        return cast(Tensor, losses.reshape(len(losses), losses.shape[1:].numel()).mean(1).unflatten(0, (-1, m)))

    @property
    def estimates(self) -> Estimand:
        """The quantity that the value, and its gradient, estimate."""
        estimand = OBJECTIVES[self.objective]
        if not self.penalty:
            return estimand
        sign, size = "−" if self.penalty < 0 else "+", f"{abs(self.penalty):g}"
        text = f"{estimand.text}; {sign} {size} times the mean squared difference of two permutations"
        return replace(estimand, of=f"{estimand.of} {sign} {size}·D", text=text)

    def extra_repr(self) -> str:
        given = None if self.num_permutations == self.fewest else self.num_permutations
        bias = "unbiased" if self.estimates.unbiased else "biased"
        shown = arguments_shown(self, num_permutations=given)
        return ", ".join(filter(None, (shown, f"estimates {self.estimates.of} ({bias})")))

    def _objective(self, outputs: Tensor, target: Tensor) -> Tensor:
        m = outputs.shape[1]
        if self.objective == "average_output":
            average = self.link(outputs).mean(1) if callable(self.link) else AVERAGES[self.link](outputs)
            return self._losses(average, target).mean()
        if self.objective == "average_loss":
            return self._losses(outputs.flatten(0, 1), target.repeat_interleave(m, 0)).mean()
        _check_elementwise(outputs[:, 0], target)
        errors = target[:, None] - outputs
        # Σ_{s′<s} e_s·e_s′ by running sums takes O(m) and, unlike (Σe)² − Σe², has no squares that cancel.
        pairs = (errors[:, 1:] * errors.cumsum(1)[:, :-1]).sum(1)
        return pairs.mean() * 2 / (m * (m - 1))

    def _losses(self, predictions: Tensor, target: Tensor) -> Tensor:
        if type(self.loss) in ELEMENTWISE:
            _check_elementwise(predictions, target)
        losses = self.loss(predictions, target)
        if losses.shape == predictions.shape:
            _check_elementwise(predictions, target)
        elif losses.shape not in (predictions.shape[:1], predictions.shape[:1] + predictions.shape[2:]):
            raise ValueError(
                "PermutationLoss expects a loss that returns one number for each prediction, or for each of its "
                f"outputs, for predictions {tuple(predictions.shape)} and target {tuple(target.shape)}; got "
                f"{tuple(losses.shape)}. Use reduction='none', and a target of the predictions' shape."
            )
        return losses

    def _check_number(self, num_permutations: int) -> None:
        check_integer("PermutationLoss", "num_permutations", num_permutations)
        if num_permutations < self.fewest:
            penalty = " with a penalty" if self.penalty else ""
            raise ValueError(
                f"objective={self.objective!r}{penalty} expects num_permutations >= {self.fewest}; "
                f"got {num_permutations}."
            )


def _random(orderings: Orderings) -> RandomOrderings:
    """Returns these orderings. Raises: ValueError unless they are drawn anew at every call."""
    random = as_random(orderings, "PermutationLoss")
    if random is None:
        raise ValueError(
            f"PermutationLoss expects a network whose orderings draw, such as Sampled; got {orderings}, which leaves "
            "nothing to sample. Use loss(network(sets), target)."
        )
    if random.seed is not None:
        raise ValueError(
            f"PermutationLoss expects permutations drawn anew at every call; got seed={random.seed}, which fixes "
            "them. Drop the seed; forward takes a generator."
        )
    return random


def _check_elementwise(predictions: Tensor, target: Tensor) -> None:
    if target.shape != predictions.shape:
        raise ValueError(
            f"PermutationLoss expects a target of the shape of the predictions, {tuple(predictions.shape)}; got "
            f"{tuple(target.shape)}, which would be broadcast. Reshape it, such as by target[:, None]."
        )
