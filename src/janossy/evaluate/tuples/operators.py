"""The compiled kernels as operators of torch (``torch.library``): autograd, fake tensors and vmap rules.

Each maps numbers of elements p (N, k, H) to a mean over tuples per set, (B, H). Column h of the result depends on
column h of p alone. So backward needs only ``slopes`` (N, k, H), the derivatives of the result by p:
grad p = slopes · grad out. A kernel computes them along with the means, and nothing else is kept. All else, such as
the slopes' own derivatives, is computed by the same means in torch operations.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from inspect import Parameter, Signature
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from janossy.evaluate.loading import LOADING
from janossy.evaluate.on_kernels import means_and_slopes, one_by_one
from janossy.evaluate.reduce import widened
from janossy.evaluate.tuples.every_tuple import in_place
from janossy.evaluate.tuples.logistic_means import logistic_means
from janossy.evaluate.tuples.product_means import product_means
from janossy.evaluate.tuples.series_means import series_means
from janossy.evaluate.tuples.series_slopes import MeanWithSlopes
from janossy.evaluate.tuples.tuple_means import tuple_means
from janossy.kernels.compilation import NotCompiled, waiting
from janossy.kernels.expansions import num_harmonics
from janossy.kernels.limits import num_tuples, series_cost

CHUNK = 2**27
"""The bytes of tuples, or of harmonics, that torch operations write at once while a kernel is being compiled."""

MOST_IN_TORCH = 1.5e8
"""The most activations that torch operations compute (in three seconds) while a kernel is being compiled.

If there are more, the call waits for the kernel."""

HARMONICS = 5.0
"""The activations' worth of harmonics that torch operations compute in the time of one activation."""


def times_by_set(x: Tensor, factors: Tensor, offsets: Tensor, of_one_size: bool | None = None) -> Tensor:
    """Returns x (N, k, H) times its set's factors (B, H).

    ``of_one_size`` says if all sets have one size. If it is None, the sizes are looked at unless that waits for a
    device.
    """
    if not (torch.compiler.is_compiling() or is_in_torch_dispatch_mode()):  # a trace is for all sizes
        num_sets, n = len(factors), len(x) // max(1, len(factors))
        if of_one_size is None:
            of_one_size = not x.is_cuda and n * num_sets == len(x) and bool((offsets.diff() == n).all())
        if of_one_size and n > 0:
            return cast(Tensor, (x.unflatten(0, (num_sets, n)) * factors[:, None, None]).flatten(0, 1))
    return x * factors.repeat_interleave(offsets.diff(), 0, output_size=x.shape[0]).unsqueeze(1)


@dataclass(frozen=True)
class Operator:
    """A compiled kernel, alone and as a differentiable function."""

    name: str
    """The name of the kernel's function."""
    kernel: Callable[..., tuple[Tensor, Tensor]]
    """(p, offsets, *parameters, with_slopes) -> (means, slopes or (0,)); not differentiable."""
    in_torch: Callable[..., tuple[Tensor, Tensor]]
    """The function of ``kernel`` in torch operations."""
    means: Callable[..., Tensor]
    """(p, offsets, *parameters) -> means; differentiable."""
    activations: Callable[..., float]
    """(p, offsets, *parameters, with_slopes) -> the activations that torch operations would compute."""

    def at_places(
        self, p: Tensor, places: Tensor | None, offsets: Tensor, sizes: tuple[int, int], *rest: Any
    ) -> tuple[Tensor, Tensor]:
        """Calls the kernel on ``in_place(p, places)``, for sets of these smallest and largest sizes.

        The slopes may have more hidden units than p. The caller drops these.
        """
        if self is TUPLE_MEANS:
            LOADING.goes_without(partial(self.activations, p, offsets, *rest))
            try:
                result = logistic_means(p, places, offsets, sizes, *rest)
            except NotCompiled:
                few = self.activations(p, offsets, *rest) <= MOST_IN_TORCH
                result = self.in_torch(in_place(p, places), offsets, *rest) if few else None
            if result is not None:
                return result
        return self.kernel(in_place(p, places), offsets, *rest)


def _operator(
    name: str,
    parameters: str,
    mean: Callable[..., Tensor],
    in_chunks: Callable[..., Tensor],
    activations: Callable[..., float],
) -> Operator:
    """Registers ``janossy::name``, (p, offsets, *parameters, with_slopes) -> (means, slopes or (0,)).

    - The kernel is the function ``name``s of ``kernels.load()``. It takes (p, offsets, *parameters, with_slopes,
      num_threads) as arrays. That of ``kernels.load("cuda")`` takes tensors, without the threads.
    - ``mean(p, sizes, *parameters)`` computes the same in torch operations, differentiable any number of times.
    - ``in_chunks`` computes the same in chunks. It is used while the kernel is being compiled, if
      ``activations(p, sizes, *parameters)``, per hidden unit, are few.
    """
    differentiable: Any
    schema = f"(Tensor p, Tensor offsets, {parameters}, bool with_slopes) -> (Tensor, Tensor)"

    def on_tensors(p: Tensor, offsets: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        with waiting():
            return means_and_slopes(f"{name}s", p, offsets, *rest)

    def all_activations(p: Tensor, offsets: Tensor, *rest: Any) -> float:
        return activations(p, offsets.diff().numpy(), *rest[:-1]) * p.shape[2]

    def eagerly(p: Tensor, offsets: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        if not p.is_cuda:
            LOADING.goes_without(partial(all_activations, p, offsets, *rest))
        try:
            return means_and_slopes(f"{name}s", p, offsets, *rest)
        except NotCompiled:
            few = all_activations(p, offsets, *rest) <= MOST_IN_TORCH
            return in_torch(p, offsets, *rest) if few else on_tensors(p, offsets, *rest)

    def in_torch(p: Tensor, offsets: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        p, (*settings, with_slopes) = p.detach().requires_grad_(rest[-1]), rest
        with torch.set_grad_enabled(with_slopes):
            means = in_chunks(p, tuple(offsets.diff().tolist()), *settings)
            slopes = torch.autograd.grad(means.sum(), p)[0] if with_slopes else p.new_empty(0)
        return means.detach(), slopes

    operator = torch.library.custom_op(
        f"janossy::{name}", on_tensors, mutates_args=(), schema=schema, device_types=("cpu", "cuda")
    )

    @operator.register_fake
    def _(p: Tensor, offsets: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        out = p.new_empty(offsets.shape[0] - 1, p.shape[2])
        return out, torch.empty_like(p, memory_format=torch.contiguous_format) if rest[-1] else p.new_empty(0)

    def forward(*inputs: Any) -> tuple[Tensor, Tensor]:
        # An operator's bookkeeping, which modes and tracers need, takes as long as the kernel on a small batch.
        return operator(*inputs) if is_in_torch_dispatch_mode() else eagerly(*inputs)

    # torch asks for the signature in every call, and making it takes longer than the rest of the call.
    forward.__signature__ = Signature([Parameter("inputs", Parameter.VAR_POSITIONAL)])  # type: ignore[attr-defined]

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        p, offsets, *ctx.parameters, ctx.with_slopes = inputs
        ctx.save_for_backward(p, offsets, output[1])
        ctx.save_for_forward(p, offsets, output[1])
        ctx.set_materialize_grads(False)

    def slopes_in_torch(offsets: Tensor, parameters: list[Any]) -> Callable[[Tensor], Tensor]:
        sizes = tuple(offsets.diff().tolist())

        def slopes(p: Tensor) -> Tensor:
            out, pull, *_ = torch.func.vjp(lambda p: mean(widened(p), sizes, *parameters), p)
            return cast(Tensor, pull(torch.ones_like(out))[0])

        return slopes

    def jvp(ctx: Any, tangent: Tensor, *_: None) -> tuple[Tensor, Tensor | None]:
        p, offsets, slopes = ctx.saved_tensors
        if not ctx.with_slopes:
            slopes = differentiable.apply(p, offsets, *ctx.parameters, True)[1]
        owners = torch.arange(len(offsets) - 1, device=p.device).repeat_interleave(offsets.diff(), output_size=len(p))
        means = p.new_zeros(len(offsets) - 1, p.shape[2]).index_add(0, owners, (slopes * tangent).sum(1))
        if not ctx.with_slopes:
            return means, torch.zeros_like(ctx.saved_tensors[2])
        return means, torch.func.jvp(slopes_in_torch(offsets, ctx.parameters), (p,), (tangent,))[1]

    @one_by_one
    def backward(ctx: Any, by_means: Tensor | None, by_slopes: Tensor | None) -> tuple[Tensor | None, ...]:
        p, offsets, slopes = ctx.saved_tensors
        gradient = None
        if by_means is not None:
            if not ctx.with_slopes:
                slopes = differentiable.apply(p, offsets, *ctx.parameters, True)[1]
            gradient = times_by_set(slopes, by_means, offsets)
        if by_slopes is not None and ctx.with_slopes:
            again = torch.func.vjp(slopes_in_torch(offsets, ctx.parameters), p)[1](by_slopes)[0]
            gradient = again if gradient is None else gradient + again
        return gradient, *(None,) * (2 + len(ctx.parameters))

    def mapped(info: Any, dims: tuple[Any, ...], p: Tensor, offsets: Tensor, *rest: Any) -> Any:
        if any(dim is not None for dim in dims[1:]):
            raise NotImplementedError(f"janossy::{name} can be mapped over p only; every call has the same sets.")
        stacked = p.movedim(dims[0], 2)  # (N, k, V, H): columns are independent
        out, slopes = differentiable.apply(stacked.flatten(2), offsets, *rest)
        shape = stacked.shape[2:]
        if not rest[-1]:
            return (out.unflatten(1, shape), slopes), (1, None)
        return (out.unflatten(1, shape), slopes.unflatten(2, shape)), (1, 2)

    def setup_context_once(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        setup_context(ctx, inputs, output)
        ctx.mark_non_differentiable(output[1])

    # torch.compile traces the operator, whose graph can be differentiated once. torch.func and double backward use the
    # Function.
    operator.register_autograd(backward, setup_context=setup_context_once)
    operator.register_vmap(mapped)
    rules: dict[str, Any] = {
        "forward": forward,
        "setup_context": setup_context,
        "backward": backward,
        "jvp": jvp,
        "vmap": mapped,
    }
    differentiable = type(name, (torch.autograd.Function,), {rule: staticmethod(call) for rule, call in rules.items()})

    def means(p: Tensor, offsets: Tensor, *parameters: bool | str | float) -> Tensor:
        apply = operator if torch.compiler.is_compiling() else differentiable.apply
        return cast(Tensor, apply(p, offsets, *parameters, torch.is_grad_enabled() and p.requires_grad)[0])

    return Operator(f"{name}s", eagerly, in_torch, means, all_activations)


def _activations_of_series(
    p: Tensor, sizes: np.ndarray, increasing: bool, activation: str, tolerance: float, enumerate_up_to: int
) -> float:
    """Counts the activations of a hidden unit, if sets that reach as far as the batch are enumerated where cheaper."""
    k = p.shape[1]
    reach = p.detach().abs().amax((0, 2)).sum().item() if p.numel() else 0.0
    series = series_cost(sizes, k, increasing, num_harmonics(activation, tolerance, reach)) / HARMONICS
    return float(np.fmin(series, num_tuples(sizes, k, increasing)).sum())  # the latter where reach is NaN


TUPLE_MEANS = _operator(
    "tuple_mean",
    "bool increasing, str activation",
    tuple_means,
    partial(tuple_means, memory_budget=CHUNK),
    lambda p, sizes, increasing, activation: num_tuples(sizes, p.shape[1], increasing).sum(),
)
SERIES_MEANS = _operator(
    "series_mean",
    "bool increasing, str activation, float tolerance, int enumerate_up_to",
    series_means,
    partial(series_means, memory_budget=CHUNK, mean_of_series=MeanWithSlopes.apply),
    _activations_of_series,
)
PRODUCT_MEANS = _operator(
    "product_mean",
    "bool increasing",
    product_means,
    product_means,
    lambda p, sizes, increasing: 3.0 ** p.shape[1] * sizes.sum(),
)
