"""Relations: for each element, the mean of f over all tuples of that element and others of its set."""

from collections import Counter
from math import perm
from typing import Any, cast

import torch
from torch import Tensor, nn

from janossy.checks import check_integer
from janossy.evaluate import MEMORY_BUDGET, REDUCTIONS, Gather, Problem, Spectral
from janossy.evaluate.cost import check_memory_budget
from janossy.evaluate.loading import LOADING
from janossy.evaluate.of_any_sizes import traced_results
from janossy.evaluate.problem import reaching
from janossy.evaluate.reduce import widened
from janossy.evaluate.spectral import MAX_K
from janossy.evaluate.tuples.relations import relations, relations_of_any_sizes
from janossy.evaluate.validation import check_function, errors_explained
from janossy.functions.shown import arguments_shown
from janossy.functions.structure import Additive, Product, structure
from janossy.functions.tuple_function import TupleFunction
from janossy.functions.weights import draw_anew
from janossy.nn.encoder.cost import seconds_by_weights, seconds_of
from janossy.nn.encoder.layer import SetLayer
from janossy.orderings import Tuples
from janossy.sets import Ragged
from janossy.sets.transfer import constant_when_compiled, widest

FAST = ("fused", "spectral", "permanent", "projected")
"""The evaluators that do not write rows of elements."""

FEW_TUPLES = {2: 16, 3: 42}
"""The most tuples per element that "auto" enumerates, as that is cheaper than series or sorting, per k."""

FEW_TUPLES_IN_TORCH = 500
"""The most tuples per element that "auto" enumerates if series have no compiled kernel."""

TYPICAL_BOUND = 4.0
"""The assumed bound of pre-activations, typical for a norm before the layer."""

KERNEL_COST = {2: (2.3, 47.0), 3: (5.0, 47.0)}
"""The cost of a harmonic per element, and per set, in activations, forward and backward, for each k."""

TORCH_COST, TUPLE_COST, SORTED_COST, PRODUCT_COST = 2.0, 2.5, 65.0, 10.0
"""The costs in torch operations: per harmonic and subset of positions, tuple, sorted element, and power sum."""


class Relations(SetLayer):
    """y_i = the mean of f(x_i, x_{j_2}, …, x_{j_k}) over all (k − 1)-tuples of the others of i's set.

    It is k-ary pooling (Def. 2.2) with the first element fixed, one mean per element. A set of n < k elements has the
    tuples of all its elements, filled up with zero vectors.

    No tuple is written to memory if f allows it:

    - "spectral", linear in n: a ``TupleMLP`` of one hidden layer with tanh, sigmoid, erf, softplus, SiLU, GELU, sine or
      cosine. Each element's harmonics times the sums of the others' (docs/spectral.md). Sets that reach so far that
      tuples take less time than harmonics are enumerated.
    - "fused", in O(n log n): the same with ReLU and k = 2, by sorting.
    - "permanent", linear in n: a ``TupleProduct``, by power sums.
    - "projected", all tuples: any ``TupleMLP`` of one hidden layer, which projects each element once. "auto" takes it
      if sets are so small that it is cheaper, and for activations and k that have nothing faster.
    - "gather": any f, of all n!/(n − k)! tuples.

    Args:
        f: any module mapping rows (T, k, d) to (T, c).
        k: the number of elements of a tuple; None for the k of f, as ``TupleMLP`` and ``TupleProduct`` have it.
        reduce: "mean", "sum", "max" or "logmeanexp". The last two take "gather".
        evaluate: one of these names, ``Spectral(tolerance)``, or "auto" for the fast one that applies.
        memory_budget: the bytes that may be held at once.

    Shapes: sets.values (N, d) -> Ragged of values (N, c), the same sets.
    Invariance: equivariant, exactly. A set's results do not depend on its batch-mates.
    Tolerance: "spectral" as ``Spectral``: 1e-5 for each mean of activations, 1e-10 in float64. Others are exact to
        rounding; "permanent" adds up in float64.
    Cost: time as above, and 2^k times more for "spectral" and "permanent". Memory is linear in n, except for "gather".
        Pairs and triples by "spectral" run on compiled kernels; all else is torch operations.
    Raises: TypeError or ValueError for arguments of another type or range, an evaluator that does not apply, or
        elements that do not fit f.

    Example:
        >>> layer = Relations(TupleMLP(2, 3, 16, activation="tanh"))
        >>> layer(Ragged.from_sets([torch.randn(1000, 3), torch.randn(0, 3)])).values.shape
        torch.Size([1000, 16])
    """

    def __init__(
        self,
        f: nn.Module,
        *,
        k: int | None = None,
        reduce: str = "mean",
        evaluate: str | Spectral = "auto",
        memory_budget: int = MEMORY_BUDGET,
    ) -> None:
        super().__init__()
        check_function(f, "Relations", "(T, c)")
        check_integer("Relations", "k", k, 1, optional=True)
        if k is not None and isinstance(f, TupleFunction):
            f.take_k(k)
        declared = getattr(structure(f), "k", None)
        if (k is None and declared is None) or (None not in (k, declared) and k != declared):
            own = "none" if declared is None else f"f of k={declared}"
            raise ValueError(f"Relations expects the k of f; got k={k} and {own}. Give k=, the elements of a row of f.")
        if reduce not in [name for name in REDUCTIONS if name is not None]:
            raise ValueError(f"Relations expects reduce among 'mean', 'sum', 'max', 'logmeanexp'; got {reduce!r}.")
        if not isinstance(evaluate, Spectral) and evaluate not in ("auto", "gather", *FAST):
            raise ValueError(
                f"Relations expects evaluate as 'auto', 'gather', 'projected', 'fused', 'spectral', 'permanent' or a "
                f"Spectral; got {evaluate!r}."
            )
        check_memory_budget("Relations", memory_budget)
        self.f = f
        self.k = cast(int, declared if k is None else k)
        self.reduce = reduce
        self.evaluate = evaluate
        self.memory_budget = memory_budget
        asked = "spectral" if isinstance(evaluate, Spectral) else evaluate
        if asked in FAST and asked != self._fast() and not (asked == "projected" and self._is_projected()):
            raise ValueError(
                f"Relations expects evaluate={asked!r} for an f that it is for; got {type(f).__name__} with "
                f"reduce={reduce!r}, which takes {self._fast() or 'gather'!r}. Use evaluate='auto'."
            )

    def reset_parameters(self) -> None:
        """Draws the weights of its parts anew."""
        draw_anew(self)

    def forward(self, sets: Ragged) -> Ragged:
        self.check(sets)
        LOADING.called()
        how = self._how()
        with errors_explained("f", self.f, sets.values, self.memory_budget):
            return sets.with_values(self._by_rows(sets) if how is None else self._by_sums(sets, how))

    def _enumerates_up_to(self, how: str) -> int:
        """Returns the size of the largest sets whose tuples are enumerated; ``how`` is the evaluator for large sets."""
        fewest = self.k - 1
        if how not in ("spectral", "fused") or self.evaluate == "fused":
            return fewest
        if isinstance(self.evaluate, Spectral) and self.evaluate.enumerate_up_to >= 0:
            return max(fewest, self.evaluate.enumerate_up_to)
        in_torch = how == "spectral" and self.k > max(FEW_TUPLES)
        return _largest_of(self.k, FEW_TUPLES_IN_TORCH if in_torch else FEW_TUPLES[self.k])

    def _how(self) -> str | None:
        """Returns the evaluator for large sets; None for "gather"."""
        if self.evaluate in ("gather", "projected"):
            return "projected" if self.evaluate == "projected" else None
        return self._fast()

    def _is_projected(self) -> bool:
        """Returns True if a mean over tuples of projections gives a mean of f."""
        declared = structure(self.f)
        affine = isinstance(declared, Additive) and declared.rest_is_affine
        return affine and self.reduce in ("mean", "sum") and 2 <= self.k <= MAX_K

    def _fast(self) -> str | None:
        """Returns the fastest evaluator that f and the reduction allow; None if they allow only rows."""
        declared = structure(self.f)
        if self.reduce not in ("mean", "sum") or not 2 <= self.k <= MAX_K:
            return None
        if isinstance(declared, Product):
            return "permanent"
        if not isinstance(declared, Additive) or not declared.rest_is_affine:
            return None
        if Spectral.has_series(declared.activation):
            return "spectral"
        return "fused" if declared.activation == "relu" and self.k == 2 else "projected"

    def _by_sums(self, sets: Ragged, how: str) -> Tensor:
        """Returns the results (N, c) from means over tuples that are not written."""
        declared, values = structure(self.f), sets.values
        activation, spectral = "", self.evaluate if isinstance(self.evaluate, Spectral) else Spectral()
        if isinstance(declared, Product):
            p = declared.factors(torch.cat((values, values.new_zeros(1, values.shape[1]))))
        else:
            assert isinstance(declared, Additive)
            p, activation = declared.project(values), declared.activation
        settings = activation, how, self._enumerates_up_to(how), spectral.tolerance_for(sets.dtype), self.memory_budget
        if torch.compiler.is_compiling():
            means = cast(Tensor, relations_of_any_sizes(widened(p), sets.offsets, *settings))
        else:
            means = relations(widened(p), sets.offsets, sets.sizes, *settings)
        found = declared.rest(means.to(sets.dtype))
        return found if self.reduce == "mean" else found * self._counts(sets).to(found.dtype)

    def _by_rows(self, sets: Ragged) -> Tensor:
        """Returns the results (N, c) by all tuples; those of one element follow each other."""
        problem = Problem(self.f, Tuples(self.k), sets, reduce=None, memory_budget=self.memory_budget)
        counts = self._counts(sets)
        if torch.compiler.is_compiling():  # in a graph for all sizes
            values, traced = traced_results(problem)
            of_none = nn.functional.pad(counts, (0, 0, 0, 1), value=1)  # an empty set's row is f(0, …, 0)
            return self._reduced(values, traced.positions[:, 0], of_none)[:-1].to(sets.dtype)
        rows = cast(Ragged, Gather()(problem))
        empty = sets.offsets.diff() == 0
        values = rows.values[~empty[rows.to_index()[1]]]
        owners = torch.arange(len(counts), device=sets.device)
        owners = owners.repeat_interleave(counts[:, 0].long(), output_size=len(values))
        return reaching(self._reduced(values, owners, counts).to(rows.dtype), problem)

    def _reduced(self, values: Tensor, owners: Tensor, counts: Tensor) -> Tensor:
        """Returns the reduction of the rows of each owner, of which ``counts`` (N, 1) says how many there are."""
        if self.reduce in ("max", "logmeanexp"):
            index = owners[:, None].expand_as(values)
            largest = values.new_full((len(counts), values.shape[1]), -torch.inf)
            largest = largest.scatter_reduce(0, index, values, "amax", include_self=False)
            if self.reduce == "max":
                return largest
            shift = widened(largest.detach())
            shift = torch.where(shift.isfinite(), shift, 0)  # inf - inf would be NaN
            values = (widened(values) - shift[owners]).exp()
        total = values.new_zeros(len(counts), values.shape[1]).to(widened(values).dtype)
        total = total.index_add(0, owners, widened(values))
        if self.reduce != "sum":
            total = total / counts.to(total.dtype)
        if self.reduce == "logmeanexp":
            total = total.log() + shift
        return total

    def _counts(self, sets: Ragged) -> Tensor:
        """Returns the number of tuples of each element, (N, 1)."""
        sizes = sets.offsets.diff().to(widest(sets.device))
        counts = torch.ones_like(sizes)
        for j in range(1, self.k):
            counts = counts * (sizes - j).clamp(min=1)
        return counts[sets.to_index()[1], None]

    def seconds(self, sets: Ragged) -> float:
        how = self._how()
        if how is None:
            problem = Problem(self.f, Tuples(self.k), sets, reduce=None, memory_budget=self.memory_budget)
            problem.check_rows()
            return Gather().cost(problem).seconds
        work = sum(num * self._activations(n, how, sets) for n, num in Counter(sets.sizes).items() if n)
        return seconds_by_weights(self.f, sets) + seconds_of(sets, activations=work)

    def _activations(self, n: int, how: str, sets: Ragged) -> float:
        """Returns the work of the sums of a set of n, in activations."""
        declared, none = structure(self.f), sets.values[:0]
        if isinstance(declared, Product):
            width: int = declared.factors(none).shape[-1]
            return PRODUCT_COST * float(2**self.k * n * width)
        assert isinstance(declared, Additive)
        units = int(declared.project(none).shape[-1])
        if how == "projected" or n <= self._enumerates_up_to(how):
            return TUPLE_COST * units * n * float(perm(n - 1, min(n, self.k) - 1))
        if how == "fused":
            return SORTED_COST * n * units
        spectral = self.evaluate if isinstance(self.evaluate, Spectral) else Spectral()
        harmonics = spectral.num_harmonics(declared.activation, sets.dtype, TYPICAL_BOUND)
        each, of_a_set = KERNEL_COST[self.k] if self.k in KERNEL_COST else (TORCH_COST * 2**self.k, 0.0)
        return harmonics * units * (each * n + of_a_set)

    def config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        names = "f", "k", "reduce", "evaluate", "memory_budget"
        return {name: getattr(self, name) for name in names}

    def extra_repr(self) -> str:
        return arguments_shown(self, k=None if getattr(self.f, "k", None) == self.k else self.k)


@constant_when_compiled
def _largest_of(k: int, few: int) -> int:
    """Returns the size of the largest sets of which an element has no more than ``few`` tuples; k - 1 without any."""
    n = k
    while perm(n - 1, k - 1) <= few:
        n += 1
    return n - 1
