"""The layers of GraphSAGE: pooling of a vertex's sampled neighbours."""

import warnings
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn

from janossy.evaluate import Gather, Packed, Problem
from janossy.evaluate.loading import LOADING
from janossy.functions import GRU, LSTM, TupleMLP
from janossy.functions.structure import is_linear
from janossy.nn.pooling import JanossyPooling
from janossy.orderings import Tuples
from janossy.orderings.drawn import Drawn
from janossy.orderings.rows import build_rows
from janossy.sets import Ragged


class MeanLayer(nn.Module):
    """W [x_v, Σ_u x_u / n]: a vertex beside the mean of its n neighbours, which is 0 without neighbours.

    Shapes: x (N, d), sets of B of positions in x, vertices (B,) -> (B, out_features).
    """

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.linear = linear(2 * in_features, out_features)

    def forward(self, x: Tensor, sets: Ragged, vertices: Tensor) -> Tensor:
        used, places = _used(x, sets.values)
        linear: nn.Module = self.linear
        if not is_linear(linear) or linear.bias is not None:
            mean = _bags(_dense(used), places, sets, "mean")
            return cast(Tensor, linear(torch.cat((_dense(_rows(x, vertices)), mean), dim=1)))
        own, others = linear.weight.chunk(2, dim=1)
        # A mean and a linear map commute, so the narrower side of the map is averaged.
        if x.layout != torch.strided or len(others) < x.shape[1]:
            mean = _bags(used @ others.T, places, sets, "mean")
        else:
            mean = _bags(used, places, sets, "mean") @ others.T
        return _rows(x, vertices) @ own.T + mean


class GCNLayer(nn.Module):
    """A (x_v + Σ_u x_u) / (1 + n): the mean of a vertex and its n neighbours.

    Shapes: x (N, d), sets of B of positions in x, vertices (B,) -> (B, out_features).
    """

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.linear = linear(in_features, out_features)

    def forward(self, x: Tensor, sets: Ragged, vertices: Tensor) -> Tensor:
        # A mean and a linear map commute, so the narrower side of the map is summed.
        linear: nn.Module = self.linear
        first = is_linear(linear) and (x.layout != torch.strided or linear.in_features > linear.out_features)
        used, places = _used(x, torch.cat((vertices, sets.values)))
        own, others = places.split([len(vertices), len(sets.values)])
        x = linear(used) if first else _dense(used)
        mean = (x.index_select(0, own) + _bags(x, others, sets, "sum")) / (1 + sets.offsets.diff()[:, None])
        return mean if first else cast(Tensor, linear(mean))


class PoolingLayer(nn.Module):
    """[A x_v, B f̄(neighbours)], with the f̄ that ``GraphSAGE`` names.

    Shapes: x (N, d), sets of B of positions in x, vertices (B,) -> (B, hidden_features).
    """

    def __init__(self, in_features: int, hidden_features: int, aggregation: str, memory_budget: int = 2**30) -> None:
        super().__init__()
        self.pool = _pooling(aggregation, in_features, hidden_features, memory_budget)
        self.own = linear(in_features, hidden_features // 2)
        self.neighbours = linear(hidden_features, hidden_features // 2)

    def forward(self, x: Tensor, sets: Ragged, vertices: Tensor) -> Tensor:
        return torch.cat((self.own(_rows(x, vertices)), self.neighbours(self.pool(x, sets))), dim=1)


class InOrder(nn.Module):
    """f(x_u_1, …, x_u_n) of each set in its present order, by the evaluators for drawn rows.

    Shapes: x (N, d), sets of B of positions in x -> (B, c).
    """

    def __init__(self, f: LSTM | GRU, memory_budget: int = 2**30) -> None:
        super().__init__()
        self.f = f
        self.memory_budget = memory_budget

    def forward(self, x: Tensor, sets: Ragged) -> Tensor:
        table, places = _used(x, sets.values)  # each row is projected once, in however many sets it is
        rows = Drawn(build_rows(sets, lambda n, _: torch.arange(n, device=sets.device)[None, None]), sets.sizes)
        problem = Problem(
            self.f, rows, sets.with_values(places), keys=sets, memory_budget=self.memory_budget, table=table
        )
        LOADING.called()
        if Packed().why_not_applicable(problem) is None:
            return cast(Tensor, Packed()(problem))
        return cast(Tensor, Gather()(replace(problem, table=_dense(table))))


class Largest(nn.Module):
    """max_u relu(W x_u + b), or 0 for an empty set.

    Shapes: x (N, d), sets of B of positions in x -> (B, out_features).
    """

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x: Tensor, sets: Ragged) -> Tensor:
        used, places = _used(x, sets.values)
        return _bags(self.linear(used).relu(), places, sets, "max")


class KaryMean(nn.Module):
    """The mean of f over the injective k-tuples of each set.

    Shapes: x (N, d), sets of B of positions in x -> (B, hidden_features).
    """

    def __init__(self, k: int, in_features: int, hidden_features: int) -> None:
        super().__init__()
        self.pooling = JanossyPooling(TupleMLP(k, in_features, hidden_features), Tuples(k))

    def forward(self, x: Tensor, sets: Ragged) -> Tensor:
        return cast(Tensor, self.pooling(sets.with_values(_dense(_rows(x, sets.values)))))


def _pooling(aggregation: str, in_features: int, hidden_features: int, memory_budget: int) -> nn.Module:
    expected = "GraphSAGE expects an aggregation among 'mean', 'gcn', 'max', 'lstm', 'gru', 'k2', 'k3', …"
    if not isinstance(aggregation, str):
        raise TypeError(f"{expected}; got {aggregation!r}, of type {type(aggregation).__name__}.")
    k = aggregation.removeprefix("k")
    if k.isdecimal() and k != aggregation and int(k) >= 1:
        return KaryMean(int(k), in_features, hidden_features)
    match aggregation:
        case "lstm":
            return InOrder(LSTM(in_features, hidden_features), memory_budget)
        case "gru":
            return InOrder(GRU(in_features, hidden_features), memory_budget)
        case "max":
            return Largest(in_features, hidden_features)
    raise ValueError(f"{expected}; got {aggregation!r}.")


def _used(x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the rows of x at these positions, once each, and the place of each position among them.

    On CUDA the rows may repeat, as finding the distinct ones would wait for the device.
    """
    if x.is_cuda and x.layout == torch.strided:
        if len(x) <= len(positions):
            return x, positions
        return x.index_select(0, positions), torch.arange(len(positions), device=x.device)
    used, places = positions.unique(return_inverse=True)
    return _rows(x, used), places


def _rows(x: Tensor, positions: Tensor) -> Tensor:
    """Returns the rows of x at these positions; rows of a sparse x as CSR.

    A product with Cora's rows takes a tenth of the time as CSR.
    """
    if x.layout == torch.strided:
        return x.index_select(0, positions)
    if len(positions) == 0:
        return torch.zeros(0, x.shape[1], dtype=x.dtype, device=x.device)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        return cast(Tensor, x.to_sparse_coo().index_select(0, positions).to_sparse_csr())


def _dense(x: Tensor) -> Tensor:
    return x if x.layout == torch.strided else x.to_dense()


def _bags(x: Tensor, positions: Tensor, sets: Ragged, mode: str) -> Tensor:
    """Returns the sum or the maximum over each set of the rows of x at these positions, without gathering them."""
    return nn.functional.embedding_bag(positions, x, sets.offsets, mode=mode, include_last_offset=True)


def linear(in_features: int, out_features: int) -> nn.Linear:
    """Returns a linear layer without a bias, with Xavier's initial weights."""
    made = nn.Linear(in_features, out_features, bias=False)
    nn.init.xavier_uniform_(made.weight)
    return made
