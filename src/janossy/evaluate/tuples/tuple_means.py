"""Means over all k-tuples in torch operations, on any device.

They are slower than the compiled kernels, but differentiable any number of times. ``p`` (N, k, H) are numbers of
elements, sets end to end. A set of n < k elements has tuples of all n elements, at the first n positions. An empty
set's mean is 0, for the caller to replace.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate

import torch
from torch import Tensor

from janossy.evaluate.rows.recompute import stateless_again
from janossy.functions.structure import ACTIVATIONS
from janossy.orderings.templates import increasing_tuples, injective_tuples
from janossy.sets.transfer import upload


def by_size(p: Tensor, sizes: Sequence[int], mean: Callable[[Tensor], Tensor]) -> Tensor:
    """Applies ``mean`` to the sets of each size, (S, n, k, H) -> (S, H), and joins the results as (B, H)."""
    distinct = sorted(set(sizes))
    if len(distinct) == 1:
        return mean(p.unflatten(0, (len(sizes), distinct[0])))
    if not distinct:
        return p[:0, 0]  # of which p is still part for autograd
    starts = [0, *accumulate(sizes)]
    members: dict[int, list[int]] = {n: [] for n in distinct}
    for b, n in enumerate(sizes):
        members[n].append(b)
    results = []
    order: list[int] = []
    for n, sets in members.items():
        positions = torch.tensor([starts[b] for b in sets], device="cpu")[:, None] + torch.arange(n, device="cpu")
        results.append(mean(p[upload(positions, p.device)]))
        order += sets
    return torch.cat(results)[upload(torch.tensor(order, device="cpu").argsort(), p.device)]


def tuple_means(
    p: Tensor, sizes: Sequence[int], increasing: bool, activation: str, memory_budget: int | None = None
) -> Tensor:
    """Returns the mean (B, H) of σ(Σ_j p_j[i_j]) over injective or increasing tuples, by enumerating them.

    With a budget, tuples are enumerated in chunks of about so many bytes, and again in backward.
    """
    return by_size(p, sizes, lambda x: _tuple_mean(x, increasing, activation, memory_budget))


def _tuple_mean(x: Tensor, increasing: bool, activation: str, memory_budget: int | None) -> Tensor:
    num_sets, n, k, H = x.shape
    if n == 0:
        return x.sum((1, 2))
    tuples = (increasing_tuples if increasing else injective_tuples)(n, k, x.device)[:, : min(n, k)]

    def total(x: Tensor, places: Tensor) -> Tensor:
        preactivation = x[:, places[:, 0], 0]
        for j in range(1, places.shape[1]):
            preactivation = preactivation + x[:, places[:, j], j]
        return ACTIVATIONS[activation](preactivation).sum(1)

    step = len(tuples)
    if memory_budget is not None:
        step = max(1, memory_budget // max(1, 3 * num_sets * H * x.element_size()))
    if len(tuples) <= step:
        return total(x, tuples) / len(tuples)
    result = x.new_zeros(num_sets, H)
    for piece in tuples.split(step):
        result = result + stateless_again(total, x, piece)
    return result / len(tuples)
