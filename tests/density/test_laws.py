"""Densities are what their formula says: all orders, bounds, gradients, whatever else is in the batch."""

from itertools import permutations

import pytest
import torch

from janossy import AllPermutations, Distinct, Ragged, Sampled
from janossy.density import CategoricalSizes, ExchangeableDensity, NegativeBinomialSizes, SequenceDensity
from janossy.orderings.schemes import SCHEMES
from tests.density.models import HEADS, READERS, brute_force, sequence_density, some_sets
from tests.laws import close

SIZES = [3, 0, 5, 1, 3, 2, 4]


@pytest.mark.parametrize("k", [None, 2, 3, 4])
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("reader", READERS)
def test_the_exact_density_is_that_of_brute_force(reader, head, k):
    q = sequence_density(reader, head, k)
    p = ExchangeableDensity(q, sizes=CategoricalSizes(5).double())
    sets = some_sets(q.head, SIZES)
    found = p.log_prob(sets)
    expected = torch.stack([brute_force(q, x) for x in sets]) - torch.tensor(6.0).double().log()
    close(found.log_prob, expected)
    assert found.exact.all() and not found.standard_error.any() and not found.num_permutations.any()
    close(p.log_prob(sets[[2]]).log_prob, found.log_prob[[2]])  # alone, as among others


@pytest.mark.parametrize("k", [None, 3])
def test_all_orders_of_eight_are_averaged(k):
    q = sequence_density("gru", "plane", k)
    x = some_sets(q.head, [8]).values
    with torch.no_grad():
        rows = q(x[torch.tensor(list(permutations(range(8))))])[:, 0]
        found = ExchangeableDensity(q).log_prob(Ragged.from_sizes(x, [8]))
    close(found.log_prob[0], rows.logsumexp(0) - torch.tensor(40320.0).double().log())


@pytest.mark.parametrize("head", HEADS)
def test_a_mixture_of_iid_is_exact_in_one_order(head):
    q = sequence_density("iid", head)
    sets = some_sets(q.head, [4, 0, 9, 1])
    found = ExchangeableDensity(q).log_prob(sets)
    by_hand = [
        (q.logits.log_softmax(0) + torch.stack([q.head.distribution(q.each).log_prob(e) for e in x]).sum(0)).logsumexp(
            0
        )
        if len(x)
        else torch.zeros(()).double()
        for x in sets
    ]
    close(found.log_prob, torch.stack(by_hand))
    steps = torch.stack(
        [sum((q.next(x[None, :t]).log_prob(x[t]) for t in range(len(x))), torch.zeros(1)) for x in sets]
    )
    close(found.log_prob, steps[:, 0].double())
    assert found.exact.all()


@pytest.mark.parametrize(
    "orderings", [AllPermutations(), Sampled(200), Distinct(120)], ids=["all", "sampled", "distinct"]
)
def test_a_call_averages_over_its_orders(orderings):
    """Sampled: half of 5! orders or more are drawn, and near the mean; the others are exact."""
    q = sequence_density("gru", "plane")
    sets = some_sets(q.head, [5, 2, 0])
    p = ExchangeableDensity(q, sizes=NegativeBinomialSizes().double(), orderings=orderings)
    expected = torch.stack([brute_force(q, x) for x in sets]) + p.log_size(sets)
    exact = not isinstance(orderings, Sampled)
    close(p(sets), expected) if exact else torch.testing.assert_close(p(sets), expected, atol=0.3, rtol=0)


@pytest.mark.parametrize("budget", [2**30, 2**14])
@pytest.mark.parametrize("reader", READERS)
def test_gradients_reach_every_weight_and_are_those_of_brute_force(reader, budget):
    """Within the memory budget, and in parts that are computed again."""
    q = sequence_density(reader, "bounded")
    sets = some_sets(q.head, [4, 4, 1, 4])
    p = ExchangeableDensity(q, sizes=CategoricalSizes(4).double(), orderings=AllPermutations(), memory_budget=budget)
    weights = list(p.parameters())
    found = torch.autograd.grad(p(sets).sum(), weights)
    expected = torch.stack([brute_force(q, x) for x in sets]).sum() + p.log_size(sets).sum()
    for a, b in zip(found, torch.autograd.grad(expected, weights), strict=True):
        close(a, b)
        assert a.abs().max() > 0
    bound = ExchangeableDensity(q, sizes=None, orderings=Sampled(2))(sets).sum()
    assert all(g.abs().max() > 0 for g in torch.autograd.grad(bound, list(q.parameters())))


def law_invariant(q, sets) -> None:
    p = ExchangeableDensity(q)
    shuffled = Ragged.from_sets([x.flip(0).roll(1, 0) for x in sets])
    close(p.log_prob(sets).log_prob, p.log_prob(shuffled).log_prob)


@pytest.mark.parametrize("reader", ["gru", "transformer", "iid"])
def test_the_order_of_a_set_means_nothing(reader):
    q = sequence_density(reader, "plane")
    law_invariant(q, some_sets(q.head, [4, 5, 3]))


def test_the_law_of_invariance_can_fail():
    class OneOrder(SequenceDensity):
        """A density of sequences that says it were the same for all orders."""

        def __init__(self, q):
            super().__init__()
            self.q, self.head = q, q.head

        def forward(self, rows):
            return self.q(rows)

    q = sequence_density("gru", "plane")
    with pytest.raises(AssertionError):
        law_invariant(OneOrder(q), some_sets(q.head, [4, 5, 3]))


@pytest.mark.statistical
@pytest.mark.parametrize("scheme", SCHEMES)
def test_bounds_are_of_unbiased_densities(scheme):
    """E exp(bound) = p, by every scheme; to 5 standard errors, once in 10^6 seeds each. And E bound <= log p."""
    q = sequence_density("gru", "plane")
    x = some_sets(q.head, [5]).values
    p, exact = ExchangeableDensity(q), brute_force(q, x)
    sets = Ragged.from_sizes(x.repeat(400, 1), [5] * 400)
    with torch.no_grad():
        bound = p.log_prob(sets, 10, max_exact=0, scheme=scheme, generator=torch.Generator().manual_seed(1))
    ratio = (bound.log_prob - exact).exp()
    assert abs(ratio.mean() - 1) < 5 * ratio.std() / 20
    assert bound.log_prob.mean() < exact + 5 * bound.log_prob.std() / 20
    assert not bound.exact.any() and (bound.num_permutations == 10).all() and (bound.standard_error > 0).all()


def test_a_bound_by_all_orders_is_exact():
    """A set with no more orders than are asked for takes each once."""
    q = sequence_density("gru", "plane")
    p, sets = ExchangeableDensity(q), some_sets(q.head, [0, 1, 2, 3, 5])
    bound = p.log_prob(sets, 10, max_exact=0, generator=torch.Generator().manual_seed(0))
    assert bound.exact.tolist() == [True] * 4 + [False] and bound.num_permutations.tolist() == [0] * 4 + [10]
    close(bound.log_prob[:4], p.log_prob(sets).log_prob[:4])
    assert not bound.standard_error[:4].any()


@pytest.mark.statistical
def test_bounds_rise_with_the_number_of_orders_and_know_their_error():
    """Means over 1,500 draws, with 4 standard errors between: once in 10^4 seeds a step that is no rise would pass."""
    q = sequence_density("gru", "plane")
    x = some_sets(q.head, [6]).values
    p, exact = ExchangeableDensity(q), brute_force(q, x)
    sets = Ragged.from_sizes(x.repeat(1500, 1), [6] * 1500)
    means, errors, said = [], [], []
    for m in (1, 3, 10, 40):
        generator = torch.Generator().manual_seed(m)
        with torch.no_grad():
            found = p.log_prob(sets, m, max_exact=5, scheme="independent", generator=generator)
        means.append(found.log_prob.mean())
        errors.append(found.log_prob.std())
        said.append(found.standard_error.square().nanmean().sqrt())
    for low, high, error in zip(means, [*means[1:], exact], errors, strict=True):
        assert high - low > 4 * error / 1500**0.5
    assert said[0].isnan()  # a single order says nothing of its error
    assert 0.75 < said[3] / errors[3] < 1.3
    assert 0.3 < (exact - means[3]) / (errors[3].square() / 2) < 3  # half the squared error, nearly


def test_draws_follow_the_generator():
    q = sequence_density("gru", "categories")
    p = ExchangeableDensity(q, sizes=NegativeBinomialSizes(3.0, 1.5).double())
    first, again, other = (p.sample(20, generator=torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    assert first.sizes == again.sizes and torch.equal(first.values, again.values) and first.sizes != other.sizes
    state = torch.random.get_rng_state()
    p.sample(3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(state, torch.random.get_rng_state())
    large = some_sets(q.head, [9])
    bounds = [p.log_prob(large, 4, generator=torch.Generator().manual_seed(seed)).log_prob for seed in (0, 0, 1)]
    assert bounds[0] == bounds[1] != bounds[2]


def test_janossy_densities_are_of_sets_without_order():
    """Σ_n 1/n! Σ_x j_n(x) = 1, over all of three categories; and n! is all that is between the two."""
    q = sequence_density("gru", "categories")
    p = ExchangeableDensity(q, sizes=CategoricalSizes(3).double())
    sets = [torch.cartesian_prod(*[torch.arange(3)] * n).view(-1, n) for n in range(1, 4)]
    batch = Ragged.from_sets([torch.zeros(0, dtype=torch.long), *(x for each in sets for x in each)])
    n = torch.tensor(batch.sizes)
    factorial = torch.tensor([1.0, 1.0, 2.0, 6.0])[n].double()
    janossy = p.log_janossy(batch).log_prob
    close(p.log_prob(batch).log_prob.exp().sum(), torch.ones(()).double())
    close((janossy.exp() / factorial).sum(), torch.ones(()).double())
    close(janossy[0].exp(), torch.tensor(0.25).double())  # that there is no point at all


def test_modes_are_left_as_they_were():
    q = sequence_density("lstm, two layers", "plane")
    q.reader.dropout = 0.5
    p = ExchangeableDensity(q.train())
    sets = some_sets(q.head, [4])
    close(p.log_prob(sets).log_prob, p.log_prob(sets).log_prob)
    assert p.training and q.reader.training


def test_batches_and_sets_may_be_empty():
    q = sequence_density("gru", "categories")
    p = ExchangeableDensity(q, sizes=CategoricalSizes(3).double())
    nothing = Ragged.from_sizes(torch.zeros(0, dtype=torch.long), [])
    assert p.log_prob(nothing).log_prob.shape == p(nothing).shape == (0,)
    assert len(p.sample(0)) == len(p.sample(sizes=[])) == 0 and p.sample(sizes=[0, 2]).dtype == torch.long
