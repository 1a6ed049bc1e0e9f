"""Densities of sequences that are the same for all orders by their form: a BRUNO-like process, and Pólya's urn."""

import torch
from torch import Tensor, nn
from torch.distributions import (
    AffineTransform,
    Categorical,
    Distribution,
    Independent,
    Normal,
    SigmoidTransform,
    TransformedDistribution,
    constraints,
)
from torch.distributions.transforms import Transform
from torch.nn.functional import softplus

from janossy.density import Bounded, Categories, SequenceDensity


class Coupling(Transform):
    """Couplings of the two coordinates (Real NVP; Dinh et al., 2017), from latent numbers to logits of points."""

    domain = codomain = constraints.real_vector
    bijective = True

    def __init__(self, nets: nn.ModuleList) -> None:
        super().__init__()
        self.nets = nets

    def _call(self, z: Tensor) -> Tensor:
        for i, net in enumerate(self.nets):
            kept, shift, scale = self._parts(net, z, i)
            z = _placed(kept, z[..., 1 - i % 2] * scale.exp() + shift, i)
        return z

    def _inverse(self, x: Tensor) -> Tensor:
        for i, net in reversed(list(enumerate(self.nets))):
            kept, shift, scale = self._parts(net, x, i)
            x = _placed(kept, (x[..., 1 - i % 2] - shift) * (-scale).exp(), i)
        return x

    def log_abs_det_jacobian(self, z: Tensor, x: Tensor) -> Tensor:
        total = torch.zeros(z.shape[:-1])
        for i, net in enumerate(self.nets):
            kept, shift, scale = self._parts(net, z, i)
            z = _placed(kept, z[..., 1 - i % 2] * scale.exp() + shift, i)
            total = total + scale
        return total

    def _parts(self, net: nn.Module, x: Tensor, i: int) -> tuple[Tensor, Tensor, Tensor]:
        kept = x[..., i % 2]
        shift, scale = net(kept[..., None]).unbind(-1)
        return kept, shift, 2 * torch.tanh(scale / 2)


def _placed(kept: Tensor, other: Tensor, i: int) -> Tensor:
    return torch.stack((kept, other) if i % 2 == 0 else (other, kept), -1)


class Bruno(SequenceDensity):
    """Points by couplings of latent ones, of which each coordinate is an exchangeable Gaussian process of its own.

    After Korshunova et al. (NeurIPS 2018): the covariance of two elements' coordinates is c_d, of an element's with
    itself v_d > c_d >= 0. What is to come, given what was, is normal in closed form.
    """

    def __init__(self, head: Bounded, num_couplings: int = 6, width: int = 32) -> None:
        super().__init__()
        self.head = head
        self.mean = nn.Parameter(torch.zeros(2))
        self.raw = nn.Parameter(torch.tensor([[0.5, 0.5], [-2.0, -2.0]]))
        self.nets = nn.ModuleList(
            nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 2))
            for _ in range(num_couplings)
        )
        for net in self.nets:
            nn.init.zeros_(net[-1].weight)
            nn.init.zeros_(net[-1].bias)

    def next(self, prefix: Tensor) -> Distribution:
        z = self._latent(prefix) if prefix.shape[1] else prefix.new_zeros(len(prefix), 0, 2)
        return self._observed(self._predictive(z.sum(1), z.shape[1]))

    def forward(self, rows: Tensor) -> Tensor:
        z = self._latent(rows)
        before = z.cumsum(1) - z
        latent = torch.stack([self._predictive(before[:, t], t).log_prob(z[:, t]) for t in range(rows.shape[1])], 1)
        volume = self._observed(Independent(Normal(torch.zeros(2), 1.0), 1))
        of_flow = volume.log_prob(rows) - volume.base_dist.log_prob(z)
        return (latent + of_flow).sum(1, keepdim=True)

    def _predictive(self, total: Tensor, t: int) -> Distribution:
        """Of the next latent point, given the sum of t before (T, 2)."""
        shared = softplus(self.raw[1])
        variance = softplus(self.raw[0]) + 1e-3 + shared
        gain = shared / (variance + (t - 1) * shared) if t else torch.zeros(2)
        mean = self.mean + gain * (total - t * self.mean)
        return Independent(Normal(mean, (variance - t * gain * shared).sqrt().expand_as(mean)), 1, validate_args=False)

    def _transforms(self) -> list[Transform]:
        low, high = self.head.low, self.head.high
        return [Coupling(self.nets), SigmoidTransform(), AffineTransform(low, high - low)]

    def _observed(self, latent: Distribution) -> TransformedDistribution:
        return TransformedDistribution(latent, self._transforms(), validate_args=False)

    def _latent(self, x: Tensor) -> Tensor:
        for transform in reversed(self._transforms()):
            x = transform.inv(x)
        return x


class Polya(SequenceDensity):
    """Pólya's urn: ids whose shares are Dirichlet distributed; the next id is as probable as it was frequent, and more.

    What BRUNO's Gaussian process is to numbers, an exchangeable process with closed conditionals, this is to ids.
    """

    def __init__(self, head: Categories) -> None:
        super().__init__()
        self.head = head
        self.raw = nn.Parameter(torch.full((head.num_parameters,), 4.0))

    def next(self, prefix: Tensor) -> Distribution:
        seen = torch.nn.functional.one_hot(prefix, self.head.num_parameters).sum(1)
        return Categorical(probs=self.raw.exp() + seen, validate_args=False)

    def forward(self, rows: Tensor) -> Tensor:
        conditionals = [self.next(rows[:, :t]).log_prob(rows[:, t]) for t in range(rows.shape[1])]
        return torch.stack(conditionals, 1).sum(1, keepdim=True)
