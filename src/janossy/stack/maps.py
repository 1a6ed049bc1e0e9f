"""Maps of elements, or of pooled vectors, by the weights of R networks at once."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from janossy.functions.structure import hooked, overridden

ELEMENTWISE = (nn.Identity, nn.Tanh, nn.ReLU, nn.Sigmoid, nn.GELU, nn.SiLU, nn.ELU, nn.LeakyReLU, nn.Softplus)
"""Modules without weights that treat every number separately."""


def is_stackable(module: nn.Module) -> bool:
    """Returns True if ``apply`` can compute the module: linear layers and activations in sequence."""
    if hooked(module):
        return False
    if type(module) is nn.Sequential:
        return all(is_stackable(each) for each in module)
    if type(module) is nn.Linear:
        return not overridden(module, nn.Linear.forward)
    return type(module) in ELEMENTWISE and "forward" not in vars(module)


def apply(module: nn.Module, x: Tensor, counts: Sequence[int]) -> Tensor:
    """Returns the module's results (N, …) for inputs x (N, …), one network's inputs after the other's.

    Each network has its ``counts`` of inputs. The module's parameters are (R, *shape).
    """
    if isinstance(module, nn.Sequential):
        for each in module:
            x = apply(each, x, counts)
        return x
    return linear(x, module.weight, module.bias, counts) if isinstance(module, nn.Linear) else module(x)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, counts: Sequence[int]) -> Tensor:
    """Returns x (N, …, d) times weight (R, out, d), plus bias (R, out), each network's rows by its own weights."""
    if len(set(counts)) > 1:
        biases = [None] * len(counts) if bias is None else bias.unbind()
        parts = zip(x.split(list(counts)), weight.unbind(), biases, strict=True)
        return torch.cat([nn.functional.linear(*part) for part in parts])
    rows = x.reshape(len(weight), -1, x.shape[-1])
    out = rows @ weight.mT if bias is None else torch.baddbmm(bias[:, None], rows, weight.mT)
    return out.view(*x.shape[:-1], weight.shape[1])
