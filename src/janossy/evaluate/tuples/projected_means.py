"""A linear projection and the means of its results in one step of autograd.

On a small batch torch's bookkeeping takes as long as the arithmetic: one step in place of seven saves a fifth. And the
projections themselves are not kept for backward.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from janossy.evaluate.on_kernels import on_kernels_eagerly, on_threads
from janossy.evaluate.problem import Problem
from janossy.evaluate.tuples.every_tuple import in_place
from janossy.evaluate.tuples.operators import Operator, times_by_set
from janossy.functions.structure import Additive, project


def is_plain(structure: Additive, elements: Tensor) -> bool:
    """Whether the projection is nothing but a matrix product here and now: eager, in one precision, on the CPU."""
    weight = structure.weight
    return (
        weight is not None
        and on_kernels_eagerly(elements)
        and not torch.is_autocast_enabled("cpu")
        and elements.dim() == 2
        and elements.dtype == weight.dtype
        and weight.shape[1] == structure.k * elements.shape[1]
    )


def projected_means(
    problem: Problem,
    operator: Operator,
    structure: Additive,
    values: Tensor,
    places: Tensor | None,
    *parameters: bool | str | float,
) -> Tensor:
    """``operator.means(in_place(structure.project(values), places), offsets, *parameters)``, of the problem's sets."""
    inputs = values, structure.weight, structure.bias
    with_slopes = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs)
    offsets, of_one_size = problem.elements.offsets, len(set(problem.elements.sizes)) == 1
    settings = operator, structure.k, (*parameters, with_slopes), of_one_size
    return _ProjectedMeans.apply(settings, places, offsets, *inputs)


def gradients(means: Tensor, inputs: Sequence[Tensor], needed: Sequence[bool], gradient: Tensor) -> list[Tensor | None]:
    """Those by the inputs that need one, to be differentiated again."""
    wanted = [x for x, needs in zip(inputs, needed, strict=True) if needs]
    found = iter(torch.autograd.grad(means, wanted, gradient, create_graph=True))
    return [next(found) if needs else None for needs in needed]


class _ProjectedMeans(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        settings: tuple[Operator, int, tuple[Any, ...], bool],
        places: Tensor | None,
        offsets: Tensor,
        values: Tensor,
        weight: Tensor,
        bias: Tensor,
    ) -> Tensor:
        operator, k, parameters, ctx.of_one_size = settings
        projections, stacked = project(k, values, weight, bias)
        means, slopes = operator.kernel(in_place(projections, places), offsets, *parameters)
        ctx.operator, ctx.k, ctx.parameters = operator, k, parameters[:-1]
        ctx.save_for_backward(places, offsets, slopes, stacked, values, weight, bias)
        return means

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        places, offsets, slopes, stacked, *inputs = ctx.saved_tensors
        needed = ctx.needs_input_grad[3:]
        if torch.is_grad_enabled():  # of a gradient that will itself be differentiated
            inputs = [x.view_as(x) for x in inputs]  # the gradient stops here: elements may depend on the weights
            means = ctx.operator.means(in_place(project(ctx.k, *inputs)[0], places), offsets, *ctx.parameters)
            return *(None,) * 3, *gradients(means, inputs, needed, gradient)
        values, k, H = inputs[0], ctx.k, slopes.shape[2]
        if places is not None and on_kernels_eagerly(gradient):
            arrays = (x.numpy() for x in (slopes, gradient, offsets, places))
            by_projection = torch.from_numpy(on_threads("table_sums", *arrays, len(values))).flatten(1)
        else:
            by_projection = times_by_set(slopes, gradient, offsets, ctx.of_one_size).flatten(1)
            if places is not None:
                by_projection = by_projection.new_zeros(len(values), k * H).index_add_(0, places, by_projection)
        by_values = by_projection @ stacked if needed[0] else None
        by_weight = by_bias = None
        if needed[1]:
            by_stacked = by_projection.t() @ values
            by_weight = by_stacked.view(k, H, -1).transpose(0, 1).reshape(H, -1)
        if needed[2]:
            by_bias = by_projection[:, :H].sum(0)
        return *(None,) * 3, by_values, by_weight, by_bias
