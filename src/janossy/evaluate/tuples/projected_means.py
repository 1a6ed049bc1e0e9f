"""A linear projection and the means of its results in one step of autograd, for one network or several.

On a small batch torch's bookkeeping takes as long as the arithmetic, and one step in place of seven saves a fifth. The
projections are not kept for backward.
"""

from typing import Any, cast

import torch
from torch import Tensor

from janossy.evaluate.on_kernels import on_kernels_eagerly, one_by_one
from janossy.evaluate.problem import Problem
from janossy.evaluate.rows.recompute import gradients_again
from janossy.evaluate.tuples.every_tuple import in_place
from janossy.evaluate.tuples.operators import Operator, times_by_set
from janossy.evaluate.tuples.place_means import by_inputs, sums_by_place
from janossy.functions.structure import project


def is_plain(k: int, elements: Tensor, weight: Tensor | None) -> bool:
    """Returns True if the projection is a mere matrix product here: eager, in one precision, on the CPU."""
    return (
        weight is not None
        and on_kernels_eagerly(elements)
        and not torch.is_autocast_enabled("cpu")
        and elements.dim() == 2
        and elements.dtype == weight.dtype
        and weight.shape[-1] == k * elements.shape[1]
    )


def projected_means(
    problem: Problem,
    operator: Operator,
    k: int,
    places: Tensor | None,
    values: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *parameters: bool | str | float,
) -> Tensor:
    """Returns ``operator.means(in_place(project(k, values, weight, bias), places), offsets, *parameters)``.

    The offsets are those of the problem's sets.
    """
    inputs = values, weight, bias
    with_slopes = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs)
    sizes = set(problem.elements.sizes)
    settings = operator, k, (*parameters, with_slopes), (min(sizes, default=0), max(sizes, default=0))
    return cast(Tensor, _ProjectedMeans.apply(settings, places, problem.elements.offsets, *inputs))  # type: ignore[no-untyped-call]


class _ProjectedMeans(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        settings: tuple[Operator, int, tuple[Any, ...], tuple[int, int]],
        places: Tensor | None,
        offsets: Tensor,
        values: Tensor,
        weight: Tensor,
        bias: Tensor | None,
    ) -> Tensor:
        operator, k, parameters, sizes = settings
        projections, stacked = project(k, values, weight, bias)
        means, slopes = operator.at_places(projections, places, offsets, sizes, *parameters)
        ctx.operator, ctx.k, ctx.parameters, ctx.of_one_size = operator, k, parameters[:-1], sizes[0] == sizes[1]
        ctx.save_for_backward(places, offsets, slopes, stacked, values, weight, bias)
        return means

    @staticmethod
    @one_by_one
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        places, offsets, slopes, stacked, *inputs = ctx.saved_tensors
        needed = ctx.needs_input_grad[3:]
        if torch.is_grad_enabled():  # the gradient will itself be differentiated

            def again(*inputs: Tensor) -> Tensor:
                projections = in_place(project(ctx.k, *inputs)[0], places)
                return cast(Tensor, ctx.operator.means(projections, offsets, *ctx.parameters))

            return *(None,) * 3, *gradients_again(again, inputs, needed, gradient)
        values, weight = inputs[:2]
        if places is None:
            by_projection = times_by_set(slopes[..., : gradient.shape[1]], gradient, offsets, ctx.of_one_size)
        else:
            networks = len(weight) if weight.dim() == 3 else 1
            by_projection = sums_by_place(slopes, gradient, places, offsets, len(values), networks)
        return *(None,) * 3, *by_inputs(ctx.k, by_projection.flatten(1), values, weight, stacked, needed)
