"""Which evaluator computes a layer, and why."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from janossy.evaluate.cost import Cost
from janossy.evaluate.fused import Fused
from janossy.evaluate.gather import Gather
from janossy.evaluate.packed import Packed
from janossy.evaluate.permanent import Permanent
from janossy.evaluate.problem import Problem
from janossy.evaluate.projected import Projected
from janossy.evaluate.sampled_prefixes import SampledPrefixes
from janossy.evaluate.shared_prefixes import SharedPrefixes
from janossy.evaluate.spectral import Spectral
from janossy.ragged import Ragged


class Evaluator(Protocol):
    """HOW the average is computed: says whether it applies, what it would cost, and computes it."""

    @property
    def name(self) -> str: ...

    def refuses(self, problem: Problem) -> str | None:
        """Why it does not apply to this f over these orderings; None if it does."""
        ...

    def cost(self, problem: Problem) -> Cost:
        """What it would cost, where it applies."""
        ...

    def __call__(self, problem: Problem) -> Tensor | Ragged:
        """The reduced rows of each set, (B, c); or, if problem.reduce is None, the rows themselves."""
        ...


EVALUATORS: tuple[Evaluator, ...] = (
    Gather(),
    Projected(),
    Fused(),
    Spectral(),
    Permanent(),
    Packed(),
    SharedPrefixes(),
    SampledPrefixes(),
)
"""Those that ``evaluate=name`` chooses from, and ``evaluate="auto"``."""

IN_FLOAT64 = tuple(Spectral(tolerance=1e-10) if isinstance(e, Spectral) else e for e in EVALUATORS)
"""Those that "auto" chooses from for elements in float64."""


@dataclass(frozen=True)
class Candidate:
    """An evaluator, and either its cost or the reason why it does not apply."""

    evaluator: Evaluator
    cost: Cost | None
    refusal: str | None


def cheapest(problem: Problem) -> Evaluator:
    """The fastest evaluator that applies. Runs in every forward pass, so costs are asked for only if several apply."""
    applicable = [evaluator for evaluator in _for(problem) if evaluator.refuses(problem) is None]
    if len(applicable) == 1:
        return applicable[0]
    seconds = [evaluator.cost(problem).seconds for evaluator in applicable]
    return applicable[seconds.index(min(seconds))]


def candidates(problem: Problem) -> list[Candidate]:
    """Every evaluator: those that apply first, the fastest in front."""
    found = []
    for evaluator in _for(problem):
        refusal = evaluator.refuses(problem)
        cost = evaluator.cost(problem) if refusal is None else None
        found.append(Candidate(evaluator, cost, refusal))
    return sorted(found, key=lambda c: c.cost.seconds if c.cost else float("inf"))


def _for(problem: Problem) -> tuple[Evaluator, ...]:
    return IN_FLOAT64 if problem.elements.dtype == torch.float64 else EVALUATORS


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
