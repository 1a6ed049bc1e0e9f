"""Means made of a table's rows, and of products of exponentials, against means over rows that are written."""

import pytest
import torch
from torch import nn

from janossy import Combinations, JanossyNetwork, JanossyPooling, Ragged, TupleMLP, Tuples
from janossy.functions.structure import ACTIVATIONS
from tests.examples import generator
from tests.laws import close

pytestmark = pytest.mark.usefixtures("float64")

SIZES = (4, 0, 1, 3, 9, 5, 8, 4)
VOCABULARY = 16
"""So many that a count of every id in every set is more than H = 3 activations of every element."""


def network(f, orderings, evaluate, reduce="mean"):
    torch.manual_seed(1)
    return JanossyNetwork(
        nn.Embedding(VOCABULARY, 2), JanossyPooling(f, orderings, evaluate=evaluate, reduce=reduce), nn.Linear(3, 1)
    )


def ids() -> Ragged:
    return Ragged.from_sizes(torch.randint(VOCABULARY, (sum(SIZES),), generator=generator(3)), SIZES)


def gradients(model, sets, **options):
    out = model(sets)
    return torch.autograd.grad(out.square().sum(), list(model.parameters()), **options)


@pytest.mark.parametrize("reduce", ["mean", "sum"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_of_a_table(activation, reduce):
    f = TupleMLP(1, 2, 3, activation=activation).double()
    ours, plain = (network(f, Tuples(1), name, reduce) for name in ("fused", "gather"))
    plain.load_state_dict(ours.state_dict())
    close(ours(ids()), plain(ids()))
    for a, b in zip(gradients(ours, ids()), gradients(plain, ids()), strict=True):
        close(a, b)
    twice = []
    for model in (ours, plain):
        found = gradients(model, ids(), create_graph=True)
        twice.append(torch.autograd.grad(sum(g.square().sum() for g in found), model.h.weight)[0])
    close(*twice)


@pytest.mark.parametrize("sizes", [SIZES, (5,) * 8])
@pytest.mark.parametrize("filling", [torch.nan, torch.inf])
def test_a_row_of_the_table_spoils_only_the_sets_that_have_it(filling, sizes):
    """Counts of every id in every set are less than H = 8 activations of every element."""
    torch.manual_seed(0)
    f = TupleMLP(1, 2, 8, activation="relu").double()
    sets = Ragged.from_sizes(torch.arange(sum(sizes)) % VOCABULARY, sizes)
    found = []
    for evaluate in ("fused", "gather"):
        model = JanossyNetwork(nn.Embedding(VOCABULARY, 2), JanossyPooling(f, Tuples(1), evaluate=evaluate), None)
        nn.init.ones_(model.h.weight)
        model.h.weight.data[3] = filling
        found.append(model(sets))
    torch.testing.assert_close(*found, equal_nan=True)
    finite = found[0].isfinite().all(1)
    assert finite.tolist() == [3 not in x.tolist() for x in sets]


def test_gradients_of_a_table_that_are_mapped():
    model = network(TupleMLP(1, 2, 3).double(), Tuples(1), "fused")
    out, each = model(ids())[:, 0], torch.eye(len(SIZES))

    def gradient(e):
        return torch.autograd.grad(out, model.h.weight, e, retain_graph=True)[0]

    close(torch.func.vmap(gradient)(each), torch.stack([gradient(e) for e in each]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1.0, 30.0, 1000.0, torch.nan])
@pytest.mark.parametrize("orderings", [Tuples(2), Combinations(2), Tuples(3), Combinations(3)], ids=str)
@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
def test_products_of_exponentials_do_not_overflow(activation, orderings, scale, dtype):
    """Sets of three elements and more, of which every exponential might be formed, and so far that none is."""
    f = TupleMLP(orderings.k, 2, 3, activation=activation).to(dtype)
    sets = Ragged.from_sizes(scale * torch.randn(15, 2, dtype=dtype, generator=generator(0)), [3, 7, 5])
    found = []
    for evaluate in ("fused", "gather"):
        x = sets.values.clone().requires_grad_()
        means = JanossyPooling(f, orderings, evaluate=evaluate)(sets.with_values(x))
        found.append((means, torch.autograd.grad(means.square().sum(), x)[0]))
    tolerance = 2e-6 if dtype == torch.float32 else 1e-13
    for ours, plain in zip(*found, strict=True):
        torch.testing.assert_close(ours, plain, atol=tolerance, rtol=tolerance, equal_nan=True)
