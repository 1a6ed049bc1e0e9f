"""Densities of sequences that are equal for all orders by construction: a BRUNO-like process, and Pólya's urn."""

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
        super().__init__(cache_size=1)
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
    """A density of points by couplings of latent points, whose coordinates are independent exchangeable Gaussian
    processes.

    After Korshunova et al. (NeurIPS 2018). The covariance of two elements' coordinates is c_d, and the variance is
    v_d > c_d >= 0. Given the past, the next latent point is normal in closed form.

    Args:
        correlation: the initial c / v, with v = 1.
    """

    def __init__(self, head: Bounded, correlation: float = 0.1, num_couplings: int = 6, width: int = 32) -> None:
        super().__init__()
        self.head = head
        self.mean = nn.Parameter(torch.zeros(2))
        apart_and_shared = torch.tensor([1 - correlation, correlation])
        self.raw = nn.Parameter(apart_and_shared.expm1().log()[:, None].repeat(1, 2))  # the inverse of softplus
        self.nets = nn.ModuleList(
            nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 2))
            for _ in range(num_couplings)
        )
        for net in self.nets:
            nn.init.zeros_(net[-1].weight)
            nn.init.zeros_(net[-1].bias)

    def next(self, prefix: Tensor) -> Distribution:
        transforms = self._transforms()
        z = _latent(transforms, prefix) if prefix.shape[1] else prefix.new_zeros(len(prefix), 0, 2)
        latent = self._predictive(z.sum(1), torch.tensor(z.shape[1]))
        return TransformedDistribution(latent, transforms, validate_args=False)

    def forward(self, rows: Tensor) -> Tensor:
        transforms = self._transforms()
        z = _latent(transforms, rows)
        latent = self._predictive(z.cumsum(1) - z, torch.arange(rows.shape[1])[:, None])
        return TransformedDistribution(latent, transforms, validate_args=False).log_prob(rows).sum(1, keepdim=True)

    def _predictive(self, total: Tensor, t: Tensor) -> Distribution:
        """Returns the distribution of the next latent point, given the sum (…, 2) of the t points before."""
        shared = softplus(self.raw[1])
        variance = softplus(self.raw[0]) + 1e-3 + shared
        gain = shared / (variance + (t - 1) * shared)
        mean = self.mean + gain * (total - t * self.mean)
        return Independent(Normal(mean, (variance - t * gain * shared).sqrt().expand_as(mean)), 1, validate_args=False)

    def _transforms(self) -> list[Transform]:
        low, high = self.head.low, self.head.high
        return [Coupling(self.nets), SigmoidTransform(cache_size=1), AffineTransform(low, high - low, cache_size=1)]


def _latent(transforms: list[Transform], x: Tensor) -> Tensor:
    """Returns the latent points of x. The transforms cache them, so that they are not inverted again."""
    for transform in reversed(transforms):
        x = transform.inv(x)
    return x


class Polya(SequenceDensity):
    """Pólya's urn of ids, whose shares are Dirichlet distributed. Ids that were frequent are more probable next.

    It is an exchangeable process with closed conditionals for ids, as BRUNO's Gaussian process is for numbers.

    Args:
        correlation: the initial correlation of two draws' indicators, 1 / (1 + all counts).
    """

    def __init__(self, head: Categories, correlation: float = 0.1) -> None:
        super().__init__()
        self.head = head
        num = head.num_parameters
        self.raw = nn.Parameter(torch.full((num,), (1 / correlation - 1) / num).log())

    def next(self, prefix: Tensor) -> Distribution:
        counts_of = torch.nn.functional.one_hot(prefix, self.head.num_parameters).sum(1)
        return Categorical(probs=self.raw.exp() + counts_of, validate_args=False)

    def forward(self, rows: Tensor) -> Tensor:
        conditionals = [self.next(rows[:, :t]).log_prob(rows[:, t]) for t in range(rows.shape[1])]
        return torch.stack(conditionals, 1).sum(1, keepdim=True)
