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
    ImportanceSampled,
    JanossyNetwork,
    JanossyPooling,
    Ragged,
    Sampled,
    TupleMLP,
    Tuples,
)
from janossy.evaluate import validation
from tests.examples import distinct_sets, generator, weight_by_sign
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


# Context: what rho takes of each set as a whole.


class Scaled(nn.Module):
    """ρ of a vector and of its set's context, neither linear nor symmetric in the two."""

    def forward(self, pooled, context):
        return (pooled * context[:, :1]).tanh() + context[:, 1:] ** 2


CONTEXT = torch.arange(12.0).view(6, 2) / 7


def contextual(orderings):
    torch.manual_seed(3)
    return JanossyNetwork(nn.Linear(2, 4), JanossyPooling(GRU(4, 3), orderings), Scaled())


def one_by_one(net, sets, context, orderings, source):
    """Returns ρ(f(h(x)_π), context) of the rows, set by set, from the definition."""
    positions, owners = orderings.enumerate(sets, source).flatten()
    results = [[] for _ in sets.sizes]
    for row, b in zip(positions, owners.tolist(), strict=True):
        state = net.pooling.f(net.h(sets.values[row])[None]) if len(row) else torch.zeros(1, 3)
        results[b].append(state)
    return [torch.cat([net.rho(state, context[[b]]) for state in each]) for b, each in enumerate(results)], results


@pytest.mark.parametrize("orderings", [AllPermutations(), Sampled(3)], ids=str)
def test_rho_takes_each_sets_own_context(orderings):
    net, sets, context = contextual(orderings), distinct_sets(), CONTEXT.double()
    of_rows, states = one_by_one(net, sets, context, orderings, generator())
    for got, expected in zip(net.rows(sets, context=context, generator=generator()), of_rows, strict=True):
        close(got, expected)
    expected = [net.rho(torch.cat(each).mean(0)[None], context[[b]])[0] for b, each in enumerate(states)]
    close(net(sets, context=context, generator=generator()), torch.stack(expected))
    chosen = torch.tensor([4, 0])
    exact = net(sets, AllPermutations(), context=context)
    close(net(sets[chosen], AllPermutations(), context=context[chosen]), exact[chosen])


def test_a_rho_that_takes_no_context_and_one_that_misses_it():
    sets = distinct_sets()
    with pytest.raises(TypeError, match=r"a rho that takes a context where one is given.*got a rho of type Linear"):
        JanossyNetwork(None, JanossyPooling(GRU(2, 3), Canonical()), nn.Linear(3, 1))(sets, context=CONTEXT)
    with pytest.raises(TypeError, match=r"a context, which its rho takes; got none. Give context=, a row for each"):
        contextual(Canonical())(sets)
    with pytest.raises(ValueError, match=r"a row for each of these 6 sets; got \(5, 2\)"):
        contextual(Canonical())(sets, context=CONTEXT[:5])


def test_an_error_within_rho_stays_its_own():
    class Broken(nn.Module):
        def forward(self, pooled, context=None):
            raise TypeError("of rho's own")

    net = JanossyNetwork(None, JanossyPooling(GRU(2, 3), Canonical()), Broken())
    for context in (None, CONTEXT):
        with pytest.raises(TypeError, match=r"^of rho's own$"):
            net(distinct_sets(), context=context)


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


# explain: of h(x), without touching anything, and no kinder than a call


class Widens(nn.Module):
    """An h that changes the width, normalises over the batch and drops out."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm, self.dropout = nn.Linear(2, 6), nn.BatchNorm1d(6), nn.Dropout(0.5)

    def forward(self, x):
        return self.dropout(self.norm(self.linear(x)))


class Noisy(nn.Module):
    """An f that draws in evaluation too."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 3)

    def forward(self, x):
        return self.linear(x).sum(1) + torch.randn(3)


def wide(f, orderings, **options):
    return JanossyNetwork(Widens(), JanossyPooling(f, orderings, **options), nn.Linear(3, 1))


def test_explain_reads_what_f_reads():
    net, sets = wide(GRU(6, 3), AllPermutations()), distinct_sets((6, 7))
    text = net.explain(sets)
    assert text.startswith("shared_prefixes (the cheapest that applies): 5760 rows of 2 sets")
    net.eval()
    assert text == net.pooling.explain(net.elements(sets), keys=sets)
    assert net.explain(sets, Sampled(2)).startswith("packed")


def test_raw_sets_are_refused_as_the_call_refuses_them():
    net, sets = wide(GRU(6, 3), AllPermutations()), distinct_sets((3, 2))
    law_same_error(net.pooling, sets, ValueError, r"this GRU expects rows of shape \(T, L, 6\); got \(\d, \d, 2\)")
    mlp = wide(TupleMLP(2, 6, 3), Tuples(2))
    law_same_error(mlp.pooling, sets, ValueError, r"this TupleMLP expects rows of shape \(T, 2, 6\)")


def law_same_error(layer, sets, error, match):
    """Checks that both the call and explain raise it."""
    for call in (layer, layer.explain):
        with pytest.raises(error, match=match):
            call(sets)


REFUSED = {
    "width": (lambda: JanossyPooling(GRU(5, 3), Canonical()), ValueError, "expects rows of shape"),
    "width of rows that are projected": (
        lambda: JanossyPooling(TupleMLP(2, 5, 3), Tuples(2)),
        ValueError,
        "expects rows of shape",
    ),
    "k": (lambda: JanossyPooling(TupleMLP(2, 2, 3), AllPermutations()), ValueError, "Match its k"),
    "dtype": (lambda: JanossyPooling(nn.Linear(2, 3).float(), Canonical()), ValueError, "expects elements in torch.fl"),
    "what f returns": (
        lambda: JanossyPooling(nn.Linear(2, 3), Canonical()),
        ValueError,
        r"f must map rows .* \(\d, c\)",
    ),
    "weights and a maximum": (
        lambda: JanossyPooling(GRU(2, 3), ImportanceSampled(2, weights=weight_by_sign), reduce="max"),
        ValueError,
        "weighs its rows, which reduce='max' cannot",
    ),
    "too many rows for gather": (
        lambda: JanossyPooling(nn.Sequential(nn.Linear(2, 3), Last()), AllPermutations(max_rows=100)),
        ValueError,
        "over max_rows=100",
    ),
    "too many rows for shared prefixes": (
        lambda: JanossyPooling(GRU(2, 3), AllPermutations(max_rows=100), evaluate="shared_prefixes"),
        ValueError,
        "over max_rows=100",
    ),
    "too many rows for auto": (
        lambda: JanossyPooling(GRU(2, 3), AllPermutations(max_rows=100)),
        ValueError,
        "over max_rows=100",
    ),
    "too many drawn rows": (
        lambda: JanossyPooling(TupleMLP(2, 2, 3), Sampled(100, k=2, max_rows=100)),
        ValueError,
        "over max_rows=100",
    ),
    "an evaluator that does not apply": (
        lambda: JanossyPooling(GRU(2, 3), Canonical(), evaluate="fused"),
        ValueError,
        "evaluate=fused does not apply: GRU declares no additive structure",
    ),
}


class Last(nn.Module):
    def forward(self, x):
        return x[:, -1]


@pytest.mark.parametrize("case", REFUSED)
def test_explain_raises_what_a_call_raises(case):
    build, error, match = REFUSED[case]
    layer, sets = build(), distinct_sets((5, 3))
    law_same_error(layer, sets, error, match)
    network = JanossyNetwork(None, layer, None)
    law_same_error(network, sets, error, match)


@pytest.mark.parametrize("sizes", [(), (0, 0)])
def test_explain_of_no_elements(sizes):
    sets = distinct_sets(sizes)
    assert wide(GRU(6, 3), AllPermutations()).explain(sets).startswith("gather")
    if sizes:
        law_same_error(JanossyPooling(GRU(5, 3), AllPermutations()), sets, ValueError, "expects rows of shape")


@pytest.mark.parametrize("f", [GRU(6, 3, num_layers=2, dropout=0.5), Noisy()], ids=lambda f: type(f).__name__)
@pytest.mark.parametrize("orderings", [Sampled(2), AllPermutations(), Canonical()], ids=str)
def test_explain_leaves_everything_as_it_was(f, orderings):
    """The modules' modes, one by one, statistics of batch norm, gradients, and the random numbers to come."""
    net, sets = wide(f.double(), orderings), distinct_sets((3, 2))
    net.h.norm.eval()
    modes = {name: module.training for name, module in net.named_modules()}
    assert set(modes.values()) == {True, False}
    state = {name: entry.clone() for name, entry in net.state_dict().items()}
    numbers, enabled = torch.get_rng_state(), torch.is_grad_enabled()
    net.explain(sets)
    net.pooling.explain(sets.with_values(torch.zeros(5, 6)))
    assert torch.equal(torch.get_rng_state(), numbers)
    assert {name: module.training for name, module in net.named_modules()} == modes
    assert torch.is_grad_enabled() == enabled
    for name, entry in net.state_dict().items():
        assert torch.equal(entry, state[name]), name


def test_explain_in_training_leaves_statistics():
    net, sets = wide(GRU(6, 3), Canonical()), distinct_sets((3, 2))
    net.explain(sets)
    assert net.h.norm.num_batches_tracked == 0 and not net.h.norm.running_mean.any() and net.training
    net(sets)
    assert net.h.norm.num_batches_tracked == 1


@pytest.fixture
def looked_at(monkeypatch):
    """Gives the batches that ``check_ragged`` checks, in order."""
    seen = []

    def spy(sets, owner, check=validation.check_ragged):
        seen.append(sets)
        return check(sets, owner)

    monkeypatch.setattr(validation, "check_ragged", spy)
    return seen


def test_each_batch_is_checked_once(looked_at):
    layer, sets = JanossyPooling(GRU(2, 3), Sampled(2)), distinct_sets((3, 1))
    layer(sets)
    assert looked_at == [sets]
    looked_at.clear()
    network, context = JanossyNetwork(nn.Linear(2, 2), layer, TakesContext()), torch.zeros(2, 1)
    network(sets, context=context)
    assert looked_at[0] is sets and len(looked_at) == 2 and looked_at[1] is not sets  # x, and h(x)
    looked_at.clear()
    network(sets, context=context, elements=sets)
    assert len(looked_at) == 2  # x, and the h(x) that was given


def test_each_batch_is_checked(looked_at):
    network, sets = JanossyNetwork(None, JanossyPooling(GRU(2, 3), Sampled(2)), None), distinct_sets((3, 1))
    for arguments in ({"sets": sets.values}, {"sets": sets.values, "elements": sets}, {"sets": sets, "elements": 3}):
        with pytest.raises(TypeError, match="expects a Ragged batch of sets"):
            network(**arguments)
    with pytest.raises(TypeError, match=r"JanossyPooling\(keys=\) expects a Ragged batch of sets; got int"):
        network.pooling(sets, keys=3)


class TakesContext(nn.Module):
    def forward(self, pooled, context):
        return pooled[:, :1] + context


def test_pooling_alone_makes_a_network():
    pooling = JanossyPooling(GRU(2, 3), Canonical())
    assert torch.equal(JanossyNetwork(pooling=pooling)(distinct_sets()), pooling(distinct_sets()))
    for arguments in ((), (pooling,), (None, nn.Linear(2, 2))):
        with pytest.raises(TypeError, match=r"pooling to be a JanossyPooling; got .*JanossyNetwork\(pooling=…"):
            JanossyNetwork(*arguments)
