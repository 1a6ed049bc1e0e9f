"""OrderLoss: a loss that trains the orders of ``Learned``, by the score function, a relaxation, or a search."""

from dataclasses import replace
from math import isfinite
from typing import cast

import torch
from torch import Tensor, nn

from janossy.checks import check_generator, check_integer, check_number
from janossy.evaluate.validation import check_context, check_sets
from janossy.functions.shown import arguments_shown
from janossy.losses.permutation_loss import Loss, PermutationLoss
from janossy.nn.network import JanossyNetwork, check_network
from janossy.orderings import Learned
from janossy.orderings.drawn import Drawn
from janossy.orderings.rows import whole_sets
from janossy.orderings.source import Source, gumbel
from janossy.sets import Ragged

FEWEST = {"score": 2, "straight_through": 1, "search": 2}
"""The fewest orders per set that each estimator needs."""


class OrderLoss(nn.Module):
    """A loss of m learned orders of each set, whose gradient reaches the scorer of ``Learned`` too.

    Let π_1 … π_m be drawn by the scores. p(π) is their Plackett–Luce probability, and L_s = loss(network of π_s, y).

    - "score": mean_s L_s, with the gradient mean_s (L_s − b_s) ∇log p(π_s). b_s is the mean of the other draws' losses
      (Williams, 1992; Kool, van Hoof & Welling, 2019). It is unbiased for E_π[L] and its gradient, for any loss and
      scorer.
    - "straight_through": mean_s L_s, where f reads the elements in the drawn order. Gradients pass to the scores as if
      f had read SoftSort's mixtures of elements, softmax(−|z_(t) − z| / T) (Prillo & Eisenschlos, ICML 2020). z are
      the scores with the Gumbel noise that made the order (Grover et al., ICLR 2019). It has less variance, and is
      biased.
    - "search": min_s L_s, the loss of the best order, and the scorer follows that order: its gradient is that of
      −log p. The source is the search of Vinyals, Bengio & Kudlur (ICLR 2016), here for the order of inputs. It is
      biased: the choice depends on the target, which a prediction does not have, so f may come to rely on it.

    Values are those of the losses alone, as the scorer's part has the value 0.

    Args:
        loss: any torch loss with reduction="none", or such a function of (predictions, target); None for squared loss.
        estimator: "score", "straight_through" or "search".
        num_permutations: m, the orders per set, drawn anew at every call. The network's own ``num`` is not used.
        temperature: T of "straight_through", in units of the scores.

    Shapes: sets of B, target (B, *any) -> scalar.
    Invariance: that of E_π[L], which is invariant: p depends on the elements alone.
    Cost: m·B rows; h once. "straight_through" takes n² numbers per row besides.
    Raises:
        TypeError: for an argument, a network or sets of another type, or orderings that are not ``Learned``.
        ValueError: for an unknown estimator, too few orders, or a temperature that is not above 0.
        ValueError: for elements that are not vectors, scores that are not finite, or as ``PermutationLoss``.

    Example:
        >>> orders = Learned(nn.Linear(3, 1))
        >>> network = JanossyNetwork(None, JanossyPooling(GRU(3, 8), orders), nn.Linear(8, 1))
        >>> sets = Ragged.from_sets([torch.randn(5, 3), torch.randn(2, 3)])
        >>> OrderLoss(num_permutations=8)(network, sets, torch.tensor([[1.0], [0.0]])).backward()
        >>> orders.scorer.weight.grad.shape
        torch.Size([1, 3])
    """

    def __init__(
        self,
        loss: Loss | None = None,
        *,
        estimator: str = "score",
        num_permutations: int = 4,
        temperature: float = 1.0,
    ) -> None:
        super().__init__()
        if not isinstance(estimator, str) or estimator not in FEWEST:
            known = ", ".join(map(repr, FEWEST))
            error: type[Exception] = ValueError if isinstance(estimator, str) else TypeError
            raise error(f"OrderLoss expects an estimator among {known}; got {estimator!r}.")
        check_integer(
            "OrderLoss", "num_permutations", num_permutations, FEWEST[estimator], f"of estimator={estimator!r}"
        )
        check_number("OrderLoss", "temperature", temperature, 1.0)
        if not (isfinite(temperature) and temperature > 0):
            raise ValueError(f"OrderLoss expects a temperature > 0; got temperature={temperature}. Write 1.0.")
        self.loss = PermutationLoss(loss)
        self.estimator = estimator
        self.num_permutations = num_permutations
        self.temperature = temperature

    def forward(
        self,
        network: JanossyNetwork,
        sets: Ragged,
        target: Tensor,
        *,
        context: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Returns the objective on these sets for fresh orders.

        ``context`` and ``generator`` are as in ``PermutationLoss``.
        """
        check_network(network, "OrderLoss")
        check_sets(sets, "OrderLoss")
        check_context(context, sets, "OrderLoss")
        if not isinstance(target, Tensor):
            raise TypeError(f"OrderLoss expects a tensor as target; got {type(target).__name__}.")
        check_generator("OrderLoss", generator, sets.device)
        orders = network.pooling.orderings
        if not isinstance(orders, Learned):
            raise TypeError(
                f"OrderLoss expects a network whose orderings are Learned(scorer); got {orders}. Use PermutationLoss "
                "for orders that are drawn, and the loss itself for others."
            )
        drawn = replace(orders, num_permutations=self.num_permutations, sample=True)
        if self.estimator == "straight_through":
            return self._each(self._relaxed(network, drawn, sets, context, generator), target).mean()
        rows = drawn.enumerate(sets, generator)
        apart = Drawn(rows, sets.sizes, orders.k).apart(lambda n: 1)
        losses = self._each(network(sets, apart, context=context), target)
        log_p = drawn.log_probabilities(sets, rows).unflatten(0, losses.shape)
        by_scores = log_p - log_p.detach()  # the value is 0, with the gradient of log p
        if self.estimator == "score":
            others = (losses.sum(1, keepdim=True) - losses) / (self.num_permutations - 1)
            return cast(Tensor, losses.mean() + ((losses - others).detach() * by_scores).mean())
        best = losses.detach().argmin(1, keepdim=True)
        return cast(Tensor, losses.gather(1, best).mean() - by_scores.gather(1, best).mean())

    def extra_repr(self) -> str:
        return arguments_shown(self)

    def _each(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Returns the losses (B, m) of outputs (B·m, *out)."""
        return self.loss.each(outputs.unflatten(0, (-1, self.num_permutations)), target)

    def _relaxed(
        self,
        network: JanossyNetwork,
        orders: Learned,
        sets: Ragged,
        context: Tensor | None,
        generator: torch.Generator | None,
    ) -> Tensor:
        """Returns the outputs (B·m, *out) of drawn orders, differentiable in the scores."""
        m, elements = self.num_permutations, network.elements(sets).values
        if elements.dim() != 2:
            raise ValueError(
                f"estimator='straight_through' mixes vectors (N, d), after h; got {tuple(elements.shape)}. Flatten "
                "them in h, or use estimator='score'."
            )
        scores, source, whole = orders.scores(sets), Source(sets.device, generator), whole_sets(sets)
        parts = []
        for bucket in whole.buckets:
            places = bucket.positions()[:, 0]
            of_sets = scores[places][:, None].expand(-1, m, -1)
            noisy = of_sets + gumbel(source, of_sets.shape).to(scores.dtype)
            parts.append(self._sorted(elements[places], noisy).flatten(1, 2))
        many = Ragged.from_sizes(whole.join(parts), [n for n in sets.sizes for _ in range(m)])
        pooled = network.pooling(many, Drawn(whole_sets(many, k=orders.k), many.sizes, orders.k))
        return network.read_out(pooled, None if context is None else context.repeat_interleave(m, 0))

    def _sorted(self, x: Tensor, noisy: Tensor) -> Tensor:
        """Returns x (S, n, d) in the falling orders of ``noisy`` (S, m, n): (S, m, n, d), differentiable in both."""
        ordered, order = noisy.sort(2, descending=True)
        mixing = (-(ordered[..., :, None] - noisy[..., None, :]).abs() / self.temperature).softmax(3)
        mixed = mixing.to(x.dtype) @ x.detach()[:, None]
        exactly = x[torch.arange(len(x), device=x.device)[:, None, None], order]
        return exactly + (mixed - mixed.detach())
