"""Uses of densities: training by π-SGD, completing sets, anomaly scores."""

from itertools import product

import pytest
import torch
from scipy.stats import chisquare, kstest

from janossy import GRU, Ragged
from janossy.density import (
    Autoregressive,
    Bounded,
    CategoricalSizes,
    Categories,
    ExchangeableDensity,
    IidMixture,
    Normals,
    anomaly_scores,
    complete,
)
from tests.density.models import brute_force, sequence_density, some_sets
from tests.laws import close


def completions(q, x, num_missing):
    """Returns all ids that may be missing, their exact probabilities given x, and the log density of x among all."""
    y = torch.tensor(list(product(range(3), repeat=num_missing)))
    joint = torch.stack([brute_force(q, torch.cat((x, each))) for each in y])
    return y, joint.softmax(0), joint.logsumexp(0)


@pytest.mark.statistical
@pytest.mark.parametrize("reader", ["gru", "iid"])
@pytest.mark.parametrize(("known", "num_missing"), [([0, 2], 2), ([], 2), ([1], 1)])
def test_completions_follow_the_conditional_density(reader, known, num_missing):
    """χ² of 1,500 completions, of 40 walks each; fails once in 10^5 seeds. The marginal within 5 standard errors."""
    q = sequence_density(reader, "categories", seed=1)
    x = torch.tensor(known, dtype=torch.long)
    y, expected, log_marginal = completions(q, x, num_missing)
    batch = Ragged.from_sizes(x.repeat(1500), [len(x)] * 1500)
    found = complete(
        ExchangeableDensity(q), batch, num_missing=num_missing, num_walks=40, generator=torch.Generator().manual_seed(0)
    )
    assert set(found.sets.sizes) == {len(x) + num_missing}
    drawn = found.sets.values.view(1500, -1)
    assert (drawn[:, : len(x)] == x).all()
    counts = (drawn[:, None, len(x) :] == y).all(2).sum(0)
    assert chisquare(counts.numpy(), (1500 * expected / expected.sum()).detach().numpy()).pvalue > 1e-5
    ratio = (found.log_marginal - log_marginal.detach()).exp()
    assert abs(ratio.mean() - 1) <= 5 * ratio.std() / 1500**0.5 + 1e-9
    assert (found.effective <= 40 + 1e-6).all() and (found.effective >= 1 - 1e-6).all()


def test_nothing_missing_leaves_a_set_as_it_is():
    q = sequence_density("gru", "plane")
    sets = some_sets(q.head, [3, 0, 1])
    found = complete(
        ExchangeableDensity(q), sets, num_missing=0, num_walks=4000, generator=torch.Generator().manual_seed(0)
    )
    assert torch.equal(found.sets.values, sets.values)
    exact = ExchangeableDensity(q).log_prob(sets).log_prob.detach()
    error = found.standard_error.nan_to_num(0.0)
    assert ((found.log_marginal - exact).abs() <= 5 * error + 1e-9).all()


@pytest.mark.statistical
def test_tails_of_own_sets_are_uniform_and_strangers_are_found():
    """Kolmogorov–Smirnov; fails once in 10^5 seeds."""
    q = sequence_density("gru", "plane")
    p = ExchangeableDensity(q, sizes=CategoricalSizes.fitted([2, 3, 3, 10]).double())
    generator = torch.Generator().manual_seed(5)
    own = p.sample(sizes=[2, 3] * 150, generator=generator)
    scores = anomaly_scores(p, own, num_samples=999, generator=generator)
    assert kstest(scores.tail.numpy(), "uniform").pvalue > 1e-5
    strangers = anomaly_scores(p, own[:10].with_values(own[:10].values + 30), num_samples=999, generator=generator)
    assert (strangers.tail == 0.001).all()
    close(scores.size_surprise[:2].detach(), -p.sizes.log_prob(torch.tensor([2, 3])).detach())
    close(scores.surprise + scores.size_surprise, -p.log_prob(own).log_prob.detach())
    far = some_sets(q.head, [10])
    large = anomaly_scores(
        p, far.with_values(far.values + 30), num_samples=20, num_permutations=8, generator=generator
    )  # of bounds
    assert large.tail == 1 / 21


@pytest.mark.statistical
def test_pi_sgd_learns_what_no_mixture_of_iid_can():
    """Three cards without replacement of a deck of six: their entropy is log 120, that of independent ones log 216.

    Training fails to come within 0.15 of it on none of the 20 seeds tried.
    """
    generator = torch.Generator().manual_seed(0)
    deck = torch.rand(3000, 6, generator=generator).argsort(1)[:, :3]
    sets = Ragged.from_sizes(deck.flatten(), [3] * 3000)
    torch.manual_seed(0)
    p = ExchangeableDensity(Autoregressive(GRU(6, 24, per_position=True), Categories(6)))
    optimizer = torch.optim.Adam(p.parameters(), lr=2e-2)
    for step in range(120):
        loss = -p(sets[torch.arange(step * 64, step * 64 + 64) % 3000], generator=generator).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        found = p.log_prob(sets[:200]).log_prob.mean()
    assert -torch.tensor(120.0).log() - 0.15 < found < -torch.tensor(120.0).log() + 0.02


REFUSED = {
    "a point outside the window": (
        Bounded([0.0, 0.0], [1.0, 1.0]),
        torch.tensor([[0.5, 0.5], [0.5, 1.5]]),
        "element 0 of set 1",
    ),
    "a point on its edge": (Bounded([0.0], [1.0]), torch.tensor([[0.0], [0.5]]), "strictly between"),
    "a missing number": (Normals(1), torch.tensor([[0.0], [torch.nan]]), "Fill in or drop"),
    "an infinite number": (Normals(1), torch.tensor([[torch.inf], [0.0]]), "finite"),
    "a missing point": (Bounded([0.0], [1.0]), torch.tensor([[torch.nan], [0.5]]), "Fill in or drop"),
    "an unknown id": (Categories(3), torch.tensor([0, 3]), "ids from 0 to 2"),
    "ids as floats": (Categories(3), torch.tensor([0.0, 1.0]), "int64"),
    "ids of half the width": (Categories(3), torch.tensor([0, 1], dtype=torch.int32), "int64"),
    "numbers as ids": (Normals(1), torch.tensor([[0], [1]]), "floating-point"),
    "another width": (Normals(2), torch.zeros(2, 1), r"\(N, 2\)"),
    "another precision": (Normals(1), torch.zeros(2, 1).double(), "float32"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_elements_that_the_head_does_not_hold_are_refused(what):
    head, values, match = REFUSED[what]
    sets, p = Ragged.from_sizes(values, [1, 1]), ExchangeableDensity(IidMixture(head), sizes=CategoricalSizes(2))
    for call in (p, p.log_prob, p.log_janossy, lambda x: complete(p, x, num_missing=1), lambda x: anomaly_scores(p, x)):
        with pytest.raises(ValueError, match=match):
            call(sets)
