"""GraphSAGE: two layers that pool sampled neighbourhoods, and a linear classifier (Section 3.2)."""

import warnings
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn

from janossy.evaluate import Gather, Packed, Problem
from janossy.evaluate.cost import check_memory_budget
from janossy.functions import GRU, LSTM, TupleMLP
from janossy.functions.checks import check_dtype, check_widths
from janossy.graph.neighbourhoods import Neighbourhoods, TwoHops, check_graph, two_hops
from janossy.orderings import Tuples
from janossy.orderings.drawn import Drawn
from janossy.orderings.rows import build_rows
from janossy.pooling import JanossyPooling
from janossy.ragged import Ragged


class GraphSAGE(nn.Module):
    """ρ(layer two(layer one(x))): the paper's classifier of vertices (Section 3.2; Hamilton et al., 2017).

    A layer with H hidden units, of a vertex v with neighbours u_1 … u_n:

    - "lstm", "gru": [A x_v, B f(x_u_1, …, x_u_n)], f the last hidden state, of H units, after reading the neighbours
      as they were drawn, which is in random order: π-SGD. A and B give H/2 each.
    - "max": the same, f the maximum over the neighbours of relu(W x_u + b).
    - "k2", "k3", …: the same, f the exact average of ``TupleMLP(k, d, H)`` over the injective k-tuples of neighbours,
      by the fast paths: meant for whole neighbourhoods, k_1 = k_2 = None.
    - "mean", the paper's k = 1: A (x_v + Σ x_u_j) / (1 + n), as in a GCN. A gives H units, in layer two H/2.

    ReLU follows layer one and, of "mean", layer two; the others' layer two is scaled to norm 1. ρ is linear. Linear
    maps have no bias, and Xavier's initial weights. Without neighbours f is 0, and of k-tuples f(0, …, 0).

    Args:
        in_features: d.
        num_classes: c.
        aggregation: "mean", "max", "lstm", "gru", or "k" and a number.
        hidden_features: H, even.
        memory_budget: the bytes that a layer's recurrence may keep for backward; with more to read it goes in chunks,
            and computes each again in backward, which takes a quarter more time.

    Shapes: x (V, d), dense or sparse, vertices (B,) -> logits (B, c).
    Invariance: of whole neighbourhoods, "mean", "max" and k-tuples are exact under the order of the edges. "lstm" and
        "gru" are one draw: average the probabilities of several calls (Remark 2.2).
    Cost: a vertex's features are projected once, in however many neighbourhoods it is; by k-tuples, once in each. Of
        sparse features (Cora's, PubMed's), only what is not zero is multiplied.
    Raises: TypeError for an argument of another type; ValueError for an unknown aggregation, widths below 1, an odd
        hidden_features, features that are not (V, d) or in another dtype than the weights, or for what ``two_hops``
        refuses.

    Example:
        >>> graph = Neighbourhoods.from_edge_index(torch.tensor([[1, 2, 0, 0], [0, 0, 1, 2]]))
        >>> model = GraphSAGE(5, 3, "lstm")
        >>> model(torch.randn(3, 5), graph, torch.tensor([0, 2]), k_1=2, k_2=2).shape
        torch.Size([2, 3])
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        aggregation: str = "lstm",
        *,
        hidden_features: int = 256,
        memory_budget: int = 2**30,
    ) -> None:
        super().__init__()
        check_widths(self, in_features=in_features, num_classes=num_classes, hidden_features=hidden_features)
        if hidden_features % 2:
            raise ValueError(
                "GraphSAGE expects an even hidden_features, half for each vertex and half for its neighbours; "
                f"got hidden_features={hidden_features}."
            )
        check_memory_budget("GraphSAGE", memory_budget)
        self.in_features = in_features
        self.aggregation = aggregation
        last = hidden_features
        if aggregation == "mean":
            last = hidden_features // 2
            self.layer_one: nn.Module = MeanLayer(in_features, hidden_features)
            self.layer_two: nn.Module = MeanLayer(hidden_features, last)
        else:
            self.layer_one = PoolingLayer(in_features, hidden_features, aggregation, memory_budget)
            self.layer_two = PoolingLayer(hidden_features, hidden_features, aggregation, memory_budget)
        self.rho = _linear(last, num_classes)

    def forward(
        self,
        x: Tensor,
        graph: Neighbourhoods,
        vertices: Tensor,
        k_1: int | None = None,
        k_2: int | None = None,
        *,
        resample: bool = False,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """The logits of these vertices, from k_1 and k_2 neighbours, None for all, drawn as by ``two_hops``."""
        check_graph(graph, "GraphSAGE")
        expected = f"GraphSAGE expects features of shape ({len(graph)}, {self.in_features}), a row for each vertex"
        if not isinstance(x, Tensor):
            raise TypeError(f"{expected}; got {type(x).__name__}. Give a tensor, dense or sparse.")
        if x.shape != (len(graph), self.in_features):
            raise ValueError(
                f"{expected} of the graph; got {tuple(x.shape)}. Build it with other in_features, or the graph with "
                "num_nodes."
            )
        check_dtype(self, x)
        return self.of_hops(x, two_hops(graph, vertices, k_1, k_2, resample=resample, generator=generator))

    def of_hops(self, x: Tensor, hops: TwoHops) -> Tensor:
        """The logits (B, c) from neighbours that have been drawn."""
        embeddings = self.layer_one(x, hops.first, hops.inner).relu()
        outputs = self.layer_two(embeddings, hops.second, hops.targets)
        outputs = outputs.relu() if self.aggregation == "mean" else nn.functional.normalize(outputs, dim=1)
        return self.rho(outputs)

    def extra_repr(self) -> str:
        return f"aggregation={self.aggregation!r}"


class MeanLayer(nn.Module):
    """A (x_v + Σ_u x_u) / (1 + n): the mean of a vertex and its n neighbours.

    Shapes: x (N, d), sets of B of positions in x, vertices (B,) -> (B, out_features).
    """

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.linear = _linear(in_features, out_features)

    def forward(self, x: Tensor, sets: Ragged, vertices: Tensor) -> Tensor:
        # A mean and a linear map commute: the narrower of the two is what is summed.
        first = x.layout != torch.strided or self.linear.in_features > self.linear.out_features
        used, places = torch.cat((vertices, sets.values)).unique(return_inverse=True)
        own, others = places.split([len(vertices), len(sets.values)])
        x = self.linear(_rows(x, used)) if first else _rows(x, used)
        mean = (x.index_select(0, own) + _bags(x, others, sets, "sum")) / (1 + sets.offsets.diff()[:, None])
        return mean if first else self.linear(mean)


class PoolingLayer(nn.Module):
    """[A x_v, B f̄(neighbours)], f̄ as ``GraphSAGE`` names them.

    Shapes: x (N, d), sets of B of positions in x, vertices (B,) -> (B, hidden_features).
    """

    def __init__(self, in_features: int, hidden_features: int, aggregation: str, memory_budget: int = 2**30) -> None:
        super().__init__()
        self.pool = _pooling(aggregation, in_features, hidden_features, memory_budget)
        self.own = _linear(in_features, hidden_features // 2)
        self.neighbours = _linear(hidden_features, hidden_features // 2)

    def forward(self, x: Tensor, sets: Ragged, vertices: Tensor) -> Tensor:
        return torch.cat((self.own(_rows(x, vertices)), self.neighbours(self.pool(x, sets))), dim=1)


class InOrder(nn.Module):
    """f(x_u_1, …, x_u_n) of each set as it stands: the evaluators' work on rows that have been drawn.

    Shapes: x (N, d), sets of B of positions in x -> (B, c).
    """

    def __init__(self, f: LSTM | GRU, memory_budget: int = 2**30) -> None:
        super().__init__()
        self.f = f
        self.memory_budget = memory_budget

    def forward(self, x: Tensor, sets: Ragged) -> Tensor:
        used, places = sets.values.unique(return_inverse=True)
        rows = Drawn(build_rows(sets, lambda n, _: torch.arange(n)[None, None]), sets.sizes)
        table = _rows(x, used)  # each of them is projected once, in however many sets it is
        problem = Problem(self.f, rows, sets.with_values(places), sets, memory_budget=self.memory_budget, table=table)
        if Packed().refuses(problem) is None:
            return cast(Tensor, Packed()(problem))
        return cast(Tensor, Gather()(replace(problem, table=_dense(table))))


class Largest(nn.Module):
    """max_u relu(W x_u + b), or 0 of an empty set.

    Shapes: x (N, d), sets of B of positions in x -> (B, out_features).
    """

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x: Tensor, sets: Ragged) -> Tensor:
        used, places = sets.values.unique(return_inverse=True)
        return _bags(self.linear(_rows(x, used)).relu(), places, sets, "max")


class KaryMean(nn.Module):
    """The mean of f over the injective k-tuples of each set.

    Shapes: x (N, d), sets of B of positions in x -> (B, hidden_features).
    """

    def __init__(self, k: int, in_features: int, hidden_features: int) -> None:
        super().__init__()
        self.pooling = JanossyPooling(TupleMLP(k, in_features, hidden_features), Tuples(k))

    def forward(self, x: Tensor, sets: Ragged) -> Tensor:
        return self.pooling(sets.with_values(_dense(_rows(x, sets.values))))


def _pooling(aggregation: str, in_features: int, hidden_features: int, memory_budget: int) -> nn.Module:
    expected = "GraphSAGE expects an aggregation among 'mean', 'max', 'lstm', 'gru', 'k2', 'k3', …"
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


def _rows(x: Tensor, positions: Tensor) -> Tensor:
    """The rows of x at these positions; of a sparse x as CSR, of which Cora's take a tenth of the time in a product."""
    if x.layout == torch.strided:
        return x.index_select(0, positions)
    if len(positions) == 0:
        return torch.zeros(0, x.shape[1], dtype=x.dtype, device=x.device)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        return x.to_sparse_coo().index_select(0, positions).to_sparse_csr()


def _dense(x: Tensor) -> Tensor:
    return x if x.layout == torch.strided else x.to_dense()


def _bags(x: Tensor, positions: Tensor, sets: Ragged, mode: str) -> Tensor:
    """The sum or the maximum over each set of the rows of x at these positions, which are never gathered."""
    return nn.functional.embedding_bag(positions, x, sets.offsets, mode=mode, include_last_offset=True)


def _linear(in_features: int, out_features: int) -> nn.Linear:
    linear = nn.Linear(in_features, out_features, bias=False)
    nn.init.xavier_uniform_(linear.weight)
    return linear
