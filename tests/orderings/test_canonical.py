"""Several canonical orders, their weights, their ties, and invalid keys."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn

from janossy import GRU, Canonical, Combinations, JanossyNetwork, JanossyPooling, PaddedNetwork, Ragged, predict
from janossy.orderings import OrderWeights
from tests.examples import D, distinct_sets, tied_sets, tying_key
from tests.laws import close, law_invariant

pytestmark = pytest.mark.usefixtures("float64")

KEYS = (None, 1, tying_key)

PAGE = Path(__file__).parents[2] / "docs" / "orders.md"


@pytest.mark.parametrize(
    "block", re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
)
def test_the_page_runs(block):
    torch.set_default_dtype(torch.float32)  # the fixture puts it back
    exec(compile(block, PAGE.name, "exec"), {})


def test_several_keys_are_the_mean_over_them():
    f, sets = GRU(D, 4), tied_sets()
    each = [JanossyPooling(f, Canonical(key))(sets) for key in KEYS]
    close(JanossyPooling(f, Canonical(KEYS))(sets), torch.stack(each).mean(0))
    close(JanossyPooling(f, Canonical([*KEYS]))(sets), torch.stack(each).mean(0))
    rows = JanossyPooling(f, Canonical(KEYS)).rows(sets)
    close(rows.values.unflatten(0, (-1, 3)), torch.stack(each, 1))


def test_learned_weights_are_a_softmax_and_find_the_order_that_matters():
    torch.manual_seed(0)
    f, sets = GRU(D, 3).requires_grad_(False), distinct_sets((4, 6, 5, 3) * 8)
    layer = JanossyPooling(f, Canonical((0, 1), order_weights=OrderWeights(2)))
    first, second = (JanossyPooling(f, Canonical(key))(sets) for key in (0, 1))
    close(layer(sets), (first + second) / 2)
    layer.orderings.order_weights.logits.data = torch.tensor([0.3, -1.1])
    w = layer.orderings.order_weights().detach()
    close(layer(sets), w[0] * first + w[1] * second)
    close(JanossyPooling(f, layer.orderings, reduce="sum")(sets), 2 * (w[0] * first + w[1] * second))
    assert [name for name, p in layer.named_parameters() if p.requires_grad] == ["of_orderings.0.logits"]
    optimizer = torch.optim.Adam([p for p in layer.parameters() if p.requires_grad], lr=0.3)
    for _ in range(60):
        optimizer.zero_grad()
        (layer(sets) - second).square().sum().backward()
        optimizer.step()
    assert layer.orderings.order_weights()[1] > 0.99


def test_modules_of_keys_are_the_layers_own_and_get_no_gradient():
    key = nn.Linear(D, 1)
    layer = JanossyPooling(GRU(D, 3), Canonical((key, 0), order_weights=OrderWeights(2)))
    assert {"of_orderings.0.weight", "of_orderings.0.bias", "of_orderings.1.logits"} <= layer.state_dict().keys()
    layer(distinct_sets()).sum().backward()
    assert key.weight.grad is None and layer.orderings.order_weights.logits.grad is not None
    layer.float()
    assert key.weight.dtype == torch.float32
    law_invariant(layer, Ragged.from_sets([x.float() for x in tied_sets()]), bitwise=True)


def test_a_network_predicts_with_several_orders():
    network = JanossyNetwork(None, JanossyPooling(GRU(D, 3), Canonical((0, 1))), nn.Linear(3, 2))
    close(predict(network, distinct_sets()).mean, network(distinct_sets()))


@pytest.mark.parametrize(("key", "first"), [(tying_key, True), (0, False), (None, False)])
def test_ties_by_hand(key, first):
    """The first set ties by sign; the second holds equal elements only; the third one element."""
    sets = Ragged.from_sets([torch.tensor(x) for x in ([[1.0, 2], [3, 0], [-1, 0]], [[1.0, 2], [1, 2]], [[0.0, 0]])])
    assert Canonical(key).ties(sets).tolist() == [[first], [False], [False]]


@pytest.mark.parametrize("key", KEYS)
def test_ties_by_brute_force(key):
    sets = tied_sets((4, 0, 2, 3, 5, 1, 2, 2))
    found = [
        any(bool((k[i] == k[j]).all()) and not torch.equal(x[i], x[j]) for i in range(len(x)) for j in range(i))
        for x in sets
        for k in [x if key is None else x[:, key] if isinstance(key, int) else key(x)]
    ]
    assert Canonical(key).ties(sets)[:, 0].tolist() == found
    assert key is None or (any(found) and not all(found))


def test_explain_says_what_ties_do():
    f, sets = GRU(D, 3), tied_sets((4, 3, 5))
    assert "ties" not in JanossyPooling(f, Canonical()).explain(sets)
    assert "ties: no unequal elements of 6 sets have the same key (column 0): results are exactly invariant" in (
        JanossyPooling(f, Canonical(0)).explain(distinct_sets())
    )
    for orderings in (Canonical(tying_key), Canonical((None, tying_key)), Combinations(2, key=tying_key)):
        said = JanossyPooling(f, orderings).explain(sets)
        assert "ties: in 3 of 3 sets unequal elements have the same key (tying_key); they are ordered lexicogr" in said


def test_with_keys_of_their_own_results_are_invariant_unless_these_tie():
    layer, sets = JanossyPooling(GRU(D, 3), Canonical(0)), distinct_sets((4, 3))
    ranks = [torch.tensor([[2.0], [1], [2], [0]]), torch.tensor([[1.0], [3], [2]])]
    turn = [torch.tensor([2, 3, 1, 0]), torch.tensor([2, 0, 1])]
    keys, turned_keys = Ragged.from_sets(ranks), Ragged.from_sets([k[t] for k, t in zip(ranks, turn, strict=True)])
    turned = Ragged.from_sets([x[t] for x, t in zip(sets, turn, strict=True)])
    before, after = layer(sets, keys=keys), layer(turned, keys=turned_keys)
    close(before[1], after[1])
    assert (before[0] - after[0]).abs().max() > 1e-3
    assert "ties: in 1 of 2 sets elements that differ have the same key (column 0) and nothing else is known" in (
        layer.explain(sets, keys=keys)
    )


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (0, "got NaN by key column 0 for element 2 of the batch. Give these elements a number"),
        (lambda x: x.sum(1).sqrt(), "got NaN by key <lambda> for element 2 of"),
        (lambda x: torch.stack((x[:, 1], x[:, 0]), 1), "got NaN by key <lambda> for element 2 of"),
        (2, "a key expects a column of elements of 2 features; got 2. The first is 0"),
        (lambda x: torch.complex(x[:, 1], x[:, 1]), r"expects real numbers to sort by; got torch.complex\d+"),
    ],
)
@pytest.mark.parametrize("kind", [Canonical, lambda key: Combinations(2, key=key), lambda key: Canonical((None, key))])
def test_keys_that_are_no_numbers(key, message, kind):
    sets = Ragged.from_sets([torch.ones(2, 2), torch.tensor([[torch.nan, 1.0], [1.0, 2.0]])])
    with pytest.raises(ValueError, match=message):
        JanossyPooling(lambda x: x.sum(1), kind(key))(sets)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"key": ()}, r"expects one key to sort by, or several; got key=\(\)"),
        (
            {"key": (0, 1), "order_weights": OrderWeights(3)},
            r"expects order_weights=OrderWeights\(2\), one for each key",
        ),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        Canonical(**arguments)
    with pytest.raises(ValueError, match="OrderWeights expects num_keys >= 1 orders; got num_keys=0"):
        OrderWeights(0)
    with pytest.raises(TypeError, match="OrderWeights expects num_keys >= 1 orders, an integer; got num_keys=True"):
        OrderWeights(True)


def test_what_several_orders_cannot_do():
    weighed = Canonical((0, 1), order_weights=OrderWeights(2))
    with pytest.raises(ValueError, match="Canonical weighs its rows, which reduce='max' cannot"):
        JanossyPooling(GRU(D, 3), weighed, reduce="max")(distinct_sets())
    for orderings in (weighed, Canonical(k=2)):
        with pytest.raises(ValueError, match=r"PaddedNetwork expects Canonical\(key\) without k and order_weights"):
            PaddedNetwork(JanossyNetwork(None, JanossyPooling(GRU(D, 3), orderings), None))
