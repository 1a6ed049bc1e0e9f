"""The common part of the evaluators of additive functions: f̄ = rest(the mean of σ(Σ_j p_j) over every k-tuple)."""

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor

from janossy.evaluate.cost import Cost, Rates
from janossy.evaluate.gpu import rates_on
from janossy.evaluate.on_kernels import may_look, takes_means
from janossy.evaluate.problem import Problem
from janossy.evaluate.reduce import widened
from janossy.evaluate.tuples.every_tuple import in_order, in_place, reduced, why_not_every_tuple
from janossy.evaluate.tuples.operators import Operator
from janossy.evaluate.tuples.place_means import place_means
from janossy.evaluate.tuples.projected_means import is_plain, projected_means
from janossy.functions.structure import ACTIVATIONS, Additive

LAUNCHES, LAUNCHES_IN_TORCH = 30, 80
"""The kernels on a GPU, forward and backward, of means by kernels, and of means in torch operations per size."""

WRITTEN = 6
"""The times that torch operations write or read an activation, forward and backward."""


def why_not(problem: Problem) -> str | None:
    """Returns the reason why f is not additive with one hidden layer, averaged over every k-tuple; None if it is."""
    if (reason := problem.lacks(Additive)) is not None:
        return reason
    structure = problem.declared(Additive)
    if not structure.rest_is_affine:
        if getattr(problem.f, "dropout", 0) and getattr(problem.f, "training", False):
            return f"{type(problem.f).__name__} applies dropout in training; it applies in evaluation, by .eval()"
        return (
            f"{type(problem.f).__name__} has more than one hidden layer, norms, or another output layer than nn.Linear"
        )
    return why_not_every_tuple(problem, structure.k)


def pool_every_tuple(
    problem: Problem, operator: Operator, in_torch: Callable[..., Tensor], *parameters: bool | str | float
) -> Tensor:
    """Returns the reduced rows (B, c), by a compiled kernel's operator or by the same function in torch operations.

    Half-precision projections are added up in float32. Kernels take them as they are, or widened.
    """
    structure, offsets = problem.declared(Additive), problem.elements.offsets
    values, places = in_order(problem)
    if places is not None and (activations := _activations_to_count(problem, structure, values)) is not None:
        means = _means_by_counts(problem, activations, places).to(values.dtype)
    elif is_plain(structure.k, values, structure.weight):
        inputs = values, cast(Tensor, structure.weight), structure.bias
        if structure.k == 1 and places is not None:
            means = place_means(structure.activation, places, offsets, *inputs)
        else:
            means = projected_means(problem, operator, structure.k, places, *inputs, *parameters)
    else:
        projections = in_place(structure.project(values), places)
        p = projections if takes_means(operator.name, projections) else widened(projections)
        if takes_means(operator.name, p):
            means = operator.means(p, offsets, *parameters)
        else:
            means = in_torch(p, problem.elements.sizes, *parameters)
        means = means.to(projections.dtype)
    sizes = problem.elements.sizes
    if torch.compiler.is_compiling() or 0 in sizes:
        empty = (offsets.diff() == 0)[:, None]
        means = torch.where(empty, ACTIVATIONS[structure.activation](structure.bias).to(means.dtype), means)
    return reduced(problem, structure.rest(means))


def _activations_to_count(problem: Problem, structure: Additive, values: Tensor) -> Tensor | None:
    """Returns σ of every value, (U, H), if f takes one element, and counts of values are no larger than activations.

    It is None if an activation is seen not to be finite: a product with counts of 0 would give NaN to every set. They
    are then computed again, element by element.
    """
    num, (num_sets, num_values) = len(problem.elements.values), (len(problem.elements), len(problem.values))
    if structure.k != 1 or not 0 < num_sets * num_values <= num * len(structure.bias):
        return None
    activations = widened(ACTIVATIONS[structure.activation](structure.project(values)[:, 0]))
    return None if may_look(activations) and not bool(activations.isfinite().all()) else activations


def _means_by_counts(problem: Problem, activations: Tensor, places: Tensor) -> Tensor:
    """Returns the mean over each set, (B, H), of finite activations of values (U, H), times their shares of the set."""
    sizes = problem.elements.sizes
    # Ones are added without rounding, up to 2^24 in float32. Shares 1/n would be rounded at every sum.
    if len(set(sizes)) == 1:
        each = places.view(len(sizes), -1)
        counted = activations.new_zeros(len(sizes), len(activations))
        counted.scatter_add_(1, each, activations.new_ones(1, 1).expand_as(each))
        return torch.mm(counted / sizes[0], activations)
    cells = problem.elements.to_index()[1] * len(activations) + places
    counted = activations.new_zeros(len(sizes) * len(activations))
    counted.scatter_add_(0, cells, activations.new_ones(1).expand_as(cells))
    each = problem.elements.offsets.diff().clamp_min(1)[:, None]
    return torch.mm(counted.view(len(sizes), -1) / each, activations)


def cost(problem: Problem, operator: Operator, activations: float, with_kernels: Rates, without_kernels: Rates) -> Cost:
    """Returns the cost of the projections, with slopes and gradients, and of these activations per hidden unit."""
    values, structure = problem.values, problem.declared(Additive)
    H, written = len(structure.bias), 0.0
    by_kernels = takes_means(operator.name, values.new_empty(0, structure.k, H))
    if values.is_cuda and not by_kernels:  # in torch operations every activation is written and read
        written = WRITTEN * values.element_size() * activations * H
    num = len(values)
    if problem.table is not None and structure.k > 1:
        num += len(problem.elements.values)
    return Cost(
        flops=2.0 * values.numel() * structure.k * H,
        bytes=3.0 * values.element_size() * num * structure.k * H + written,
        activations=activations * H,
        rates=rates_on(values.device, with_kernels if by_kernels else without_kernels),
        launches=LAUNCHES if by_kernels else LAUNCHES_IN_TORCH * len(set(problem.elements.sizes)),
    )
