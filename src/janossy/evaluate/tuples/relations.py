"""Relations of sets of any sizes, each set in the way that is cheapest, and as an operator for torch.compile."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor

from janossy.evaluate.on_kernels import on_kernels_eagerly
from janossy.evaluate.rows.recompute import gradients_again, recorded
from janossy.evaluate.tuples.relation_means import (
    enumerated_relations,
    product_relations,
    relu_relations,
    series_relations,
)
from janossy.evaluate.tuples.series_means import bounds_of_sets
from janossy.kernels.expansions import num_harmonics, rounded_up
from janossy.kernels.series_choice import MAX_STATES
from janossy.orderings import Tuples
from janossy.orderings.contract import check_budget
from janossy.sets import Ragged

MANY_HARMONICS = 512
"""The harmonics of a reach of hundreds, up to which sets are computed by series without a look at each set."""

IN_KERNELS, IN_TORCH = 0.25, 4.0
"""The tuples that take as long as a harmonic, per element and subset of positions: in kernels, and without them."""


def relations(
    p: Tensor,
    offsets: Tensor,
    sizes: Sequence[int],
    activation: str,
    how: str,
    enumerate_up_to: int,
    tolerance: float,
    memory_budget: int,
) -> Tensor:
    """Returns the means (N, H) of f's hidden units over the tuples of each element's others.

    ``how`` is "permanent" for factors p (N + 1, k, H), as ``product_relations`` takes them. For projections p (N, k, H)
    it is "projected", "spectral" or "fused". The last two are for sets of more than ``enumerate_up_to`` >= k − 1
    elements, and the others are enumerated. So are sets that reach so far that a series takes longer or is impossible,
    unless they have too many tuples.

    Raises: ValueError if too many tuples would be enumerated.
    """
    if how == "permanent":
        return product_relations(p, sizes)
    sets = Ragged(p, offsets, sizes=sizes)
    few = [0 < n <= enumerate_up_to or how == "projected" for n in sizes]
    far = _far(p, sizes, activation, tolerance) if how == "spectral" and not all(few) else [False] * len(sizes)
    large = [b for b, n in enumerate(sizes) if n > enumerate_up_to and how != "projected" and not far[b]]
    small = [b for b in range(len(sizes)) if few[b] or far[b]]

    def enumerated(sets: Ragged) -> Tensor:
        tuples = Tuples(p.shape[1])
        check_budget(tuples, sets.sizes, tuples.max_rows, "n!/(n-k)! tuples", "a smooth activation")
        return enumerated_relations(sets.values, sets.sizes, activation, memory_budget)

    def summed(sets: Ragged) -> Tensor:
        if how == "fused":
            return relu_relations(sets.values, sets.sizes)
        return series_relations(sets.values, sets.offsets, sets.sizes, activation, tolerance, memory_budget)

    if not large:
        return enumerated(sets)
    if not small:
        return summed(sets)
    numbers = sets.with_values(torch.arange(len(p), device=p.device))
    order = torch.cat([numbers[some].values for some in (large, small)]).argsort()
    return torch.cat([summed(sets[large]), enumerated(sets[small])])[order]


def _far(p: Tensor, sizes: Sequence[int], activation: str, tolerance: float) -> list[bool]:
    """Returns True for the sets whose many harmonics are more than kernels keep, or take longer than their tuples."""
    p, most, k = p.detach(), MAX_STATES >> 3, p.shape[1]
    if p.numel():  # sets are rarely far, and a bound for each set takes ten times as long or more
        low, high = p.aminmax()
        if num_harmonics(activation, tolerance, rounded_up(k * max(-low.item(), high.item()))) <= MANY_HARMONICS:
            return [False] * len(sizes)
    bounds, _ = bounds_of_sets(p, sizes)
    harmonics, tuples = num_harmonics(activation, tolerance, bounds), Tuples(k)
    as_long = 2**k * (IN_KERNELS if k <= 3 and on_kernels_eagerly(p) else IN_TORCH)
    return [
        num > MANY_HARMONICS
        and tuples.num_rows(n) <= tuples.max_rows
        and (num > most or tuples.num_rows(n) <= as_long * num * n)
        for n, num in zip(sizes, harmonics.tolist(), strict=True)
    ]


@torch.library.custom_op(
    "janossy::relations", mutates_args=(), device_types=("cpu", "cuda"), tags=torch.Tag.cudagraph_unsafe
)
def relations_of_any_sizes(
    p: Tensor,
    offsets: Tensor,
    activation: str,
    how: str,
    enumerate_up_to: int,
    tolerance: float,
    memory_budget: int,
) -> Tensor:
    """Returns ``relations`` of the sets between these offsets. Backward computes them again."""
    found = relations(p, offsets, _sizes(offsets), activation, how, enumerate_up_to, tolerance, memory_budget)
    return found.clone(memory_format=torch.contiguous_format)


@relations_of_any_sizes.register_fake
def _(p: Tensor, offsets: Tensor, activation: str, how: str, *settings: object) -> Tensor:
    return p.new_empty(p.shape[0] - (how == "permanent"), p.shape[2])


@torch.library.custom_op(
    "janossy::relations_back", mutates_args=(), device_types=("cpu", "cuda"), tags=torch.Tag.cudagraph_unsafe
)
def relations_back(
    gradient: Tensor,
    p: Tensor,
    offsets: Tensor,
    activation: str,
    how: str,
    enumerate_up_to: int,
    tolerance: float,
    memory_budget: int,
) -> Tensor:
    """Returns the gradient of ``relations_of_any_sizes`` by p."""
    rest = offsets, _sizes(offsets), activation, how, enumerate_up_to, tolerance, memory_budget
    with recorded(), torch.no_grad():
        (by_p,) = gradients_again(lambda p: relations(p, *rest), (p,), (True,), gradient)
    return cast(Tensor, by_p).clone(memory_format=torch.contiguous_format)


@relations_back.register_fake
def _(gradient: Tensor, p: Tensor, *rest: object) -> Tensor:
    return torch.empty_like(p, memory_format=torch.contiguous_format)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    p, offsets, *ctx.settings = inputs
    ctx.save_for_backward(p, offsets)


def _backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    return relations_back(gradient, *ctx.saved_tensors, *ctx.settings), None, *(None,) * len(ctx.settings)


relations_of_any_sizes.register_autograd(_backward, setup_context=_setup_context)


def _sizes(offsets: Tensor) -> tuple[int, ...]:
    return tuple(b - a for a, b in pairwise(offsets.tolist()))
