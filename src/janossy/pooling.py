"""JanossyPooling: orderings + function + evaluator + reduce (Eq. 3)."""

from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn

from janossy.evaluate import REDUCTIONS, Evaluator, Function, Problem, candidates, cheapest, named
from janossy.orderings import Orderings, weighs_rows
from janossy.orderings.drawn import Drawn
from janossy.ragged import Ragged, check_ragged


class JanossyPooling(nn.Module):
    """f̄(h) = the mean of f(h_π) over the orderings π (Eq. 3).

    Args:
        f: WHAT is applied to a sequence: any module mapping rows (T, L, d) to (T, c).
        orderings: WHICH sequences are averaged: AllPermutations, Tuples, Combinations, Sampled or Canonical.
        evaluate: HOW: "auto" for the cheapest evaluator that applies, the name of one, or one, such as
            ``Gather(memory_budget=2**28)``.
        reduce: "mean" (the paper), "sum" (its released code), "max", "logmeanexp" (a mixture of densities), or None
            to keep the rows.
        append_size: give f the set size |h| (its first argument in Eq. 3) as one more feature of every element; f
            then takes d + 1 features.

    Shapes: sets.values (N, d) -> (B, c); with reduce=None a Ragged of values (T, c), the rows of each set.
    Invariance: that of the orderings. A set's result never depends on its batch-mates, beyond the rounding of a
        matrix product's blocking. An empty set has one row: of length 0 and value 0, or, for k elements, f(0, …, 0).
    Cost: see ``explain``.
    Raises: ValueError for an unknown reduce or evaluate, an evaluator that was asked for and does not apply, too many
        rows, or an f that does not fit the elements.

    Example:
        >>> pool = JanossyPooling(GRU(4, 16), Sampled(num=5))
        >>> pool(Ragged.from_sets([torch.randn(3, 4), torch.randn(0, 4)])).shape
        torch.Size([2, 16])
    """

    def __init__(
        self,
        f: Function,
        orderings: Orderings,
        evaluate: str | Evaluator = "auto",
        reduce: str | None = "mean",
        *,
        append_size: bool = False,
    ) -> None:
        super().__init__()
        if reduce not in REDUCTIONS:
            raise ValueError(f"reduce expects one of {', '.join(map(repr, REDUCTIONS))}; got {reduce!r}.")
        self.f = f
        self.orderings = orderings
        self.evaluator = named(evaluate)
        self._last_choice: tuple[tuple, Evaluator] | None = None
        self.reduce = reduce
        self.append_size = append_size

    def forward(
        self,
        sets: Ragged,
        orderings: Orderings | None = None,
        *,
        keys: Ragged | None = None,
        generator: torch.Generator | None = None,
    ) -> "Tensor | Ragged":
        """Pool each set.

        ``orderings``: others than the layer's own, such as rows that have been drawn (``Drawn``), or more permutations.
        ``keys``: the same sets of other elements, which canonical and seeded orders look at instead, such as the
        network's raw input. ``generator``: the source of the permutations, on the sets' device.
        """
        check_ragged(sets, "JanossyPooling")
        orderings = self.orderings if orderings is None else orderings
        problem = self._problem(sets, keys, orderings, self.reduce, generator)
        return self._weighted(problem) if weighs_rows(orderings) else self._pool(problem)

    def rows(
        self,
        sets: Ragged,
        orderings: Orderings | None = None,
        *,
        keys: Ragged | None = None,
        generator: torch.Generator | None = None,
    ) -> Ragged:
        """f of each ordering, before any are averaged: (T, c), the rows of each set.

        ``orderings``: others than the layer's own, such as more permutations than it is trained with.
        """
        check_ragged(sets, "JanossyPooling")
        orderings = self.orderings if orderings is None else orderings
        return cast(Ragged, self._pool(self._problem(sets, keys, orderings, None, generator)))

    def _weighted(self, problem: Problem) -> "Tensor | Ragged":
        """The mean or the sum of the rows, each times its weight."""
        if problem.reduce not in ("mean", "sum"):
            raise ValueError(
                f"{type(problem.orderings).__name__} weighs its rows, which reduce={problem.reduce!r} cannot; "
                "use reduce='mean' or 'sum'."
            )
        drawn = problem.orderings.enumerate(problem.keys, problem.generator)
        given = replace(
            problem,
            orderings=Drawn(drawn, problem.keys.sizes, getattr(problem.orderings, "k", None)),
            reduce=None,
            generator=None,
        )
        rows = cast(Ragged, self._pool(given))
        weights = cast(Tensor, drawn.weights()).to(rows.dtype)
        total = rows.values.new_zeros(len(rows), rows.values.shape[1])
        total = total.index_add(0, rows.to_index()[1], rows.values * weights)
        return total if problem.reduce == "sum" else total / rows.offsets.diff()[:, None]

    def _pool(self, problem: Problem) -> "Tensor | Ragged":
        evaluator = self._evaluator(problem)
        refusal = evaluator.refuses(problem) if self.evaluator is not None else None
        if refusal is not None:
            raise ValueError(f"evaluate={evaluator.name} does not apply: {refusal}; use evaluate='auto'.")
        return evaluator(problem)

    def explain(self, sets: Ragged) -> str:
        """Which evaluator computes these sets, what each would cost, and why one does not apply.

        The seconds are a rough estimate, forward and backward, on two cores.
        """
        problem = self._problem(sets, None, self.orderings, self.reduce)
        num_rows = sum(self.orderings.num_rows(n) for n in sets.sizes)
        why = "the cheapest that applies" if self.evaluator is None else "as asked"
        lines = [f"{self._evaluator(problem).name} ({why}): {num_rows} rows of {len(sets)} sets by {self.orderings}"]
        for candidate in candidates(problem):
            if (cost := candidate.cost) is None:
                answer = f"does not apply: {candidate.refusal}"
            else:
                answer = f"about {cost.flops:.2g} flops, {cost.bytes:.2g} bytes, {1000 * cost.seconds:.2g} ms"
            lines.append(f"  {candidate.evaluator.name}: {answer}")
        return "\n".join(lines)

    def _evaluator(self, problem: Problem) -> Evaluator:
        """The one asked for, or the cheapest: chosen again for other sizes, or when the last one no longer applies."""
        if self.evaluator is not None:
            return self.evaluator
        if torch.compiler.is_compiling() or problem.orderings is not self.orderings:
            return cheapest(problem)
        declared = problem.additive is None, problem.product is None  # as hooks and dropout allow
        case = problem.elements.sizes, problem.elements.dtype, problem.elements.device, problem.reduce, declared
        last = self._last_choice
        if last is not None and last[0] == case and last[1].refuses(problem) is None:
            return last[1]
        chosen = cheapest(problem)
        self._last_choice = case, chosen
        return chosen

    def _problem(
        self,
        sets: Ragged,
        keys: Ragged | None,
        orderings: Orderings,
        reduce: str | None,
        generator: torch.Generator | None = None,
    ) -> Problem:
        return Problem(self.f, orderings, self._elements(sets), sets if keys is None else keys, reduce, generator)

    def _elements(self, sets: Ragged) -> Ragged:
        if not self.append_size:
            return sets
        if sets.values.dim() != 2:
            raise ValueError(f"append_size expects elements (N, d); got {tuple(sets.values.shape)}.")
        owners = sets.to_index()[1]
        sizes = sets.offsets.diff()[owners, None].to(sets.dtype)
        return sets.with_values(torch.cat((sets.values, sizes), dim=1))

    def extra_repr(self) -> str:
        evaluate = "auto" if self.evaluator is None else self.evaluator.name
        size = ", append_size=True" if self.append_size else ""
        return f"orderings={self.orderings}, evaluate={evaluate}, reduce={self.reduce}{size}"
