"""Means made of a table's rows, and of products of exponentials, against means over rows that are written."""

from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.autograd.functional import jacobian

from janossy import (
    GRU,
    LSTM,
    Canonical,
    Combinations,
    JanossyNetwork,
    JanossyPooling,
    Ragged,
    Sampled,
    Spectral,
    Stack,
    TupleMLP,
    Tuples,
)
from janossy.functions.structure import ACTIVATIONS
from janossy.nn import Relations
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


@pytest.mark.parametrize("sizes", [(500_000,), (500_000, 300_000)])
@pytest.mark.parametrize("units", [1, 8])
def test_means_of_many_equal_elements_are_not_rounded_at_each(units, sizes):
    """By counts of ids, and, with fewer units than ids, element by element."""
    torch.manual_seed(0)
    f = TupleMLP(1, 2, units).float()
    h = nn.Embedding(3, 2).float()
    sets = Ragged.from_sizes(torch.arange(sum(sizes)) % (3 if units > 1 else 2), sizes)
    means = JanossyNetwork(h, JanossyPooling(f, Tuples(1), evaluate="fused"), None)(sets)
    each = deepcopy(f).double()(h.weight.double()[:, None])
    expected = torch.stack([each[x].mean(0) for x in sets])
    torch.testing.assert_close(means.double(), expected, atol=2e-6, rtol=0)


LAYERS = {
    "GRU": lambda: JanossyPooling(GRU(2, 9), Sampled(2, seed=1), evaluate="packed"),
    "LSTM of few units": lambda: JanossyPooling(LSTM(2, 3, num_layers=2), Canonical(), evaluate="packed"),
    "relations": lambda: Relations(TupleMLP(2, 2, 3), evaluate=Spectral(enumerate_up_to=0)),
    "pairs": lambda: JanossyPooling(TupleMLP(2, 2, 3), Tuples(2), evaluate="fused"),
    "triples by series": lambda: JanossyPooling(TupleMLP(3, 2, 3), Tuples(3), evaluate=Spectral(enumerate_up_to=0)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_of_layers_that_are_mapped(name):
    """By autograd.grad(is_grads_batched=True), by functional.jacobian(vectorize=True), and by vmap."""
    torch.manual_seed(0)
    layer, sets = LAYERS[name](), Ragged.from_sizes(torch.randn(9, 2), (4, 5))

    def outputs(x):
        out = layer(sets.with_values(x))
        return (out.values if isinstance(out, Ragged) else out).flatten()

    x = sets.values.clone().requires_grad_()
    out = outputs(x)
    one = torch.eye(len(out))
    expected = torch.stack([torch.autograd.grad(out, x, e, retain_graph=True)[0] for e in one])
    close(torch.autograd.grad(out, x, one, is_grads_batched=True, retain_graph=True)[0], expected)
    close(jacobian(outputs, x, vectorize=True), expected)
    mapped = torch.func.vmap(lambda e: torch.autograd.grad(out, x, e, retain_graph=True)[0])
    close(mapped(one), expected, atol=1e-9, rtol=1e-9)


def test_gradients_of_stacked_recurrences_that_are_mapped():
    torch.manual_seed(0)
    stack = Stack([JanossyNetwork(nn.Linear(2, 3), JanossyPooling(GRU(3, 9), Canonical()), None) for _ in range(2)])
    out, weights = stack(Ragged.from_sizes(torch.randn(9, 2), (4, 5))).flatten(), list(stack.parameters())
    one = torch.eye(len(out))[:5]
    found = torch.autograd.grad(out, weights, one, is_grads_batched=True, retain_graph=True)
    each = [torch.autograd.grad(out, weights, e, retain_graph=True) for e in one]
    for got, want in zip(found, map(torch.stack, zip(*each, strict=True)), strict=True):
        close(got, want)
