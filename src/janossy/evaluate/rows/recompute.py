"""f as it was in forward, when backward computes it again."""

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call

from janossy.evaluate.problem import Function
from janossy.evaluate.reduce import widened


class _Applied(nn.Module):
    """A step of f as a module, so that ``functional_call`` can give it f's weights."""

    def __init__(self, f: nn.Module, apply: Callable[[Function, Any], Tensor]) -> None:
        super().__init__()
        self.f = f
        self.apply_step = apply

    def forward(self, x: Any) -> Tensor:
        return self.apply_step(self.f, x)


def with_weights_of_now(f: Function, apply: Callable[[Function, Any], Tensor]) -> Callable[[Any], Tensor]:
    """``apply`` of f with the weights of forward, also when backward computes again and f may hold others.

    Raises: RuntimeError, in backward, if they were modified in place meanwhile, as autograd does without chunks.
    """
    if not isinstance(f, nn.Module) or torch.compiler.is_compiling():
        return lambda x: apply(f, x)
    applied = _Applied(f, apply)
    weights = {name: (weight, weight._version, widened(weight)) for name, weight in f.named_parameters()}

    def apply_now(x: Any) -> Tensor:
        for name, (weight, version, _) in weights.items():
            if weight._version != version:
                raise RuntimeError(
                    f"the weight {name} was modified in place between forward and backward, and f must be computed "
                    "again in backward; call backward before optimizer.step(), or raise memory_budget."
                )
        now = {f"f.{name}": wide.to(weight.dtype) for name, (weight, _, wide) in weights.items()}
        return cast(Tensor, functional_call(applied, now, (x,)))

    return apply_now
