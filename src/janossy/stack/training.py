"""Tools to train a stack: a learning rate and a clipped gradient per network."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from janossy.stack.stack import Stack


def clip_grad_norm_(stack: Stack, max_norm: float) -> Tensor:
    """Scales each network's gradient to a norm of at most ``max_norm``, as ``nn.utils.clip_grad_norm_`` does.

    Shapes: -> the norms before scaling, (R,).
    """
    gradients = [p.grad for p in stack.parameters() if p.grad is not None]
    norms = torch.stack([g.reshape(len(g), g.shape[1:].numel()).norm(dim=1) for g in gradients]).norm(dim=0)
    scales = (max_norm / (norms + 1e-6)).clamp_max(1)
    for gradient in gradients:
        gradient.mul_(_column(scales, gradient))
    return cast(Tensor, norms)


def scale_steps(optimizer: torch.optim.Optimizer, rates: Tensor) -> tuple[RemovableHandle, RemovableHandle]:
    """Multiplies the optimiser's steps by one rate per network, from now on; with lr=1 these are the learning rates.

    It is right for optimisers with steps proportional to lr, such as SGD and Adam. ``rates`` is read at every step, so
    a schedule may write to it. After ``stack.keep`` write the remaining rates with ``rates.set_(…)``.

    Shapes: rates (R,), for parameters (R, *shape).
    """
    before: list[Tensor] = []

    def keep(*_: Any) -> None:
        before[:] = [p.detach().clone() for p in _parameters(optimizer)]

    @torch.no_grad()
    def scale(*_: Any) -> None:
        for parameter, old in zip(_parameters(optimizer), before, strict=True):
            parameter.copy_(torch.lerp(old, parameter, _column(rates, parameter)))

    return optimizer.register_step_pre_hook(keep), optimizer.register_step_post_hook(scale)


def _parameters(optimizer: torch.optim.Optimizer) -> Sequence[nn.Parameter]:
    return [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]


def _column(numbers: Tensor, like: Tensor) -> Tensor:
    """Returns numbers (R,) as (R, 1, …)."""
    return numbers.to(like).view(-1, *[1] * (like.dim() - 1))
