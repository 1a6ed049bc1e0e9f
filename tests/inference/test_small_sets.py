"""Small sets exactly: all orders, once each, where they are no more than the permutations asked for."""

from dataclasses import replace
from math import comb, factorial, perm

import pytest
import torch
from torch import nn

from janossy import (
    GRU,
    LSTM,
    AllPermutations,
    JanossyEquivariant,
    JanossyNetwork,
    JanossyPooling,
    Ragged,
    Sampled,
    TupleMLP,
    Tuples,
    predict,
)
from janossy.evaluate import packed
from janossy.orderings.schemes import SCHEMES
from tests.examples import distinct_sets, generator
from tests.laws import close, value_and_gradients

pytestmark = pytest.mark.usefixtures("float64")

SIZES = (6, 3, 0, 4, 1, 3, 2, 5, 4)


def network(f=None, orderings=None, **options):
    torch.manual_seed(3)
    f = GRU(4, 5) if f is None else f
    rho = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
    return JanossyNetwork(nn.Linear(2, 4), JanossyPooling(f, orderings or Sampled(1), **options), rho)


def enumerated(net, sets, orderings):
    """Returns the mean of ρ∘f and its sigmoid over all rows, by gather, set by set."""
    plain = JanossyNetwork(net.h, JanossyPooling(net.pooling.f, orderings, evaluate="gather"), net.rho).eval()
    with torch.no_grad():
        rows = [plain.rows(sets[[b]]).values for b in range(len(sets))]
    return torch.stack([y.mean(0) for y in rows]), torch.stack([y.sigmoid().mean(0) for y in rows])


@pytest.mark.parametrize(
    "options", [{}, {"seed": 0}, {"keep_outputs": True}, {"batch_size": 2}, {"block": 20}], ids=str
)
@pytest.mark.parametrize("scheme", ["auto", "independent"])
def test_a_set_of_no_more_orders_gives_each_once(scheme, options):
    net, sets = network(orderings=Sampled(1, scheme=scheme)), distinct_sets(SIZES)
    found = predict(net, sets, 20, link="sigmoid", **options)
    few = torch.tensor(SIZES) <= 4  # 4! = 24 orders are a tree of 64 nodes; 20 of them, 80 steps
    expected = [factorial(n) if n <= 4 else 20 for n in SIZES]
    assert found.num_permutations.tolist() == expected
    close(found.mean[few], enumerated(net, sets, AllPermutations())[1][few], atol=1e-12, rtol=1e-12)
    assert (found.standard_error[few] == 0).all() and (found.num_blocks[few] == 1).all()
    if "block" not in options:
        assert (found.standard_error[~few] > 0).all() and (found.margin()[few] == 0).all()
    assert (found.change_probability[few] == 0).all() and found.finished.all()
    if found.outputs is not None:
        assert (~found.outputs.isnan().any(2)).sum(1).tolist() == expected


@pytest.mark.parametrize("f", [TupleMLP(2, 4, 5), GRU(4, 5), nn.Sequential(nn.Flatten(), nn.Linear(8, 5), nn.Tanh())])
def test_so_do_k_tuples(f):
    sizes = (*SIZES, 7)
    net, sets = network(f.double(), Sampled(1, k=2)), distinct_sets(sizes)
    found = predict(net, sets, 20)
    most = 6 if isinstance(f, GRU) else 5  # whose 30 pairs are a tree of 36 nodes; 20 of them, 40 steps
    few = torch.tensor(sizes) <= most
    close(found.mean[few], enumerated(net, sets, Tuples(2))[0][few], atol=1e-12, rtol=1e-12)
    assert found.num_permutations.tolist() == [perm(n, min(n, 2)) if n <= most else 20 for n in sizes]
    assert (found.standard_error[few] == 0).all() and (found.standard_error[~few] > 0).all()


@pytest.mark.parametrize("last", [1, 2, 3])
def test_so_do_beginnings_whose_ends_are_averaged_exactly(last):
    net, sets = network(orderings=Sampled(1, exact_last=last)), distinct_sets(SIZES)
    found = predict(net, sets, 20)
    begun = [factorial(n) // factorial(min(n, last)) for n in SIZES]
    few = torch.tensor(begun) <= 20
    assert (found.standard_error[few] == 0).all() and (found.standard_error[~few] > 0).all()
    rows = [min(b, 20) * factorial(min(n, last)) for b, n in zip(begun, SIZES, strict=True)]
    assert found.num_permutations.tolist() == rows
    of_ends = network(orderings=Sampled(200, exact_last=last, exhaust=720))
    exact = torch.stack([y.mean(0) for y in predict(of_ends, sets, 200, keep_outputs=True).outputs])
    linear = JanossyNetwork(net.h, net.pooling, None), JanossyNetwork(of_ends.h, of_ends.pooling, None)
    close(*(predict(each, sets, 200).mean[few] for each in linear), atol=1e-12, rtol=1e-12)
    assert exact.isfinite().all()


def test_with_a_tolerance_none_is_taken_beyond_what_was_allowed():
    net, sets = network(), distinct_sets(SIZES)
    found = predict(net, sets, 10, tolerance=1e-9)
    assert found.num_permutations.tolist() == [factorial(n) if n <= 3 else 10 for n in SIZES]
    assert found.finished.tolist() == [n <= 3 for n in SIZES]


@pytest.mark.parametrize("reduce", ["mean", "logmeanexp"])
@pytest.mark.parametrize("orderings", [Sampled(30), Sampled(30, k=2), Sampled(6, exact_last=2), Sampled(30, seed=1)])
def test_evaluation_takes_them_all_and_training_none(orderings, reduce):
    sizes = (*SIZES, 7)
    net, sets = network(orderings=orderings, reduce=reduce), distinct_sets(sizes)
    exact = net(sets, AllPermutations() if orderings.k is None else Tuples(2))
    assert net.rows(sets).sizes == tuple(orderings.num_rows(n) for n in sizes)
    trained = net(sets)
    net.eval()
    most = {None: 4, 2: 6}[orderings.k] if orderings.num_permutations == 30 else 3  # of 4, 12 beginnings
    few = torch.tensor(sizes) <= most
    counts = [perm(n, n if orderings.k is None else min(n, 2)) if n <= most else orderings.num_rows(n) for n in sizes]
    assert net.rows(sets).sizes == tuple(counts)
    close(net(sets)[few], exact[few], atol=1e-12, rtol=1e-12)
    if not orderings.exact_last:
        assert (trained[few] - exact[few]).abs().max() > 1e-5
    found = predict(net, sets)
    close(found.mean[few], exact[few], atol=1e-12, rtol=1e-12)
    assert (found.standard_error[few] == 0).all()
    if orderings.seed is None:
        assert (found.standard_error[~few] > 0).all()
    assert f"by {net.pooling.in_evaluation(orderings)}" in net.explain(sets)


@pytest.mark.parametrize("reduce", ["sum", "max"])
def test_a_sum_or_a_maximum_is_of_num_draws(reduce):
    net, sets = network(orderings=Sampled(30), reduce=reduce).eval(), distinct_sets(SIZES)
    assert net.rows(sets).sizes == (30,) * len(SIZES)
    assert (predict(net, sets).num_permutations == 150).all()


def test_an_equivariant_layer_takes_them_all():
    torch.manual_seed(0)
    layer, sets = JanossyEquivariant(GRU(2, 3, per_position=True), Sampled(30)), distinct_sets(SIZES)
    exact = JanossyEquivariant(layer.f, AllPermutations())(sets)
    found, drawn = layer.eval()(sets), layer.train()(sets)
    for n, got, want, random in zip(SIZES, found, exact, drawn, strict=True):
        if n <= 4:
            close(got, want, atol=1e-12, rtol=1e-12)
        if n == 4:
            assert (random - want).abs().max() > 1e-6


def test_exhaust_says_otherwise():
    net, sets = network(orderings=Sampled(1, exhaust=0)), distinct_sets(SIZES)
    assert (predict(net, sets, 20).num_permutations == 20).all()
    net = network(orderings=Sampled(1, exhaust=2))
    assert predict(net, sets, 20).num_permutations.tolist() == [factorial(n) if n <= 2 else 20 for n in SIZES]
    trained = network(orderings=Sampled(30, exhaust=24)).rows(sets)
    assert trained.sizes == tuple(factorial(n) if n <= 4 else 30 for n in SIZES)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_is_drawn_is_drawn_as_ever(scheme):
    orderings, sets = Sampled(4, scheme=scheme, seed=5), distinct_sets((5, 6))
    drawn, others = orderings.enumerate(sets), replace(orderings, exhaust=24).enumerate(sets)
    assert torch.equal(drawn.flatten()[0].values, others.flatten()[0].values)


# Where all orders of a set are rows, recurrences read them as a tree.


def test_beginnings_are_shared(monkeypatch):
    ran, pool = [], packed.pool_forests

    def spied(problem, values, groves):
        ran.append(sum(grove.forest.num_cells for grove in groves))
        return pool(problem, values, groves)

    monkeypatch.setattr(packed, "pool_forests", spied)
    net, sets = network(evaluate="packed"), distinct_sets((4, 4, 3))
    predict(net, sets, 20)
    net.pooling.f = GRU(4, 5, bidirectional=True)
    predict(JanossyNetwork(net.h, net.pooling, None), sets, 20)
    in_two_directions = 2 * 20 * 4 + 6 * 3  # there are none to share, and 24 orders are too many
    assert ran == [2 * (4 + 12 + 24 + 24) + (3 + 6 + 6), in_two_directions]


@pytest.mark.parametrize("f", [GRU(2, 5), LSTM(2, 5, num_layers=2), GRU(2, 5, num_layers=2, dropout=0.5)], ids=str)
@pytest.mark.parametrize("orderings", [Sampled(30), Sampled(30, k=2), Sampled(30, k=5), Sampled(30, seed=1)], ids=str)
@pytest.mark.parametrize("memory_budget", [2**30, 2**14])
def test_rows_of_a_tree_are_rows(f, orderings, memory_budget):
    sets = distinct_sets((4, 3, 1, 4, 0, 2))
    packed, plain = (
        JanossyPooling(f.double(), orderings, evaluate=each, memory_budget=memory_budget).eval()
        for each in ("packed", "gather")
    )
    close(packed.rows(sets).values, plain.rows(sets).values, atol=1e-12, rtol=1e-12)
    for got, want in zip(value_and_gradients(packed, sets), value_and_gradients(plain, sets), strict=True):
        close(got, want, atol=1e-10, rtol=1e-10)


def test_rows_that_only_look_like_all_are_none():
    """They are as many rows as there are orders, but drawn: some come twice."""
    torch.manual_seed(0)
    sets = Ragged.from_sets([torch.randn(3, 2)])
    drawn = Sampled(6, scheme="independent").enumerate(sets, generator(4))
    assert len(drawn.buckets[0].local[0].unique(dim=0)) < 6 == comb(4, 2)
    pools = [
        JanossyPooling(GRU(2, 5).double(), Sampled(6, scheme="independent"), evaluate=each)
        for each in ("packed", "gather")
    ]
    pools[1].f = pools[0].f
    close(*(pool(sets, generator=generator(4)) for pool in pools), atol=1e-12, rtol=1e-12)
