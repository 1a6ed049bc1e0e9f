"""Three processes of sets with known densities: points that keep a distance, clusters, and draws from an urn.

Each gives sets, their true log-density given their size, and the true P(n). Points are in the unit square.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import erf, lgamma, log, sqrt
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from janossy import Ragged
from janossy.density import Bounded, Categories, Head

MOST = 7
"""The most elements of a set. All orders of seven elements are averaged in a twentieth of a second."""


class Process(Protocol):
    about: str

    def head(self) -> Head: ...

    def draw(self, num: int, seed: int) -> Ragged: ...

    def log_prob(self, sets: Ragged) -> Tensor:
        """Returns the true log p(x_1 … x_n | n) of each set, (B,), float64."""
        ...

    def log_sizes(self) -> np.ndarray:
        """Returns the true log P(n) for n = 0 … MOST."""
        ...


@dataclass(frozen=True)
class HardCore:
    """The Strauss process with γ = 0: p ∝ β^n if no two points are nearer than the radius, with at most seven
    points."""

    radius: float = 0.25
    beta: float = 30.0
    about = "points no two of which are nearer than 0.25, by MCMC"

    def head(self) -> Head:
        return Bounded([0.0, 0.0], [1.0, 1.0], num_components=12)

    def draw(self, num: int, seed: int) -> Ragged:
        x, n = self.chains(num, 3000, seed)
        return Ragged.from_sets([torch.from_numpy(row[:size]).float() for row, size in zip(x, n, strict=True)])

    def log_prob(self, sets: Ragged) -> Tensor:
        legal = [len(x) < 2 or float(torch.pdist(x.double()).min()) >= self.radius - 1e-6 for x in sets]
        given_legal = -torch.from_numpy(log_volumes(self))[list(sets.sizes)]
        return given_legal.where(torch.tensor(legal), -torch.inf)

    def log_sizes(self) -> np.ndarray:
        n = np.arange(MOST + 1)
        found = n * log(self.beta) - np.array([lgamma(m + 1) for m in n]) + log_volumes(self)
        return found - np.logaddexp.reduce(found)

    def chains(self, num: int, steps: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Runs Metropolis–Hastings chains of births, deaths and moves. Returns points (num, MOST, 2), and their
        numbers."""
        random = np.random.default_rng(seed)
        x, n = np.full((num, MOST, 2), 9.0), np.zeros(num, dtype=np.int64)  # 9 marks the absence of a point
        every = np.arange(num)
        for _ in range(steps):
            new, kind, u = random.random((num, 2)), random.random(num), random.random(num)
            chosen = (random.random(num) * np.maximum(n, 1)).astype(np.int64)
            distances = np.linalg.norm(x - new[:, None], axis=2)
            others = distances.copy()
            others[every, chosen] = 9.0
            free, free_of_others = (distances > self.radius).all(1), (others > self.radius).all(1)
            birth = (kind < 1 / 3) & (n < MOST) & free & (u < self.beta / (n + 1))
            death = (kind >= 1 / 3) & (kind < 2 / 3) & (n > 0) & (u < n / self.beta)
            move = (kind >= 2 / 3) & (n > 0) & free_of_others
            x[every[birth], n[birth]] = new[birth]
            x[every[move], chosen[move]] = new[move]
            x[every[death], chosen[death]] = x[every[death], n[death] - 1]
            x[every[death], n[death] - 1] = 9.0
            n += birth.astype(np.int64) - death
        return x, n


@lru_cache(maxsize=4)
def log_volumes(process: HardCore, num: int = 20_000, num_tries: int = 200) -> np.ndarray:
    """Returns log V_n, n = 0 … MOST: the log-probability that n uniform points keep their distance.

    It is estimated by sequential importance sampling. The share of tries that keep the distance is a factor of the
    weight, and one of those tries is the next point. The mean weight is unbiased.
    """
    random = np.random.default_rng(123)
    x, weight, found = random.random((num, 1, 2)), np.ones(num), [1.0, 1.0]
    for _ in range(2, MOST + 1):
        tries = random.random((num, num_tries, 2))
        free = np.ones((num, num_tries), dtype=bool)
        for j in range(x.shape[1]):
            free &= ((tries - x[:, j, None]) ** 2).sum(2) > process.radius**2
        weight = weight * free.mean(1)
        found.append(float(weight.mean()))
        chosen = (free * random.random(free.shape)).argmax(1)
        x = np.concatenate((x, tries[np.arange(num), chosen][:, None]), 1)
    return np.log(found)


@dataclass(frozen=True)
class Clusters:
    """Two parents anywhere in the square. Each point is near one of them, normally distributed, within the square."""

    spread: float = 0.06
    about = "two clusters with parents anywhere, a point near one of them (standard deviation 0.06)"

    def head(self) -> Head:
        return Bounded([0.0, 0.0], [1.0, 1.0], num_components=12)

    def draw(self, num: int, seed: int) -> Ragged:
        random = np.random.default_rng(seed)
        sizes = random.choice(MOST + 1, num, p=np.exp(self.log_sizes()))
        parents = random.random((num, 2, 2)).repeat(sizes, 0)
        parent = parents[np.arange(len(parents)), random.integers(2, size=len(parents))]
        x = np.full_like(parent, -1.0)
        while (outside := ((x <= 0) | (x >= 1)).any(1)).any():
            x[outside] = random.normal(parent[outside], self.spread)
        return Ragged.from_sizes(torch.from_numpy(x).float(), sizes.tolist())

    def log_prob(self, sets: Ragged) -> Tensor:
        """Returns 2^−n Σ_A J(A) J(rest), with J(A) = ∫ Π_{i∈A} g(x_i | c) dc by the midpoint rule on 64² cells."""
        ticks = (torch.arange(64, dtype=torch.float64) + 0.5) / 64
        inside = torch.tensor(
            [_normal_cdf((1 - c) / self.spread) - _normal_cdf(-c / self.spread) for c in ticks.tolist()]
        ).double()
        found = []
        for x in sets:
            n = len(x)
            of_axes = torch.distributions.Normal(ticks, self.spread).log_prob(x.double()[..., None]) - inside.log()
            of_parents = (of_axes[:, 0, :, None] + of_axes[:, 1, None, :]).flatten(1)  # (n, 64²)
            chosen = torch.tensor([[(a >> i) & 1 for i in range(n)] for a in range(2**n)], dtype=torch.float64)
            of_subsets = (chosen.view(2**n, n) @ of_parents).logsumexp(1) - log(64**2)
            found.append((of_subsets + of_subsets.flip(0)).logsumexp(0) - n * log(2))
        return torch.stack(found)

    def log_sizes(self) -> np.ndarray:
        """Returns a negative binomial distribution with mean 4 and variance 6, restricted to 1 … MOST."""
        n = torch.arange(MOST + 1)
        found = torch.distributions.NegativeBinomial(8.0, torch.tensor(1 / 3).double()).log_prob(n.double()).numpy()
        found[0] = -np.inf
        return found - np.logaddexp.reduce(found)


@dataclass(frozen=True)
class Urn:
    """Balls drawn without replacement from an urn."""

    counts: tuple[int, ...] = (1, 1, 1, 1, 2, 2, 2, 3, 3)
    about = "balls without replacement from an urn of sixteen in nine colours"

    def head(self) -> Head:
        return Categories(len(self.counts))

    def draw(self, num: int, seed: int) -> Ragged:
        random = np.random.default_rng(seed)
        sizes = random.choice(MOST + 1, num, p=np.exp(self.log_sizes()))
        balls = np.repeat(np.arange(len(self.counts)), self.counts)
        drawn = balls[random.random((num, len(balls))).argsort(1)]
        return Ragged.from_sets([torch.from_numpy(row[:size]) for row, size in zip(drawn, sizes, strict=True)])

    def log_prob(self, sets: Ragged) -> Tensor:
        """Returns Π_c N_c!/(N_c − n_c)! · (N − n)!/N! of the sequence, as a logarithm."""
        counts = torch.tensor(self.counts, dtype=torch.float64)
        index = sets.to_index()[1]
        found = torch.zeros(len(sets), len(self.counts), dtype=torch.float64)
        found.index_put_((index, sets.values), torch.ones(()).double(), accumulate=True)
        left = counts - found
        ways = (torch.lgamma(counts + 1) - torch.lgamma(left.clamp(min=0) + 1)).masked_fill(left < 0, -torch.inf).sum(1)
        n = found.sum(1)
        return ways + torch.lgamma(counts.sum() - n + 1) - torch.lgamma(counts.sum() + 1)

    def log_sizes(self) -> np.ndarray:
        """Returns the uniform distribution of the sizes 2 to MOST."""
        return np.array([-np.inf, -np.inf, *[-log(MOST - 1)] * (MOST - 1)])


def _normal_cdf(z: float) -> float:
    return (1 + erf(z / sqrt(2))) / 2


PROCESSES: dict[str, Process] = {"hard core": HardCore(), "clusters": Clusters(), "urn": Urn()}
