"""Synthetic jets of particles by a known rule: one prong, or two with the same spread.

Particles (log pt, η, φ) lie around an axis at a random place. Class 0 has one prong. Class 1 has two, so close that the
particles spread equally far. Only the distribution of the pairwise distances ΔR differs.

The rule was fixed before anything was trained on it. ``bayes_jets`` gives its probability of class 1, from which the
best AUC follows.
"""

from math import pi
from pathlib import Path

import torch
from torch import Tensor

from janossy import Ragged
from janossy.tables import Column, SetTable
from studies.bench.data_set import DataSet, Fold, Sample

SPREAD = 0.35
DISTANCES = (0.6, 0.9)
FEWEST, MOST = 5, 100


def jets(data: Path | None = None) -> DataSet:
    """Returns 2,000 jets for training and 2,000 for the test, different ones per fold. No files are needed."""
    return DataSet(
        name="jets",
        about="A set is a jet of 5 to 100 particles: log pt, η and the angle φ. It has one prong, or two that spread "
        "as far, which the distances of pairs tell (made).",
        task="classification",
        scores=("AUC", "accuracy"),
        num_folds=3,
        fold=lambda number: Fold(sample(2_000, 3 * number), {"test": lambda: sample(2_000, 3 * number + 2)}),
        published={"the rule itself (Bayes), 300 jets": "AUC 0.987"},
        expert_settings={
            "strategy": "k2+features",
            "features": {
                "absolute_differences": ["eta", "phi"],
                "distances": [["eta", "phi"]],
                "periods": {"phi": 2 * pi},
            },
        },
    )


def draw_jets(num_sets: int, seed: int) -> tuple[Ragged, Tensor]:
    """Samples jets of 5 to 100 particles, in the columns log pt, η and φ in (−π, π], and their labels."""
    source = torch.Generator().manual_seed(seed)

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(*shape, generator=source)

    labels = (torch.rand(num_sets, generator=source) < 0.5).float()
    sizes = torch.randint(FEWEST, MOST + 1, (num_sets,), generator=source)
    owners = torch.arange(num_sets).repeat_interleave(sizes)
    axes = torch.stack((uniform(-2, 2, num_sets), uniform(-pi, pi, num_sets)), dim=1)
    distance, angle = uniform(*DISTANCES, num_sets), uniform(0, 2 * pi, num_sets)
    half = 0.5 * distance[:, None] * torch.stack((angle.cos(), angle.sin()), dim=1)
    side = 1 - 2 * torch.randint(2, (len(owners), 1), generator=source)
    width = torch.where(labels == 1, _width(distance), SPREAD)
    noise = torch.randn(len(owners), 2, generator=source)
    places = axes[owners] + labels[owners, None] * side * half[owners] + width[owners, None] * noise
    places[:, 1] = _wrapped(places[:, 1])
    log_pt = (1 - torch.rand(len(owners), 1, generator=source)).log().neg().log1p()
    return Ragged.from_sizes(torch.cat((log_pt, places), dim=1), sizes.tolist()), labels


def bayes_jets(sets: Ragged) -> Tensor:
    """Returns the probability of two prongs, integrated numerically over axis, distance and angle of the prongs."""
    angles = torch.arange(12) * pi / 12
    distances = torch.linspace(*DISTANCES, 7)[1::2]
    found = []
    for particles in sets:
        places = particles[:, 1:].double()
        places = torch.stack((places[:, 0], _wrapped(places[:, 1] - _middle(places[:, 1]))), dim=1)
        reach = 4 * SPREAD / len(places) ** 0.5
        steps = torch.linspace(-reach, reach, 13, dtype=torch.float64)
        axes = places.mean(0) + torch.cartesian_prod(steps, steps)
        one = _log_density(places, axes, SPREAD).sum(1).logsumexp(0)
        two = []
        for distance in distances:
            width = float(_width(distance))
            for angle in angles:
                half = 0.5 * distance * torch.stack((angle.cos(), angle.sin()))
                each = torch.logaddexp(
                    _log_density(places, axes + half, width), _log_density(places, axes - half, width)
                )
                two.append((each - torch.tensor(2.0).log()).sum(1).logsumexp(0))
        many = torch.stack(two)
        found.append(torch.sigmoid(many.logsumexp(0) - torch.tensor(float(len(many))).log() - one))
    return torch.stack(found)


def _width(distance: Tensor) -> Tensor:
    """Returns the width of each prong at which two spread as far as one of ``SPREAD``.

    Half of d²/4 falls on each axis.
    """
    return (SPREAD**2 - distance**2 / 8).sqrt()


def _log_density(places: Tensor, axes: Tensor, width: float) -> Tensor:
    """Returns the log-density of Gaussian points (n, 2) around axes (A, 2), without its constant: (A, n)."""
    square = (places - axes[:, None]).square().sum(2)
    return -square / (2 * width**2) - 2 * torch.tensor(width).log()


def _middle(angles: Tensor) -> Tensor:
    return torch.atan2(angles.sin().mean(), angles.cos().mean())


def _wrapped(angles: Tensor) -> Tensor:
    return angles - 2 * pi * torch.ceil(angles / (2 * pi) - 0.5)


def sample(num_sets: int, seed: int) -> Sample:
    """Returns sampled jets as sets of particles, with 1 for two prongs."""
    sets, prongs = draw_jets(num_sets, seed)
    columns = {name: Column("numeric", sets.values[:, i].numpy()) for i, name in enumerate(("log_pt", "eta", "phi"))}
    return Sample(SetTable(sets.offsets.numpy(), columns, {}), prongs.long().numpy())
