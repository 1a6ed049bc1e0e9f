"""From gradients by projections to those by what they are made of: elements, weight and bias."""

from collections.abc import Sequence

import torch
from torch import Tensor


def by_inputs(
    k: int, by_projection: Tensor, values: Tensor, weight: Tensor, stacked: Tensor, needed: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    """The gradients by values (N, d), weight and bias that are ``needed``, from those by projections (N, k·H).

    ``weight``, and the ``stacked`` weights made of it, as ``project`` takes and gives them, of one network or several.
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


def gradients(means: Tensor, inputs: Sequence[Tensor], needed: Sequence[bool], gradient: Tensor) -> list[Tensor | None]:
    """Those by the inputs that need one, to be differentiated again."""
    wanted = [x for x, needs in zip(inputs, needed, strict=True) if needs]
    found = iter(torch.autograd.grad(means, wanted, gradient, create_graph=True))
    return [next(found) if needs else None for needs in needed]
