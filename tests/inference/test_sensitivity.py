"""sensitivity: the spread of predictions over orders. interaction_order: the orders of a target's variance."""

import sys
from functools import partial
from itertools import combinations, pairwise, product
from math import comb

import pytest
import torch
from torch import Tensor, nn

from janossy import (
    GRU,
    AllPermutations,
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
from janossy.inference import interaction, interaction_order, sensitivity
from tests.examples import distinct_sets, generator
from tests.laws import close
from tests.losses.test_permutation_loss import Rotations

pytestmark = pytest.mark.usefixtures("float64")

SETS = (5, 0, 1, 4, 4)


class Total(nn.Module):
    """An order-insensitive f."""

    def forward(self, x):
        return x.sum(1)


class Watches(nn.Module):
    """Keeps the mode that it is called in."""

    def __init__(self):
        super().__init__()
        self.modes = []

    def forward(self, x):
        self.modes.append(self.training)
        if len(self.modes) == 2:
            raise RuntimeError("broken")
        return x


def network(orderings=None, out=2, f=None):
    torch.manual_seed(3)
    rho = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, out))
    return JanossyNetwork(
        nn.Linear(2, 4), JanossyPooling(f or GRU(4, 5), orderings or Sampled(1, scheme="independent", exhaust=0)), rho
    )


def predictions(net, x: Tensor) -> Tensor:
    """Returns the predictions of all n! orders of one set, (n!, out)."""
    return net.rows(Ragged.from_sets([x]), orderings=AllPermutations()).values.detach()


def law_mean(estimates: Tensor, truth: Tensor, sigmas: float = 5.0) -> None:
    """Checks that independent estimates (R, …) average to the truth, within this many standard errors."""
    error = (estimates.mean(0) - truth).abs()
    bound = sigmas * estimates.std(0) / len(estimates) ** 0.5
    assert (error <= bound).all(), f"off by {error.tolist()}, more than {bound.tolist()}"


# sensitivity


@pytest.mark.parametrize("link", [None, "softmax", torch.exp])
def test_the_formulas(link):
    net, sets = network(out=3), distinct_sets(SETS)
    result = sensitivity(net, sets, 7, link=link, generator=generator())
    outputs = predict(net, sets, 7, link=link, generator=generator(), keep_outputs=True).outputs
    within = outputs.var(1).mean(0)
    between = outputs.mean(1).var(0) - within / 7
    close(result.within, within)
    close(result.between, between)
    close(result.standard_deviation, outputs.std(1))
    close(result.order_share, within / (within + between.clamp_min(0)))
    close(result.intraclass_correlation + result.order_share, torch.ones(3))
    close(result.worst_deviation, (outputs - outputs.mean(1, keepdim=True)).norm(dim=2).amax(1))
    assert torch.equal(result.worst_deviation, result.worst_sampled)
    assert result.num_evaluations == 7 * len(sets) and not result.within.requires_grad


def test_context_goes_with_its_set():
    net, sets, context = network(), distinct_sets(SETS), torch.arange(10.0).view(5, 2)
    net.rho = nn.Bilinear(5, 2, 3)
    result = sensitivity(net, sets, 7, context=context, num_swaps=2, generator=generator())
    outputs = predict(net, sets, 7, context=context, generator=generator(), keep_outputs=True).outputs
    close(result.standard_deviation, outputs.std(1))
    for b in (0, 3):
        order = sets[b][result.worst_order[b]]
        output = net.read_out(net.pooling.f(net.h(order)[None]), context[[b]])[0]
        close((output - outputs[b].mean(0)).norm(), result.worst_deviation[b])


@pytest.mark.statistical
def test_both_variances_are_unbiased():
    """Means of 300 audits by 3 permutations, beside all n! orders. Fails by chance less than once in 10^5 seeds."""
    net, sets = network().eval(), distinct_sets((4, 3, 4, 2, 4, 1))
    orders = [predictions(net, x) for x in sets]
    within = torch.stack([y.var(0, correction=0) for y in orders]).mean(0)
    between = torch.stack([y.mean(0) for y in orders]).var(0)
    audits = [sensitivity(net, sets, 3, generator=generator(seed)) for seed in range(300)]
    law_mean(torch.stack([a.within for a in audits]), within)
    law_mean(torch.stack([a.between for a in audits]), between)
    with pytest.raises(AssertionError, match="off by"):  # without the correction
        law_mean(torch.stack([a.between + a.within / 3 for a in audits]), between)
    with pytest.raises(AssertionError, match="off by"):  # divided by m
        law_mean(torch.stack([a.within * 2 / 3 for a in audits]), within)


def law_insensitive(net, sets: Ragged) -> None:
    result = sensitivity(net, sets, 5, num_swaps=3)
    assert not result.order_share.any() and result.intraclass_correlation.eq(1).all()
    assert not result.worst_deviation.any() and not result.standard_deviation.any()


@pytest.mark.parametrize("equal", [False, True])
def test_an_order_insensitive_f_has_none(equal):
    """Also where the sets do not differ either."""
    sets = Ragged.from_sets([torch.tensor([[1.0, 2.0], [4.0, 8.0], [3.0, 0.0]])] * 3)
    if not equal:
        sets = sets.with_values(torch.arange(18.0).view(9, 2))
    law_insensitive(JanossyNetwork(None, JanossyPooling(Total(), Sampled(1)), None), sets)
    with pytest.raises(AssertionError):
        law_insensitive(network(), distinct_sets((3, 3, 3)))


def attained(net, sets: Ragged, order: Ragged, mean: Tensor) -> Tensor:
    """Returns the distance of each set's prediction in this order from mean (B, out), one set at a time."""
    for positions, n in zip(order, sets.sizes, strict=True):
        assert sorted(positions.tolist()) == list(range(n))
    k = net.pooling.orderings.k
    rows = [net.h(x[positions])[:k] for x, positions in zip(sets, order, strict=True)]
    rows = [row if k is None else nn.functional.pad(row, (0, 0, 0, k - len(row))) for row in rows]
    # f sees no row of length 0, whose value is 0.
    pooled = [net.pooling.f(row[None])[0] if len(row) else torch.zeros(5) for row in rows]
    return (net.rho(torch.stack(pooled)).detach() - mean).norm(dim=1)


@pytest.mark.parametrize("num_swaps", [0, 1, 20])
@pytest.mark.parametrize("k", [None, 2, 7])
def test_the_worst_order_attains_its_deviation(k, num_swaps):
    net = network(Sampled(1, k=k, scheme="independent", exhaust=0), f=None if k is None else TupleMLP(k, 4, 5)).eval()
    sets = distinct_sets((*SETS, 20))
    result = sensitivity(net, sets, 4, num_swaps=num_swaps, generator=generator())
    mean = predict(net, sets, 4, generator=generator()).mean
    close(attained(net, sets, result.worst_order, mean), result.worst_deviation)
    assert (result.worst_deviation >= result.worst_sampled).all()
    assert (result.worst_deviation > result.worst_sampled).any() == (num_swaps > 0)
    reversed_ = result.worst_order.with_values(torch.cat([x.flip(0) for x in result.worst_order]))
    assert not torch.allclose(attained(net, sets, reversed_, mean), result.worst_deviation)


def test_the_search_ends_where_no_swap_helps():
    net, sets = network().eval(), distinct_sets((5, 7, 2))
    arguments = {"num_permutations": 2, "generator": generator()}
    result = sensitivity(net, sets, num_swaps=100, **arguments)
    mean = predict(net, sets, 2, generator=generator()).mean

    def law_no_swap_helps(order: Ragged) -> None:
        worst = attained(net, sets, order, mean)
        for i, j in combinations(range(7), 2):
            swapped = [positions.clone() for positions in order]
            for positions in swapped:
                if j < len(positions):
                    positions[[i, j]] = positions[[j, i]]
            assert (attained(net, sets, Ragged.from_sets(swapped), mean) <= worst + 1e-12).all(), f"{i}, {j} helps"

    law_no_swap_helps(result.worst_order)
    with pytest.raises(AssertionError, match="helps"):
        law_no_swap_helps(sensitivity(net, sets, 2, generator=generator()).worst_order)


def share_of_true_worst(num_swaps: int) -> float:
    net, sets = network(out=1).eval(), distinct_sets((5,) * 60)
    result = sensitivity(net, sets, 5, num_swaps=num_swaps, generator=generator())
    mean = predict(net, sets, 5, generator=generator()).mean
    true = torch.stack([(predictions(net, x) - y).norm(dim=1).max() for x, y in zip(sets, mean, strict=True)])
    assert (result.worst_deviation <= true + 1e-12).all()
    return (result.worst_deviation >= true - 1e-12).double().mean().item()


def test_the_search_mostly_finds_the_worst_of_all_orders():
    assert share_of_true_worst(20) > 0.6 > 0.3 > share_of_true_worst(0)


class Tripled(JanossyNetwork):
    def forward(self, *args, **options):
        return 3 * super().forward(*args, **options)


class TripledPooling(JanossyPooling):
    def forward(self, *args, **options):
        return 3 * super().forward(*args, **options)


@pytest.mark.parametrize("k", [None, 2])
@pytest.mark.parametrize("what", ["forward", "forward of the pooling", "hook", "hook on the pooling"])
def test_code_of_the_user_runs(what, k):
    f = GRU(2, 3) if k is None else TupleMLP(2, 2, 3)
    network, other = (JanossyNetwork(None, JanossyPooling(f, Sampled(1, k=k)), None) for _ in range(2))
    match what:
        case "forward":
            other.__class__ = Tripled
        case "forward of the pooling":
            other.pooling.__class__ = TripledPooling
        case "hook":
            other.register_forward_hook(lambda module, args, out: 3 * out)
        case "hook on the pooling":
            other.pooling.register_forward_hook(lambda module, args, out: 3 * out)
    sets = distinct_sets((3, 5, 0, 5, 1))
    plain, own = (
        sensitivity(each, sets, 4, num_swaps=3, generator=torch.Generator().manual_seed(0)) for each in (network, other)
    )
    close(own.standard_deviation, 3 * plain.standard_deviation)
    close(own.worst_deviation, 3 * plain.worst_deviation)
    assert torch.equal(own.worst_order.values, plain.worst_order.values) and plain.standard_deviation.any()


def test_a_search_of_more_steps_finds_no_less_and_counts_its_rows():
    net, sets = network(), distinct_sets((3, 16, 1))
    results = [sensitivity(net, sets, 3, num_swaps=steps, generator=generator()) for steps in (0, 1, 2, 30)]
    for fewer, more in pairwise(results):
        assert (more.worst_deviation >= fewer.worst_deviation).all()
    # One step: of the 3 and of the 120 pairs, 100 for each set of the two that have any.
    assert [result.num_evaluations for result in results[:2]] == [9, 9 + 200]


def test_swaps_behind_the_first_k_are_not_tried():
    """Every pair that is tried has an element that f sees: min(n, k)(n − 1) − C(k, 2) of them."""
    net = network(Sampled(1, k=2), f=TupleMLP(2, 4, 5))
    result = sensitivity(net, distinct_sets((6,)), 3, num_swaps=1)
    assert result.num_evaluations == 3 + 2 * 5 - 1


@pytest.mark.filterwarnings("error", "ignore:var")
@pytest.mark.parametrize("sizes", [(), (0,), (1,), (0, 0), (1, 0, 1), (3,)])
def test_small_batches(sizes):
    sets = distinct_sets(sizes)
    result = sensitivity(network(), sets, 4, num_swaps=5)
    assert result.worst_order.sizes == sizes and result.worst_order.dtype == torch.long
    assert result.standard_deviation.shape == (len(sizes), 2) and result.worst_deviation.shape == (len(sizes),)
    assert result.between.isnan().all() == (len(sizes) < 2) and result.within.isnan().all() == (len(sizes) == 0)
    if sizes and max(sizes) < 2:
        assert not result.order_share.any() and not result.worst_deviation.any()
    assert str(result)


def test_the_networks_own_draws_are_set_aside():
    sets = distinct_sets(SETS)
    expected = sensitivity(network(), sets, 4, generator=generator())
    for orderings in (Sampled(9), Sampled(2, seed=1), Distinct(3), ImportanceSampled(3), Rotations()):
        close(sensitivity(network(orderings), sets, 4, generator=generator()).within, expected.within)
    assert not torch.equal(sensitivity(network(), sets, 4).within, expected.within)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("audited", ["sensitivity", "interaction_order"])
def test_evaluation_mode_meanwhile_and_restored(training, audited):
    net, watches = network(), Watches()
    net.rho = nn.Sequential(net.rho, watches)
    net.train(training)
    net.h.eval()  # frozen by its owner, whatever the network's mode
    run = {
        "sensitivity": lambda: sensitivity(net, distinct_sets(SETS)),
        "interaction_order": lambda: interaction_order(net, torch.randn(5, 2), 3, num_samples=2),
    }[audited]

    def restored():
        return [net.training, watches.training, net.pooling.f.training, net.h.training] == [training] * 3 + [False]

    run()
    assert watches.modes == [False] and restored()
    with pytest.raises(RuntimeError, match="broken"):
        run()
    assert watches.modes == [False, False] and restored()


@pytest.mark.parametrize(
    ("orderings", "arguments", "message"),
    [
        (Sampled(1), {"num_permutations": 1}, "num_permutations >= 2, to see a variance; got 1"),
        (Sampled(1), {"num_swaps": -1}, "num_swaps >= 0; got num_swaps=-1"),
        (Sampled(1), {"link": "relu"}, "a link among None, 'sigmoid', 'softmax' or a function; got 'relu'"),
        (
            AllPermutations(),
            {},
            r"orderings draw, such as Sampled; got All.*zero by construction.*with Sampled\(\)",
        ),
        (Tuples(2), {}, r"Sampled; got Tuples"),
        (Sampled(1, max_rows=9), {}, "over max_rows=9"),
    ],
)
def test_errors_of_sensitivity(orderings, arguments, message):
    with pytest.raises(ValueError, match=message):
        sensitivity(network(orderings), distinct_sets(SETS), **arguments)
    with pytest.raises(TypeError, match="sensitivity expects a Ragged"):
        sensitivity(network(), torch.randn(3, 2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"network": JanossyPooling(GRU(2, 3), Sampled())}, "sensitivity expects a JanossyNetwork; got JanossyPooling"),
        ({"num_permutations": 2.5}, "an integer; got num_permutations=2.5"),
        ({"num_swaps": True}, "an integer; got num_swaps=True"),
        ({"generator": 3}, "a torch.Generator as generator; got 3"),
        ({"link": 3}, "a link among .* got 3"),
    ],
)
def test_sensitivity_of_another_type(change, message):
    with pytest.raises(TypeError, match=message):
        sensitivity(**{"network": network(), "sets": distinct_sets(SETS), **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": 3}, "a target that is a function .* got int and Tensor"),
        ({"elements": [1.0, 2.0]}, "elements .* as a tensor; got function and list"),
        ({"num_elements": 3.0}, "an integer; got num_elements=3.0"),
        ({"max_order": True}, "an integer; got max_order=True"),
        ({"num_samples": "9"}, "an integer; got num_samples='9'"),
        ({"seed": 0.5}, "an integer; got seed=0.5"),
    ],
)
def test_interaction_order_of_another_type(change, message):
    given = {"target": padded(lambda x: x.sum(1)), "elements": torch.randn(5), "num_elements": 3, **change}
    with pytest.raises(TypeError, match=message):
        interaction_order(**given)


def test_the_plot(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    result = sensitivity(network(), distinct_sets((4,) * 10), num_swaps=3)
    figure = result.plot(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    left, right = figure.axes
    assert left.get_xlim()[0] == right.get_xlim()[0] == right.get_ylim()[0] == 0
    assert all(axes.get_xlabel() and axes.get_ylabel() for axes in figure.axes)
    assert "10 sets, 20 permutations each" in str(result)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"janossy\[plot\]"):
        result.plot()


# interaction_order


def padded(formula):
    """Returns a target of Ragged batches of equal sizes, from a formula on tensors (B, n)."""
    return lambda sets: formula(sets.to_padded()[0])


TARGETS = {
    "sum": lambda x: x.sum(1),
    "max": lambda x: x.amax(1),
    "range": lambda x: x.amax(1) - x.amin(1),
    "variance": lambda x: x.var(1),
    "parity": lambda x: x.prod(1),
    "pairs": lambda x: x.sum(1) ** 2 - (x**2).sum(1),
    "kinds": lambda x: torch.stack([(x == v).any(1) for v in VALUES]).sum(0),
    "two_outputs": lambda x: torch.stack((x.amax(1), x.sin().sum(1).exp()), dim=1),
}

VALUES = torch.tensor([-1.0, 0.5, 2.0], dtype=torch.float64)


def orders_by_definition(formula, values: Tensor, n: int) -> Tensor:
    """Returns V_1 … V_n (n, out), by projecting the table of all sets onto the functions of each subset alone."""
    table = formula(torch.stack(torch.meshgrid([values] * n, indexing="ij"), -1).view(-1, n)).double()
    table = table.view(*(len(values),) * n, -1)
    powers = torch.zeros(n, table.shape[-1])
    for kept in product((False, True), repeat=n):
        term = table
        for axis, keep in enumerate(kept):
            mean = term.mean(axis, keepdim=True)
            term = term - mean if keep else mean.expand_as(term)
        if any(kept):
            powers[sum(kept) - 1] += term.square().flatten(0, -2).mean(0)
    return powers


def law_orders(result, powers: Tensor, sigmas: float = 6.0) -> None:
    """Checks that all shares and cumulative shares are within this many standard errors of the truth (n, out)."""
    shares = (powers / powers.sum(0))[: len(result.shares)]
    for estimate, error, truth in (
        (result.shares, result.standard_error, shares),
        (result.cumulative, result.cumulative_standard_error, shares.cumsum(0)),
    ):
        off = (estimate.view_as(truth) - truth).abs()
        assert (off <= sigmas * error.view_as(truth) + 1e-9).all(), f"off by {off.tolist()}, {error.tolist()}"


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("name", "n", "max_order"),
    [
        *((name, n, k) for name in TARGETS for n, k in ((3, 3), (4, 1), (4, 2), (4, 3), (4, 4))),
        *((name, 1, 1) for name in ("sum", "two_outputs")),
    ],
)
def test_orders_are_those_of_the_definition(name, n, max_order):
    """Within six standard errors of enumeration: one of the 42 fails by chance less than once in 10^3 seeds."""
    formula = TARGETS[name]
    powers = orders_by_definition(formula, VALUES, n)
    result = interaction_order(padded(formula), VALUES, n, max_order=max_order, num_samples=4000)
    law_orders(result, powers)
    close(result.variance, powers.sum(0).view_as(result.variance), rtol=0.25, atol=0)
    close(result.remainder, 1 - result.shares.sum(0))
    assert result.num_evaluations == 4000 * 2 ** (max_order + 1)
    assert result.shares.shape == (max_order, *((2,) if name == "two_outputs" else ()))


def test_the_oracle_knows_the_known_cases():
    centred, signs = torch.tensor([-2.0, 0.0, 2.0]), torch.tensor([-1.0, 1.0])
    for name, values, order in (("sum", VALUES, 1), ("pairs", centred, 2), ("parity", signs, 4)):
        powers = orders_by_definition(TARGETS[name], values, 4)[:, 0]
        close(powers / powers.sum(), torch.eye(4)[order - 1])


@pytest.mark.statistical
@pytest.mark.parametrize(("name", "order"), [("sum", 1), ("pairs", 2), ("parity", 4)])
def test_known_cases(name, order):
    """All of the variance is of one order; the orders above it are zero without noise. Fails as above."""
    values = torch.tensor([-1.0, 1.0])
    result = interaction_order(padded(TARGETS[name]), values, 4, max_order=4, num_samples=4000)
    law_orders(result, torch.eye(4)[:, [order - 1]])
    assert not result.shares[order:].any() and not result.standard_error[order:].any()
    with pytest.raises(AssertionError, match="off by"):
        law_orders(result, torch.eye(4)[:, [order % 4]])


def test_the_law_of_orders_can_fail():
    """For a population of other elements."""
    powers = orders_by_definition(TARGETS["max"], VALUES, 4)
    run = partial(interaction_order, padded(TARGETS["max"]), num_elements=4, num_samples=4000)
    law_orders(run(VALUES), powers)
    with pytest.raises(AssertionError, match="off by"):
        law_orders(run(torch.tensor([-1.0, -1.0, 0.5, 2.0])), powers)


@pytest.mark.statistical
def test_standard_errors_are_calibrated():
    """About 95 % of 300 runs lie within 1.96 standard errors of the truth.

    It fails by chance less than once in 10^5 seeds. The bounds are five binomial standard deviations, and 1 % for the
    quotient's own error at 500 samples.
    """
    powers = orders_by_definition(TARGETS["max"], VALUES, 4)[:, 0]
    shares = powers / powers.sum()
    run = partial(interaction_order, padded(TARGETS["max"]), VALUES, 4, max_order=2, num_samples=500)
    results = [run(seed=seed) for seed in range(300)]
    for name, error, truth in (
        ("shares", "standard_error", shares[:2]),
        ("cumulative", "cumulative_standard_error", shares[:2].cumsum(0)),
    ):
        scores = torch.stack([(getattr(r, name) - truth) / getattr(r, error) for r in results])
        inside = (scores.abs() < 1.96).double().mean(0)
        assert ((inside > 0.88) & (inside < 0.995)).all(), inside


def test_inverting_covariances_by_hand_agrees():
    """C(c) = Σ_j C(c, j)/C(n, j) V_j is the variance of E[t | x_1 … x_c], an identity of the orders."""
    n, values = 4, VALUES
    powers = orders_by_definition(TARGETS["range"], values, n)[:, 0]
    table = TARGETS["range"](torch.stack(torch.meshgrid([values] * n, indexing="ij"), -1).view(-1, n)).view((3,) * n)
    for c in range(n + 1):
        conditional = table.flatten(c).mean(-1) if c < n else table
        covariance = sum(comb(c, j) / comb(n, j) * powers[j - 1] for j in range(1, n + 1))
        close(conditional.var(correction=0) if c else torch.zeros(()), torch.as_tensor(covariance))


@pytest.mark.statistical
@pytest.mark.parametrize("max_order", [2, 3])
def test_noise_counts_in_the_remainder(max_order):
    """Also where all orders are asked for, and no element is left as a rest. Fails as above."""
    source = generator()
    noisy = padded(lambda x: x.sum(1) + 2.0 * torch.randn(len(x), generator=source))
    variance = 3 * VALUES.var(correction=0)
    result = interaction_order(noisy, VALUES, 3, max_order=max_order, num_samples=4000)
    truth = torch.zeros(4, 1)
    truth[0], truth[3] = variance, 4.0
    law_orders(result, truth)


@pytest.mark.statistical
def test_a_network_of_pairs_has_orders_up_to_two():
    """The bound that chooses k: a linear ρ of pairs has no third order, not even as noise; an MLP as ρ has."""
    torch.manual_seed(0)
    population = torch.randn(20, 2)
    pairs = JanossyNetwork(None, JanossyPooling(TupleMLP(2, 2, 4, activation="tanh"), Tuples(2)), nn.Linear(4, 1))
    result = interaction_order(pairs, population, 5, num_samples=500)
    assert result.shares.shape == (3, 1) and result.shares[1] > 0.001
    assert result.shares[2].abs() < 1e-20 and abs(result.remainder) < 5 * result.cumulative_standard_error[-1]
    pairs.rho = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
    assert interaction_order(pairs, population, 5, num_samples=500).shares[2].abs() > 1e-12


def test_a_seed_repeats_it_and_chunks_do_not_matter(monkeypatch):
    run = partial(interaction_order, padded(TARGETS["max"]), VALUES, 4, num_samples=100)
    first = run(seed=1)
    assert torch.equal(run(seed=1).shares, first.shares) and not torch.equal(run(seed=2).shares, first.shares)
    calls = []
    monkeypatch.setattr(interaction, "SETS_AT_ONCE", 16 * 30)

    def counted(sets):
        calls.append(len(sets))
        return padded(TARGETS["max"])(sets)

    interaction_order(counted, VALUES, 4, num_samples=100)
    assert calls == [480, 480, 480, 160]


def test_elements_may_have_features_of_any_type():
    integers = torch.arange(6).view(3, 1, 2)
    result = interaction_order(lambda sets: sets.to_padded()[0].sum((1, 2)), integers, 3, num_samples=50)
    assert result.shares.dtype == torch.float64 and result.shares.shape == (3, 2)
    lines = str(result).split("\n")
    assert lines[0] == lines[6] and lines[4].startswith("  > 3") and len(lines) == 11


@pytest.mark.parametrize(
    ("target", "arguments", "message"),
    [
        ("sum", {"max_order": 0}, "max_order from 1 to num_elements=4; got max_order=0"),
        ("sum", {"max_order": 5}, "max_order from 1 to num_elements=4; got max_order=5"),
        ("sum", {"num_samples": 1}, "num_samples >= 2, to see a standard error; got 1"),
        ("sum", {"elements": torch.zeros(0, 2)}, r"N >= 1; got shape \(0, 2\)"),
        ("sum", {"elements": torch.zeros(())}, r"N >= 1; got shape \(\)"),
        (lambda sets: torch.ones(len(sets)), {}, r"varies and is finite; got a variance of 0.0. Leave out constant"),
        (lambda sets: torch.full((len(sets),), torch.nan), {}, "varies and is finite; got a variance of nan"),
        (lambda sets: sets.to_padded()[0][:, :, None], {}, r"\(32,\) or \(32, out\); got shape \(32, 4, 1\)"),
        (lambda sets: torch.ones(3), {}, r"a target of 32 sets .* got shape \(3,\)"),
        (lambda sets: 1.0, {}, r"a target of 32 sets .* got float"),
    ],
)
def test_errors_of_interaction_order(target, arguments, message):
    target = padded(TARGETS[target]) if isinstance(target, str) else target
    with pytest.raises(ValueError, match=message):
        interaction_order(target, **{"elements": VALUES, "num_elements": 4, "num_samples": 2, **arguments})
