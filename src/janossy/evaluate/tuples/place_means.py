"""Means by projection: over positions, and, for k = 1, over the sets that look up a row of a table."""

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from janossy.evaluate.on_kernels import on_kernels_eagerly, on_threads, one_by_one, unless_compiling
from janossy.evaluate.rows.recompute import gradients_again
from janossy.evaluate.tuples.operators import times_by_set
from janossy.functions.structure import ACTIVATIONS, project


def by_inputs(
    k: int, by_projection: Tensor, values: Tensor, weight: Tensor, stacked: Tensor, needed: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    """Returns the gradients by values (N, d), weight and bias that are ``needed``, from those by projections (N, k·H).

    ``weight`` is the argument of ``project``, for one network or several, and ``stacked`` its second result.
    """
    H, rows = weight.shape[-2], values
    if weight.dim() == 3:
        by_projection, rows = (x.view(len(weight), -1, x.shape[1]) for x in (by_projection, values))
    by_values = by_weight = by_bias = None
    if needed[0]:
        by_values = torch.matmul(by_projection, stacked).view_as(values)
    if needed[1]:
        by_weight = torch.matmul(by_projection.mT, rows)
        if k > 1:
            by_weight = by_weight.view(-1, k, H, values.shape[1]).transpose(1, 2).reshape(weight.shape)
    if needed[2]:
        by_bias = by_projection[..., :H].sum(-2)
    return by_values, by_weight, by_bias


SLOPES = {"tanh": torch.ops.aten.tanh_backward, "sigmoid": torch.ops.aten.sigmoid_backward}
"""(gradient, σ(p)) -> the gradient by p, for activations whose slope follows from their value."""


def place_means(
    activation: str, places: Tensor, offsets: Tensor, table: Tensor, weight: Tensor, bias: Tensor | None
) -> Tensor:
    """Returns the means (B, H) of σ(weight · x + bias) over each set's rows x of the table (U, d).

    An empty set's mean is 0. ``weight`` and ``bias`` are as in ``project``, for one network or several.
    """
    with unless_compiling():
        return cast(Tensor, _PlaceMeans.apply(activation, places, offsets, table, weight, bias))  # type: ignore[no-untyped-call]
    return _in_torch(activation, places, offsets, table, weight, bias)


def _in_torch(
    activation: str, places: Tensor, offsets: Tensor, table: Tensor, weight: Tensor, bias: Tensor | None
) -> Tensor:
    y = ACTIVATIONS[activation](project(1, table, weight, bias)[0].squeeze(1)).index_select(0, places)
    sizes = offsets.diff()
    owners = torch.arange(len(sizes)).repeat_interleave(sizes)
    return y.new_zeros(len(sizes), y.shape[1]).index_add(0, owners, y) / sizes.clamp_min(1)[:, None]


def sums_by_place(
    slopes: Tensor | None, factors: Tensor, places: Tensor, offsets: Tensor, num_rows: int, num_networks: int
) -> Tensor:
    """Returns the sum per row of slopes times factors, over the elements that look the row up: (num_rows, k, H).

    Shapes: factors (B, H), one per set. slopes (N, k, H or more), or None for k = 1 and the slopes of a mean.
    """
    if on_kernels_eagerly(factors):
        given = factors.new_empty(0) if slopes is None else slopes
        arrays = (x.numpy() for x in (given, factors, offsets, places))
        with unless_compiling():
            return torch.from_numpy(on_threads("table_sums", *arrays, num_rows, num_networks))
    if slopes is None:
        sizes = offsets.diff()
        slopes = (1 / sizes.to(factors.dtype)).repeat_interleave(sizes).view(-1, 1, 1)
    slopes = slopes[..., : factors.shape[1]]
    by_places = times_by_set(slopes, factors, offsets)
    return by_places.new_zeros(num_rows, *by_places.shape[1:]).index_add_(0, places, by_places)


class _PlaceMeans(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        activation: str,
        places: Tensor,
        offsets: Tensor,
        table: Tensor,
        weight: Tensor,
        bias: Tensor | None,
    ) -> Tensor:
        p = project(1, table, weight, bias)[0].squeeze(1)
        y = ACTIVATIONS[activation](p)
        ctx.activation = activation
        ctx.save_for_backward(places, offsets, y if activation in SLOPES else p, table, weight, bias)
        arrays = (x.numpy() for x in (y, places, offsets))
        return torch.from_numpy(on_threads("means_by_place", *arrays, max(1, len(offsets) - 1)))

    @staticmethod
    @one_by_one
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (places, offsets, kept, *inputs), needed = ctx.saved_tensors, ctx.needs_input_grad[3:]
        if torch.is_grad_enabled():  # the gradient will itself be differentiated
            again = partial(_in_torch, ctx.activation, places, offsets)
            return *(None,) * 3, *gradients_again(again, inputs, needed, gradient)
        networks = len(inputs[1]) if inputs[1].dim() == 3 else 1
        by_y = sums_by_place(None, gradient, places, offsets, len(inputs[0]), networks).squeeze(1)
        if ctx.activation in SLOPES:
            by_p = SLOPES[ctx.activation](by_y, kept)
        else:
            with torch.enable_grad():
                p = kept.detach().requires_grad_()
                (by_p,) = torch.autograd.grad(ACTIVATIONS[ctx.activation](p), p, by_y)
        return *(None,) * 3, *by_inputs(1, by_p, inputs[0], inputs[1], inputs[1], needed)
