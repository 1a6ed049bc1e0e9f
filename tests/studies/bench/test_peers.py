"""Peers: networks that are functions of sets, and tables of statistics."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from janossy.estimators import SetClassifier, save
from janossy.sets import Ragged
from janossy.tables import Column, Layout, SetTable, as_sets
from studies.bench.peers import networks
from studies.bench.peers.trees import PooledTrees, side_by_side, statistics

INVARIANT = (networks.deep_sets, networks.abmil, networks.set_transformer, networks.set_transformer_isab)
LAYOUT, CONTEXT = Layout((4,), 2), Layout((), 1)


def drawn(sizes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(0, 4, (sum(sizes), 1), generator=generator)
    values = torch.cat((codes, torch.randn(sum(sizes), 2, generator=generator)), dim=1)
    return Ragged.from_sizes(values, sizes), torch.randn(len(sizes), 1, generator=generator)


def output(network, sets, context):
    with torch.no_grad():
        return network.double().eval()(sets.with_values(sets.values.double()), context=context.double())


@pytest.mark.parametrize("factory", INVARIANT, ids=lambda factory: factory.__name__)
def test_peers_are_functions_of_each_set(factory):
    torch.manual_seed(0)
    network = factory(LAYOUT, CONTEXT, 3)
    sets, context = drawn((4, 1, 7))
    whole = output(network, sets, context)
    assert whole.shape == (3, 3) and whole.std() > 0
    for b, x in enumerate(sets):
        shuffled = Ragged.from_sets([x[torch.randperm(len(x), generator=torch.Generator().manual_seed(b))]])
        torch.testing.assert_close(output(network, shuffled, context[b : b + 1])[0], whole[b])


def test_the_lstm_of_torch_geometric_sees_order_and_padding():
    torch.manual_seed(0)
    network = networks.pyg_lstm(LAYOUT, CONTEXT, 3)
    sets, context = drawn((4, 1, 7))
    whole = output(network, sets, context)
    alone = output(network, Ragged.from_sets([next(iter(sets))]), context[:1])
    assert not torch.allclose(alone[0], whole[0])
    turned = output(network, Ragged.from_sets([x.flip(0) for x in sets]), context)
    assert not torch.allclose(turned[2], whole[2])


def test_abmil_by_its_equations():
    torch.manual_seed(0)
    network = networks.abmil(LAYOUT, Layout(), 2).double().eval()
    sets, _ = drawn((5,))
    x = network.phi(network.h(sets.values.double()))
    gate = network.aggregation.gate_nn
    scores = torch.stack(
        [gate.score(torch.tanh(gate.tanh(each)) * torch.sigmoid(gate.sigmoid(each)))[0].exp() for each in x]
    )
    pooled = (scores[:, None] * x).sum(0) / scores.sum()
    expected = network.rho(pooled[None])
    torch.testing.assert_close(network(sets.with_values(sets.values.double())), expected)


def test_an_estimator_trains_any_network_of_sets():
    rng = np.random.default_rng(0)
    sets = [rng.normal(size=(rng.integers(1, 5), 2)) for _ in range(60)]
    labels = [int(x[:, 0].max() > 0.7) for x in sets]
    model = SetClassifier([networks.abmil, "k1"], max_epochs=2, validation=0.25, random_state=0).fit(sets, labels)
    assert {trial.strategy for trial in model.trials_} == {"abmil", "k1"}
    probabilities, error = model.predict_proba(sets, return_std=True)
    assert probabilities.shape == (60, 2) and (error == 0).all() and model.sensitivity_ is None
    assert any(name in model.explain(sets) for name in ("AggregationNetwork", "gather", "projected", "fused"))


def test_networks_of_others_are_not_saved(tmp_path):
    sets, labels = [[float(i % 2)] for i in range(20)], [i % 2 for i in range(20)]
    model = SetClassifier(networks.deep_sets, max_epochs=1, validation=0.5, random_state=0).fit(sets, labels)
    with pytest.raises(TypeError, match="expects a JanossyNetwork; got AggregationNetwork"):
        save(model, tmp_path / "model")
    assert not list(tmp_path.iterdir())


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.integers(0, 100))
def test_statistics_by_their_definitions(sizes, seed):
    rng = np.random.default_rng(seed)
    num = sum(sizes)
    values = np.where(rng.random(num) < 0.2, np.nan, rng.normal(size=num).round(1))
    codes = rng.integers(-1, 3, num)
    sets = SetTable(
        np.r_[0, np.cumsum(sizes)],
        {"x": Column("numeric", values), "kind": Column("categorical", codes, ("a", "b", "c"))},
        {"age": Column("numeric", np.arange(float(len(sizes))))},
    )
    for b, (found, part) in enumerate(zip(statistics(sets), sets, strict=True)):
        x, kinds = (column.values for column in part.elements.values())
        x = x[~np.isnan(x)]
        moments = [x.mean(), x.max(), x.min(), x.std()] if len(x) else [np.nan] * 4
        expected = [len(kinds), *moments, *((kinds == code).sum() for code in range(3)), b]
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_columns_side_by_side_are_in_the_order_of_the_elements():
    sets = as_sets([[[1.0, 10.0], [2.0, 20.0]], [[3.0, 30.0], [4.0, 40.0]]])
    np.testing.assert_array_equal(side_by_side(sets), [[1, 10, 2, 20], [3, 30, 4, 40]])


@pytest.mark.parametrize("num_targets", [0, 1, 2])
def test_trees_learn_classes_and_numbers(num_targets):
    rng = np.random.default_rng(0)
    sets = as_sets([rng.normal(size=(rng.integers(1, 6), 1)) for _ in range(300)])
    sums = statistics(sets)[:, :2].prod(1)
    if num_targets == 0:
        trees = PooledTrees(statistics, "classification", 0).fit(sets, np.where(sums > 0, "up", "down"))
        assert list(trees.classes_) == ["down", "up"] and trees.predict_proba(sets).shape == (300, 2)
        assert (trees.predict(sets) == np.where(sums > 0, "up", "down")).mean() > 0.95
    else:
        targets = sums if num_targets == 1 else np.stack((sums, -sums), axis=1)
        trees = PooledTrees(statistics, "regression", 0).fit(sets, targets)
        assert trees.predict(sets).shape == targets.shape
        assert np.corrcoef(trees.predict(sets).ravel(), targets.ravel())[0, 1] > 0.95
    assert trees.num_leaves > 300
