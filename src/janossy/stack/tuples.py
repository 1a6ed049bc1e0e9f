"""Means over all k-tuples of R networks' sets: each network's projections by its own weights, then one pooling."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from janossy.evaluate.on_kernels import takes_means
from janossy.evaluate.problem import Problem
from janossy.evaluate.reduce import widened
from janossy.evaluate.tuples.every_tuple import in_order, in_place, is_increasing, reduced, why_not_every_tuple
from janossy.evaluate.tuples.operators import TUPLE_MEANS
from janossy.evaluate.tuples.place_means import place_means
from janossy.evaluate.tuples.projected_means import is_plain, projected_means
from janossy.evaluate.tuples.tuple_means import tuple_means
from janossy.functions.structure import ACTIVATIONS
from janossy.functions.tuple_mlp import TupleMLP
from janossy.stack.maps import linear

EVALUATORS = ("gather", "elementwise", "projected", "fused")
"""The evaluators that a single network may choose if its mean is computed here: all of them enumerate tuples."""


def why_not(problem: Problem) -> str | None:
    """Returns the reason why a network's mean cannot be computed with others'; None if it can."""
    f = problem.f
    if not isinstance(f, TupleMLP) or problem.structure is None:
        return f"{type(f).__name__} is not a plain TupleMLP"
    if len(f.hidden) > 1 or not problem.structure.rest_is_affine:  # type: ignore[attr-defined]
        return "TupleMLP has more than one hidden layer, norms or dropout"
    return why_not_every_tuple(problem, f.k)


def pool_tuples(problem: Problem, f: TupleMLP, counts: Sequence[int], num_sets: int) -> Tensor:
    """Returns the reduced rows (R·B, c) of all networks' sets, in turn.

    ``f`` has parameters (R, *shape). Each network has its ``counts`` of the problem's values, and ``num_sets`` sets.
    """
    first, offsets = f.hidden[0], problem.elements.offsets
    assert isinstance(first, nn.Linear)
    values, places = in_order(problem)
    weight, bias = first.weight, first.bias
    bias = weight.new_zeros(weight.shape[:2]) if bias is None else bias
    settings = is_increasing(problem), f.activation
    if is_plain(f.k, values, weight) and len(set(counts)) == 1:
        if f.k == 1 and places is not None:
            means = place_means(f.activation, places, offsets, values, weight, bias)
        else:
            means = projected_means(problem, TUPLE_MEANS, f.k, places, values, weight, bias, *settings)
    else:
        p = widened(in_place(_project(f.k, values, weight, bias, counts), places))
        if takes_means(TUPLE_MEANS.name, p):
            means = TUPLE_MEANS.means(p, offsets, *settings)
        else:
            means = tuple_means(p, problem.elements.sizes, *settings)
        means = means.to(values.dtype)
    if 0 in problem.elements.sizes:
        of_nothing = ACTIVATIONS[f.activation](bias).to(means.dtype).repeat_interleave(num_sets, 0)
        means = torch.where((offsets.diff() == 0)[:, None], of_nothing, means)
    if isinstance(f.output, nn.Linear):
        means = linear(means, f.output.weight, f.output.bias, [num_sets] * len(weight))
    return reduced(problem, means)


def _project(k: int, values: Tensor, weight: Tensor, bias: Tensor, counts: Sequence[int]) -> Tensor:
    """Returns the projections (N, k, H) whose sums over positions are weight · [x_1, …, x_k] + bias.

    Shapes: weight (R, H, k·d).
    """
    bias = nn.functional.pad(bias, (0, (k - 1) * bias.shape[1]))
    by_position = weight.unflatten(2, (k, -1)).transpose(1, 2).flatten(1, 2)  # (R, k·H, d)
    return cast(Tensor, linear(values, by_position, bias, counts).unflatten(1, (k, -1)))
