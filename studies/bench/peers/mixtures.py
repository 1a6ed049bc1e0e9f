"""Peers that predict Gaussian mixtures, as in Lee et al. (2019, supplement, Table 4)."""

from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn

from janossy import Ragged
from studies.bench.mixtures import DIMENSIONS, NUM_COMPONENTS, NUM_OUTPUTS

try:
    from torch_geometric.nn.aggr import SetTransformerAggregation
    from torch_geometric.nn.aggr.utils import InducedSetAttentionBlock
except ImportError as error:
    raise ImportError("the peers of the bench need torch_geometric: pip install 'janossy[graph]'") from error

WIDTH, HEADS, INDUCED_POINTS = 128, 4, 16


class MeanPooling(nn.Module):
    """Deep Sets as in Lee et al., "rFF + Pooling"."""

    def __init__(self) -> None:
        super().__init__()
        self.phi = nn.Sequential(*_layers(DIMENSIONS, *[WIDTH] * 4))
        self.rho = nn.Sequential(*_layers(*[WIDTH] * 4), nn.Linear(WIDTH, NUM_OUTPUTS))

    def forward(self, sets: Ragged, *, generator: torch.Generator | None = None) -> Tensor:
        _, owners = sets.to_index()
        sums = sets.values.new_zeros(len(sets), WIDTH).index_add(0, owners, self.phi(sets.values))
        return cast(Tensor, self.rho(sums / sets.offsets.diff()[:, None]))


class InducedSetTransformer(nn.Module):
    """The Set Transformer, "ISAB (16) + PMA", with one seed per component, whose vector gives its parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.phi = nn.Linear(DIMENSIONS, WIDTH)
        self.pooling = SetTransformerAggregation(WIDTH, NUM_COMPONENTS, 0, 1, HEADS)
        self.pooling.encoders = nn.ModuleList(
            InducedSetAttentionBlock(WIDTH, INDUCED_POINTS, HEADS, layer_norm=False) for _ in range(2)
        )
        self.rho = nn.Linear(WIDTH, NUM_OUTPUTS // NUM_COMPONENTS)

    def forward(self, sets: Ragged, *, generator: torch.Generator | None = None) -> Tensor:
        _, owners = sets.to_index()
        seeds = self.pooling(self.phi(sets.values), owners, dim_size=len(sets))
        return cast(Tensor, self.rho(seeds.unflatten(1, (NUM_COMPONENTS, WIDTH))).flatten(1))


def _layers(*widths: int) -> list[nn.Module]:
    return [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU())]
