"""JanossyPooling: orderings + function + evaluator + reduce (Eq. 3)."""

from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from janossy.checks import check_flag, check_generator, check_integer
from janossy.evaluate import MEMORY_BUDGET, REDUCTIONS, Choice, Evaluator, Function, Problem
from janossy.evaluate.cost import Cost, check_memory_budget
from janossy.evaluate.loading import LOADING, estimating
from janossy.evaluate.lookup import Lookup
from janossy.evaluate.problem import reaching
from janossy.evaluate.reduce import OF_ROWS, reduce_segments, widened
from janossy.evaluate.rows.pool import apply
from janossy.evaluate.validation import check_function, check_keys, check_sets, errors_explained
from janossy.functions.meaning import StatesItsMeaning
from janossy.functions.shown import arguments_shown
from janossy.functions.structure import Additive, Product, structure
from janossy.functions.tuple_function import TupleFunction
from janossy.functions.weights import draw_anew
from janossy.nn.element_weights import check_weights, pool_by_weights
from janossy.nn.modes import untouched
from janossy.nn.reductions import RowReduction
from janossy.orderings.contract import Orderings, check_orderings, modules_of, repeatable
from janossy.orderings.drawn import Drawn
from janossy.sets import Ragged

Reduce = str | RowReduction
"""A reduction of rows: a name, or a module with numbers."""

AVERAGES = ("mean", "logmeanexp", "std")
"""The reductions whose scale does not depend on the number of orderings."""


class JanossyPooling(StatesItsMeaning):
    """f̄(h) = the mean of f(h_π) over the orderings π (Eq. 3).

    Args:
        f: the function of a sequence: any module mapping rows (T, L, d) to (T, c). For k = 1 it may map them to
            (T, 1, c), as ``nn.Linear`` does. A ``TupleMLP`` or ``TupleProduct`` without k takes k from the orderings.
        orderings: the sequences that are averaged: AllPermutations, Tuples, Combinations, Sampled, Canonical, ….
        evaluate: the way to compute the average: "auto" for the cheapest evaluator that applies, the name of one, or
            an evaluator, such as ``Spectral(tolerance=1e-7)``.
        reduce: "mean" (the paper), "sum" (its released code), "max", "logmeanexp" (a mixture of densities), "min" or
            "std" (the standard deviation over the rows). Other reductions are ``Quantile``, ``PowerMean`` and
            ``SoftmaxMean``. A tuple, such as ("mean", "std", Quantile(0.9)), gives the results side by side from one
            call of f. Only the first four, alone, do not hold all rows at once. ``rows`` returns the rows themselves.
        memory_budget: the bytes that may be held at once, by an estimate. A computation that needs more runs in chunks,
            and again in backward.
        append_size: True to give f the set size |h| (its first argument in Eq. 3) as another feature of every element.
            f then takes d + 1 features. "log" gives log(1 + |h|), which keeps sizes of any order in range.
        largest_size: the bound to which larger sizes are cut before f reads them. Use the largest size of training if
            the learned function should not extrapolate in the size.
        orderings_train: the orderings in training mode, such as ``Distinct(256, k=2)`` beside ``Tuples(2)``. Each step
            then costs at most 256 pairs per set, and predictions average over all pairs.
        fixed_in_eval: True for the same permutations at every call in evaluation mode: those of ``seed=0``, so that a
            result depends on its set alone. Training draws anew. Orderings that draw nothing, or have a seed, stay as
            they are. ``predict``, and a call with a generator or with orderings of its own, draw anew.

    In evaluation, a set with no more orders than ``Sampled`` draws (n! <= num) gives each order once, and its mean is
    exact. A sum or a maximum is over num draws, as in training. Larger sets are sampled anew at every call, also in
    evaluation, so that two calls differ unless ``fixed_in_eval``.

    Shapes: sets.values (N, d) -> (B, c).
    Invariance: that of the orderings. A set's result never depends on its batch-mates, beyond the rounding of a
        matrix product's blocking. An empty set has one row: of length 0 and value 0, or, for k elements, f(0, …, 0).
    Cost: see ``explain``.
    Raises:
        TypeError: for arguments of another type.
        ValueError: for arguments of another range, a named evaluator that does not apply, too many rows, or an f that
            does not fit the elements.
        RuntimeError: when the state of a layer with other orderings or another reduce is loaded.

    Example:
        >>> pool = JanossyPooling(GRU(4, 16), Sampled(num_permutations=5))
        >>> pool(Ragged.from_sets([torch.randn(3, 4), torch.randn(0, 4)])).shape
        torch.Size([2, 16])
    """

    def __init__(
        self,
        f: Function,
        orderings: Orderings,
        *,
        evaluate: str | Evaluator = "auto",
        reduce: Reduce | tuple[Reduce, ...] = "mean",
        memory_budget: int = MEMORY_BUDGET,
        append_size: bool | str = False,
        largest_size: int | None = None,
        orderings_train: Orderings | None = None,
        fixed_in_eval: bool = False,
    ) -> None:
        super().__init__()
        check_function(f, "JanossyPooling", "(T, c)")
        check_orderings(orderings, "JanossyPooling")
        reduce = tuple(reduce) if isinstance(reduce, list) else reduce
        each_reduce = _each(reduce)
        if not each_reduce or not all(
            each in OF_ROWS if isinstance(each, str) else isinstance(each, RowReduction) for each in each_reduce
        ):
            kept = "; .rows(sets) keeps the rows" if reduce is None else ""
            raise ValueError(
                f"reduce expects one or several of {', '.join(map(repr, OF_ROWS))}, Quantile(q), PowerMean(p), "
                f"SoftmaxMean(t); got {reduce!r}{kept}."
            )
        if orderings_train is not None:
            check_orderings(orderings_train, "JanossyPooling")
            if not all(map(_is_average, each_reduce)):
                raise ValueError(
                    f"JanossyPooling expects, with orderings_train, a reduce among {', '.join(AVERAGES)}, whose scale "
                    f"does not depend on how many there are; got {reduce!r}."
                )
        for each in (orderings, orderings_train):
            _check_k(f, each)
        check_memory_budget("JanossyPooling", memory_budget)
        if append_size != "log":
            check_flag("JanossyPooling", "append_size", append_size)
        check_integer("JanossyPooling", "largest_size", largest_size, 0, optional=True)
        check_flag("JanossyPooling", "fixed_in_eval", fixed_in_eval)
        if fixed_in_eval:
            repeatable(orderings.in_prediction(), "JanossyPooling")
        self.f = f
        self.orderings = orderings
        self.choice = Choice(evaluate)
        self.reduce = reduce
        self.memory_budget = memory_budget
        self.append_size = append_size
        self.largest_size = largest_size
        self.orderings_train = orderings_train
        self.fixed_in_eval = fixed_in_eval
        if own := [each for each in each_reduce if isinstance(each, RowReduction)]:
            self.of_reduce = nn.ModuleList(own)
        if modules := [*modules_of(orderings), *modules_of(orderings_train)]:
            self.of_orderings = nn.ModuleList(modules)  # they are moved, saved and trained with the layer

    def reset_parameters(self) -> None:
        """Draws the weights of all parts anew."""
        draw_anew(self)

    def forward(
        self,
        sets: Ragged,
        orderings: Orderings | None = None,
        *,
        keys: Ragged | None = None,
        weights: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Returns the pooled vector of each set, (B, c).

        Args:
            orderings: orderings to use instead of the layer's own, such as drawn rows (``Drawn``) or more permutations.
            keys: the same sets with other elements, from which canonical and seeded orders are made. An example is the
                network's raw input.
            weights: the weights of the elements, (N,), each >= 0, for orderings of k elements. The result is
                Σ w_i w_j f(x_i, x_j) / Σ w_i w_j, differentiable by the weights. An element of weight 0 is masked. A
                set whose rows all have weight 0 gives 0.
            generator: the source of the permutations, on the sets' device.
        """
        problem = self.problem(sets, keys, orderings, self.reduced, generator)
        if weights is not None:
            check_weights(weights, problem, "JanossyPooling")
            return pool_by_weights(problem, weights, lambda weighed: cast(Tensor, self._pool(weighed)))
        if self.reduced is None:
            self._check_weighted(problem)
            return self._reductions(cast(Ragged, self._pool(problem)))
        return cast(Tensor, self._weighted(problem) if problem.orderings.weighs_rows else self._pool(problem))

    def rows(
        self,
        sets: Ragged,
        orderings: Orderings | None = None,
        *,
        keys: Ragged | None = None,
        generator: torch.Generator | None = None,
    ) -> Ragged:
        """Returns f of each ordering, before any are averaged: (T, c), the rows of each set.

        ``orderings``, ``keys`` and ``generator`` are as in a call.
        """
        return cast(Ragged, self._pool(self.problem(sets, keys, orderings, None, generator)))

    def positions(
        self,
        sets: Ragged,
        orderings: Orderings | None = None,
        *,
        keys: Ragged | None = None,
        generator: torch.Generator | None = None,
    ) -> Ragged:
        """Returns the elements of each row of ``rows``: (T, k), positions within the set, −1 for the zero vector.

        Together with ``rows`` it gives an output for each pair or k-tuple of a set. For sampled rows, both calls need a
        generator in the same state. ``orderings``, ``keys`` and ``generator`` are as in a call.

        Raises: ValueError for orderings of whole sets; otherwise as a call.
        """
        problem = self.problem(sets, keys, orderings, None, generator)
        if problem.orderings.k is None:
            raise ValueError(
                f"positions expects orderings of k elements, whose rows have one length; got {problem.orderings}. Use "
                "Tuples(k), Combinations(k) or Sampled(num, k=k)."
            )
        rows = problem.orderings.enumerate(problem.keys, problem.generator)
        parts = []
        for bucket in rows.buckets:
            positions = bucket.positions()
            parts.append(torch.where(positions < 0, -1, positions - bucket.starts[:, None, None]))
        return Ragged.from_sizes(rows.join(parts), rows.counts())

    def explain(self, sets: Ragged, orderings: Orderings | None = None, *, keys: Ragged | None = None) -> str:
        """Returns which evaluator computes these sets, what each would cost, and why one does not apply.

        The seconds are a rough estimate, forward and backward, on two cores, or on CUDA by the device's properties. f
        is tried on one row, in evaluation mode.

        Raises: what a call would raise.
        """
        problem = self.problem(sets, keys, orderings, self.reduced, None)
        self._check_weighted(problem)
        with estimating():
            text = self.choice.explain(problem)
            self._try(problem)
        return text

    def cost(self, sets: Ragged, orderings: Orderings | None = None, *, keys: Ragged | None = None) -> Cost:
        """Estimates the cost of the evaluator that is chosen for these sets.

        Raises: what a call would raise about orderings and evaluators.
        """
        problem = self.problem(sets, keys, orderings, self.reduced, None)
        with estimating():
            chosen = self.choice(problem)
            chosen.check_rows(problem)
            return chosen.cost(problem)

    @property
    def reduced(self) -> str | None:
        """The reduction that evaluators compute; None if they return the rows, which are reduced afterwards."""
        return self.reduce if isinstance(self.reduce, str) and self.reduce in REDUCTIONS else None

    def _reductions(self, rows: Ragged) -> Tensor:
        reduced = [
            reduce_segments(each, rows) if isinstance(each, str) else cast(Tensor, each(rows))
            for each in _each(self.reduce)
        ]
        return torch.cat(reduced, dim=1).to(rows.dtype)

    def in_evaluation(self, orderings: Orderings) -> Orderings:
        """Returns these orderings for evaluation: learned orders sorted, and small sets exhausted."""
        orderings = orderings.in_prediction()
        return orderings.exhausting() if all(map(_is_average, _each(self.reduce))) else orderings

    def meaning(self) -> dict[str, Any]:
        """Returns the orderings that are averaged, without the number of draws, and the reduction."""
        return {
            "orderings": self.orderings.averages,
            "k": self.orderings.k,
            "key": self.orderings.sorted_by,
            "reduce": self._said_reduce,
            "append_size": self.append_size,
            "largest_size": self.largest_size,
        }

    @property
    def _said_reduce(self) -> str | tuple[str, ...]:
        return tuple(map(_said, self.reduce)) if isinstance(self.reduce, tuple) else _said(self.reduce)

    def _weighted(self, problem: Problem) -> Tensor:
        """Returns the mean or the sum of the rows, each times its weight."""
        self._check_weighted(problem)
        drawn = problem.orderings.enumerate(problem.keys, problem.generator)
        given = replace(
            problem,
            orderings=Drawn(drawn, problem.keys.sizes, problem.orderings.k),
            reduce=None,
            generator=None,
        )
        rows = cast(Ragged, self._pool(given))
        values = widened(rows.values)
        weights = cast(Tensor, drawn.weights()).to(values.dtype)
        total = values.new_zeros(len(rows), values.shape[1])
        total = total.index_add(0, rows.to_index()[1], values * weights)
        return (total if problem.reduce == "sum" else total / rows.offsets.diff()[:, None]).to(rows.dtype)

    def _pool(self, problem: Problem) -> Tensor | Ragged:
        with errors_explained("f", problem.f, problem.values, problem.memory_budget):
            return reaching(self.choice(problem)(problem), problem)

    def _check_weighted(self, problem: Problem) -> None:
        if problem.orderings.weighs_rows and problem.reduce not in ("mean", "sum"):
            raise ValueError(
                f"{type(problem.orderings).__name__} weighs its rows, which reduce={self.reduce!r} cannot; "
                "use reduce='mean' or 'sum'."
            )

    def _try(self, problem: Problem) -> None:
        """Applies f to one row of these elements, as a call would, so that its errors are raised."""
        values, n = problem.values, max(problem.elements.sizes, default=0)
        # A zero vector stands for the row, as it does in a call without elements, to show the width of the result.
        row = values.new_zeros(1, max(1, problem.orderings.row_length(n)), *values.shape[1:])
        with untouched(self), errors_explained("f", problem.f, values):
            apply(problem.f, row, single=problem.orderings.k == 1)

    def problem(
        self,
        sets: Ragged,
        keys: Ragged | None,
        orderings: Orderings | None,
        reduce: str | None,
        generator: torch.Generator | None,
    ) -> Problem:
        """Returns the problem that an evaluator solves for these sets; ``reduce=None`` asks for the rows.

        Raises: TypeError or ValueError for arguments that a call does not take.
        """
        check_sets(sets, "JanossyPooling")
        if keys is not None:
            check_keys(keys, sets, "JanossyPooling")
        own = orderings is None
        if orderings is None:
            trains = self.training and self.orderings_train is not None
            orderings = cast(Orderings, self.orderings_train) if trains else self.orderings
        elif not isinstance(orderings, Drawn):
            check_orderings(orderings, "JanossyPooling")
        if not self.training:
            orderings = self.in_evaluation(orderings)
            if self.fixed_in_eval and own and generator is None:
                orderings = repeatable(orderings, "JanossyPooling")
        check_generator("JanossyPooling", generator, sets.device)
        elements = self._elements(sets)
        elements, table = (elements.places, elements.table) if isinstance(elements, Lookup) else (elements, None)
        keys = sets if keys is None else keys
        LOADING.called()
        return Problem(
            self.f,
            orderings,
            elements,
            keys=keys,
            reduce=reduce,
            generator=generator,
            memory_budget=self.memory_budget,
            table=table,
        )

    def _elements(self, sets: Ragged) -> Ragged:
        if not self.append_size:
            return sets
        if sets.values.dim() != 2:
            raise ValueError(f"append_size expects elements (N, d); got {tuple(sets.values.shape)}.")
        owners = sets.to_index()[1]
        sizes = self.size_feature(sets.offsets.diff()).to(sets.dtype)[owners, None]
        return sets.with_values(torch.cat((sets.values, sizes), dim=1))

    def size_feature(self, sizes: Tensor) -> Tensor:
        """Returns the feature that ``append_size`` appends to sets of these sizes."""
        if self.largest_size is not None:
            sizes = sizes.clamp(max=min(self.largest_size, torch.iinfo(sizes.dtype).max))
        return torch.log1p(sizes) if self.append_size == "log" else sizes

    def config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            "f": self.f,
            "orderings": self.orderings,
            "evaluate": "auto" if self.choice.asked is None else self.choice.asked,
            "reduce": self.reduce,
            "memory_budget": self.memory_budget,
            "append_size": self.append_size,
            "largest_size": self.largest_size,
            "orderings_train": self.orderings_train,
            "fixed_in_eval": self.fixed_in_eval,
        }

    def extra_repr(self) -> str:
        return arguments_shown(self, evaluate=self.choice.said)


def _each(reduce: Reduce | tuple[Reduce, ...]) -> tuple[Reduce, ...]:
    """Returns the reductions as a tuple."""
    return reduce if isinstance(reduce, tuple) else (reduce,)


def _is_average(reduce: Reduce) -> bool:
    return isinstance(reduce, RowReduction) or reduce in AVERAGES


def _said(reduce: Reduce) -> str:
    return reduce if isinstance(reduce, str) else f"{type(reduce).__name__}({reduce.meaning()})"


def _check_k(f: Function, orderings: Orderings | None) -> None:
    """Gives f the orderings' k if f has none. Raises: ValueError if f reads rows of another length."""
    if orderings is None:
        return
    if isinstance(f, TupleFunction) and f.k is None:
        if orderings.k is None:
            raise ValueError(
                f"JanossyPooling expects orderings of k elements for a {type(f).__name__} without k; got {orderings}. "
                "Use Tuples(k), Combinations(k) or Sampled(num, k=k), or give f its k."
            )
        f.take_k(orderings.k)
    declared = f if isinstance(f, TupleFunction) else structure(f)
    if orderings.k is None or not isinstance(declared, Additive | Product | TupleFunction):
        return
    if declared.k != orderings.k:
        raise ValueError(
            f"JanossyPooling expects the same k for f and orderings; got {type(f).__name__} of k={declared.k} over "
            f"{orderings}, of k={orderings.k}. Give both the same k, or give f no k."
        )
