"""Means over all k-tuples of R networks' sets: each network's projections by its own weights, then one pooling."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from janossy.evaluate.on_kernels import lanes, on_kernels_eagerly, on_threads, takes_means
from janossy.evaluate.problem import Problem
from janossy.evaluate.reduce import widened
from janossy.evaluate.tuples.every_tuple import in_order, in_place, is_increasing, reduced, why_not_every_tuple
from janossy.evaluate.tuples.operators import TUPLE_MEANS
from janossy.evaluate.tuples.projected_means import gradients
from janossy.evaluate.tuples.tuple_means import tuple_means
from janossy.functions.structure import ACTIVATIONS
from janossy.functions.tuple_mlp import TupleMLP
from janossy.stack.maps import linear

EVALUATORS = ("gather", "projected", "fused")
"""What a network by itself may choose, for its mean to be computed here: all of them enumerate tuples."""


def why_not(problem: Problem) -> str | None:
    """Why a network's mean cannot be computed with others'; None if it can."""
    f = problem.f
    if not isinstance(f, TupleMLP) or problem.structure is None:
        return f"{type(f).__name__} is no plain TupleMLP"
    if len(f.hidden) > 1 or not problem.structure.rest_is_affine:  # type: ignore[attr-defined]
        return "TupleMLP has more than one hidden layer"
    return why_not_every_tuple(problem, f.k)


def pool_tuples(problem: Problem, f: TupleMLP, counts: Sequence[int], num_sets: int) -> Tensor:
    """The reduced rows (R·B, c) of all networks' sets, in turn.

    ``f`` has parameters (R, *shape), and each network ``counts`` of the problem's values and ``num_sets`` sets.
    """
    first, offsets = f.hidden[0], problem.elements.offsets
    assert isinstance(first, nn.Linear)
    values, places = in_order(problem)
    settings = f.k, is_increasing(problem), f.activation
    weight, bias = first.weight, first.bias
    bias = weight.new_zeros(weight.shape[:2]) if bias is None else bias
    eager = on_kernels_eagerly(values) and len(set(counts)) == 1 and values.dtype == weight.dtype and values.dim() == 2
    if eager and f.k == 1 and problem.table is not None:
        means = _PlaceMeans.apply(ACTIVATIONS[f.activation], places, offsets, values, weight, bias)
    elif eager:
        with_slopes = torch.is_grad_enabled() and any(x.requires_grad for x in (values, weight, bias))
        means = _Means.apply(settings, with_slopes, places, offsets, values, weight, bias)
    else:
        p = widened(in_place(_project(f.k, values, weight, bias, counts), places))
        if takes_means(p):
            means = TUPLE_MEANS.means(p, offsets, *settings[1:])
        else:
            means = tuple_means(p, problem.elements.sizes, *settings[1:])
        means = means.to(values.dtype)
    if 0 in problem.elements.sizes:
        of_nothing = ACTIVATIONS[f.activation](bias).to(means.dtype).repeat_interleave(num_sets, 0)
        means = torch.where((offsets.diff() == 0)[:, None], of_nothing, means)
    if isinstance(f.output, nn.Linear):
        means = linear(means, f.output.weight, f.output.bias, [num_sets] * len(weight))
    return reduced(problem, means)


def _project(k: int, values: Tensor, weight: Tensor, bias: Tensor, counts: Sequence[int] | None = None) -> Tensor:
    """The projections (N, k, H) whose sums over positions are weight · [x_1, …, x_k] + bias, weight (R, H, k·d).

    Without ``counts`` each network has as many values.
    """
    counts = [len(values) // len(weight)] * len(weight) if counts is None else counts
    bias = nn.functional.pad(bias, (0, (k - 1) * bias.shape[1]))
    return linear(values, _by_position(k, weight), bias, counts).unflatten(1, (k, -1))


def _by_position(k: int, weight: Tensor) -> Tensor:
    """The weights (R, H, k·d) as (R, k·H, d)."""
    return weight if k == 1 else weight.unflatten(2, (k, -1)).transpose(1, 2).flatten(1, 2)


LOGISTIC = {"tanh": 2.0, "sigmoid": 1.0}
"""s of the activations that are 1 − s/(1 + e^{sp})."""

MOST_ELEMENTS = 24
"""Of the sets whose tuples the kernel of products of exponentials adds up in the working precision."""

FAR = {torch.float32: 40.0, torch.float64: 300.0}
"""The exponents up to which it may multiply two of its products, and stay below the largest number."""


def _means_and_slopes(
    p: Tensor, places: Tensor | None, offsets: Tensor, increasing: bool, activation: str, with_slopes: bool
) -> tuple[Tensor, Tensor]:
    """As ``TUPLE_MEANS.kernel`` of ``in_place(p, places)``, but p may be written to.

    Means of tanh and the logistic function are made of products of exponentials, where sets are small and no exponent
    is so large that a product might overflow.
    """
    k, s = p.shape[1], LOGISTIC.get(activation, 0.0)
    if s > 0 and k in (2, 3) and len(offsets) > 1 and len(p) > 0:
        low, high = (bound.item() for bound in offsets.diff().aminmax())
        farthest = max(abs(bound.item()) for bound in p.aminmax())
        if k <= low and high <= MOST_ELEMENTS and k * s * farthest <= FAR[p.dtype]:
            found = torch.arange(len(p)) if places is None else places
            arrays = (p.mul_(s).exp_().numpy(), found.numpy(), offsets.numpy())
            means, slopes = on_threads("logistic_means", *arrays, increasing, s, with_slopes)
            return torch.from_numpy(means), torch.from_numpy(slopes)
    return TUPLE_MEANS.kernel(in_place(p, places), offsets, increasing, activation, with_slopes)


class _PlaceMeans(torch.autograd.Function):
    """For k = 1, the means of σ(p), made once for each row of a table, over the sets that look it up."""

    @staticmethod
    def forward(
        ctx: Any,
        activation: Callable[[Tensor], Tensor],
        places: Tensor,
        offsets: Tensor,
        table: Tensor,
        weight: Tensor,
        bias: Tensor,
    ) -> Tensor:
        R = len(weight)
        with torch.set_grad_enabled(any(ctx.needs_input_grad)):  # of σ alone
            p = _project(1, table.detach(), weight.detach(), bias.detach())[:, 0].requires_grad_()
            ctx.activated = p, activation(p)
        ctx.activation = activation
        ctx.save_for_backward(places, offsets, table, weight, bias)
        arrays = (x.detach().numpy() for x in (ctx.activated[1], places, offsets))
        return torch.from_numpy(on_threads("means_by_place", *arrays, R))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (places, offsets, *inputs), needed = ctx.saved_tensors, ctx.needs_input_grad[3:]
        if torch.is_grad_enabled():  # of a gradient that will itself be differentiated
            inputs = [x.view_as(x) for x in inputs]  # the gradient stops here: elements may depend on the weights
            activated = ctx.activation(_project(1, *inputs)[:, 0]).index_select(0, places)
            owners = torch.arange(len(offsets) - 1).repeat_interleave(offsets.diff())
            means = torch.zeros_like(gradient).index_add(0, owners, activated)
            means = means / offsets.diff().clamp_min(1)[:, None]
            return *(None,) * 3, *gradients(means, inputs, needed, gradient)
        R = len(inputs[1])
        by_places = _put_back(gradient.new_empty(0), gradient, places, offsets, len(inputs[0]), R)[:, 0]
        by_projection = torch.autograd.grad(ctx.activated[1], ctx.activated[0], by_places, retain_graph=True)[0]
        return *(None,) * 3, *_by_inputs(by_projection.unflatten(0, (R, -1)), 1, inputs[0], inputs[1], needed)


def _by_inputs(
    by_projection: Tensor, k: int, values: Tensor, weight: Tensor, needed: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    """The gradients by values (N, d), weight (R, H, k·d) and bias (R, H), from those by projections (R, N/R, k·H)."""
    R, H = weight.shape[:2]
    by_values = (by_projection @ _by_position(k, weight)).flatten(0, 1) if needed[0] else None
    by_weight = None
    if needed[1]:
        by_weight = torch.bmm(by_projection.mT, values.view(R, -1, values.shape[1]))
        if k > 1:
            by_weight = by_weight.unflatten(1, (k, H)).transpose(1, 2).flatten(2)
    return by_values, by_weight, by_projection[..., :H].sum(1) if needed[2] else None


def _put_back(
    slopes: Tensor, gradient: Tensor, places: Tensor | None, offsets: Tensor, num_rows: int, num_networks: int
) -> Tensor:
    """The gradients (num_rows, k, H) by the rows that were looked up."""
    places = torch.arange(num_rows) if places is None else places
    arrays = (x.contiguous().numpy() for x in (slopes, gradient, places, offsets))
    return torch.from_numpy(on_threads("add_by_place", *arrays, num_rows, num_networks))


class _Means(torch.autograd.Function):
    """The projections and the means of their activations, by the compiled kernel, in one step of autograd."""

    @staticmethod
    def forward(
        ctx: Any,
        settings: tuple[int, bool, str],
        with_slopes: bool,
        places: Tensor | None,
        offsets: Tensor,
        values: Tensor,
        weight: Tensor,
        bias: Tensor,
    ) -> Tensor:
        k, H = settings[0], bias.shape[1]
        # Hidden units are filled up to whole vectors of the kernel.
        missing = -H % lanes(values)
        padded = nn.functional.pad(weight, (0, 0, 0, missing)), nn.functional.pad(bias, (0, missing))
        projections = _project(k, values, *padded)
        means, slopes = _means_and_slopes(projections, places, offsets, *settings[1:], with_slopes)
        ctx.settings = settings
        ctx.save_for_backward(places, offsets, slopes, values, weight, bias)
        return means[:, :H]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        places, offsets, slopes, *inputs = ctx.saved_tensors
        needed, k = ctx.needs_input_grad[4:], ctx.settings[0]
        if torch.is_grad_enabled():  # of a gradient that will itself be differentiated
            inputs = [x.view_as(x) for x in inputs]  # the gradient stops here: elements may depend on the weights
            projections = _project(k, *inputs)
            means = TUPLE_MEANS.means(in_place(projections, places), offsets, *ctx.settings[1:])
            return *(None,) * 4, *gradients(means, inputs, needed, gradient)
        values, weight, _bias = inputs
        R = len(weight)
        by_projection = _put_back(slopes, gradient, places, offsets, len(values), R).flatten(1).unflatten(0, (R, -1))
        return *(None,) * 4, *_by_inputs(by_projection, k, values, weight, needed)
