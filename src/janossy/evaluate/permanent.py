"""Permanent: the mean over tuples of a product of one factor per position, by a recursion over sets of positions."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from janossy.evaluate.cost import Cost, Rates, Work
from janossy.evaluate.gpu import rates_on
from janossy.evaluate.on_kernels import takes_means
from janossy.evaluate.problem import Problem
from janossy.evaluate.reduce import widened
from janossy.evaluate.tuples.every_tuple import in_order, in_place, is_increasing, reduced, why_not_every_tuple
from janossy.evaluate.tuples.operators import PRODUCT_MEANS
from janossy.evaluate.tuples.product_means import product_means
from janossy.functions.structure import Product
from janossy.sets import Ragged

MAX_K = 10

# Approximate rates of the kernel and the tree, float32, forward and backward, on two cores of an AMD EPYC.
RATES = Rates(flops_per_second=1e11, bytes_per_second=1e10, activations_per_second=2e9, overhead=4e-4)
RATES_WITHOUT_KERNELS = Rates(flops_per_second=1e11, bytes_per_second=1e10, activations_per_second=2e7, overhead=5e-3)

LAUNCHES = 400
"""The kernels of the tree of sets of about one size on a GPU, forward and backward."""

LAUNCHES_OF_KERNELS = 30
"""The kernels if the recursion itself is compiled for the GPU."""


@dataclass(frozen=True)
class Permanent:
    """The mean over k-tuples of Π_j z_j[i_j], z_j = g_j(h): the permanent of a k × n matrix.

    After each element, D[S] is the sum over all ways to fill the positions S with distinct elements read so far.
    Nothing is subtracted. So no digits are lost for n close to k, in long sets, or if one element outweighs all
    others. Sums are in float64, or compensated in float32 on CUDA.

    Applies to: product functions (``TupleProduct``) with k <= 10 over all k-tuples (Tuples, Combinations), reduced by
        mean or sum. In compiled kernels on the CPU, and on CUDA for k <= 4; elsewhere in torch operations.
    Tolerance: rounding.
    Cost: g_j of each element, and n·k·2^(k−1) products per set of n and column (n·k for Combinations). Memory for three
        arrays (N, k, R).
    """

    name: ClassVar[str] = "permanent"

    def why_not_applicable(self, problem: Problem) -> str | None:
        if (reason := problem.lacks(Product)) is not None:
            return reason
        structure = problem.declared(Product)
        if structure.k > MAX_K:
            return f"it keeps 2^k sums, and takes k <= {MAX_K}; got k = {structure.k}"
        return why_not_every_tuple(problem, structure.k)

    def check_rows(self, problem: Problem) -> None:
        """Does nothing: it builds no rows."""

    def cost(self, problem: Problem) -> Cost:
        structure, values = problem.declared(Product), problem.values
        k, columns = structure.k, structure.num_columns
        products = k if is_increasing(problem) else k << (k - 1)
        by_kernels = takes_means(PRODUCT_MEANS.name, values.new_empty(0, k, columns))
        launches = LAUNCHES * len({max(n - 1, 0).bit_length() for n in problem.elements.sizes})
        return Cost(
            flops=2.0 * Work.of(problem.f, whole_rows=True).numel * len(values),
            bytes=3.0 * values.element_size() * len(values) * k * columns,
            activations=float(len(values) * products * columns),
            rates=rates_on(values.device, RATES if by_kernels else RATES_WITHOUT_KERNELS),
            launches=LAUNCHES_OF_KERNELS if by_kernels else launches,
        )

    def __call__(self, problem: Problem) -> Tensor:
        structure, elements = problem.declared(Product), problem.elements
        values, places = in_order(problem)
        factors = in_place(structure.factors(values), places)
        z = factors if takes_means(PRODUCT_MEANS.name, factors) else widened(factors)
        increasing = is_increasing(problem)
        if takes_means(PRODUCT_MEANS.name, z):
            means = PRODUCT_MEANS.means(z, elements.offsets, increasing)
        else:
            means = product_means(z, elements.sizes, increasing)
        if torch.compiler.is_compiling() or any(n < structure.k for n in elements.sizes):
            means = means * _missing(structure, problem.values, elements)
        return reduced(problem, structure.rest(means.to(factors.dtype)))


def _missing(structure: Product, values: Tensor, elements: Ragged) -> Tensor:
    """Returns the products (B, R) of the zero vector's factors at positions that a set of n < k leaves free."""
    zeros = structure.factors(values.new_zeros(1, *values.shape[1:]))[0]
    products = [torch.ones_like(zeros[0])]
    for factor in reversed(widened(zeros).unbind()):
        products.append(products[-1] * factor)
    return torch.stack(products[::-1])[elements.offsets.diff().clamp(max=structure.k)]
