"""Layers and statistics of sets of sets, by their definitions."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from janossy import JanossyNetwork, JanossyPooling, Ragged, Tuples
from janossy.functions import TupleMLP
from janossy.nn import InnerSets, SetEncoder, attention_blocks
from janossy.nn.statistics import (
    InnerStatistics,
    LinearScores,
    NumberStatistics,
    PooledStatistics,
    SetSize,
    StatisticsNetwork,
)
from janossy.saving import describe, load, rebuild, save, weights

NESTED = st.lists(st.lists(st.integers(1, 4), max_size=4), min_size=1, max_size=5)
"""The sizes of the inner sets of each set."""


def example(sizes, seed=0, d=2):
    """Returns inner sets (n, d), and the sets of sets that hold them, with their rows shuffled."""
    source = np.random.default_rng(seed)
    inner = [[source.normal(size=(n, d)) for n in of_set] for of_set in sizes]
    return inner, nested(inner, source)


def nested(inner, source):
    """Returns sets of sets with random numbers for inner sets, in a random order of the elements."""
    sets = []
    for of_set in inner:
        numbers = source.permutation(20)[: len(of_set)]
        rows = [np.c_[x, np.full(len(x), number)] for x, number in zip(of_set, numbers, strict=True)]
        together = np.concatenate([np.zeros((0, 3)), *rows])
        sets.append(torch.from_numpy(together[source.permutation(len(together))]))
    return Ragged.from_sets(sets)


@given(sizes=NESTED, seed=st.integers(0, 9))
def test_inner_sets_are_pooled_one_by_one(sizes, seed):
    """The elements of the result are the vectors of the inner sets, whatever their numbers and the order of rows."""
    pooling = JanossyPooling(TupleMLP(2, 2, 3, dtype=torch.float64), Tuples(2))
    inner, sets = example(sizes, seed)
    layer = InnerSets(pooling)
    found = layer(sets)
    assert found.sizes == tuple(map(len, sizes)) == layer.sizes_in(sets)
    for vectors, of_set in zip(found.to_sets(), inner, strict=True):
        expected = [pooling(Ragged.from_sets([torch.from_numpy(x)]))[0] for x in of_set]
        key = lambda rows: sorted(map(tuple, rows.detach().numpy().round(9).tolist()))  # noqa: E731
        if expected:
            assert key(vectors) == key(torch.stack(expected))


@given(sizes=NESTED, seed=st.integers(0, 9))
def test_a_network_of_two_levels_is_invariant_and_batch_independent(sizes, seed):
    torch.manual_seed(0)
    network = JanossyNetwork(
        None,
        JanossyPooling(TupleMLP(1, 4, 4), Tuples(1)),
        nn.Linear(4, 1),
        encoder=SetEncoder([InnerSets(JanossyPooling(TupleMLP(1, 2, 4), Tuples(1))), *attention_blocks(4)]),
    )
    network = network.double().eval()
    inner, sets = example(sizes, seed)
    source = np.random.default_rng(seed + 100)
    expected = network(sets)
    other = nested([[x[source.permutation(len(x))] for x in of_set[::-1]] for of_set in inner], source)
    torch.testing.assert_close(network(other), expected)
    torch.testing.assert_close(torch.cat([network(sets[[b]]) for b in range(len(sets))]), expected)
    assert network.seconds(sets) > 0
    mate = Ragged.from_sets([torch.full((2, 3), torch.nan, dtype=torch.float64)])
    torch.testing.assert_close(network(Ragged.cat([mate, sets]))[1:], expected)


def test_gradients_reach_both_levels(tmp_path):
    inner = JanossyNetwork(None, JanossyPooling(TupleMLP(1, 2, 4), Tuples(1)), nn.Linear(4, 4))
    network = JanossyNetwork(None, JanossyPooling(TupleMLP(1, 4, 3), Tuples(1)), encoder=InnerSets(inner)).double()
    _, sets = example([[2, 3], [1]])
    network(sets).sum().backward()
    assert all(weight.grad is not None and weight.grad.any() for weight in network.parameters())
    network = network.float()
    again = load(save(network, tmp_path / "model"))
    assert torch.equal(again(sets.float()), network(sets.float()))


LEVELS = (0.25, 0.5)


def blocks(d=2):
    inner = [SetSize(), NumberStatistics(d, quantiles=())]
    return InnerStatistics(inner, [SetSize(), NumberStatistics(2 + 5 * d, quantiles=LEVELS)])


def moments(x, quantiles=()):
    return np.concatenate([x.mean(0), x.std(0), x.min(0), x.max(0), x.sum(0), *np.quantile(x, list(quantiles), axis=0)])


def by_definition(inner, width):
    """Returns the statistics of one set of sets, by loops."""
    if not inner:
        return np.zeros(width)
    vectors = np.stack([np.r_[len(x), np.log1p(len(x)), moments(x)] for x in inner])
    return np.r_[len(inner), np.log1p(len(inner)), moments(vectors, LEVELS)]


@given(sizes=NESTED, seed=st.integers(0, 9))
def test_statistics_of_statistics_are_their_definition(sizes, seed):
    block = blocks()
    statistics = PooledStatistics([SetSize(), block], vocabularies=(), num_numbers=2, inner=True)
    inner, sets = example(sizes, seed)
    found = statistics(sets)
    expected = np.stack([by_definition(of_set, block.out_features) for of_set in inner])
    np.testing.assert_allclose(found[:, 2:].double().numpy(), expected, rtol=1e-5, atol=1e-6)
    source = np.random.default_rng(seed + 100)
    other = nested([[x[source.permutation(len(x))] for x in of_set[::-1]] for of_set in inner], source)
    assert torch.equal(statistics(other), found)
    assert torch.equal(torch.cat([statistics(sets[[b]]) for b in range(len(sets))]), found)
    network = StatisticsNetwork(statistics, LinearScores(statistics.out_features, out_features=1)).eval()
    again = rebuild(describe(network), weights(network))
    assert torch.equal(again.statistics(sets), found)


def test_what_is_wrong_with_statistics_of_inner_sets():
    with pytest.raises(ValueError, match="NumberStatistics expects 3 columns of numbers; got 2"):
        InnerStatistics([SetSize()], [NumberStatistics(3)])
    with pytest.raises(ValueError, match="NumberStatistics expects 2 columns of numbers; got 1"):
        PooledStatistics([blocks()], vocabularies=(), num_numbers=1, inner=True)
    with pytest.raises(ValueError, match=r"expects PooledStatistics\(…, inner=True\)"):
        PooledStatistics([blocks()], vocabularies=(), num_numbers=2)(Ragged.from_sets([torch.zeros(1, 2)]))
    with pytest.raises(ValueError, match=r"elements \(N, 3\), codes and then numbers, and the numbers of inner sets"):
        PooledStatistics([blocks()], vocabularies=(), num_numbers=2, inner=True)(Ragged.from_sets([torch.zeros(1, 2)]))
