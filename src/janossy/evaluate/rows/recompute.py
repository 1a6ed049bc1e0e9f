"""The recomputation of f in backward, with the weights of forward."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar, Token
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint

from janossy.evaluate.problem import Function
from janossy.evaluate.reduce import widened

_again: ContextVar[bool] = ContextVar("_again", default=False)
"""True while backward computes f again."""


class _Applied(nn.Module):
    """A step of f as a module, so that ``functional_call`` can give it f's weights."""

    def __init__(self, f: nn.Module, apply: Callable[[Function, Any], Tensor]) -> None:
        super().__init__()
        self.f = f
        self.apply_step = apply

    def forward(self, x: Any) -> Tensor:
        return self.apply_step(self.f, x)


def with_weights_of_now(f: Function, apply: Callable[[Function, Any], Tensor]) -> Callable[[Any], Tensor]:
    """Returns ``apply`` of f with its present weights, so that backward computes again with the weights of forward.

    It is to be run by ``computed_again``. Updates of f's buffers, such as a batch norm's statistics, happen once.

    Raises: RuntimeError in backward if the weights were modified in place meanwhile, as autograd does without chunks.
    """
    if not isinstance(f, nn.Module) or torch.compiler.is_compiling():
        return lambda x: apply(f, x)
    applied = _Applied(f, apply)
    weights = {name: (weight, _version(weight), widened(weight)) for name, weight in f.named_parameters()}

    def apply_now(x: Any) -> Tensor:
        for name, (weight, version, _) in weights.items():
            if _version(weight) != version:
                raise RuntimeError(
                    f"the weight {name} was modified in place between forward and backward, and f must be computed "
                    "again in backward; call backward before optimizer.step(), or raise memory_budget."
                )
        now = {f"f.{name}": wide.to(weight.dtype) for name, (weight, _, wide) in weights.items()}
        if _again.get():
            now.update({f"f.{name}": buffer.clone() for name, buffer in f.named_buffers()})
        return cast(Tensor, functional_call(applied, now, (x,)))

    return apply_now


def _version(weight: Tensor) -> int | None:
    """Returns the number of the weight's changes in place; None for an inference tensor, which has no backward."""
    return None if weight.is_inference() else weight._version


def computed_again(run: Callable[..., Any], *arguments: Any) -> Any:
    """Returns run(*arguments); backward keeps only the arguments, and computes everything else again.

    The tensors that ``run`` reads are among the arguments. By them torch finds the device whose random numbers, such as
    those of dropout, are drawn again.

    The first call with gradients imports torch's compiler, as torch's checkpoint needs it. Within torch.func backward
    keeps everything, as its transforms take no checkpoint.
    """
    # Without a backward torch's checkpoint would only import its compiler, 140 MiB.
    if not torch.is_grad_enabled() or _is_transformed():
        return run(*arguments)
    if torch.compiler.is_compiling():  # torch.compile does not trace these contexts
        return checkpoint(run, *arguments, use_reentrant=False)
    return checkpoint(run, *arguments, use_reentrant=False, context_fn=_contexts)


def stateless_again(run: Callable[..., Tensor], x: Tensor, *rest: Any) -> Tensor:
    """Returns run(x, *rest), differentiable by x alone, of which backward keeps x and computes all else again.

    ``run`` may depend on nothing that changes. Unlike torch's checkpoint this imports no compiler, which takes two
    seconds.
    """
    if not (torch.is_grad_enabled() and x.requires_grad) or _is_transformed():
        return run(x, *rest)
    if torch.compiler.is_compiling() or torch.autograd.forward_ad._current_level >= 0:
        return cast(Tensor, checkpoint(run, x, *rest, use_reentrant=False))
    return cast(Tensor, _Again.apply(run, x, *rest))  # type: ignore[no-untyped-call]


def _is_transformed() -> bool:
    return not torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active()


class _Again(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, run: Callable[..., Tensor], x: Tensor, *rest: Any) -> Tensor:
        ctx.save_for_backward(x)
        ctx.run, ctx.rest = run, rest
        return run(x, *rest)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        by_x = gradients_again(lambda x: ctx.run(x, *ctx.rest), ctx.saved_tensors, (True,), gradient)
        return None, *by_x, *(None,) * len(ctx.rest)


def _contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    return nullcontext(), _ComputingAgain()


class _ComputingAgain(AbstractContextManager[None]):
    """A context that sets ``_again``; it is entered once in every backward pass."""

    def __init__(self) -> None:
        self.before: list[Token[bool]] = []

    def __enter__(self) -> None:
        self.before.append(_again.set(True))

    def __exit__(self, *error: object) -> None:
        _again.reset(self.before.pop())


def gradients_again(
    compute: Callable[..., Tensor], inputs: Sequence[Tensor | None], needed: Sequence[bool], gradient: Tensor
) -> list[Tensor | None]:
    """Returns the gradients of ``compute(*inputs)``, which is computed again, by the inputs that need one.

    They can be differentiated again if grad mode is on.
    """
    twice = torch.is_grad_enabled()
    # A transform allows no requires_grad_(), and what needs a gradient requires one already.
    in_graph = twice or torch._C._are_functorch_transforms_active()
    with torch.enable_grad():
        # Backward stops at these inputs.
        here = [
            x if x is None else x.view_as(x) if in_graph else x.detach().requires_grad_(needs)
            for x, needs in zip(inputs, needed, strict=True)
        ]
        wanted = [x for x, needs in zip(here, needed, strict=True) if x is not None and needs]
        computed = iter(torch.autograd.grad(compute(*here), wanted, gradient, create_graph=twice))
    return [next(computed) if needs else None for needs in needed]


def recorded() -> AbstractContextManager[None]:
    """Returns a context inside an operator, in which autograd records, as it does outside of operators."""
    included, excluded = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
    return cast(
        "AbstractContextManager[None]",
        torch._C._ForceDispatchKeyGuard(included, excluded.remove(torch._C.DispatchKey.AutogradFunctionality)),
    )
