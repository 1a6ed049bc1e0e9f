"""Which evaluator computes a layer, and why."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from janossy.evaluate.cost import Cost, Function
from janossy.evaluate.gather import Gather
from janossy.orderings.rows import Orderings, Rows
from janossy.ragged import Ragged


class Evaluator(Protocol):
    """HOW the average is computed: says whether it applies, what it would cost, and computes it."""

    @property
    def name(self) -> str: ...

    def refuses(self, f: Function, orderings: Orderings) -> str | None:
        """Why it does not apply to f over these orderings; None if it does."""
        ...

    def cost(self, f: Function, orderings: Orderings, elements: Ragged) -> Cost: ...

    def __call__(self, f: Function, elements: Ragged, rows: Rows, reduce: str | None = "mean") -> Tensor | Ragged:
        """The reduced rows of each set, (B, c); or, if reduce is None, the rows themselves."""
        ...


EVALUATORS: tuple[Evaluator, ...] = (Gather(),)
"""Those that ``evaluate="auto"`` and ``evaluate=name`` choose from."""


@dataclass(frozen=True)
class Candidate:
    """An evaluator, and either its cost or the reason why it does not apply."""

    evaluator: Evaluator
    cost: Cost | None
    refusal: str | None


def cheapest(f: Function, orderings: Orderings, elements: Ragged) -> Evaluator:
    """The cheapest evaluator that applies. Runs in every forward pass, so costs are asked for only if several apply."""
    applicable = [evaluator for evaluator in EVALUATORS if evaluator.refuses(f, orderings) is None]
    if len(applicable) == 1:
        return applicable[0]
    return min(applicable, key=lambda evaluator: evaluator.cost(f, orderings, elements).flops)


def candidates(f: Function, orderings: Orderings, elements: Ragged) -> list[Candidate]:
    """Every evaluator: those that apply first, the cheapest in front."""
    found = []
    for evaluator in EVALUATORS:
        refusal = evaluator.refuses(f, orderings)
        cost = evaluator.cost(f, orderings, elements) if refusal is None else None
        found.append(Candidate(evaluator, cost, refusal))
    return sorted(found, key=lambda c: c.cost.flops if c.cost else float("inf"))


def named(evaluate: str | Evaluator) -> Evaluator | None:
    """The evaluator of that name, or the one given; None for "auto".

    Raises: ValueError for an unknown name.
    """
    if not isinstance(evaluate, str):
        return evaluate
    by_name = {evaluator.name: evaluator for evaluator in EVALUATORS}
    if evaluate != "auto" and evaluate not in by_name:
        raise ValueError(f"evaluate expects 'auto', an evaluator, or one of {', '.join(by_name)}; got {evaluate!r}.")
    return by_name.get(evaluate)
