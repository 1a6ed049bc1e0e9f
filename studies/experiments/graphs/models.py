"""One network of torch_geometric's convolutions, with exchangeable aggregation: baselines and ours."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv, JumpingKnowledge, MessagePassing, SAGEConv

from janossy import GRU, LSTM, TupleMLP, Tuples
from janossy.graph import JanossyAggregation, JanossySAGEConv


class FirstNeighbours(SAGEConv):
    """A SAGEConv that reads the first ``most`` edges of each vertex, because its LSTM pads all to the longest."""

    def __init__(self, d: int, most: int) -> None:
        super().__init__(d, d, aggr="lstm")
        self.most = most

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        targets = edges[1]
        rank = torch.arange(len(targets)) - torch.searchsorted(targets, targets)
        return super().forward(x, edges[:, rank < self.most])


def _singles(d: int) -> JanossyAggregation:
    """Returns the mean over neighbours of an MLP with d hidden units: k = 1."""
    return JanossyAggregation(TupleMLP(1, d, d, activation="relu"), orderings=Tuples(1))


def _pairs(d: int, num_hidden: int | None = None) -> JanossyAggregation:
    """Returns the exact mean over all ordered pairs of neighbours, with d hidden units, or fewer and a linear layer."""
    hidden, out = (d, None) if num_hidden is None else (num_hidden, d)
    return JanossyAggregation(TupleMLP(2, d, hidden, out_features=out, activation="relu"), orderings=Tuples(2))


BASELINES: dict[str, Callable[[int], MessagePassing]] = {
    "GCN": lambda d: GCNConv(d, d),
    "GAT": lambda d: GATConv(d, d // 4, heads=4),
    "SAGE mean": lambda d: SAGEConv(d, d, aggr="mean"),
    "SAGE mean, max": lambda d: SAGEConv(d, d, aggr=["mean", "max"]),
    "SAGE LSTM": lambda d: FirstNeighbours(d, 10),
}
"""torch_geometric's own aggregations, (N, d) -> (N, d). Its LSTM reads a neighbourhood in the order of its edges."""

OURS: dict[str, Callable[[int], MessagePassing]] = {
    "Janossy LSTM": lambda d: JanossySAGEConv(d, d, aggr=JanossyAggregation(LSTM(d, d))),
    "Janossy GRU": lambda d: JanossySAGEConv(d, d, aggr=JanossyAggregation(GRU(d, d))),
    "Janossy singles": lambda d: JanossySAGEConv(d, d, aggr=_singles(d)),
    "Janossy pairs": lambda d: JanossySAGEConv(d, d, aggr=_pairs(d)),
    "mean, Janossy pairs": lambda d: JanossySAGEConv(d, d, aggr=["mean", _pairs(d)]),
    "mean, 16 Janossy pairs": lambda d: JanossySAGEConv(d, d, aggr=["mean", _pairs(d, 16)]),
    "mean, Janossy GRU": lambda d: JanossySAGEConv(d, d, aggr=["mean", JanossyAggregation(GRU(d, d))]),
}
"""LSTM and GRU by π-SGD, with one random permutation per neighbourhood and pass. Singles and pairs are exact."""

CONVOLUTIONS = BASELINES | OURS


def is_sampled(model: str) -> bool:
    """Returns True if a prediction is random, so that the probabilities of several passes are averaged."""
    return model in OURS and ("LSTM" in model or "GRU" in model)


@dataclass(frozen=True)
class Architecture:
    """``jump``: "cat" or "max" of all layers' outputs for the classifier (Jumping Knowledge); None for the last
    only."""

    hidden_features: int
    num_layers: int
    dropout: float
    residual: bool
    jump: str | None


class Network(nn.Module):
    """Linear layer, ReLU and dropout; convolutions with ReLU, residual connection and dropout; linear classifier.

    Shapes: x (V, in_features), edges (2, E) sorted by target -> logits (V, num_classes).
    """

    def __init__(self, model: str, in_features: int, num_classes: int, architecture: Architecture) -> None:
        super().__init__()
        d, n = architecture.hidden_features, architecture.num_layers
        self.embed = nn.Linear(in_features, d)
        self.convs = nn.ModuleList(CONVOLUTIONS[model](d) for _ in range(n))
        self.dropout = nn.Dropout(architecture.dropout)
        self.residual = architecture.residual
        self.jump = None if architecture.jump is None else JumpingKnowledge(architecture.jump)
        self.rho = nn.Linear(d * (n + 1) if architecture.jump == "cat" else d, num_classes)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        x = self.dropout(self.embed(x).relu())
        layers = [x]
        for conv in self.convs:
            y = conv(x, edges).relu()
            x = self.dropout(x + y if self.residual else y)
            layers.append(x)
        return self.rho(x if self.jump is None else self.jump(layers))
