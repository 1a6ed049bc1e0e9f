"""HOW the average is computed: one evaluator a file, and ``choose`` between them."""

from janossy.evaluate.choose import EVALUATORS, Evaluator, candidates, cheapest, named
from janossy.evaluate.cost import Cost, Rates
from janossy.evaluate.fused import Fused
from janossy.evaluate.gather import Gather
from janossy.evaluate.permanent import Permanent
from janossy.evaluate.problem import Function, Problem
from janossy.evaluate.projected import Projected
from janossy.evaluate.reduce import REDUCTIONS
from janossy.evaluate.spectral import Spectral

__all__ = [
    "EVALUATORS",
    "REDUCTIONS",
    "Cost",
    "Evaluator",
    "Function",
    "Fused",
    "Gather",
    "Permanent",
    "Problem",
    "Projected",
    "Rates",
    "Spectral",
    "candidates",
    "cheapest",
    "named",
]
