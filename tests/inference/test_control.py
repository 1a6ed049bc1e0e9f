"""ControlVariate and CachedMean: unbiased, against the enumeration of every permutation and every subset."""

from dataclasses import replace
from itertools import combinations, permutations

import pytest
import torch
from torch import nn

from janossy import (
    GRU,
    AllPermutations,
    Combinations,
    Distinct,
    ImportanceSampled,
    JanossyNetwork,
    JanossyPooling,
    Ragged,
    Sampled,
    TupleMLP,
    Tuples,
    predict,
)
from janossy.inference.control import ControlVariate, fit_control_variate
from janossy.inference.draws import mean_of_draws
from janossy.nn.cached_mean import CachedMean
from janossy.orderings import Bucket, Rows
from janossy.orderings.drawn import Drawn
from tests.examples import distinct_sets, generator, tied_sets
from tests.laws import close

pytestmark = pytest.mark.usefixtures("float64")

SETS = (4, 0, 1, 5, 2, 4)


def network(out=2, orderings=None):
    torch.manual_seed(3)
    f = GRU(3, 4)
    for parameter in f.parameters():
        parameter.data *= 4  # so that the order matters
    rho = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, out))
    pooling = JanossyPooling(f, orderings or Sampled(1, scheme="independent"))
    return JanossyNetwork(nn.Linear(2, 3), pooling, rho).eval()


def untrained(k, net, out=2):
    torch.manual_seed(k)
    control = ControlVariate(net.h, TupleMLP(k, 3, 8, out_features=out), k).requires_grad_(False)
    control.pooling.f.hidden[0].weight *= 3
    return control


def means_over_rows(values, rows):
    return torch.stack([part.mean(0) for part in values.split(rows.counts())])


class FirstElements(ControlVariate):
    """The first k elements, with the zero vectors in front: not what ``mean`` is the mean of."""

    def _last(self, bucket, sets):
        real = super()._last(replace(bucket, local=bucket.local.flip(-1)), sets)
        return replace(real, local=real.local.flip(-1))


def of_increasing_tuples(k, net):
    control = untrained(k, net)
    control.pooling.orderings = Combinations(k)
    return control


# ControlVariate


def law_mean(control, sets) -> None:
    """Checks that ``mean`` is the mean of ``rows`` over every permutation."""
    rows = AllPermutations().enumerate(sets)
    close(control.mean(sets), means_over_rows(control.rows(sets, rows), rows), atol=1e-9, rtol=0)


def law_rows(control, sets, rows) -> None:
    """Checks that ``rows`` are g of the last k elements of each row, with zero vectors after them."""
    positions, _ = rows.flatten()
    expected = []
    for row in positions:
        elements = control.h(sets.values[row[row >= 0]][-control.k :])
        zeros = torch.zeros(control.k - len(elements), elements.shape[1])
        expected.append(control.pooling.f(torch.cat((elements, zeros))[None])[0])
    close(control.rows(sets, rows), torch.stack(expected))


def law_unbiased(net, control, sets) -> None:
    """Checks that controlled and plain estimates have the same mean over all permutations."""
    rows = AllPermutations().enumerate(sets)
    y = net.rows(sets, orderings=Drawn(rows, sets.sizes)).values.sigmoid()
    controlled = means_over_rows(y - control.rows(sets, rows), rows) + control.mean(sets)
    close(controlled, means_over_rows(y, rows), atol=1e-9, rtol=0)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("sets", [distinct_sets, tied_sets])
def test_mean_is_that_of_every_permutation(k, sets):
    law_mean(untrained(k, network()), sets(SETS))


@pytest.mark.parametrize("k", [1, 2, 3])
def test_unbiased_for_any_surrogate(k):
    net = network()
    law_unbiased(net, untrained(k, net), distinct_sets(SETS))


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("orderings", [Sampled(5), Sampled(5, k=3), Sampled(5, seed=1), Sampled(5, k=4, seed=1)])
def test_rows_are_of_the_last_elements(k, orderings):
    sets = tied_sets(SETS)
    law_rows(untrained(k, network()), sets, orderings.enumerate(sets))


@pytest.mark.parametrize("law", [law_mean, lambda control, sets: law_unbiased(network(), control, sets)])
def test_the_laws_can_fail(law):
    net, sets = network(), distinct_sets(SETS)
    wrong = FirstElements(net.h, untrained(2, net).pooling.f, 2)
    for control in (wrong, of_increasing_tuples(2, net)):
        with pytest.raises(AssertionError):
            law(control, sets)
    with pytest.raises(AssertionError):
        law_rows(wrong, sets, Sampled(5).enumerate(sets))


def test_the_mean_of_what_sampled_draws():
    """Rows cut to k₀ elements are uniform, too: over all of them the mean of g is the same."""
    sets, control = distinct_sets((5, 4, 2)), untrained(2, network())
    rows = Tuples(3).enumerate(sets)
    close(control.mean(sets), means_over_rows(control.rows(sets, rows), rows), atol=1e-9, rtol=0)


def test_one_call_of_g_for_all_sizes():
    calls = []
    control = untrained(2, network())
    control.pooling.f.register_forward_hook(lambda module, x, y: calls.append(len(y)))
    sets = distinct_sets(SETS)
    control.rows(sets, Sampled(7).enumerate(sets))
    assert calls == [42]


def test_controls_do_not_depend_on_batch_mates():
    sets, control = distinct_sets(SETS), untrained(2, network())
    rows = AllPermutations().enumerate(sets)
    together = control.rows(sets, rows).split(rows.counts())
    for b in range(len(sets)):
        close(control.mean(sets[[b]])[0], control.mean(sets)[b])
        close(control.rows(sets[[b]], AllPermutations().enumerate(sets[[b]])), together[b])


def test_h_is_shared_and_not_owned():
    net = network()
    control = untrained(2, net)
    assert all(name.startswith("pooling.f.") or name == "pooling._extra_state" for name in control.state_dict())
    again = ControlVariate(net.h, TupleMLP(2, 3, 8, out_features=2), 2)
    again.load_state_dict(control.state_dict())
    sets = distinct_sets(SETS)
    assert torch.equal(again.mean(sets), control.mean(sets))
    values = sets.values.clone().requires_grad_()
    again.mean(sets.with_values(values)).sum().backward()
    assert values.grad is None and net.h.weight.grad is None
    assert again.pooling.f.output.weight.grad is not None


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (lambda sets: Sampled(3, k=1).enumerate(sets), "rows of at least 2 for a set of 2; got rows of 1"),
        (lambda sets: Sampled(3).enumerate(sets[:2]), "the rows of these 6 sets; got 2"),
    ],
)
def test_control_errors(rows, message):
    sets = distinct_sets(SETS)
    with pytest.raises(ValueError, match=message):
        untrained(2, network()).rows(sets, rows(sets))


# fit_control_variate


def fitted(net, k=2, seed=0, **options):
    sets = distinct_sets((4, 5, 6) * 40, seed=11)
    arguments = {"num_steps": 80, "generator": generator(seed)} | options
    return fit_control_variate(net, sets, k, 16, **arguments)


def variance_ratio(net, control, link=lambda y: y):
    sets = distinct_sets((5,) * 30, seed=12)
    rows = AllPermutations().enumerate(sets)
    y = link(net.rows(sets, orderings=Drawn(rows, sets.sizes)).values)
    left = y - control.rows(sets, rows)
    return (left.unflatten(0, (30, -1)).var(1).mean(0) / y.unflatten(0, (30, -1)).var(1).mean(0)).detach()


def test_a_fit_lowers_the_variance_of_other_sets():
    net = network()
    for k in (1, 2, 3):
        assert variance_ratio(net, fitted(net, k)).max() < 0.9
    assert variance_ratio(net, untrained(2, net)).mean() > 1
    assert variance_ratio(net, fitted(net, link="sigmoid"), torch.sigmoid).max() < 0.9
    law_unbiased(net, fitted(net, num_steps=2), distinct_sets((4, 5)))


def test_the_scale_leaves_out_what_does_not_help():
    net = network()
    net.h.weight.data.zero_()  # equal elements: no order matters, and no g varies
    control = fitted(net, num_steps=2)
    assert not control.pooling.f.output.weight.any()
    net = network()
    assert variance_ratio(net, fitted(net, num_steps=1, learning_rate=1e-9)).max() < 1.05


def test_a_generator_makes_a_fit_repeatable():
    net = network()
    state = torch.get_rng_state()
    first, second = (fitted(net, num_steps=3).state_dict() for _ in range(2))
    other = fitted(net, num_steps=3, seed=1).state_dict()
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


@pytest.mark.parametrize("training", [True, False])
def test_a_fit_leaves_the_network_as_it_is(training):
    net = network().train(training)
    net.h.eval()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    control = fitted(net, num_steps=3)
    assert (net.training, net.rho[2].training, net.h.training) == (training, training, False)
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert all(p.grad is None and p.requires_grad for p in net.parameters())
    assert not any(p.requires_grad for p in control.parameters()) and not control.training
    with torch.no_grad():
        fitted(net, num_steps=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_steps": 0}, "num_steps=0"),
        ({"num_permutations": 1}, "num_permutations=1"),
        ({"sets": Ragged.from_sizes(torch.zeros(0, 2), [])}, "0 sets"),
        ({"link": "relu"}, "a link among None, 'sigmoid', 'softmax' or a function; got 'relu'"),
        ({"network": network(orderings=Tuples(2))}, "orderings draw, such as Sampled; got Tuples"),
        ({"network": network(orderings=Sampled(k=2)), "k": 3}, "k <= 2, that of the network's orderings; got 3"),
        ({"network": JanossyNetwork(nn.Unflatten(1, (2, 1)), JanossyPooling(nn.Flatten(), Sampled(k=2)), None)}, "got"),
    ],
)
def test_fit_errors(arguments, message):
    arguments = {"network": network(), "sets": distinct_sets((4, 5))} | arguments
    arguments["network"].double()
    with pytest.raises(ValueError, match=message):
        fit_control_variate(**arguments)


@pytest.mark.parametrize(
    "orderings",
    [Sampled(3), Sampled(2, seed=1), Distinct(1), Distinct(2), ImportanceSampled(1, k=3), Sampled(exact_last=1)],
    ids=str,
)
def test_a_fit_to_the_draws_of_any_random_orderings(orderings):
    """The mean of g over the rows of a draw takes off some of the variance of the network's outputs."""
    net = network(orderings=orderings)
    control = fitted(net, num_steps=40)
    sets = Ragged.cat([distinct_sets((5, 4), seed=12)] * 100)
    arguments = {
        "num_permutations": 2 * orderings.num_permutations,
        "generator": None if orderings.seed else generator(),
    }
    plain, controlled = (predict(net, sets, control=c, **arguments).mean for c in (None, control))
    if orderings.seed is None:
        spread, left = (mean.unflatten(0, (100, 2)).var(0).sum() for mean in (plain, controlled))
        assert 0 < left < 0.95 * spread
    assert not torch.allclose(plain, controlled)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"network": JanossyPooling(GRU(2, 3), Sampled())}, "fit_control_variate expects a JanossyNetwork"),
        ({"sets": torch.zeros(3, 2)}, "fit_control_variate expects a Ragged"),
        ({"k": 2.0}, "an integer; got k=2.0"),
        ({"num_steps": True}, "an integer; got num_steps=True"),
        ({"learning_rate": "x"}, "a number as learning_rate; got learning_rate='x'"),
        ({"generator": 3}, "a torch.Generator as generator; got 3"),
        ({"link": 3}, "a link among .* got 3"),
    ],
)
def test_a_fit_of_another_type(change, message):
    with pytest.raises(TypeError, match=message):
        fit_control_variate(**{"network": network(), "sets": distinct_sets((4, 5)), **change})


# CachedMean

NUM_ELEMENTS = 9


def history_pooling(num=2):
    torch.manual_seed(5)
    pool = CachedMean(TupleMLP(1, 2, 6, out_features=3), num_elements=NUM_ELEMENTS, out_features=3, num_samples=num)
    pool.history.normal_()
    return pool


def exact(pool, sets):
    return JanossyPooling(pool.f, Tuples(1))(sets)


def ids_of(sets):
    """Returns ids that sets share, some of them twice in one set."""
    return torch.randint(NUM_ELEMENTS, (len(sets.values),), generator=generator(6))


class Given:
    """In the place of ``Sampled``: these samples of each of the sets, which have one size."""

    def __init__(self, samples):
        self.samples = torch.tensor(samples)

    def __call__(self, num, k):
        assert num == 1 and k == self.samples.shape[1]
        return self

    def enumerate(self, sets, generator):
        return Rows((Bucket(self.samples[:, None], None, sets.offsets[:-1], None, padded=False),), len(sets))


def law_history_unbiased(pool, samples, monkeypatch) -> None:
    """Checks that samples of 5 elements have the mean of f, and its gradient, as their mean."""
    monkeypatch.setattr("janossy.nn.cached_mean.Sampled", Given(samples))
    one = distinct_sets((5,))
    sets = Ragged.cat([one] * len(samples))
    value = pool(sets, ids_of(one).repeat(len(samples))).mean(0)
    wanted = exact(pool, one)[0]
    close(value, wanted)
    parameters = list(pool.parameters())
    weights = torch.arange(1.0, 4)
    for got, want in zip(*(torch.autograd.grad((v * weights).sum(), parameters) for v in (value, wanted)), strict=True):
        close(got, want)


@pytest.mark.parametrize("num", [1, 2, 3])
def test_history_is_unbiased_over_all_subsets(num, monkeypatch):
    law_history_unbiased(history_pooling(num), list(combinations(range(5), num)), monkeypatch)
    law_history_unbiased(history_pooling(num), list(permutations(range(5), num)), monkeypatch)


def test_a_history_law_can_fail(monkeypatch):
    with pytest.raises(AssertionError):
        law_history_unbiased(history_pooling(2), list(combinations(range(4), 2)), monkeypatch)


@pytest.mark.statistical
def test_draws_are_unbiased_and_vary_less_with_history():
    """The mean of 4000 draws is within 5 standard errors: fails by chance less than once in 10^5 seeds."""
    pool, one = history_pooling(2), distinct_sets((5,))
    ids = torch.arange(5)
    sets, many = Ragged.cat([one] * 4000), ids.repeat(4000)

    def spread():
        values = pool(sets, many, generator=generator()).detach()
        error = values.std(0) / 4000**0.5
        assert ((values.mean(0) - exact(pool, one)[0]).abs() < 5 * error + 1e-12).all()
        return values.var(0)

    pool.reset_history()
    y = pool.f(one.values[:, None]).detach()
    close(spread(), y.var(0) * (1 / 2 - 1 / 5), atol=0, rtol=0.15)
    assert spread().max() < 1e-25  # every element has been drawn, and f has not changed


@pytest.mark.parametrize("num", [1, 2, 5, 100])
def test_small_sets_are_exact(num):
    sizes = tuple(n for n in (3, 0, 5, 1, 2, 0) if n <= num)
    sets = distinct_sets(sizes)
    pool = history_pooling(num)
    close(pool(sets, ids_of(sets)), exact(pool, sets))


def test_evaluation_is_exact_and_remembers_nothing():
    pool, sets = history_pooling(1).eval(), distinct_sets(SETS)
    before = pool.history.clone()
    close(pool(sets, ids_of(sets)), exact(pool, sets))
    assert torch.equal(pool.history, before)


def test_only_what_was_drawn_is_remembered():
    pool, sets = history_pooling(2), distinct_sets((5, 0, 3))
    before, ids = pool.history.clone(), torch.arange(8)
    seen = []
    pool.f.register_forward_hook(lambda module, x, y: seen.append((x[0][:, 0], y.detach())))
    pool(sets, sets.with_values(ids), generator=generator())
    ((elements, y),) = seen
    drawn = [(sets.values == x).all(1).nonzero().item() for x in elements[:-1]]
    assert len(drawn) == 4 and not elements[-1].any()
    assert len(set(drawn[:2])) == len(set(drawn[2:])) == 2 and max(drawn[:2]) < 5 <= min(drawn[2:])
    close(pool.history[ids[drawn]], y[:-1])
    kept = [i for i in range(NUM_ELEMENTS) if i not in drawn]
    assert torch.equal(pool.history[kept], before[kept]) and not pool.history.requires_grad


def test_history_does_not_depend_on_batch_mates():
    pool, sets = history_pooling(2), distinct_sets((2, 0, 1, 2))
    ids = sets.with_values(torch.arange(5))
    together = pool(sets, ids)
    for b in range(len(sets)):
        close(pool(sets[[b]], ids[[b]])[0], together[b])


def test_means_in_half_precision_do_not_overflow():
    """The values of 1000 add up to more than float16 holds."""
    sets = distinct_sets((100, 0, 3)).to(torch.float16)
    pool = CachedMean(lambda x: 1000 + 0 * x[:, 0], num_elements=103, out_features=sets.values.shape[1]).half().eval()
    assert pool(sets, torch.arange(103)).eq(1000).all()
    drawn = Drawn(Sampled(100, k=1).enumerate(sets[[0, 2]], generator()), (100, 3), 1)
    assert mean_of_draws(torch.full((200, 1), 1000.0).half(), drawn, lambda n: 100).tolist() == [[1000], [1000]]


def test_the_history_is_saved():
    pool, again = (
        history_pooling(),
        CachedMean(TupleMLP(1, 2, 6, out_features=3), num_elements=NUM_ELEMENTS, out_features=3),
    )
    assert not again.history.any()
    again.load_state_dict(pool.state_dict())
    sets = distinct_sets(SETS)
    first, second = (p(sets, ids_of(sets), generator=generator()) for p in (pool, again))
    assert torch.equal(first, second) and torch.equal(pool.history, again.history)
    pool.reset_history()
    assert not pool.history.any()


@pytest.mark.parametrize("sizes", [(), (0, 0)])
def test_no_elements(sizes):
    sets = distinct_sets(sizes)
    assert history_pooling()(sets, torch.zeros(0, dtype=torch.long)).shape == (len(sizes), 3)
    control, rows = untrained(2, network()), Sampled(3).enumerate(sets)
    assert control.rows(sets, rows).shape == (3 * len(sizes), 2) and control.mean(sets).shape == (len(sizes), 2)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (torch.arange(4), r"int64 ids of shape \(5,\), one per element; got torch.int64 of shape \(4,\)"),
        (torch.arange(5.0), "int64 ids"),
        (torch.arange(5) - 1, "ids from 0 to num_elements - 1 = 8; got -1 to 3"),
        (torch.arange(5) + 5, "got 5 to 9"),
    ],
)
def test_history_errors(ids, message):
    pool, sets = history_pooling(), distinct_sets((3, 2))
    with pytest.raises(ValueError, match=message):
        pool(sets, ids)
    with pytest.raises(ValueError, match="num_samples=0"):
        CachedMean(pool.f, num_elements=3, out_features=3, num_samples=0)
    with pytest.raises(ValueError, match=r"to \(4, 5\); got \(4, 3\). Match out_features"):
        CachedMean(pool.f, num_elements=NUM_ELEMENTS, out_features=5)(sets, torch.arange(5))
