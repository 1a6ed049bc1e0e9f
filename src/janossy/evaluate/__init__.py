"""Evaluators: the ways to compute the average, one per file, and ``choose`` between them."""

from janossy.evaluate.choose import EVALUATORS, Choice, Evaluator, candidates, cheapest
from janossy.evaluate.cost import Cost, Rates
from janossy.evaluate.distinct import DistinctTuples
from janossy.evaluate.elementwise import Elementwise
from janossy.evaluate.fused import Fused
from janossy.evaluate.gather import Gather
from janossy.evaluate.packed import Packed
from janossy.evaluate.permanent import Permanent
from janossy.evaluate.problem import MEMORY_BUDGET, Function, Problem
from janossy.evaluate.projected import Projected
from janossy.evaluate.reduce import REDUCTIONS
from janossy.evaluate.sampled_prefixes import SampledPrefixes
from janossy.evaluate.shared_prefixes import SharedPrefixes
from janossy.evaluate.spectral import Spectral

__all__ = [
    "EVALUATORS",
    "MEMORY_BUDGET",
    "REDUCTIONS",
    "Choice",
    "Cost",
    "DistinctTuples",
    "Elementwise",
    "Evaluator",
    "Function",
    "Fused",
    "Gather",
    "Packed",
    "Permanent",
    "Problem",
    "Projected",
    "Rates",
    "SampledPrefixes",
    "SharedPrefixes",
    "Spectral",
    "candidates",
    "cheapest",
]
