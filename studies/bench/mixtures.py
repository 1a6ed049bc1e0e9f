"""Gaussian mixtures, one per set of points: sampled, scored by log-likelihood, and improved by a step of EM."""

from dataclasses import dataclass
from math import log, pi

import torch
from torch import Tensor
from torch.nn import functional as F

from janossy import Ragged

NUM_COMPONENTS, DIMENSIONS = 4, 2
FEWEST, MOST = 100, 500
REACH, SCALE = 4.0, 0.3
"""Means are uniform in (−4, 4)², and every component has the covariance 0.3²·I."""

NUM_OUTPUTS = NUM_COMPONENTS * (1 + 2 * DIMENSIONS)

LEAST_SCALE = 1e-3
"""The smallest scale that EM estimates. A component with a single point would have scale 0."""


@dataclass(frozen=True)
class Mixtures:
    """B mixtures of K Gaussians in d dimensions with diagonal covariances.

    Shapes: log_weights (B, K); means, scales (B, K, d), where scales are standard deviations.
    """

    log_weights: Tensor
    means: Tensor
    scales: Tensor

    @classmethod
    def of(cls, outputs: Tensor) -> "Mixtures":
        """Returns the mixtures of outputs (B, ``NUM_OUTPUTS``): per component a logit, a mean and pre-softplus
        scales."""
        logits, means, raw = outputs.unflatten(1, (NUM_COMPONENTS, -1)).split((1, DIMENSIONS, DIMENSIONS), dim=2)
        return cls(logits[..., 0].log_softmax(1), means, F.softplus(raw) + LEAST_SCALE)

    def log_density(self, sets: Ragged) -> Tensor:
        """Returns log(π_k·N(x; μ_k, diag(σ_k²))) for each point x under its set's components, (N, K)."""
        _, owners = sets.to_index()
        scales = self.scales[owners]
        z = (sets.values[:, None] - self.means[owners]) / scales
        return self.log_weights[owners] - (z.square() / 2 + scales.log() + log(2 * pi) / 2).sum(2)

    def log_likelihood(self, sets: Ragged) -> Tensor:
        """Returns the mean log-likelihood of the points of each set (Eq. 17 over n), (B,)."""
        return _mean(self.log_density(sets).logsumexp(1), sets)

    def after_em(self, sets: Ragged) -> "Mixtures":
        """Returns the mixtures after a step of EM. Components of zero weight stay unchanged."""
        shares = self.log_density(sets).softmax(1)
        weights = _mean(shares, sets)
        total = weights.clamp_min(torch.finfo(weights.dtype).tiny)[..., None]
        x = sets.values[:, None]
        means = _mean(shares[..., None] * x, sets) / total
        _, owners = sets.to_index()
        variances = _mean(shares[..., None] * (x - means[owners]).square(), sets) / total
        there = weights[..., None] > 1e-6
        return Mixtures(
            weights.clamp_min(1e-12).log(),
            torch.where(there, means, self.means),
            torch.where(there, variances.sqrt().clamp_min(LEAST_SCALE), self.scales),
        )


def draw(num_sets: int, generator: torch.Generator) -> tuple[Ragged, Mixtures]:
    """Samples sets of points, and returns them with their mixtures (Lee et al., 2019, supplement 2.3.1).

    The number of points is uniform in 100 … 500. The weights are from Dirichlet(1, 1, 1, 1). All components have the
    same width.
    """
    sizes = torch.randint(FEWEST, MOST + 1, (num_sets,), generator=generator)
    drawn = -torch.rand(num_sets, NUM_COMPONENTS, generator=generator).clamp_min(1e-30).log()
    weights = drawn / drawn.sum(1, keepdim=True)  # exponentials over their sum are uniform on the simplex
    means = (2 * torch.rand(num_sets, NUM_COMPONENTS, DIMENSIONS, generator=generator) - 1) * REACH
    owners = torch.arange(num_sets).repeat_interleave(sizes)
    components = torch.multinomial(weights, MOST, replacement=True, generator=generator)
    chosen = components[torch.arange(MOST) < sizes[:, None]]
    points = means[owners, chosen] + SCALE * torch.randn(len(owners), DIMENSIONS, generator=generator)
    return Ragged.from_sizes(points, sizes.tolist()), Mixtures(weights.log(), means, torch.full_like(means, SCALE))


def _mean(values: Tensor, sets: Ragged) -> Tensor:
    """Returns the mean of values (N, *any) over the points of each set, (B, *any)."""
    _, owners = sets.to_index()
    sums = values.new_zeros(len(sets), *values.shape[1:]).index_add(0, owners, values)
    sizes = sets.offsets.diff().reshape(-1, *[1] * (values.dim() - 1))
    return sums / sizes
