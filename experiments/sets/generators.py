"""Sets whose classes are a matter of pairs, made by rules that are known: orders of a shop, and jets of particles.

Each element alone says little: what tells the classes is which items come together, or how far particles are from each
other. The rules were fixed before anything was trained on them; ``bayes`` gives the probability of class 1 that they
imply, from which the best AUC that any model could reach follows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import pi

import torch
from torch import Tensor

from janossy import Ragged
from janossy.estimators.layout import Layout


@dataclass(frozen=True)
class Task:
    """Sets to draw, their columns, and what is known of them."""

    about: str
    layout: Layout
    draw: Callable[[int, int], tuple[Ragged, Tensor]]
    """So many sets from this seed, and their classes (B,), 0 or 1."""
    bayes: Callable[[Ragged], Tensor]
    """The probability of class 1 of each set, (B,)."""
    features: dict
    """``TupleFeatures`` that suit, by columns: what somebody who knows the task would ask for."""


# Orders: items of 30 kinds at prices. An order is returned the likelier, the more of its pairs of items clash, and, of
# pairs of one kind, the more their prices differ.

NUM_KINDS = 30
MOST_ITEMS = 20


def _clashes() -> Tensor:
    """How each pair of kinds gets on, (30, 30): about one pair in eight clashes, one in eight gets on well."""
    source = torch.Generator().manual_seed(2019)
    draws = torch.rand(NUM_KINDS, NUM_KINDS, generator=source).triu(1)
    clashes = (draws > 0.875).float() - ((draws > 0) & (draws < 0.125)).float()
    return clashes + clashes.T


CLASHES = _clashes()


def draw_orders(num_sets: int, seed: int) -> tuple[Ragged, Tensor]:
    """Orders of 1 to 20 items, 7 on average: columns kind (1 … 30) and log price."""
    source = torch.Generator().manual_seed(seed)
    sizes = torch.poisson(torch.full((num_sets,), 6.0), generator=source).long().clamp(max=MOST_ITEMS - 1) + 1
    popularity = 1 / torch.arange(3.0, NUM_KINDS + 3)
    kinds = torch.multinomial(popularity, int(sizes.sum()), replacement=True, generator=source)
    usual = torch.randn(NUM_KINDS, generator=torch.Generator().manual_seed(11))
    prices = usual[kinds] + 0.7 * torch.randn(len(kinds), generator=source)
    sets = Ragged.from_sizes(torch.stack((kinds + 1.0, prices), dim=1), sizes.tolist())
    return sets, (torch.rand(num_sets, generator=source) < bayes_orders(sets)).float()


def bayes_orders(sets: Ragged) -> Tensor:
    """σ(4·Σ over pairs of (clash + 1.5·|difference of log price|, if of one kind) / √n − 1.2)."""
    scores = []
    for items in sets:
        kinds, prices = items[:, 0].long() - 1, items[:, 1]
        same = kinds[:, None] == kinds
        pairs = CLASHES[kinds[:, None], kinds] + 1.5 * same * (prices[:, None] - prices).abs()
        scores.append(pairs.triu(1).sum() / len(items) ** 0.5)
    return torch.sigmoid(4 * torch.stack(scores) - 1.2)


# Jets: particles (log pt, η, φ) around an axis anywhere. Class 0 has one prong; class 1 two, as near to each other that
# the particles spread as far: only how their distances are distributed differs.

SPREAD = 0.35
DISTANCES = (0.6, 0.9)
FEWEST, MOST = 5, 100


def draw_jets(num_sets: int, seed: int) -> tuple[Ragged, Tensor]:
    """Jets of 5 to 100 particles: columns log pt, η, φ in (−π, π]."""
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
    """By numerical integration over the axis, the distance of the prongs and their angle."""
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
    """Of each prong, so that two of them spread as far as one of ``SPREAD``: half of d²/4 falls on each axis."""
    return (SPREAD**2 - distance**2 / 8).sqrt()


def _log_density(places: Tensor, axes: Tensor, width: float) -> Tensor:
    """Of Gaussian places (n, 2) around axes (A, 2), but for a constant: (A, n)."""
    square = (places - axes[:, None]).square().sum(2)
    return -square / (2 * width**2) - 2 * torch.tensor(width).log()


def _middle(angles: Tensor) -> Tensor:
    return torch.atan2(angles.sin().mean(), angles.cos().mean())


def _wrapped(angles: Tensor) -> Tensor:
    return angles - 2 * pi * torch.ceil(angles / (2 * pi) - 0.5)


TASKS = {
    "orders": Task(
        "orders of a shop: which kinds of items come together, and how prices differ within a kind",
        Layout((NUM_KINDS + 1,), 1),
        draw_orders,
        bayes_orders,
        {"equal": [[0]], "absolute_differences": [1]},
    ),
    "jets": Task(
        "jets of particles: one prong or two, of the same spread",
        Layout((), 3),
        draw_jets,
        bayes_jets,
        {"absolute_differences": [1, 2], "distances": [[1, 2]], "periods": {"2": 2 * pi}},
    ),
}
