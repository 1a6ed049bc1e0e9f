"""Learned orders: drawn by the scores of elements in training, sorted by score in prediction (Section 2.1)."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from janossy.checks import check_flag, check_integer
from janossy.orderings.contract import MAX_ROWS, RandomOrderings, check_budget, check_k, check_max_rows
from janossy.orderings.rows import Bucket, Rows, first_of, whole_sets
from janossy.orderings.sorting import sort_positions
from janossy.orderings.source import Source, gumbel
from janossy.sets import Ragged

Scorer = Callable[[Tensor], Tensor]
"""Maps the elements (N, *features) to scores (N,) or (N, 1)."""


@dataclass(frozen=True)
class Learned(RandomOrderings):
    """Plackett–Luce orders: of the remaining elements, one with score s comes next with probability ∝ exp(s).

    In training ``num_permutations`` orders of each set are drawn. In evaluation, and in ``predict``, each set is
    sorted with the highest score first, which is the most probable order. The scorer's parameters are the layer's. A
    loss of the layer's output gives them no gradient, as an order is not differentiable. ``janossy.losses.OrderLoss``
    does, by the score function, a straight-through relaxation, or a search.

    Args:
        scorer: a module or function that maps elements to scores. Its input is the keys, which are a network's input
            x, not h(x).
        num_permutations: orders per set in training.
        k: keep only the first k elements of each; smaller sets are filled up to length k with the zero vector.
        sample: False to sort in training too.

    Shapes: sets.values (N, *features) -> rows (m, n_b) for set b, or (m, k), m = num_permutations. Sorted sets have
        one row. scorer: (N, *features) -> (N,) or (N, 1).
    Invariance: drawn orders are unbiased for the mean over Plackett–Luce orders. A sorted set is exact, whatever was
        learned: equal scores are ordered lexicographically, so only equal elements tie.
    Cost: m·B rows, and a sort for each; refuses more than max_rows.
    Raises:
        TypeError: if the scorer is not a function or module, or a number is not an integer.
        ValueError: if num_permutations < 1, k < 1 or max_rows < 1.
        ValueError: on enumeration, for more than max_rows rows, or for scores of another shape, NaN or infinite.

    Example:
        >>> pool = JanossyPooling(GRU(3, 8), Learned(nn.Linear(3, 1), num_permutations=4))
        >>> sets = Ragged.from_sets([torch.randn(5, 3), torch.randn(2, 3)])
        >>> pool.rows(sets).sizes, pool.eval().rows(sets).sizes
        ((4, 4), (1, 1))
    """

    scorer: Scorer
    _: KW_ONLY
    num_permutations: int = 1
    k: int | None = None
    sample: bool = True
    max_rows: int = MAX_ROWS
    averages: ClassVar[str] = "learned orders"

    def __post_init__(self) -> None:
        if not callable(self.scorer) or isinstance(self.scorer, type):
            raise TypeError(
                "Learned expects a function or module of the elements as scorer; got "
                f"scorer={self.scorer!r}, of type {type(self.scorer).__name__}. Write nn.Linear(d, 1)."
            )
        check_integer("Learned", "num_permutations", self.num_permutations, 1, "orders")
        if self.k is not None:
            check_k(self, self.k)
        check_flag("Learned", "sample", self.sample)
        check_max_rows(self, self.max_rows)

    @property
    def draws(self) -> bool:
        return self.sample

    def in_prediction(self) -> Self:
        return replace(self, sample=False)

    def num_rows(self, n: int) -> int:
        return self.num_permutations if self.sample else 1

    def row_length(self, n: int) -> int:
        return n if self.k is None else self.k

    def redrawn(self, num_permutations: int, *, block: int | None = None, seed: int | None = None) -> Self:
        if block not in (None, 1) or seed is not None:
            raise ValueError(
                "Learned draws its orders one by one, by scores that no seed fixes; got "
                f"block={block}, seed={seed}. Leave them out, and give a generator."
            )
        return replace(self, num_permutations=num_permutations)

    def enumerate(self, keys: Ragged, generator: torch.Generator | None = None) -> Rows:
        check_budget(self, keys.sizes, self.max_rows, "num_permutations rows per set", "a smaller num_permutations")
        with torch.no_grad():
            scores = self.scores(keys)
        if not self.sample:
            order = sort_positions(keys, lambda _: -scores)
            return whole_sets(keys, order, self.k)
        source = Source(keys.device, generator, "Learned")
        sets = whole_sets(keys)
        return replace(sets, buckets=tuple(self._drawn(bucket, scores, source) for bucket in sets.buckets))

    def scores(self, keys: Ragged) -> Tensor:
        """Returns the score of each element, (N,), differentiable. Raises: ValueError as on enumeration."""
        scores = self.scorer(keys.values)
        num = len(keys.values)
        if not isinstance(scores, Tensor) or scores.shape not in ((num,), (num, 1)):
            got = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
            raise ValueError(
                f"Learned expects a scorer that maps elements ({num}, *features) to a tensor ({num},) or ({num}, 1), a "
                f"score for each; got {got}."
            )
        scores = scores.reshape(num)
        looks = not (torch.compiler.is_compiling() or scores.is_cuda)  # on CUDA a look would wait for the device
        if looks and not (finite := scores.isfinite()).all():
            wrong = int((~finite).nonzero()[0])
            raise ValueError(
                f"Learned expects finite scores; got {scores[wrong].item()} for element {wrong} of the batch. Look at "
                "the elements, and at the scorer's weights: a smaller learning rate keeps them finite."
            )
        return scores

    def log_probabilities(self, keys: Ragged, rows: Rows) -> Tensor:
        """Returns the log-probability (T,) of each of these rows, in the sets' order, differentiable in the scores.

        For rows of the first k elements, it is the log-probability that these come first, in this order.
        """
        scores = self.scores(keys)
        sets = {bucket.length: bucket for bucket in whole_sets(keys).buckets}
        parts = []
        for bucket, n in zip(rows.buckets, sorted(sets), strict=True):
            local = (bucket.positions() - bucket.starts[:, None, None])[:, :, :n]
            of_sets = scores[sets[n].positions()[:, 0]]
            parts.append(_log_probability(of_sets, local)[..., None])
        return rows.join(parts)[:, 0]

    def _drawn(self, bucket: Bucket, scores: Tensor, source: Source) -> Bucket:
        of_sets = scores[bucket.positions()[:, 0]][:, None].expand(-1, self.num_permutations, -1)
        order = (of_sets + gumbel(source, of_sets.shape)).argsort(-1, descending=True)
        padded = self.k is not None and bucket.length < self.k
        return replace(bucket, local=first_of(order, self.k), padded=padded)


def _log_probability(scores: Tensor, first: Tensor) -> Tensor:
    """Returns the log-probability that the elements ``first`` are drawn first, in this order.

    Shapes: scores (S, n), first (S, R, l), l <= n -> (S, R).
    """
    n, length = scores.shape[1], first.shape[2]
    order = first
    if length < n:
        taken = torch.zeros(*first.shape[:2], n, dtype=torch.bool, device=first.device).scatter(2, first, True)
        order = torch.cat((first, taken.long().argsort(stable=True, dim=2)[:, :, : n - length]), 2)
    chosen = scores[:, None].expand(-1, first.shape[1], -1).gather(2, order)
    remaining = chosen.flip(2).logcumsumexp(2).flip(2)  # summed from the last: 1 - Σ p would cancel
    return (chosen - remaining)[:, :, :length].sum(2)
