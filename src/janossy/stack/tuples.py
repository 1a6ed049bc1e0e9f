"""Means over all k-tuples of R networks' sets: each network's projections by its own weights, then one pooling."""

from typing import Any

import torch
from torch import Tensor, nn

from janossy.evaluate.on_kernels import lanes, on_kernels, on_kernels_eagerly
from janossy.evaluate.problem import Problem
from janossy.evaluate.reduce import widened
from janossy.evaluate.tuples.every_tuple import in_order, in_place, is_increasing, reduced, why_not_every_tuple
from janossy.evaluate.tuples.operators import TUPLE_MEANS, times_by_set
from janossy.evaluate.tuples.tuple_means import tuple_means
from janossy.functions.structure import ACTIVATIONS
from janossy.functions.tuple_mlp import TupleMLP
from janossy.stack.maps import linear

EVALUATORS = ("gather", "projected", "fused")
"""What a network by itself may choose, for its mean to be computed here: all of them enumerate tuples."""


def why_not(problem: Problem) -> str | None:
    """Why a network's mean cannot be computed with others'; None if it can."""
    f = problem.f
    if not isinstance(f, TupleMLP) or problem.structure is None:
        return f"{type(f).__name__} is no plain TupleMLP"
    if len(f.hidden) > 1 or not problem.structure.rest_is_affine:  # type: ignore[attr-defined]
        return "TupleMLP has more than one hidden layer"
    return why_not_every_tuple(problem, f.k)


def pool_tuples(problem: Problem, f: TupleMLP, counts: list[int], num_sets: int) -> Tensor:
    """The reduced rows (R·B, c) of all networks' sets, in turn.

    ``f`` has parameters (R, *shape), and each network ``counts`` of the problem's values and ``num_sets`` sets.
    """
    first, offsets = f.hidden[0], problem.elements.offsets
    assert isinstance(first, nn.Linear)
    values, places = in_order(problem)
    settings = f.k, is_increasing(problem), f.activation
    weight, bias = first.weight, first.bias
    bias = weight.new_zeros(weight.shape[:2]) if bias is None else bias
    if _is_counted(problem, f.k, weight):
        assert places is not None
        means = _by_counts(problem, f.activation, linear(values, weight, bias, counts), places, len(weight))
    elif on_kernels_eagerly(values) and len(set(counts)) == 1 and values.dtype == weight.dtype and values.dim() == 2:
        with_slopes = torch.is_grad_enabled() and any(x.requires_grad for x in (values, weight, bias))
        means = _Means.apply(settings, with_slopes, places, offsets, values, weight, bias)
    else:
        p = widened(in_place(_project(f.k, values, weight, bias, counts), places))
        pool = TUPLE_MEANS.means if on_kernels(p) else tuple_means
        means = pool(p, offsets if on_kernels(p) else problem.elements.sizes, *settings[1:]).to(values.dtype)
    if 0 in problem.elements.sizes:
        of_nothing = ACTIVATIONS[f.activation](bias).to(means.dtype).repeat_interleave(num_sets, 0)
        means = torch.where((offsets.diff() == 0)[:, None], of_nothing, means)
    if isinstance(f.output, nn.Linear):
        means = linear(means, f.output.weight, f.output.bias, [num_sets] * len(weight))
    return reduced(problem, means)


def _project(k: int, values: Tensor, weight: Tensor, bias: Tensor, counts: list[int]) -> Tensor:
    """The projections (N, k, H) whose sums over positions are weight · [x_1, …, x_k] + bias, weight (R, H, k·d)."""
    bias = nn.functional.pad(bias, (0, (k - 1) * bias.shape[1]))
    return linear(values, _by_position(k, weight), bias, counts).unflatten(1, (k, -1))


def _by_position(k: int, weight: Tensor) -> Tensor:
    """The weights (R, H, k·d) as (R, k·H, d)."""
    return weight if k == 1 else weight.unflatten(2, (k, -1)).transpose(1, 2).flatten(1, 2)


def _is_counted(problem: Problem, k: int, weight: Tensor) -> bool:
    """Whether f takes one element, and a count of every value in every set is no larger than all activations."""
    num_values = len(problem.values) // len(weight)
    num_counts, num_activations = len(problem.elements) * num_values, len(problem.elements.values) * weight.shape[1]
    return k == 1 and problem.table is not None and 0 < num_counts <= num_activations


def _by_counts(problem: Problem, activation: str, projections: Tensor, places: Tensor, num_networks: int) -> Tensor:
    """For k = 1, the mean of σ(p) over each set, (R·B, H): every value's σ(p) once, times its share of the set."""
    activations = widened(ACTIVATIONS[activation](projections)).unflatten(0, (num_networks, -1))
    each = activations.shape[1]
    owners = problem.elements.to_index()[1]
    shares = (1 / problem.elements.offsets.diff().to(activations.dtype))[owners]
    counted = activations.new_zeros(len(problem.elements) * each)
    counted = counted.scatter_add_(0, owners * each + places % each, shares).view(num_networks, -1, each)
    return (counted @ activations).flatten(0, 1).to(projections.dtype)


class _Means(torch.autograd.Function):
    """The projections and the means of their activations, by the compiled kernel, in one step of autograd."""

    @staticmethod
    def forward(
        ctx: Any,
        settings: tuple[int, bool, str],
        with_slopes: bool,
        places: Tensor | None,
        offsets: Tensor,
        values: Tensor,
        weight: Tensor,
        bias: Tensor,
    ) -> Tensor:
        k, *parameters = settings
        R, H = bias.shape
        # Hidden units are filled up to whole vectors of the kernel.
        ctx.missing = -H % lanes(values)
        padded = nn.functional.pad(weight, (0, 0, 0, ctx.missing)), nn.functional.pad(bias, (0, ctx.missing))
        projections = _project(k, values, *padded, [len(values) // R] * R)
        means, slopes = TUPLE_MEANS.kernel(in_place(projections, places), offsets, *parameters, with_slopes)
        ctx.settings = settings
        ctx.save_for_backward(places, offsets, slopes, values, weight, bias)
        return means[:, :H]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        places, offsets, slopes, *inputs = ctx.saved_tensors
        needed, (k, *parameters) = ctx.needs_input_grad[4:], ctx.settings
        R, H = inputs[2].shape
        if torch.is_grad_enabled():  # of a gradient that will itself be differentiated
            inputs = [x.view_as(x) for x in inputs]  # the gradient stops here: elements may depend on the weights
            projections = _project(k, *inputs, [len(inputs[0]) // R] * R)
            means = TUPLE_MEANS.means(in_place(projections, places), offsets, *parameters)
            wanted = [x for x, needs in zip(inputs, needed, strict=True) if needs]
            found = iter(torch.autograd.grad(means, wanted, gradient, create_graph=True))
            return *(None,) * 4, *(next(found) if needs else None for needs in needed)
        values, weight, _ = inputs
        by_projection = times_by_set(slopes, nn.functional.pad(gradient, (0, ctx.missing)), offsets)
        if places is not None:
            by_projection = by_projection.new_zeros(len(values), *slopes.shape[1:]).index_add_(0, places, by_projection)
        by_projection = by_projection[..., :H].flatten(1).unflatten(0, (R, -1))
        by_values = (by_projection @ _by_position(k, weight)).flatten(0, 1) if needed[0] else None
        by_weight = by_bias = None
        if needed[1]:
            by_stacked = by_projection.mT @ values.unflatten(0, (R, -1))
            by_weight = by_stacked.unflatten(1, (k, H)).transpose(1, 2).flatten(2)
        if needed[2]:
            by_bias = by_projection[..., :H].sum(1)
        return *(None,) * 4, by_values, by_weight, by_bias
