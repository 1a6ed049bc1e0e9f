"""Peer networks of sets: an MLP per element, one of torch_geometric's aggregations, then the same ρ as in our networks.

They read the columns of our networks, with the same embedding. They are built by the signature of a strategy,
(element_layout, context_layout, num_outputs) -> network.
"""

from typing import cast

import torch
from torch import Tensor, nn

from janossy import Ragged
from janossy.nn import ColumnEmbedding, Readout
from janossy.tables import Layout

try:
    from torch_geometric.nn.aggr import (
        Aggregation,
        AttentionalAggregation,
        LSTMAggregation,
        SetTransformerAggregation,
        SumAggregation,
    )
    from torch_geometric.nn.aggr.utils import InducedSetAttentionBlock
except ImportError as error:
    raise ImportError("the peers of the bench need torch_geometric: pip install 'janossy[graph]'") from error

WIDTH, HEADS, INDUCED_POINTS = 64, 4, 16
"""The width of our strategies; heads and induced points of Lee et al. (2019)."""


class AggregationNetwork(nn.Module):
    """The network ρ(aggregate(φ(h(x)))).

    Shapes: sets.values (N, num_columns), context (B, e) or None -> (B, out).
    """

    def __init__(self, h: nn.Module, phi: nn.Module, aggregation: Aggregation, rho: nn.Module) -> None:
        super().__init__()
        self.h, self.phi, self.aggregation, self.rho = h, phi, aggregation, rho

    def forward(
        self, sets: Ragged, *, context: Tensor | None = None, generator: torch.Generator | None = None
    ) -> Tensor:
        elements = self.phi(self.h(sets.values))
        _, index = sets.to_index()
        pooled = self.aggregation(elements, index, dim_size=len(sets))
        return cast(Tensor, self.rho(pooled) if context is None else self.rho(pooled, context))


class Gate(nn.Module):
    """The score of an element, w·(tanh(V x) ⊙ σ(U x)) (Ilse et al., 2018, Eq. 9): (N, features) -> (N, 1)."""

    def __init__(self, features: int, hidden_features: int) -> None:
        super().__init__()
        self.tanh, self.sigmoid = nn.Linear(features, hidden_features), nn.Linear(features, hidden_features)
        self.score = nn.Linear(hidden_features, 1)

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.score(torch.tanh(self.tanh(x)) * torch.sigmoid(self.sigmoid(x))))


def deep_sets(elements: Layout, context: Layout, num_outputs: int) -> nn.Module:
    """Returns the network of Zaheer et al. (2017), with a sum."""
    return _network(elements, context, num_outputs, SumAggregation())


def abmil(elements: Layout, context: Layout, num_outputs: int) -> nn.Module:
    """Returns the gated attention of multi-instance learning (Ilse, Tomczak and Welling, 2018)."""
    return _network(elements, context, num_outputs, AttentionalAggregation(Gate(WIDTH, WIDTH)))


def pyg_lstm(elements: Layout, context: Layout, num_outputs: int) -> nn.Module:
    """Returns torch_geometric's LSTM over elements in the given order. It also reads the padding of shorter sets."""
    return _network(elements, context, num_outputs, LSTMAggregation(WIDTH, WIDTH))


def set_transformer(elements: Layout, context: Layout, num_outputs: int) -> nn.Module:
    """Returns the network of Lee et al. (2019): two self-attention blocks, pooling by attention, and another block."""
    return _network(elements, context, num_outputs, _attention(2))


def set_transformer_isab(elements: Layout, context: Layout, num_outputs: int) -> nn.Module:
    """Returns the same with 16 induced points, at a cost linear in the size of a set."""
    aggregation = _attention(0)
    aggregation.encoders = nn.ModuleList(
        InducedSetAttentionBlock(WIDTH, INDUCED_POINTS, HEADS, layer_norm=True) for _ in range(2)
    )
    return _network(elements, context, num_outputs, aggregation)


def _attention(num_encoder_blocks: int) -> SetTransformerAggregation:
    return SetTransformerAggregation(WIDTH, num_encoder_blocks=num_encoder_blocks, heads=HEADS, layer_norm=True)


def _network(elements: Layout, context: Layout, num_outputs: int, aggregation: Aggregation) -> AggregationNetwork:
    h = ColumnEmbedding(elements.vocabularies, num_numbers=elements.num_numbers)
    phi = nn.Sequential(nn.Linear(h.out_features, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU())
    embed = ColumnEmbedding(context.vocabularies, num_numbers=context.num_numbers) if context.num_columns else None
    return AggregationNetwork(
        h, phi, aggregation, Readout(WIDTH, (WIDTH,), num_outputs, embed=embed, activation="relu")
    )
