"""The choice of the evaluator that computes a layer, with its reasons."""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from janossy.evaluate.cost import Cost
from janossy.evaluate.distinct import DistinctTuples
from janossy.evaluate.elementwise import Elementwise
from janossy.evaluate.fused import Fused
from janossy.evaluate.gather import Gather
from janossy.evaluate.gpu import gpu_of
from janossy.evaluate.of_any_sizes import OfAnySizes
from janossy.evaluate.packed import Packed
from janossy.evaluate.permanent import Permanent
from janossy.evaluate.problem import Problem
from janossy.evaluate.projected import Projected
from janossy.evaluate.sampled_prefixes import SampledPrefixes
from janossy.evaluate.shared_prefixes import SharedPrefixes
from janossy.evaluate.spectral import Spectral
from janossy.functions.structure import draws_or_mixes_rows
from janossy.orderings.drawn import Drawn
from janossy.sets import Ragged


class Evaluator(Protocol):
    """A way to compute the average: says if it applies and what it would cost, and computes it."""

    @property
    def name(self) -> str: ...

    def why_not_applicable(self, problem: Problem) -> str | None:
        """Returns the reason why it does not apply to this f over these orderings; None if it does."""
        ...

    def check_rows(self, problem: Problem) -> None:
        """Raises a ValueError if the evaluator, which applies, would build too many rows."""
        ...

    def cost(self, problem: Problem) -> Cost:
        """Returns the estimated cost, if the evaluator applies."""
        ...

    def __call__(self, problem: Problem) -> Tensor | Ragged:
        """Returns the reduced rows of each set, (B, c); or, if problem.reduce is None, the rows themselves."""
        ...


EVALUATORS: tuple[Evaluator, ...] = (
    Elementwise(),
    Gather(),
    Projected(),
    DistinctTuples(),
    Fused(),
    Spectral(),
    Permanent(),
    Packed(),
    SharedPrefixes(),
    SampledPrefixes(),
)
"""The evaluators that ``evaluate=name`` chooses from, and ``evaluate="auto"``.

Of two that cost the same, ``"auto"`` takes the first. ``elementwise`` costs as much as ``gather`` on sets of one size,
and copies no elements."""

OF_ANY_SIZES: tuple[Evaluator, ...] = (Elementwise(), Permanent(), Spectral(), Fused(), OfAnySizes())
"""The evaluators under torch.compile, which takes the first that applies.

Costs depend on sizes. These evaluators look at no sizes, so they are not compiled anew for others."""

OF_MEANS = ("permanent", "spectral", "fused")
"""Names of evaluators that look at sizes after all for sums. ``elementwise`` does for the rows themselves."""

PARTS = ("name", "why_not_applicable", "cost")
"""The attributes by which a user's own evaluator is recognised."""


@dataclass(frozen=True)
class Considered:
    """An evaluator, and either its cost or the reason why it does not apply."""

    evaluator: Evaluator
    cost: Cost | None
    reason: str | None


def cheapest(problem: Problem) -> Evaluator:
    """Returns the fastest evaluator that applies.

    Under torch.compile it is one that is compiled once for all sizes, if there is one. This runs in every forward pass,
    so costs are estimated only if several evaluators apply.
    """
    if torch.compiler.is_compiling():
        for evaluator in OF_ANY_SIZES:
            if problem.reduce != "mean" and evaluator.name in OF_MEANS:
                continue
            if problem.reduce is None and evaluator.name == "elementwise":
                continue
            if evaluator.why_not_applicable(problem) is None:
                return evaluator
    applicable = [evaluator for evaluator in EVALUATORS if evaluator.why_not_applicable(problem) is None]
    if len(applicable) == 1:
        return applicable[0]
    seconds = [evaluator.cost(problem).seconds for evaluator in applicable]
    return applicable[seconds.index(min(seconds))]


def candidates(problem: Problem) -> list[Considered]:
    """Returns every evaluator: first those that apply, in order of speed."""
    listed = []
    for evaluator in EVALUATORS:
        reason = evaluator.why_not_applicable(problem)
        cost = evaluator.cost(problem) if reason is None else None
        listed.append(Considered(evaluator, cost, reason))
    return sorted(listed, key=lambda c: c.cost.seconds if c.cost else float("inf"))


def named(evaluate: str | Evaluator) -> Evaluator | None:
    """Returns the evaluator of that name, or the given one; None for "auto".

    Raises: ValueError for an unknown name, TypeError for an object that is not an evaluator.
    """
    by_name = {evaluator.name: evaluator for evaluator in EVALUATORS}
    if not isinstance(evaluate, str):
        if isinstance(evaluate, type) or not all(hasattr(evaluate, part) for part in PARTS):
            raise TypeError(
                f"evaluate expects 'auto', an evaluator such as Spectral(), or one of {', '.join(by_name)}; "
                f"got {evaluate!r}."
            )
        return evaluate
    if evaluate != "auto" and evaluate not in by_name:
        raise ValueError(f"evaluate expects 'auto', an evaluator, or one of {', '.join(by_name)}; got {evaluate!r}.")
    return by_name.get(evaluate)


class Choice:
    """The evaluator of a layer: the one named by the user, or, for "auto", the cheapest, remembered per case."""

    def __init__(self, evaluate: str | Evaluator) -> None:
        self.asked = named(evaluate)
        self._last: tuple[tuple[Any, ...], Evaluator] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_last": None}  # its case holds the sizes, and orderings with data, of the last sets

    @property
    def name(self) -> str:
        return "auto" if self.asked is None else self.asked.name

    @property
    def said(self) -> str | Evaluator:
        """The name, or the evaluator if it has settings of its own."""
        return self.asked if isinstance(self.asked, Spectral) and self.asked != Spectral() else self.name

    def __call__(self, problem: Problem) -> Evaluator:
        """Returns the evaluator that computes this problem.

        Raises: ValueError if the one asked for does not apply.
        """
        if self.asked is not None:
            if (reason := self.asked.why_not_applicable(problem)) is not None:
                raise ValueError(f"evaluate={self.asked.name} does not apply: {reason}; use evaluate='auto'.")
            return self.asked
        if torch.compiler.is_compiling() or isinstance(problem.orderings, Drawn):  # drawn rows come only once
            return cheapest(problem)
        case, last = _case(problem), self._last  # read once: other threads may predict other sets meanwhile
        if last is None or last[0] != case:
            self._last = last = case, cheapest(problem)
        return last[1]

    def explain(self, problem: Problem) -> str:
        """Returns which evaluator computes the problem, what each would cost, and why one does not apply.

        The seconds are a rough estimate, forward and backward, on two cores or on the GPU by its properties.

        Raises: what the computation itself would raise.
        """
        chosen, sizes = self(problem), problem.elements.sizes
        num_rows = sum(problem.orderings.num_rows(n) for n in sizes)
        chosen.check_rows(problem)
        why = "the cheapest that applies" if self.asked is None else "as asked"
        lines = [f"{chosen.name} ({why}): {num_rows} rows of {len(sizes)} sets by {problem.orderings}"]
        if problem.table is not None:
            num = len(problem.elements.values)
            lines.append(
                f"  elements: {num} places in a table of {len(problem.table)}, each of which is projected once"
            )
        if (diagnostics := problem.orderings.diagnostics(problem.keys, problem.gathered.values)) is not None:
            lines.append(f"  {diagnostics}")
        if isinstance(chosen, DistinctTuples):
            lines.append(f"  {chosen.diagnostics(problem)}")
        if problem.values.is_cuda:
            lines.append(f"  times: as expected of {gpu_of(problem.values.device)}; not measured")
        for candidate in candidates(problem):
            if (cost := candidate.cost) is None:
                answer = f"does not apply: {candidate.reason}"
            else:
                answer = f"about {cost.flops:.2g} flops, {cost.bytes:.2g} bytes, {1000 * cost.seconds:.2g} ms"
            lines.append(f"  {candidate.evaluator.name}: {answer}")
        return "\n".join(lines)


def _case(problem: Problem) -> tuple[Any, ...]:
    """Returns all that refusals and costs depend on: the choice stays the same while this does."""
    structure, values = problem.structure, problem.values
    return (
        problem.elements.sizes,
        problem.orderings,
        None if structure is None else structure.case,
        values.dtype,
        values.device,
        values.shape,
        problem.reduce,
        problem.memory_budget,
        problem.f,
        problem.table is not None and draws_or_mixes_rows(problem.f),  # else no chosen evaluator depends on it
    )
