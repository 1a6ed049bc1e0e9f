"""Learned orders: Plackett–Luce in training, sorted in prediction; invalid scores."""

from collections import Counter
from itertools import permutations
from math import exp, log

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck

from janossy import GRU, JanossyEquivariant, JanossyNetwork, JanossyPooling, PermutationLoss, Ragged, Stack, predict
from janossy.inference import sensitivity
from janossy.orderings import Learned
from tests.examples import D, distinct_sets, generator, tied_sets
from tests.laws import close, law_invariant

pytestmark = pytest.mark.usefixtures("float64")

SCORES = [0.3, -1.2, 1.1, 0.0]


def probability(order: tuple[int, ...], scores=SCORES) -> float:
    """Returns the probability that these elements come first, in this order: one after the other among those left."""
    left, log_p = list(range(len(scores))), 0.0
    for i in order:
        log_p += scores[i] - log(sum(exp(scores[j]) for j in left))
        left.remove(i)
    return exp(log_p)


def first_feature(x):
    return x[:, 0]


def sets_of_scores(num=1):
    return Ragged.from_sets([torch.tensor([[s, 0.0] for s in SCORES])] * num)


@pytest.mark.statistical
@pytest.mark.parametrize("k", [None, 2, 1])
def test_drawn_orders_are_plackett_luces(k):
    """A χ² test that fails once in 10^6 seeds, of rows of one set and of rows of many."""
    outcomes = list(permutations(range(4), k or 4))
    for num, num_sets in ((6000, 1), (2, 3000)):
        sets = sets_of_scores(num_sets)
        positions, owners = Learned(first_feature, num_permutations=num, k=k).enumerate(sets, generator()).flatten()
        counts = Counter(tuple((row - 4 * b).tolist()) for row, b in zip(positions, owners.tolist(), strict=True))
        expected = {order: 6000 * probability(order) for order in outcomes}
        statistic = sum((counts[order] - e) ** 2 / e for order, e in expected.items())
        half = torch.tensor([(len(outcomes) - 1) / 2, statistic / 2])
        assert sum(counts.values()) == 6000 and set(counts) <= set(outcomes) and min(expected.values()) > 5
        assert torch.special.gammaincc(*half) > 1e-6


@pytest.mark.parametrize("k", [None, 1, 2, 6])
def test_log_probabilities_by_brute_force(k):
    sets = distinct_sets((3, 0, 4, 3, 1))
    orders = Learned(first_feature, num_permutations=5, k=k)
    rows = orders.enumerate(sets, generator())
    found, (positions, owners) = orders.log_probabilities(sets, rows), rows.flatten()
    begins = sets.offsets.tolist()
    for log_p, row, b in zip(found, positions, owners.tolist(), strict=True):
        order = tuple(p - begins[b] for p in row.tolist() if p >= 0)
        assert abs(log_p.item() - log(probability(order, sets[b][:, 0].tolist()))) < 1e-12


def test_log_probabilities_are_differentiable_and_do_not_overflow():
    sets = distinct_sets((3, 2))
    rows = Learned(first_feature, num_permutations=2).enumerate(sets, generator())
    weight = torch.tensor([0.7, -0.2], requires_grad=True)
    assert gradcheck(lambda w: Learned(lambda x: x @ w).log_probabilities(sets, rows), [weight])
    steep = Learned(lambda x: 1e4 * x[:, 0])
    assert steep.log_probabilities(sets, steep.enumerate(sets, generator())).isfinite().all()


def test_drawn_in_training_and_sorted_in_prediction():
    torch.manual_seed(0)
    network = JanossyNetwork(
        None, JanossyPooling(GRU(D, 3), Learned(nn.Linear(D, 1), num_permutations=3)), nn.Linear(3, 2)
    )
    sets = distinct_sets((5, 4, 0, 1))
    assert not torch.equal(network(sets), network(sets)) and network.pooling.rows(sets).sizes == (3,) * 4
    assert [each.num_rows(5) for each in (network.pooling.orderings, network.pooling.orderings.in_prediction())] == [
        3,
        1,
    ]
    sort = network.pooling.orderings.scorer
    by_hand = Ragged.from_sets([x[sort(x)[:, 0].argsort(descending=True)] for x in sets])
    expected = network.rho(torch.stack([network.pooling.f(x[None])[0] if len(x) else torch.zeros(3) for x in by_hand]))
    predicted = predict(network, sets)  # in training mode still
    close(predicted.mean, expected)
    assert (predicted.standard_error == 0).all() and network.training
    close(network.eval()(sets), expected)
    close(JanossyPooling(GRU(D, 3), Learned(nn.Linear(D, 1)), reduce="max").eval().rows(sets).offsets, torch.arange(5))


@pytest.mark.parametrize("reduce", ["mean", "sum", "max"])
def test_predictions_are_exactly_invariant_whatever_was_learned(reduce):
    """Scores that tie too: by a ReLU."""
    scorer = nn.Sequential(nn.Linear(D, 4), nn.ReLU(), nn.Linear(4, 1, bias=False), nn.ReLU())
    layer = JanossyPooling(GRU(D, 3), Learned(scorer, num_permutations=3), reduce=reduce).eval()
    law_invariant(layer, tied_sets(), bitwise=True)


def test_equivariant_layers_sort_too():
    scored = JanossyEquivariant(GRU(D, 3, per_position=True), Learned(nn.Linear(D, 1)))
    assert "of_orderings.0.weight" in scored.state_dict()
    layer = JanossyEquivariant(GRU(D, 3, per_position=True), Learned(first_feature, num_permutations=2))
    sets = distinct_sets((4, 3))
    assert not torch.equal(layer(sets).values, layer(sets).values)
    close(layer.eval()(sets).values, layer(sets).values)


def test_a_stack_draws_by_each_networks_own_scores():
    def network(sign):
        made = JanossyNetwork(None, JanossyPooling(GRU(D, 9), Learned(nn.Linear(D, 1))), None)
        nn.init.constant_(made.pooling.orderings.scorer.weight, 50.0 * sign)
        return made.eval()

    networks, sets = [network(1), network(-1)], distinct_sets((4, 3))
    stack = Stack(networks)
    close(stack(sets), torch.stack([one(sets) for one in networks]))
    assert "the orderings have weights of their own" in stack.explain(sets)


def test_what_needs_random_orders_says_that_there_are_none():
    network = JanossyNetwork(None, JanossyPooling(GRU(D, 3), Learned(first_feature)), None)
    with pytest.raises(ValueError, match="sensitivity expects a network whose orderings draw"):
        sensitivity(network, distinct_sets())
    with pytest.raises(ValueError, match="Learned draws its orders one by one, by scores that no seed fixes; got"):
        network.pooling.orderings.redrawn(2, seed=1)
    assert PermutationLoss(num_permutations=2)(network, distinct_sets(), torch.zeros(6, 3)).isfinite()


@pytest.mark.parametrize(
    ("scorer", "message"),
    [
        (lambda x: x, r"a tensor \(5,\) or \(5, 1\), a score for each; got \(5, 2\)"),
        (lambda x: 0.0, "a score for each; got float"),
        (lambda x: x[:, 0].log(), "Learned expects finite scores; got nan for element 3 of the batch. Look at the ele"),
        (lambda x: 1 / (x[:, 0] + 1), "Learned expects finite scores; got inf for element 3 of the batch"),
    ],
)
@pytest.mark.parametrize("training", [True, False])
def test_scores_that_are_none(scorer, message, training):
    sets = Ragged.from_sets([torch.ones(3, 2), torch.tensor([[-1.0, 1.0], [1.0, 2.0]])])
    layer = JanossyPooling(lambda x: x.sum(1), Learned(scorer)).train(training)
    with pytest.raises(ValueError, match=message):
        layer(sets)
