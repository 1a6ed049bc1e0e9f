"""JanossyNetwork: ρ ∘ pooling ∘ h, whose orders are those of the raw input."""

import copy
import pickle

import pytest
import torch
from torch import nn

from janossy import (
    GRU,
    AllPermutations,
    Canonical,
    Combinations,
    JanossyNetwork,
    JanossyPooling,
    Ragged,
    Sampled,
    TupleMLP,
    Tuples,
)
from tests.examples import distinct_sets, generator
from tests.laws import close

pytestmark = pytest.mark.usefixtures("float64")


def integers(*sets):
    return Ragged.from_sets([torch.tensor(x, dtype=torch.long) for x in sets])


def network(orderings, reduce="mean"):
    torch.manual_seed(3)
    return JanossyNetwork(nn.Embedding(10, 4), JanossyPooling(GRU(4, 5), orderings, reduce=reduce), nn.Linear(5, 2))


def test_by_hand():
    net = network(AllPermutations())
    sets = integers([3, 1, 4], [], [9])
    pooled = net.pooling(sets.with_values(net.h(sets.values)))
    close(net(sets), net.rho(pooled))
    close(net(sets)[1], net.rho.bias.detach())


def test_rows_pass_through_rho():
    rows = network(AllPermutations()).rows(integers([3, 1, 4], []))
    assert isinstance(rows, Ragged) and rows.sizes == (6, 1) and rows.values.shape == (7, 2)


def test_h_and_rho_may_be_left_out():
    f, sets = TupleMLP(2, 2, 3), distinct_sets()
    close(JanossyNetwork(None, JanossyPooling(f, Tuples(2)), None)(sets), JanossyPooling(f, Tuples(2))(sets))


@pytest.mark.parametrize("orderings", [Canonical(), Combinations(2), Sampled(3, seed=1)])
def test_orders_are_of_the_input_not_of_h(orderings):
    """Training h must not change which order is canonical (Section 2.1)."""
    seen = []

    class SpyOrderings(type(orderings)):
        def enumerate(self, keys, generator=None):
            seen.append(keys)
            return super().enumerate(keys, generator)

    spy = SpyOrderings(**vars(orderings))
    net, sets = network(spy), integers([3, 1, 4], [2, 2])
    net(sets)
    assert len(seen) == 1 and torch.equal(seen[0].values, sets.values)


def test_a_key_sees_the_input():
    net = network(Canonical(key=lambda x: -x))
    sets = integers([3, 1, 4])
    close(net(sets)[0], net.rho(net.pooling.f(net.h(torch.tensor([[4, 3, 1]]))))[0])


def test_copies_agree():
    net, sets = network(AllPermutations()), integers([3, 1, 4], [])
    fresh = network(AllPermutations())
    nn.init.zeros_(fresh.rho.weight)
    fresh.load_state_dict(net.state_dict())
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net)), fresh):
        assert torch.equal(other(sets), net(sets))


def test_a_generator_reaches_the_orderings():
    net, sets = network(Sampled(1)), integers([3, 1, 4, 5, 9, 2])
    assert torch.equal(net(sets, generator=generator(1)), net(sets, generator=generator(1)))
    assert not torch.equal(net(sets), net(sets))


def test_pi_sgd_learns():
    """A sum of two integers, from 200 steps of one fresh permutation for each set."""
    torch.manual_seed(0)
    net = network(Sampled(1))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    source, losses = generator(), []
    for _ in range(200):
        x = torch.randint(0, 10, (64, 2), generator=source)
        target = (x.sum(1, keepdim=True) - 9) / 4
        loss = (net(Ragged.from_padded(x)) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-20:]) < 0.1 * sum(losses[:20])


@pytest.mark.parametrize(("sets", "got"), [(torch.zeros(4, 3, 2), r"shape \(4, 3, 2\)"), ([torch.zeros(3, 2)], "list")])
def test_what_is_not_a_batch_of_sets_is_refused(sets, got):
    layer = JanossyPooling(TupleMLP(2, 2, 3), Tuples(2))
    for takes_sets in (layer, JanossyNetwork(None, layer, None)):
        with pytest.raises(TypeError, match=f"{type(takes_sets).__name__} expects a Ragged.*{got}.*from_padded"):
            takes_sets(sets)
