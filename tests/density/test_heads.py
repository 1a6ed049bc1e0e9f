"""Densities integrate to one, samples are drawn from them, and so are sizes."""

from math import pi

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from janossy import Ragged
from janossy.density import CategoricalSizes, ExchangeableDensity, NegativeBinomialSizes
from tests.density.models import brute_force, sequence_density

UNBOUNDED = ("normals", "bounded")
GRIDS = ("categories", "von Mises", *UNBOUNDED)


def grid(head: str, num: int) -> tuple[torch.Tensor, float]:
    """Points and the weight of each: trapezia, on all of the support; of a bounded head on the scale of logits."""
    if head == "categories":
        return torch.arange(3), 1.0
    if head == "von Mises":
        return torch.linspace(-pi, pi, 25, dtype=torch.float64)[1:], 2 * pi / 24
    return torch.linspace(-8, 8, num, dtype=torch.float64), 16 / (num - 1)


def on_grid(head: str, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns all sequences of n points of the grid (G^n, n, …), and log weights."""
    points, weight = grid(head, 40 if n < 3 else 28)
    log_weights = torch.full((len(points),), weight, dtype=torch.float64).log()
    if head == "bounded":  # dx = (high − low) σ'(z) dz
        share = torch.sigmoid(points)
        log_weights = log_weights + (3 * share * (1 - share)).log()
        points = 3 * share - 1
    places = torch.cartesian_prod(*[torch.arange(len(points))] * n).view(-1, n)
    x = points[places]
    return (x if head == "categories" else x[..., None]), log_weights[places].sum(1)


def law_integrates_to_one(p, head: str, n: int) -> None:
    x, log_weights = on_grid(head, n)
    total = 0.0
    for part, of_part in zip(x.split(4000), log_weights.split(4000), strict=True):
        with torch.no_grad():
            found = p(Ragged.from_sizes(part.flatten(0, 1), [n] * len(part)))
        total += float((found + of_part).exp().sum())
    assert abs(total - 1) < 2e-3


@pytest.mark.parametrize("head", GRIDS)
@pytest.mark.parametrize("reader", ["gru", "transformer", "iid"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_log_densities_integrate_to_one(reader, head, n):
    q = sequence_density(reader, head, strength=1)
    law_integrates_to_one(AllOrders(q), head, n)


class AllOrders:
    """log p given n, of all orders."""

    def __init__(self, q, per=1.0):
        self.p, self.per = ExchangeableDensity(q), per

    def __call__(self, sets):
        return self.p.log_prob(sets).log_prob + np.log(self.per)


@pytest.mark.parametrize("head", ["bounded", "categories"])
def test_the_law_of_integrals_can_fail(head):
    """Without order, the integral over sequences is n!."""
    with pytest.raises(AssertionError):
        law_integrates_to_one(AllOrders(sequence_density("gru", head), per=2.0), head, 2)


def law_samples_follow(p, q, head: str, num: int = 4000) -> None:
    """Checks pairs by χ² in bins of equal width, or of categories. It fails once in 10^5 seeds."""
    pairs = p.sample(sizes=[2] * num, generator=torch.Generator().manual_seed(3)).values.view(num, 2)
    if head == "categories":
        edges = np.arange(4) - 0.5
        points = torch.cartesian_prod(torch.arange(3), torch.arange(3))
        weights = torch.ones(9).double()
    else:
        edges = np.linspace(*{"normals": (-9, 9), "bounded": (-1, 2), "von Mises": (-pi, pi)}[head], 6)
        num_points = 100  # in the middles of 20 parts of each bin
        middles = torch.from_numpy(edges[0] + (np.arange(num_points) + 0.5) * (edges[-1] - edges[0]) / num_points)
        points = torch.cartesian_prod(middles, middles)
        weights = torch.full((num_points**2,), ((edges[-1] - edges[0]) / num_points) ** 2, dtype=torch.float64)
    event = () if head == "categories" else (1,)
    with torch.no_grad():
        density = ExchangeableDensity(q).log_prob(Ragged.from_sizes(points.reshape(-1, *event), [2] * len(points)))
    expected = np.histogram2d(*points.numpy().T, bins=(edges, edges), weights=density.log_prob.exp() * weights)[0]
    found = np.histogram2d(*pairs.numpy().T, bins=(edges, edges))[0]
    assert found.sum() == num
    keep = expected * num > 5
    observed = np.append(found[keep], num - found[keep].sum())
    hoped = np.append(expected[keep], 1 - expected[keep].sum()) * num
    some = hoped > 1
    assert chisquare(observed[some], hoped[some] * observed[some].sum() / hoped[some].sum()).pvalue > 1e-5


@pytest.mark.statistical
@pytest.mark.parametrize("head", GRIDS)
@pytest.mark.parametrize("reader", ["gru", "iid"])
def test_samples_follow_the_density(reader, head):
    q = sequence_density(reader, head, seed=1)
    law_samples_follow(ExchangeableDensity(q), q, head)


@pytest.mark.statistical
def test_the_law_of_samples_can_fail():
    q = sequence_density("gru", "categories", seed=1)
    with pytest.raises(AssertionError):
        law_samples_follow(ExchangeableDensity(sequence_density("gru", "categories", seed=2)), q, "categories")


@pytest.mark.statistical
@pytest.mark.parametrize(
    "sizes", [CategoricalSizes.fitted([0, 2, 2, 5]), NegativeBinomialSizes(3.0, 2.5)], ids=["c", "nb"]
)
def test_sizes_follow_their_distribution(sizes):
    """χ²; fails once in 10^5 seeds."""
    sizes.double()
    n = torch.arange(200)
    p = sizes.log_prob(n).detach().exp()
    assert abs(float(p.sum()) - 1) < 1e-6
    torch.manual_seed(0)
    found = torch.bincount(sizes.sample(5000), minlength=200).numpy()
    some = (p * 5000 > 5).numpy()
    hoped = p.numpy()[some] / p.numpy()[some].sum() * found[some].sum()
    assert found[some].sum() > 4900 and chisquare(found[some], hoped).pvalue > 1e-5


def test_sizes_have_the_mean_and_variance_that_are_said():
    n = torch.arange(2000.0).double()
    fitted = NegativeBinomialSizes.fitted([2, 2, 10, 10, 6, 6])
    for sizes, expected in ((NegativeBinomialSizes(6.0, 3.0), 18), (fitted, 32 / 3)):
        p = sizes.double().log_prob(n).exp().detach()
        mean = float((p * n).sum())
        assert mean == pytest.approx(6, rel=1e-4)
        assert float((p * (n - mean) ** 2).sum()) == pytest.approx(expected, rel=1e-3)
    nearly_poisson = NegativeBinomialSizes.fitted([5] * 10).double()
    assert nearly_poisson.log_prob(torch.tensor([0])).exp().item() == pytest.approx(np.exp(-5), rel=0.1)


def test_draws_stay_inside_a_window_at_its_edge():
    """The density at an edge, to which a logit rounds, is defined."""
    q = sequence_density("iid", "bounded").float()
    with torch.no_grad():
        q.each[:, 2:4] = torch.tensor([60.0, -60.0])
    p = ExchangeableDensity(q)
    drawn = p.sample(sizes=[3] * 50)
    assert ((drawn.values > -1) & (drawn.values < 2)).all() and p.log_prob(drawn).log_prob.isfinite().all()


def test_brute_force_of_one_element_is_the_first_conditional():
    q = sequence_density("gru", "von Mises")
    x = torch.tensor([[0.3]]).double()
    assert brute_force(q, x).item() == pytest.approx(q.head.distribution(q.start).log_prob(x[0]).item())
