"""The tasks of a vertex and its neighbours: a data set's labels, or planted labels of a known order."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from janossy import Ragged
from studies.paper.graphs.datasets import VertexData

SHARPNESS = 10.0
"""The log-odds of a planted label if all products are 1."""


@dataclass(frozen=True)
class Task:
    """The features of vertices as themselves and as neighbours, and the data with the task's labels.

    Shapes: own (V, d), neighbour (V, d'); for planted labels, signs (V,) of -1 and 1.
    """

    own: Tensor
    neighbour: Tensor
    data: VertexData
    num_classes: int
    planted: int | None = None
    signs: Tensor | None = None


def real(data: VertexData) -> Task:
    """Returns the task of the data's own labels.

    A neighbour is its features and the mean of its own neighbours' features, so that two hops count. Words are scaled
    to a vector's length of √d. All networks read the number of neighbours, because pairs and orders reveal it anyway.
    """
    x = data.x.to_dense()
    if data.x.is_sparse:
        x = x * (x.shape[1] ** 0.5 / x.norm(dim=1, keepdim=True).clamp_min(1e-6))
    targets = torch.arange(len(x)).repeat_interleave(data.graph.degrees)
    mean = torch.zeros_like(x).index_add_(0, targets, x[data.graph.neighbours])
    mean /= data.graph.degrees.clamp_min(1)[:, None]
    return Task(_with_degrees(x, data), torch.cat((x, mean), 1), data, data.num_classes)


def planted(data: VertexData, k: int, seed: int, hidden: bool) -> Task:
    """Returns the task of labels 0 and 1 with log-odds SHARPNESS · the mean product of signs over k neighbours.

    The mean is over all sets of k neighbours. A vertex's sign is random, and its only feature. If ``hidden``, the sign
    is the side of the median in the first principal component of the data's features. Those features are then known
    instead, and signs of neighbours are similar.
    """
    generator = torch.Generator().manual_seed(seed)
    if hidden:
        task = real(data)
        x = task.own[:, :-1].double()
        x = x - x.mean(0)
        component = x @ torch.linalg.eigh(x.T @ x).eigenvectors[:, -1]
        signs = torch.where(component > component.median(), 1.0, -1.0)
    else:
        signs = 2.0 * torch.randint(2, (len(data.x),), generator=generator) - 1
        task = Task(_with_degrees(signs[:, None], data), signs[:, None], data, 2)
    log_odds = planted_log_odds(signs, data, torch.arange(len(signs)), k)
    y = (torch.rand(len(signs), generator=generator) < log_odds.sigmoid()).long()
    return replace(task, data=replace(data, y=y), num_classes=2, planted=k, signs=signs)


def planted_log_odds(signs: Tensor, data: VertexData, vertices: Tensor, k: int) -> Tensor:
    """Returns the planted log-odds of these vertices' whole neighbourhoods, (B,)."""
    whole = data.graph.whole(vertices)
    return SHARPNESS * mean_product(whole.with_values(signs[whole.values]), k)


def mean_product(sets: Ragged, k: int) -> Tensor:
    """Returns the mean product of all k elements of each set, or 0 for smaller sets: values (N,) -> (B,)."""
    padded, mask = sets.to_padded()
    sums = [padded.new_ones(len(padded)), *padded.new_zeros(k, len(padded))]  # elementary symmetric polynomials
    for column in padded.unbind(1):
        sums = [sums[0], *(sums[j] + column * sums[j - 1] for j in range(1, k + 1))]
    num = padded.new_ones(len(padded))
    for i in range(k):
        num = num * (mask.sum(1) - i).clamp_min(0) / (i + 1)
    return sums[k] / num.clamp_min(1)


def _with_degrees(x: Tensor, data: VertexData) -> Tensor:
    return torch.cat((x, data.graph.degrees.to(x).log1p()[:, None]), 1)
