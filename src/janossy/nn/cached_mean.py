"""CachedMean: the mean over large sets from a few of their elements and the remembered values of the others."""

import torch
from torch import Tensor, nn

from janossy.checks import check_generator, check_integer
from janossy.evaluate import Function
from janossy.evaluate.reduce import means_by_counts
from janossy.evaluate.validation import check_function, check_sets, errors_explained
from janossy.functions.shown import arguments_shown
from janossy.functions.tuple_function import TupleFunction
from janossy.functions.weights import draw_anew
from janossy.orderings import Sampled
from janossy.sets import Ragged


class CachedMean(nn.Module):
    """mean_{i∈S}(f(h_i) − f̄_i) + mean_i f̄_i: the mean of f over each set (k = 1), from a random S of m elements.

    f̄_i is the value of f for element i when it was last drawn (Chen, Zhu & Song, 2018, stochastic training of graph
    convolutional networks). Elements have identities, and the same identity means the same element. Sets can share
    them, like the vertices of a graph that are in many neighbourhoods. S is drawn without replacement, anew at every
    call, and the history of its elements is updated after its use.

    Given the history, the value is unbiased for the mean of f over the set. Its gradient, mean_{i∈S} ∇f(h_i), is
    unbiased for the gradient of that mean. Through a ρ or loss that is not affine, neither is unbiased. The value's
    variance is 1/m − 1/n times that of f(h_i) − f̄_i within the set, and falls as f settles. The gradient's variance
    is that of plain sampling. The history starts at zero, which is plain sampling too.

    In evaluation mode the value is the exact mean, at n evaluations, and no history is used or updated.

    Args:
        f: maps rows (T, 1, d) to (T, out_features), as a ``TupleMLP(1, …)`` does.
        num_elements: the number of identities.
        out_features: c, the width of f's outputs.
        num_samples: m, the number of elements drawn from each set. A smaller set gives all, and an exact value.

    Shapes: sets.values (N, d), ids (N,), int64 in [0, num_elements) -> (B, c). ``history``, a buffer of the state_dict,
        (num_elements, c).
    Invariance: unbiased in training; exact in evaluation. An empty set's value is f(0), as with ``Tuples(1)``.
    Cost: f on m·B rows in one call, and the sum of N remembered vectors.
    Raises:
        TypeError: for an argument of another type.
        ValueError: if num_samples, num_elements or out_features is below 1, or for ids of another shape, dtype or
            range.
        ValueError: for elements that f does not take, or an f that does not return (T, out_features).

    Example:
        >>> pool = CachedMean(TupleMLP(1, 4, 8), num_elements=100, out_features=8, num_samples=2)
        >>> pool(Ragged.from_sizes(torch.randn(5, 4), [3, 2]), torch.tensor([7, 42, 99, 42, 0])).shape
        torch.Size([2, 8])
    """

    history: Tensor

    def __init__(self, f: Function, *, num_elements: int, out_features: int, num_samples: int = 2) -> None:
        super().__init__()
        check_function(f, "CachedMean", "(T, out_features)")
        for name, number in {
            "num_elements": num_elements,
            "out_features": out_features,
            "num_samples": num_samples,
        }.items():
            check_integer("CachedMean", name, number, 1)
        if isinstance(f, TupleFunction):
            f.take_k(1)
        self.f = f
        self.num_samples = num_samples
        self.register_buffer("history", torch.zeros(num_elements, out_features))

    def reset_parameters(self) -> None:
        """Draws the weights of f anew, and forgets its values."""
        draw_anew(self)
        self.history.zero_()

    def forward(self, sets: Ragged, ids: Ragged | Tensor, *, generator: torch.Generator | None = None) -> Tensor:
        """Returns the mean of f over each set, (B, c).

        ``ids`` are the identities of the elements, and ``generator`` is the source of S.
        """
        check_sets(sets, "CachedMean")
        check_generator("CachedMean", generator, sets.device)
        ids = ids.values if isinstance(ids, Ragged) else ids
        self._check(sets, ids)
        n = sets.offsets.diff()
        if not self.training:
            y, of_zero = self._evaluate(sets, sets.values)
            return means_by_counts(y, n).where(n[:, None] > 0, of_zero)
        # The beginning of a uniform permutation is a sample without replacement.
        num = max(1, min(self.num_samples, max(sets.sizes, default=1)))
        rows = Sampled(1, k=num).enumerate(sets, generator)
        positions = rows.join([bucket.positions() for bucket in rows.buckets])
        drawn = positions[positions >= 0]
        y, of_zero = self._evaluate(sets, sets.values[drawn])
        remembered = self.history[ids]
        value = means_by_counts(y - remembered[drawn], n.clamp_max(num)) + means_by_counts(remembered, n)
        with torch.no_grad():
            self.history[ids[drawn]] = y.detach().to(self.history.dtype)
        return value.where(n[:, None] > 0, of_zero)

    def reset_history(self) -> None:
        """Sets the history to zero."""
        self.history.zero_()

    def _evaluate(self, sets: Ragged, elements: Tensor) -> tuple[Tensor, Tensor]:
        """Returns f of the elements (T, c), and of the zero vector (1, c), which is 0 if no set is empty."""
        if 0 not in sets.sizes:
            y = self._checked(elements)
            return y, y.new_zeros(1, y.shape[1])
        y = self._checked(torch.cat((elements, elements.new_zeros(1, *elements.shape[1:]))))
        return y[:-1], y[-1:]

    def _checked(self, elements: Tensor) -> Tensor:
        with errors_explained("f", self.f, elements):
            y = self.f(elements[:, None])
        if y.shape != (len(elements), self.history.shape[1]):
            raise ValueError(
                f"CachedMean expects an f that maps rows {tuple(elements[:, None].shape)} to "
                f"({len(elements)}, {self.history.shape[1]}); got {tuple(y.shape)}. Match out_features to f's."
            )
        return y

    def _check(self, sets: Ragged, ids: Tensor) -> None:
        expected = f"CachedMean expects int64 ids of shape ({len(sets.values)},), one per element"
        if not isinstance(ids, Tensor):
            raise TypeError(f"{expected}; got {type(ids).__name__}. Give them as a tensor, or as a Ragged.")
        if ids.dtype != torch.int64 or ids.shape != sets.values.shape[:1]:
            raise ValueError(f"{expected}; got {ids.dtype} of shape {tuple(ids.shape)}.")
        low, high = (int(ids.min()), int(ids.max())) if len(ids) else (0, 0)
        if low < 0 or high >= len(self.history):
            raise ValueError(
                f"CachedMean expects ids from 0 to num_elements - 1 = {len(self.history) - 1}; got {low} to {high}."
            )

    def extra_repr(self) -> str:
        return arguments_shown(self, num_elements=len(self.history), out_features=self.history.shape[1])
