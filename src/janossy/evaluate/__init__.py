"""HOW the average is computed: one evaluator a file, and ``choose`` between them."""

from janossy.evaluate.choose import EVALUATORS, Evaluator, candidates, cheapest, named
from janossy.evaluate.cost import Cost, Function
from janossy.evaluate.gather import Gather
from janossy.evaluate.reduce import REDUCTIONS

__all__ = ["EVALUATORS", "REDUCTIONS", "Cost", "Evaluator", "Function", "Gather", "candidates", "cheapest", "named"]
