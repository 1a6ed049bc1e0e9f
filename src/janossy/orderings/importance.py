"""Random orderings that favour heavy elements, with row weights that keep means unbiased (Section 2.3)."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from math import prod
from typing import ClassVar, Self

import torch
from torch import Tensor

from janossy.checks import check_integer, check_number
from janossy.orderings.contract import MAX_ROWS, RandomOrderings, check_budget, check_k, check_max_rows
from janossy.orderings.rows import Bucket, Rows, first_of, whole_sets
from janossy.orderings.source import Source, gumbel
from janossy.sets import Ragged
from janossy.sets.transfer import widest

Weights = Callable[[Tensor], Tensor]
"""Maps the elements (N, *features) to weights (N,) >= 0 of being drawn; only their ratios within a set count."""


def squared_norm(elements: Tensor) -> Tensor:
    """Returns ‖h‖² of each element, in float64 (on MPS float32).

    It is length-squared sampling (Frieze, Kannan & Vempala, JACM 2004).

    Shapes: elements (N, *features) -> (N,).
    """
    return elements.reshape(len(elements), prod(elements.shape[1:])).to(widest(elements.device)).square().sum(1)


def norm(elements: Tensor) -> Tensor:
    """Returns ‖h‖ of each element, in float64 (on MPS float32).

    For one row of k = 1 these are the best weights if ‖f(h)‖ ∝ ‖h‖.

    Shapes: elements (N, *features) -> (N,).
    """
    return squared_norm(elements).sqrt()


NAMED: dict[str, Weights] = {"norm": norm, "squared_norm": squared_norm}


@dataclass(frozen=True)
class ImportanceSampled(RandomOrderings):
    """Random orderings of each set, or the first k elements of them, drawn where f is expected to be large.

    Elements are drawn one after the other without replacement, with weights w. In a set of n let
    q = (1 - uniform)·w / Σw + uniform / n. Element i is drawn next with probability q_i / (1 - Σ q of the elements
    before it). A row of probability P has the weight (n - k)! / (n!·P). The mean of weight times f is then unbiased
    for the mean over all orderings of k elements, whatever w is. A row of weight t or more is drawn at most once in t
    rows.

    The variance is small if the weights follow ‖f‖. For k = 1 it is least at w ∝ ‖f(h)‖. It *rises* above that of
    ``Sampled`` if they do not follow ‖f‖, as for an f that saturates. It rises fast with k, as a row's weight is a
    product: with k=None few rows of a long set carry all the weight.

    - For f(h) = h, k = 1 and uniform = 0, squared norms and equal weights have the same variance. The norm has the
      least.
    - A share of uniform draws bounds the weights of light elements, for k = 1 by 1 / uniform (defensive mixtures:
      Hesterberg, Technometrics 1995).
    - Rows are drawn independently. For k = 1, distinct elements often vary less: one row of ``Sampled(1, k=m)``.
    - Measured: docs/results/sampling/importance.md.
    - FastGCN (Chen, Ma & Xiao, ICLR 2018) takes the squared norms of the adjacency's columns. A function as
      ``weights`` can look these up.

    Args:
        num_permutations: rows per set.
        k: keep only the first k elements of each; smaller sets are filled up to length k with the zero vector.
        weights: "norm", ‖h‖ of each element; "squared_norm", ‖h‖²; or a function that maps the elements (N, *features)
            to (N,) numbers >= 0. Its input is the keys, which are a network's input x, not h(x). No gradient flows
            through it.
        uniform: the share of draws in which all elements are equally likely.

    Shapes: sets.values (N, *features) -> rows (m, n_b) for set b, or (m, k), and their weights (m,) in float64
        (on MPS float32), m = num_permutations.
    Invariance: unbiased for the mean over all permutations, in value and in f's gradient.
    Cost: m·B rows, and for each row a sort of n_b numbers; refuses more than max_rows.
    Raises:
        TypeError: for an argument of another type.
        ValueError: if num_permutations < 1, k < 1, max_rows < 1 or not 0 <= uniform <= 1, or for weights of another
            name.
        ValueError: on enumeration, if m·B > max_rows, or weights are not (N,), negative or not finite. A weight of
            zero is an error if uniform = 0.

    Example:
        >>> pool = JanossyPooling(TupleMLP(1, 4, 16), ImportanceSampled(20, k=1))
        >>> pool(Ragged.from_sets([torch.randn(300, 4), torch.randn(0, 4)])).shape
        torch.Size([2, 16])
    """

    num_permutations: int
    _: KW_ONLY
    k: int | None = None
    weights: str | Weights = "norm"
    uniform: float = 0.1
    max_rows: int = MAX_ROWS
    averages: ClassVar[str] = "all orderings"
    weighs_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_integer("ImportanceSampled", "num_permutations", self.num_permutations, 1, "orderings")
        if self.k is not None:
            check_k(self, self.k)
        if not callable(self.weights):
            known = " or ".join(map(repr, NAMED))
            expected = f"ImportanceSampled expects weights={known}, or a function of the elements"
            if not isinstance(self.weights, str):
                raise TypeError(f"{expected}; got {self.weights!r}, of type {type(self.weights).__name__}.")
            if self.weights not in NAMED:
                raise ValueError(f"{expected}; got {self.weights!r}.")
        check_max_rows(self, self.max_rows)
        check_number("ImportanceSampled", "uniform", self.uniform, 0.1)
        if not 0 <= self.uniform <= 1:
            raise ValueError(
                f"ImportanceSampled expects a share of uniform draws from 0 to 1; got uniform={self.uniform}."
            )

    def num_rows(self, n: int) -> int:
        return self.num_permutations

    def row_length(self, n: int) -> int:
        return n if self.k is None else self.k

    def redrawn(self, num_permutations: int, *, block: int | None = None, seed: int | None = None) -> Self:
        if block not in (None, 1):
            raise ValueError(f"ImportanceSampled draws its rows one by one; got block={block}. Leave it out.")
        if seed is not None:
            raise ValueError(
                "ImportanceSampled takes no seed, as what it draws depends on the elements and not on their number "
                f"alone; got seed={seed}. Give a generator."
            )
        return replace(self, num_permutations=num_permutations)

    def enumerate(self, keys: Ragged, generator: torch.Generator | None = None) -> Rows:
        check_budget(self, keys.sizes, self.max_rows, "num_permutations rows per set", "a smaller num_permutations")
        weights = self._weights_of(keys.values.detach())
        sets = whole_sets(keys)
        source = Source(keys.device, generator, "ImportanceSampled")
        drawn = tuple(self._draw(bucket, weights[bucket.positions()[:, 0]], source) for bucket in sets.buckets)
        return replace(sets, buckets=drawn)

    @torch.no_grad()
    def _weights_of(self, elements: Tensor) -> Tensor:
        weights = (self.weights if callable(self.weights) else NAMED[self.weights])(elements)
        if not isinstance(weights, Tensor) or weights.shape != elements.shape[:1]:
            got = tuple(weights.shape) if isinstance(weights, Tensor) else type(weights).__name__
            raise ValueError(
                f"ImportanceSampled expects weights that map elements ({len(elements)}, *features) to a tensor "
                f"({len(elements)},), one number per element; got {got}."
            )
        weights = weights.detach().to(elements.device, widest(elements.device))
        if torch.compiler.is_compiling():  # which cannot branch on values
            return weights
        legal = (weights >= 0) & (weights < torch.inf)
        if not legal.all():
            raise ValueError(
                f"ImportanceSampled expects finite weights >= 0; got {weights[~legal][0]} for element "
                f"{int((~legal).nonzero()[0])}. Give magnitudes, such as weights='norm'."
            )
        if self.uniform == 0 and not weights.all():
            raise ValueError(
                f"ImportanceSampled expects weights > 0 with uniform=0; got 0 for element "
                f"{int((weights == 0).nonzero()[0])}, which would never be drawn. Raise uniform, such as to 0.1."
            )
        return weights

    def _draw(self, bucket: Bucket, weights: Tensor, source: Source) -> Bucket:
        """Returns the rows, and the rows' weights, of sets whose elements have weights (S, n)."""
        log_q = self._log_probabilities(weights)[:, None].expand(-1, self.num_permutations, -1)
        noise = gumbel(source, log_q.shape)
        order = (log_q + noise).argsort(-1, descending=True)  # the Gumbel-max trick
        n = order.shape[2]
        length = self.row_length(n)
        chosen = log_q.gather(2, order)
        # The share still to be drawn, summed from the last: 1 - Σ q would cancel.
        remaining = chosen.flip(2).logcumsumexp(2).flip(2)
        steps = remaining - chosen - torch.arange(n, 0, -1, device=order.device, dtype=chosen.dtype).log()
        local = first_of(order, length)
        return replace(bucket, local=local, padded=n < length, weights=steps[:, :, :length].sum(2).exp())

    def _log_probabilities(self, weights: Tensor) -> Tensor:
        """Returns log q (S, n); in a set of zeros only, all elements are equally likely."""
        logs = weights.log().masked_fill((weights == 0).all(1, keepdim=True), 0).log_softmax(1)
        shares = torch.tensor([1 - self.uniform, self.uniform / max(1, logs.shape[1])], dtype=logs.dtype).log()
        by_weight, by_chance = shares.to(logs.device)
        return torch.logaddexp(logs + by_weight, by_chance)
