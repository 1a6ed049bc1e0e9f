"""Weights of elements: Σ w_i w_j f(x_i, x_j) / Σ w_i w_j, computed exactly, with gradients by the weights."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from janossy.evaluate import Function, Problem
from janossy.evaluate.reduce import HALF, widened
from janossy.evaluate.rows.pool import apply


class WeighedRows(nn.Module):
    """[w·f(x), w] with w = Π w_i, for rows whose elements hold w_i and 1 as their last features.

    The zero vector, which fills small sets up to k, holds no 1, and has weight 1.

    f reads elements of ``dtype``, and weights may be wider. A row of weight 0 has no part in sums, whatever f gives.

    Shapes: (T, k, d + 2) -> (T, c + 1).
    """

    def __init__(self, f: Function, dtype: torch.dtype) -> None:
        super().__init__()
        self.f, self.dtype = f, dtype

    def forward(self, x: Tensor) -> Tensor:
        weights = (x[..., -2] + (1 - x[..., -1])).prod(1, keepdim=True)
        y = apply(self.f, x[..., :-2].to(self.dtype), single=x.shape[1] == 1)
        y = y.masked_fill((weights == 0) & ~y.isfinite(), 0)  # 0 · inf would be NaN
        return torch.cat((weights * y, weights), dim=1)


def pool_by_weights(problem: Problem, weights: Tensor, pool: Callable[[Problem], Tensor]) -> Tensor:
    """Returns the weighted mean of the rows of each set, (B, c), or their weighted sum if the problem asks for sums.

    ``pool`` computes the sums of a problem. A set whose rows all have weight 0 gives 0.
    """
    elements = problem.gathered
    values, dtype = widened(elements.values), elements.dtype  # sums in half precision overflow
    weights = weights.to(values.dtype)
    # A value that is not finite gives f's parameters gradients of NaN, even if its row weighs 0.
    values = values.masked_fill((weights == 0)[:, None] & ~values.isfinite(), 0)
    values = torch.cat((values, torch.stack((weights, torch.ones_like(weights)), 1)), dim=1)
    weighed = WeighedRows(problem.f, dtype)
    sums = pool(replace(problem, f=weighed, elements=elements.with_values(values), table=None, reduce="sum"))
    total, weight = sums[:, :-1], sums[:, -1:]
    result = total if problem.reduce == "sum" else total / torch.where(weight == 0, 1, weight)
    return result.to(dtype) if dtype in HALF else result


def check_weights(weights: Tensor, problem: Problem, owner: str) -> None:
    """Raises a TypeError or ValueError unless these are weights of elements, in orderings of k elements."""
    if not isinstance(weights, Tensor):
        raise TypeError(f"{owner} expects weights (N,) as a tensor; got {type(weights).__name__}.")
    elements, orderings = problem.elements, problem.orderings
    if weights.shape != elements.values.shape[:1] or not weights.is_floating_point():
        raise ValueError(
            f"{owner} expects weights of shape ({len(elements.values)},), one floating-point number per element; got "
            f"{weights.dtype} of shape {tuple(weights.shape)}."
        )
    if weights.device != elements.device:
        raise ValueError(f"{owner} expects weights on the sets' device, {elements.device}; got {weights.device}.")
    if problem.gathered.values.dim() != 2:
        raise ValueError(
            f"{owner} expects elements (N, d) beside weights; got {tuple(problem.gathered.values.shape)}. Embed them "
            "by h."
        )
    if not torch.compiler.is_compiling() and weights.device.type == "cpu" and bool((weights < 0).any()):
        raise ValueError(f"{owner} expects weights >= 0; got {weights.min().item()}.")
    if orderings.k is None or orderings.weighs_rows:
        raise ValueError(
            f"{owner} expects, with weights, orderings of k elements without row weights; got {orderings}. Over whole "
            "sets all rows weigh the same: use Tuples(k), Combinations(k) or Sampled(num, k=k)."
        )
    if problem.reduce not in ("mean", "sum"):
        raise ValueError(f"{owner} expects, with weights, reduce='mean' or 'sum'; got {problem.reduce!r}.")
