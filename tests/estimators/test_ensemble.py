"""Ensembles: error bars of networks together, sets of too many rows to take all, and the temperature of draws."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from janossy import (
    GRU,
    Distinct,
    ImportanceSampled,
    JanossyEquivariant,
    JanossyNetwork,
    JanossyPooling,
    Ragged,
    Sampled,
    TupleMLP,
    Tuples,
    predict,
)
from janossy.estimators import SetRegressor
from janossy.estimators.batches import Examples
from janossy.estimators.calibration import WIDTH, temperature
from janossy.estimators.ensemble import Ensemble
from janossy.estimators.networks import BLOCKS, SEED
from janossy.estimators.out_of_fold import Fold, outputs_by_draw
from janossy.estimators.strategies import build_network
from janossy.estimators.tasks import Classification, Regression
from janossy.nn import SetLayer
from janossy.orderings import Orderings
from janossy.tables.layout import Layout
from tests.laws import close

pytestmark = pytest.mark.usefixtures("float64")

LARGE = 100
"""Rows, of which the networks here take no more at once."""


def network(strategy: str, seed: int = 0, **settings) -> torch.nn.Module:
    torch.manual_seed(seed)
    return build_network(strategy, Layout((), 2), Layout(), 2, width=8, norm=False, **settings).eval()


def limited(strategy: str, **settings) -> torch.nn.Module:
    found = network(strategy, num_tuples=20, **settings)
    found.pooling.orderings = replace(found.pooling.orderings, max_rows=LARGE)
    return found


def sets_of(sizes, seed: int = 0) -> Ragged:
    values = torch.randn(sum(sizes), 2, generator=torch.Generator().manual_seed(seed))
    return Ragged.from_sizes(values, sizes)


@pytest.mark.parametrize("strategy", ["k2", "k3", "k2+features"])
def test_of_sets_with_too_many_rows_some_are_drawn(strategy):
    sizes, k = (3, 12, 15, 4, 0, 13, 5, 2), int(strategy[1])
    sets, task = sets_of(sizes), Regression(2)
    found = Ensemble([limited(strategy)], [1.0], task).predict(sets, None, 20)
    exact = Ensemble([network(strategy)], [1.0], task).predict(sets, None, 20).mean
    large = torch.tensor([math.perm(n, k) > LARGE for n in sizes])
    assert large.tolist() == [n > 10 for n in sizes]
    close(found.mean[~large], exact[~large])
    assert not found.standard_error[~large].any() and (found.standard_error[large] > 0).all()
    assert ((found.mean - exact).abs() <= 8 * found.standard_error + 1e-9).all()  # Student's t of 4 degrees: p < 0.002
    alone = [Ensemble([limited(strategy)], [1.0], task).predict(sets[b : b + 1], None, 20).mean for b in range(8)]
    close(torch.cat(alone), found.mean)


@pytest.mark.parametrize(
    ("strategies", "most"),
    [
        (("gru", "gru", "k1"), 1.25),
        pytest.param(("k2", "k1"), 1.25, marks=pytest.mark.only_all),
        pytest.param(("gru", "k2", "k1"), 2.0, marks=pytest.mark.only_all),
    ],
)
def test_an_error_bar_of_several_networks_is_the_spread_over_seeds(strategies, most):
    """With 20 orders in 5 blocks, and 5 groups of pairs: the mean square of 30 sets beside the variance by 60 seeds.

    One seed makes the orders of one network and the pairs of another from the same random numbers, but not block by
    block. Their joint error bar may therefore be too long.
    """
    sets = sets_of([6, 7, 9] * 10)
    networks = [limited(name, exact=False) if name == "k2" else network(name, i) for i, name in enumerate(strategies)]
    together = Ensemble(networks, [1 / len(networks)] * len(networks), Regression(2))
    found = [together.predict(sets, None, 20, seed) for seed in range(60)]
    spread = torch.stack([each.mean for each in found]).var(0).mean()
    claimed = torch.stack([each.standard_error for each in found]).square().mean()
    assert 0.8 < (claimed / spread).item() < most


def of_pairs(orderings: Orderings, seed: int = 0) -> JanossyNetwork:
    torch.manual_seed(seed)
    return JanossyNetwork(None, JanossyPooling(TupleMLP(2, 2, (8, 8)), orderings), nn.Linear(8, 2)).eval()


@pytest.mark.parametrize("orderings", [Distinct(1, k=2), Sampled(1, k=2), Sampled(3, k=2)], ids=repr)
def test_an_error_bar_of_one_network_is_its_own(orderings):
    sets, net = sets_of([3, 5, 6, 9, 1]), of_pairs(orderings)
    own = predict(net, sets, 20, seed=SEED)
    found = Ensemble([net], [1.0], Regression(2)).predict(sets, None, 20)
    close(found.mean, own.mean)
    close(found.standard_error, own.standard_error)


@pytest.mark.parametrize(
    "networks",
    [
        lambda: [of_pairs(Distinct(1, k=2)), of_pairs(Distinct(1, k=2), 1)],
        lambda: [of_pairs(Distinct(1, k=2)), network("gru", 1)],
    ],
    ids=["alike", "beside blocks of several orders"],
)
def test_an_error_bar_counts_draws_without_replacement(networks):
    """The mean square of 30 sets beside the variance by 60 seeds, of 20 draws among 30, 42 and 72 pairs."""
    sets, together = sets_of([6, 7, 9] * 10), Ensemble(networks(), [0.9, 0.1], Regression(2))
    found = [together.predict(sets, None, 20, seed) for seed in range(60)]
    spread = torch.stack([each.mean for each in found]).var(0).mean()
    claimed = torch.stack([each.standard_error for each in found]).square().mean()
    assert 0.8 < (claimed / spread).item() < 1.25


@pytest.mark.parametrize("strategy", ["gru", "k2", "k3"])
def test_the_temperature_is_that_of_sets_one_by_one(strategy):
    """Sets of a few orders have fewer draws than others, and of many pairs some are drawn."""
    sizes = [1, 2, 3, 4, 5, 8, 12, 0] * 12
    sets, task = sets_of(sizes), Classification((2,))
    net = network("gru") if strategy == "gru" else limited(strategy)
    labels = torch.randint(2, (len(sizes),), generator=torch.Generator().manual_seed(1))
    examples = Examples(sets, None, labels, torch.ones(len(sizes)))
    fold = Fold([net], [1.0], torch.arange(len(sizes)), [outputs_by_draw(net, examples, 20)])
    found = temperature([fold], examples, task)

    logits = []
    for b in range(len(sizes)):
        one = sets[b : b + 1]
        if math.perm(sizes[b], min(sizes[b], 3 if strategy == "k3" else 2)) > LARGE and strategy != "gru":
            drawing = limited(strategy, exact=False)
            num = BLOCKS * 20  # groups of 20 tuples
            logits.append(predict(drawing, one, num, seed=SEED, keep_outputs=True).outputs[0])
        else:
            logits.append(predict(net, one, 20, seed=SEED if strategy == "gru" else None, keep_outputs=True).outputs[0])

    def surprise(t: float) -> float:
        means = torch.stack([(each / t).softmax(-1).mean(0) for each in logits])
        return math.log(t) ** 2 / (2 * WIDTH**2) + task.losses(means, labels).sum().item()

    assert max(surprise(found * 1.02), surprise(found / 1.02)) > surprise(found)
    assert surprise(found) <= min(surprise(math.exp(x / 20)) for x in range(-59, 60)) + 1e-3


def test_the_temperature_of_sets_that_several_searches_left_out_is_that_of_their_mean():
    """One search is sure of wrong classes, so that the mean of both is no surer than it may be."""
    labels = torch.arange(8) % 2
    examples = Examples(sets_of([1] * 8), None, labels, torch.ones(8))
    outputs = torch.stack([-4.0 * labels, 4.0 * labels], 1)[:, None]
    orders = torch.arange(8), torch.arange(8).flip(0)
    folds = [
        Fold([nn.Identity()], [1.0], order, [out[order]])
        for order, out in zip(orders, [outputs, -outputs], strict=True)
    ]
    together = Fold([nn.Identity()] * 2, [0.5, 0.5], torch.arange(8), [outputs, -outputs])
    found = temperature(folds, examples, Classification((2,)))
    assert found == pytest.approx(temperature([together], examples, Classification((2,))), rel=1e-3)


def factory(orderings: Orderings, orderings_train: Orderings | None = None, encoder: SetLayer | None = None):
    """Returns a strategy of these orderings, of single elements, pairs or whole sets."""

    def build(layout: Layout, context: Layout, num_outputs: int) -> JanossyNetwork:
        k = orderings.k
        f = GRU(layout.num_numbers, 4) if k is None else TupleMLP(k, layout.num_numbers, (4, 4))
        pooling = JanossyPooling(f, orderings, orderings_train=orderings_train)
        return JanossyNetwork(None, pooling, nn.Linear(4, num_outputs), encoder=encoder).float()

    return build


def fitted(*strategies) -> SetRegressor:
    sets = [x.numpy() for x in sets_of([n % 5 + 1 for n in range(30)])]
    options = {"max_epochs": 1, "validation": 0.3, "random_state": 0}
    return SetRegressor(list(strategies), **options).fit(sets, [float(x.sum()) for x in sets])


@pytest.mark.parametrize(
    "orderings",
    [Distinct(1), Distinct(1, k=2), Distinct(3, k=2), Sampled(1, block=1)],
    ids=repr,
)
def test_networks_of_a_users_own_orderings_predict(orderings):
    model = fitted(factory(orderings), factory(Sampled(1)))
    sets = [x.numpy() for x in sets_of([1, 2, 4, 7])]
    mean, error = model.predict(sets, return_std=True)
    assert np.isfinite(mean).all() and np.isfinite(error).all()
    np.testing.assert_allclose(np.concatenate([model.predict([each]) for each in sets]), mean, rtol=1e-5)


@pytest.mark.parametrize(
    "strategy",
    [
        factory(Sampled(5, seed=3)),
        factory(Distinct(5, k=2, seed=3)),
        factory(Tuples(2), Distinct(5, k=2, seed=3)),
    ],
)
def test_a_seed_of_what_training_draws_is_refused_before_it(strategy, monkeypatch):
    monkeypatch.setattr("torch.Tensor.backward", lambda *_: pytest.fail("this trained"))
    message = r"orderings without a seed, as training draws .* got (Sampled|Distinct).*seed=3\)\. Leave the seed out"
    with pytest.raises(ValueError, match=message):
        fitted(strategy)


def test_a_seed_beside_what_training_draws_stays():
    of_encoder = JanossyEquivariant(GRU(2, 2, per_position=True), Sampled(1, seed=1)).float()
    for strategy in (factory(Sampled(1, seed=3), Sampled(1)), factory(Sampled(1), encoder=of_encoder)):
        assert np.isfinite(fitted(strategy).predict([np.ones((3, 2))])).all()


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        (factory(ImportanceSampled(1)), "take a seed.*got ImportanceSampled.num_permutations=1.. Use Sampled"),
        (factory(ImportanceSampled(5, k=2)), "orderings take a seed"),
        (factory(Sampled(1), encoder=JanossyEquivariant(GRU(2, 2), Sampled(1))), "got Sampled.. in encoder. Give that"),
    ],
)
def test_what_no_seed_fixes_is_refused_before_training(strategy, message, monkeypatch):
    monkeypatch.setattr("torch.Tensor.backward", lambda *_: pytest.fail("this trained"))
    with pytest.raises(ValueError, match=message):
        fitted(strategy)


def test_of_large_sets_none_are_drawn_by_orderings_without_a_seed():
    model = fitted(factory(Tuples(2, max_rows=LARGE), ImportanceSampled(5, k=2)))
    assert len(model.predict([np.ones((3, 2))])) == 1
    with pytest.raises(ValueError, match=r"a set of 12 needs 132, .* over max_rows=100"):
        model.predict([np.ones((12, 2))])
