"""What cells read of each element, its units filled up to one vector for the kernels: one step of autograd."""

from typing import Any

import torch
from torch import Tensor, nn


class Projections(torch.autograd.Function):
    """x · weightᵀ + bias + bias_hidden; without the last of the ``apart`` last units, where it stays with its product.

    Each gate's H units are followed by so many ``missing`` ones, which are zero.

    Shapes: x (N, d), weight (gates·H, d), bias and bias_hidden (gates·H,) -> (N, gates·(H + missing)).
    """

    @staticmethod
    def forward(
        ctx: Any, H: int, missing: int, apart: int, x: Tensor, weight: Tensor, bias: Tensor, bias_hidden: Tensor
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.H, ctx.apart = H, apart
        summed = bias + bias_hidden
        if apart > 0:
            summed[-apart:] = bias[-apart:]
        return nn.functional.linear(x, filled(weight, H, missing), filled(summed, H, missing))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (x, weight), apart, needed = ctx.saved_tensors, ctx.apart, ctx.needs_input_grad[3:]
        gradient = unfilled(gradient, len(weight), ctx.H)
        by_x = gradient @ weight if needed[0] else None
        by_weight = gradient.T @ x if needed[1] else None
        by_bias = by_hidden = gradient.sum(0)
        if apart > 0:
            by_hidden = nn.functional.pad(by_bias[:-apart], (0, apart))
        return None, None, None, by_x, by_weight, by_bias, by_hidden


def filled(x: Tensor, H: int, missing: int) -> Tensor:
    """Each gate's H rows of (gates·H, …), and as many of zeros as are missing: those units are zero, and stay so."""
    if missing == 0:
        return x
    gates = x.new_zeros(len(x) // H, H + missing, *x.shape[1:])
    gates[:, :H] = x.unflatten(0, (-1, H))
    return gates.flatten(0, 1)


def unfilled(x: Tensor, num_units: int, H: int) -> Tensor:
    """(N, num_units) of x (N, gates·(H + missing)), whose missing units are left out."""
    return x if x.shape[1] == num_units else x.unflatten(1, (num_units // H, -1))[:, :, :H].flatten(1)
