"""Spectral: an evaluator that expands the activation in harmonics, whose means take one pass over the elements."""

from collections import Counter
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache, partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from janossy.evaluate.cost import Cost, Rates
from janossy.evaluate.problem import Problem
from janossy.evaluate.tuples.additive import cost, pool_every_tuple, why_not
from janossy.evaluate.tuples.every_tuple import is_increasing
from janossy.evaluate.tuples.operators import SERIES_MEANS
from janossy.evaluate.tuples.series_means import series_means
from janossy.functions.structure import Additive
from janossy.kernels.expansions import EXPANSIONS, SMALLEST_BOUND, TYPICAL_BOUND, num_harmonics
from janossy.kernels.limits import enumerated, num_tuples, series_cost
from janossy.orderings.contract import fields_shown
from janossy.sets.transfer import constant_when_compiled

MAX_K = 6

TOLERANCE, TOLERANCE_IN_FLOAT64 = 1e-5, 1e-10
"""The default tolerances of an average: for elements in float32, and in float64."""

# Fitted, float32, forward and backward, on two cores of an AMD EPYC: python -m benchmarks.costs --fit. Bytes and
# activations are 15 % faster than the fit's, as auto would else take fused for gelu at n = 100 (benchmarks/auto.py).
RATES = Rates(flops_per_second=3.9e10, bytes_per_second=3e9, activations_per_second=2.5e9, overhead=3.9e-4)
RATES_WITHOUT_KERNELS = Rates(flops_per_second=1e11, bytes_per_second=1e10, activations_per_second=5e7, overhead=3e-3)


@dataclass(frozen=True)
class Spectral:
    """An expansion of σ in sines or cosines, whose means over k-tuples take time linear in n for every k.

    Let T ≥ |Σ_j p_j| over all tuples of a set. On [−T, T], σ(t) = α + β t + c + Σ_{m<M} a_m trig(ω_m t) to
    ``tolerance``, for σ and for its slope. There are two errors: the periodic images of σ at distance δ, and the
    missing harmonics beyond ω_M. Each is below half of the tolerance by the bounds proved in kernels/expansions.py. An
    average over tuples keeps these bounds. M is about T·log(1/tolerance)/5, and does not depend on n. exp(iω Σ_j p_j)
    is a product over positions, whose mean over tuples is a polynomial in sums over elements. The derivation is in
    docs/spectral.md.

    Sets whose tuples are cheaper to enumerate are enumerated, as in ``Fused``. That depends on the size and the numbers
    of the set alone, so a set's result does not depend on its batch-mates. ``enumerate_up_to=n`` instead enumerates
    the sets of at most n elements, and 0 only those of fewer than k.

    Applies to: additive functions with one hidden layer (``TupleMLP``) of tanh, sigmoid, erf, softplus, silu, gelu,
        sine or cosine (no kinks), k <= 6. All k-tuples (Tuples, Combinations), reduced by mean or sum. Kernels take
        float32 and float64 on the CPU, and float32 and bfloat16 for k <= 4 on CUDA. All else runs in torch
        operations, in chunks that keep to the memory budget.
    Tolerance: each mean of activations, and its slope by each pre-activation, is within ``tolerance`` of the exact
        one, plus the rounding of the input's precision. Sine and cosine are exact. The default is 1e-5, and 1e-10 for
        elements in float64.
    Cost: O(n·M·2^k·H) for a set of n; memory for three arrays (N, k, H).
    Raises: ValueError if tolerance is not in (0, 1), or enumerate_up_to < -1. ValueError too for a set too large to
        enumerate whose pre-activations are not finite, or so large that M is out of reach. Kernels on CUDA do not
        wait to check this, and give NaN.
    """

    tolerance: float | None = None
    _: KW_ONLY
    enumerate_up_to: int = -1
    name: ClassVar[str] = "spectral"

    def __post_init__(self) -> None:
        if self.tolerance is not None and not (isinstance(self.tolerance, Real) and 0 < self.tolerance < 1):
            raise ValueError(f"Spectral expects a tolerance between 0 and 1, or None; got {self.tolerance!r}.")
        whole = isinstance(self.enumerate_up_to, Integral) and not isinstance(self.enumerate_up_to, bool)
        if not whole or self.enumerate_up_to < -1:
            raise ValueError(
                "Spectral expects enumerate_up_to >= 0, or -1 to enumerate where it is cheaper; "
                f"got {self.enumerate_up_to!r}."
            )

    def __repr__(self) -> str:
        return fields_shown(self)

    def why_not_applicable(self, problem: Problem) -> str | None:
        reason = why_not(problem)
        if reason is not None:
            return reason
        structure = problem.declared(Additive)
        if not self.has_series(structure.activation):
            return f"{structure.activation} has a kink, and its series would converge too slowly"
        if structure.k > MAX_K:
            return f"it keeps 2^k sums, and takes k <= {MAX_K}; got k = {structure.k}"
        return None

    def check_rows(self, problem: Problem) -> None:
        """Does nothing: it builds no rows."""

    def cost(self, problem: Problem) -> Cost:
        structure = problem.declared(Additive)
        options = structure.activation, self.tolerance_for(problem.values.dtype), self.enumerate_up_to
        sizes = tuple(Counter(problem.elements.sizes).items())
        work = _activations(sizes, structure.k, is_increasing(problem), *options)
        return cost(problem, SERIES_MEANS, work, RATES, RATES_WITHOUT_KERNELS)

    def __call__(self, problem: Problem) -> Tensor:
        in_torch = partial(series_means, memory_budget=problem.memory_budget)
        parameters = (
            problem.declared(Additive).activation,
            self.tolerance_for(problem.values.dtype),
            self.enumerate_up_to,
        )
        return pool_every_tuple(problem, SERIES_MEANS, in_torch, is_increasing(problem), *parameters)

    def tolerance_for(self, dtype: torch.dtype) -> float:
        """Returns the tolerance of an average of elements of this dtype."""
        if self.tolerance is not None:
            return self.tolerance
        return TOLERANCE_IN_FLOAT64 if dtype == torch.float64 else TOLERANCE

    @staticmethod
    def has_series(activation: str) -> bool:
        """Returns True if this activation is a sum of harmonics, to a tolerance."""
        return activation in EXPANSIONS

    def num_harmonics(self, activation: str, dtype: torch.dtype, bound: float) -> int:
        """Returns the number of harmonics of elements in this precision whose pre-activations reach ``bound``."""
        return int(num_harmonics(activation, self.tolerance_for(dtype), bound))


@constant_when_compiled  # on an lru_cache itself it has no effect
def _activations(*arguments: Any) -> float:
    return _count_activations(*arguments)


@lru_cache(maxsize=64)
def _count_activations(
    sizes: tuple[tuple[int, int], ...],
    k: int,
    increasing: bool,
    activation: str,
    tolerance: float,
    enumerate_up_to: int,
) -> float:
    """Returns the activations of a hidden unit, counting harmonics as the activations that take as long.

    ``sizes`` are pairs of a size n and the number of sets of n.
    """
    n, num_sets = np.array(sizes, dtype=np.int64).reshape(-1, 2).T
    tuples = num_tuples(n, k, increasing)
    series = series_cost(n, k, increasing, num_harmonics(activation, tolerance, TYPICAL_BOUND))
    small = enumerated(n, k, increasing, num_harmonics(activation, tolerance, SMALLEST_BOUND), enumerate_up_to)
    best = series if enumerate_up_to >= 0 else np.minimum(series, tuples)
    return float((num_sets * np.where(small, tuples, best)).sum())
