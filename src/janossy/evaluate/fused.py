"""Fused: an evaluator that enumerates tuples inside a compiled kernel and adds up activations as it makes them."""

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import ClassVar

import numpy as np
from torch import Tensor

from janossy.evaluate.cost import Cost, Rates
from janossy.evaluate.problem import Problem
from janossy.evaluate.tuples.additive import cost, pool_every_tuple, why_not
from janossy.evaluate.tuples.every_tuple import is_increasing
from janossy.evaluate.tuples.operators import TUPLE_MEANS
from janossy.evaluate.tuples.tuple_means import tuple_means
from janossy.functions.structure import Additive
from janossy.kernels.limits import num_tuples
from janossy.sets.transfer import constant_when_compiled

# Fitted, float32, forward and backward, on two cores of an AMD EPYC: python -m benchmarks.costs --fit.
RATES = Rates(flops_per_second=1e11, bytes_per_second=1.7e9, activations_per_second=3.6e9, overhead=3.3e-4)
RATES_WITHOUT_KERNELS = Rates(flops_per_second=1e11, bytes_per_second=1e10, activations_per_second=2e8, overhead=6e-4)

SORTED_PAIR = 100.0
"""The activations that take as long as one step of sorting, in float32; the kernel has a finer estimate."""


@dataclass(frozen=True)
class Fused:
    """Enumeration of the tuples in registers: each element is projected once, and no tuple is written to memory.

    A commutes with the mean of A σ(Σ_j W_j x_j + b) + a. With p_j = W_j h, one sum of activations per hidden unit
    remains. The compiled kernel computes each activation with its slope, adds them up, and keeps the slopes by each
    projection for backward. ReLU with k = 2 is summed by sorting, in O(n log n). Tanh and sigmoid of pairs and triples,
    in sets of up to 24, are made from products of one exponential per projection.

    Applies to: additive functions with one hidden layer (``TupleMLP``) over all k-tuples (Tuples, Combinations),
        reduced by mean or sum; float32 and float64 on the CPU. On other devices, and without numba, the same sums run
        in torch operations, in chunks that keep to the memory budget.
    Tolerance: rounding; float32 activations to 4e-7.
    Cost: N·k projections and an activation for each tuple and hidden unit; memory for three arrays (N, k, H).
    """

    name: ClassVar[str] = "fused"

    def why_not_applicable(self, problem: Problem) -> str | None:
        return why_not(problem)

    def check_rows(self, problem: Problem) -> None:
        """Does nothing: it builds no rows."""

    def cost(self, problem: Problem) -> Cost:
        structure = problem.declared(Additive)
        by_sorting = structure.activation == "relu" and structure.k == 2
        sizes = tuple(Counter(problem.elements.sizes).items())
        tuples = _activations(sizes, structure.k, is_increasing(problem), by_sorting)
        return cost(problem, TUPLE_MEANS, tuples, RATES, RATES_WITHOUT_KERNELS)

    def __call__(self, problem: Problem) -> Tensor:
        in_torch = partial(tuple_means, memory_budget=problem.memory_budget)
        parameters = is_increasing(problem), problem.declared(Additive).activation
        return pool_every_tuple(problem, TUPLE_MEANS, in_torch, *parameters)


@constant_when_compiled  # on an lru_cache itself it has no effect
def _activations(sizes: tuple[tuple[int, int], ...], k: int, increasing: bool, by_sorting: bool) -> float:
    return _count_activations(sizes, k, increasing, by_sorting)


@lru_cache(maxsize=64)
def _count_activations(sizes: tuple[tuple[int, int], ...], k: int, increasing: bool, by_sorting: bool) -> float:
    """Returns the activations of a hidden unit, counting sorts as the activations that take as long.

    ``sizes`` are pairs of a size n and the number of sets of n.
    """
    n, num_sets = np.array(sizes, dtype=np.float64).reshape(-1, 2).T
    tuples = num_tuples(n, k, increasing)
    if by_sorting:
        tuples = np.minimum(tuples, SORTED_PAIR * n * np.log2(np.maximum(n, 2)))
    return float((num_sets * tuples).sum())
