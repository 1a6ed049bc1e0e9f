"""A DeepSets energy: p(x | n) ∝ b(x) exp(−ρ(Σ_i φ(x_i), n)), with b a mixture of independent elements."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from janossy import Ragged
from janossy.density import Estimate, ExchangeableDensity, Head, IidMixture
from janossy.orderings.rows import by_size

POOL = 20_000
"""The number of base sets per size, for the normaliser and for sampling."""


class DeepSetsEnergy(nn.Module):
    """An energy trained by maximum likelihood, with each size's normaliser by importance sampling from the base.

    On average, the estimated log-normaliser is too low, and log p too high, by half the squared error.
    """

    def __init__(self, base: ExchangeableDensity, width: int = 64) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        head: Head = base.q.head
        self.phi = nn.Sequential(nn.Linear(head.num_features, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.rho = nn.Sequential(
            nn.Linear(width + 1, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1)
        )

    def energy(self, rows: Tensor) -> Tensor:
        """Returns the energies of sets of one size (T, n, …), (T,)."""
        head = self.base.q.head
        n = rows.new_full((len(rows), 1), rows.shape[1], dtype=torch.float32)
        return self.rho(torch.cat((self.phi(head.encode(rows).float()).sum(1), n / 4), 1))[:, 0]

    def forward(self, sets: Ragged, num: int = 256) -> Tensor:
        """Returns log p of sets of one size, with a normaliser from ``num`` sets of the base."""
        n = sets.sizes[0]
        with torch.no_grad():
            drawn = self._drawn(n, num)
        normaliser = (-self.energy(drawn)).logsumexp(0) - torch.tensor(float(num)).log()
        return self.base(sets) - self.energy(sets.values.unflatten(0, (len(sets), n))) - normaliser

    @torch.no_grad()
    def log_prob(self, sets: Ragged) -> Estimate:
        found, error = self.base.log_prob(sets).log_prob, torch.zeros(len(sets))
        for n, members in by_size(sets.sizes):
            some = list(range(len(sets))) if members is None else members
            weights = -self.energy(self._drawn(n))
            scaled = (weights - weights.max()).exp()
            log_mean = scaled.mean().log() + weights.max()
            found[some] -= self.energy(sets[some].values.unflatten(0, (len(some), n))) + log_mean
            error[some] = scaled.std() / scaled.mean() / POOL**0.5
        return Estimate(found, error, torch.zeros(len(sets)), torch.zeros(len(sets), dtype=torch.bool))

    @torch.no_grad()
    def sample(self, sizes: Sequence[int]) -> Ragged:
        """Samples sets by resampling sets of the base by weight."""
        drawn: dict[int, Tensor] = {}
        for n, members in by_size(sizes):
            some = list(range(len(sizes))) if members is None else members
            pool = self._drawn(n)
            chosen = pool[torch.multinomial((-self.energy(pool)).softmax(0), len(some), replacement=True)]
            drawn |= dict(zip(some, chosen, strict=True))
        return Ragged.from_sets([drawn[b] for b in range(len(sizes))])

    def _drawn(self, n: int, num: int = POOL) -> Tensor:
        """Samples ``num`` sets of the base, (num, n, …): first the kind of each, then its elements."""
        q = self.base.q
        kinds = torch.distributions.Categorical(logits=q.logits).sample((num,))
        return q.head.clip(q.head.distribution(q.each[kinds]).sample((n,)).transpose(0, 1))


def base_of(head: Head) -> ExchangeableDensity:
    return ExchangeableDensity(IidMixture(head, num_components=16))
