"""Weights of elements: the weighted mean by brute force; masks are sets without the elements; gradients."""

from itertools import combinations, permutations

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck

from janossy import Combinations, Distinct, JanossyNetwork, JanossyPooling, Ragged, Sampled, TupleMLP, Tuples
from janossy.orderings import ImportanceSampled
from tests.examples import D, distinct_sets, in_order
from tests.laws import close

pytestmark = pytest.mark.usefixtures("float64")

SIZES = (3, 0, 4, 1, 2)


def layer(orderings, **options):
    torch.manual_seed(0)
    return JanossyPooling(TupleMLP(orderings.k, D, (5, 4)), orderings, **options)


def weights_of(sets, seed=1):
    return torch.rand(len(sets.values), generator=torch.Generator().manual_seed(seed))


def by_brute_force(pooling, x, w):
    """Returns Σ Π w_i f / Σ Π w_i over the rows of one set, where the zero vector weighs 1."""
    k, n = pooling.orderings.k, len(x)
    increasing = isinstance(pooling.orderings, Combinations)
    rows = combinations(in_order(x, None), min(k, n)) if increasing else permutations(range(n), min(k, n))
    total, weight = 0, 0
    for row in rows:
        filled = torch.cat((x[list(row)], x.new_zeros(k - len(row), D)))
        each = torch.stack([w[i] for i in row]).prod() if row else torch.tensor(1.0)
        total, weight = total + each * pooling.f(filled[None])[0], weight + each
    return total if pooling.reduce == "sum" else total / weight


@pytest.mark.parametrize("reduce", ["mean", "sum"])
@pytest.mark.parametrize("memory_budget", [2**30, 500])
@pytest.mark.parametrize("orderings", [Tuples(1), Tuples(2), Combinations(2), Tuples(3)])
def test_by_brute_force(orderings, memory_budget, reduce):
    pooling, sets = layer(orderings, reduce=reduce, memory_budget=memory_budget), distinct_sets(SIZES)
    weights = weights_of(sets)
    parts = weights.split(list(sets.sizes))
    expected = [by_brute_force(pooling, x, w) for x, w in zip(sets, parts, strict=True)]
    close(pooling(sets, weights=weights), torch.stack(expected))


@pytest.mark.parametrize("orderings", [Tuples(1), Tuples(2), Combinations(2)])
def test_a_mask_leaves_elements_out(orderings):
    pooling, sets = layer(orderings), distinct_sets((5, 4, 6))
    mask = torch.tensor([1, 1, 0, 1, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 1]) > 0
    kept = Ragged.from_sets([x[m] for x, m in zip(sets, mask.split(list(sets.sizes)), strict=True)])
    close(pooling(sets, weights=mask.double()), pooling(kept))
    close(pooling(sets, weights=torch.full((15,), 0.3)), pooling(sets))
    assert pooling(sets, weights=torch.zeros(15)).eq(0).all()


@pytest.mark.parametrize("orderings", [Tuples(1), Tuples(2)])
def test_the_scale_of_weights_makes_no_difference(orderings):
    pooling, sets = layer(orderings).float(), distinct_sets((5, 0, 1, 4)).to(torch.float32)
    weights = weights_of(sets).float()
    expected = pooling(sets, weights=weights)
    for scale in (1e-9, 1e-15, 1e9):
        close(pooling(sets, weights=scale * weights), expected, atol=1e-6, rtol=1e-5)


def test_weights_in_half_precision_do_not_overflow():
    """The 90,000 weights of the pairs add up to more than float16 holds."""
    pooling, sets = layer(Tuples(2)).half(), distinct_sets((300, 2)).to(torch.float16)
    got = pooling(sets, weights=torch.ones(302, dtype=torch.float16))
    assert got.dtype == torch.float16
    close(got, pooling(sets), atol=2e-3, rtol=0)


@pytest.mark.parametrize("reduce", ["mean", "sum"])
@pytest.mark.parametrize("filling", [torch.nan, torch.inf, -torch.inf])
def test_masked_elements_may_be_anything(filling, reduce):
    """Values and gradients are those of other masked elements."""
    mask = torch.tensor([1, 0, 1, 1, 1, 0, 1]) > 0
    found = []
    for fill in (filling, 0.0):
        pooling, sets = layer(Tuples(2), reduce=reduce), distinct_sets((4, 3))
        sets = sets.map(lambda x, fill=fill: torch.where(mask[:, None], x, fill)).requires_grad_()
        weights = mask.double().requires_grad_()
        result = pooling(sets, weights=weights)
        result.square().sum().backward()
        assert weights.grad.abs().min() > 0
        found.append((result, sets.values.grad, weights.grad, *(p.grad for p in pooling.parameters())))
    for a, b in zip(*found, strict=True):
        close(a, b)


def test_rows_of_weight_0_may_overflow():
    pooling, sets = JanossyPooling(lambda x: 1 / x.sum((1, 2))[:, None], Tuples(1)), distinct_sets((3, 2))
    sets = sets.map(lambda x: torch.cat((0 * x[:1], x[1:])))
    weights = torch.tensor([0.0, 1, 2, 3, 0]).requires_grad_()
    result = pooling(sets, weights=weights)
    f = 1 / sets.values.sum(1)
    close(result[:, 0], torch.stack([(f[1] + 2 * f[2]) / 3, f[3]]))
    result.sum().backward()
    assert weights.grad.isfinite().all() and weights.grad[4] != 0


def test_sampled_rows_weigh_what_their_elements_do():
    pooling, sets = layer(Distinct(4, k=2)), distinct_sets((5, 4))
    weights, draw = weights_of(sets), {"generator": torch.Generator().manual_seed(3)}
    got = pooling(sets, weights=weights, **draw)
    rows, owners = pooling.orderings.enumerate(sets, torch.Generator().manual_seed(3)).flatten()
    for b in range(2):
        chosen = torch.stack([row for row, owner in zip(rows, owners, strict=True) if owner == b])
        each = weights[chosen].prod(1)
        close(got[b], (each[:, None] * pooling.f(sets.values[chosen])).sum(0) / each.sum())


def test_gradients_by_elements_and_weights():
    pooling, sets = layer(Tuples(2)), distinct_sets((3, 0, 1, 2))
    inputs = [x.requires_grad_() for x in (sets.values.clone(), weights_of(sets))]
    assert gradcheck(lambda x, w: pooling(sets.with_values(x), weights=w), inputs)


def test_of_ids_by_a_network():
    network = JanossyNetwork(nn.Embedding(3, D), layer(Tuples(2)), nn.Linear(4, 1))
    ids = Ragged.from_sizes(torch.arange(8) % 3, [5, 3])
    weights = weights_of(ids)
    expected = network.rho(network.pooling(ids.map(network.h), weights=weights))
    close(network(ids, weights=weights), expected)


@pytest.mark.parametrize(
    ("orderings", "options", "weights", "message"),
    [
        (Tuples(2), {}, [1.0] * 5, "as a tensor; got list"),
        (Tuples(2), {}, torch.ones(4), r"shape \(5,\).*got.*\(4,\)"),
        (Tuples(2), {}, torch.ones(5, dtype=torch.long), "floating-point number per element; got torch.int64"),
        (Tuples(2), {}, -torch.ones(5), "weights >= 0; got -1"),
        (Tuples(2), {}, torch.ones(5, device="meta"), "device"),
        (Tuples(2), {"reduce": "max"}, torch.ones(5), "reduce='mean' or 'sum'; got 'max'"),
        (
            ImportanceSampled(2, k=2, weights=lambda x: x[:, 0].abs()),
            {},
            torch.ones(5),
            "without row weights; got Importance",
        ),
    ],
)
def test_bad_weights(orderings, options, weights, message):
    with pytest.raises((TypeError, ValueError), match=message):
        layer(orderings, **options)(distinct_sets((3, 2)), weights=weights)


def test_whole_sets_take_no_weights():
    with pytest.raises(ValueError, match="orderings of k elements"):
        JanossyPooling(nn.Flatten(), Sampled(2))(distinct_sets((3, 3)), weights=torch.ones(6))
