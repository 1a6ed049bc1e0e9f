"""LinearScores: a linear function of vectors, with the same bits for a row in every batch."""

import torch
from torch import Tensor, nn

AT_ONCE = 2**17
"""Numbers that are added up at once: products of more leave the cache."""


class LinearScores(nn.Module):
    """x ↦ W·x + b in float64, each row added up separately, so that the batch does not change it.

    Buffers: ``weight`` (out_features, in_features), ``bias`` (out_features,), float64.

    Shapes: (B, in_features) -> (B, out_features) float64.
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, in_features: int, *, out_features: int) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.register_buffer("weight", torch.zeros(out_features, in_features, dtype=torch.float64))
        self.register_buffer("bias", torch.zeros(out_features, dtype=torch.float64))

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self._scores(some.double()) for some in x.split(max(1, AT_ONCE // max(1, self.in_features)))])

    def _scores(self, x: Tensor) -> Tensor:
        return torch.stack([(x * weight).sum(1) for weight in self.weight], dim=1) + self.bias
