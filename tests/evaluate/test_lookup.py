"""Embeddings: f projects each id once, and values and gradients are those of elements put in place."""

import pytest
import torch
from torch import nn

from janossy import (
    GRU,
    LSTM,
    AllPermutations,
    Canonical,
    Combinations,
    JanossyNetwork,
    JanossyPooling,
    Ragged,
    Sampled,
    TupleMLP,
    TupleProduct,
    Tuples,
    predict,
)
from janossy.evaluate.lookup import Lookup
from tests.examples import generator
from tests.laws import close

pytestmark = pytest.mark.usefixtures("float64")

SIZES = (4, 0, 1, 3, 3, 2, 4, 4)
VOCABULARY = 7


def ids(sizes=SIZES, dtype=torch.int64) -> Ragged:
    return Ragged.from_sizes(torch.randint(VOCABULARY, (sum(sizes),), generator=generator(3), dtype=dtype), sizes)


def networks(f, orderings, **options):
    """Returns one whose h is an embedding, and one whose h calls it."""
    torch.manual_seed(0)
    h = nn.Embedding(VOCABULARY, 3)
    pooling, rho = JanossyPooling(f.double(), orderings, **options), nn.Linear(5, 2)
    return JanossyNetwork(h, pooling, rho), JanossyNetwork(nn.Sequential(h), pooling, rho)


class Last(nn.Linear):
    def forward(self, x):
        return super().forward(x[:, -1])


CASES = {
    "fused": (TupleMLP(2, 3, 5), Tuples(2), {"evaluate": "fused"}),
    "fused, k = 1": (TupleMLP(1, 3, 5), Tuples(1), {"evaluate": "fused", "reduce": "sum"}),
    "fused, increasing": (TupleMLP(3, 3, 5), Combinations(3), {"evaluate": "fused"}),
    "fused, by a key": (TupleMLP(2, 3, 5), Combinations(2, key=lambda x: -x), {"evaluate": "fused"}),
    "projected": (TupleMLP(2, 3, (4, 5)), Tuples(2), {"evaluate": "projected"}),
    "permanent": (TupleProduct(2, 3, 4, out_features=5), Combinations(2), {"evaluate": "permanent"}),
    "packed": (LSTM(3, 5), Canonical(), {"evaluate": "packed"}),
    "packed, seeded": (GRU(3, 5), Sampled(3, seed=2), {"evaluate": "packed"}),
    "shared_prefixes": (GRU(3, 5), AllPermutations(), {"evaluate": "shared_prefixes"}),
    "shared_prefixes, increasing": (GRU(3, 5), Combinations(2), {"evaluate": "shared_prefixes"}),
    "gather": (Last(3, 5), Tuples(2), {"evaluate": "gather", "memory_budget": 2**10}),
    "auto": (TupleMLP(2, 3, 5), Tuples(2), {}),
    "with sizes": (TupleMLP(2, 4, 5), Tuples(2), {"append_size": True}),
}


@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients_are_those_of_elements_in_place(case):
    f, orderings, options = CASES[case]
    found = []
    for network in networks(f, orderings, **options):
        outputs = network(ids())
        weights = torch.linspace(-1, 1, outputs.numel()).view_as(outputs)
        parameters = list(network.parameters())
        assert any(parameter.shape == (VOCABULARY, 3) for parameter in parameters)
        found.append([outputs, *torch.autograd.grad((outputs * weights).sum(), parameters)])
    for got, want in zip(*found, strict=True):
        close(got, want, atol=1e-12, rtol=1e-11)


def test_second_derivatives():
    found = []
    for network in networks(TupleMLP(2, 3, 5), Tuples(2)):
        weight = network.pooling.f.hidden[0].weight
        first = torch.autograd.grad(network(ids()).square().sum(), weight, create_graph=True)[0]
        found.append(torch.autograd.grad(first.square().sum(), list(network.h.parameters()))[0])
    close(*found, atol=1e-11, rtol=1e-11)


@pytest.mark.parametrize("options", [{}, {"batch_size": 3}, {"tolerance": 1e-3}], ids=str)
def test_predictions_and_rows_alike(options):
    network, other = networks(GRU(3, 5), Sampled(1))
    close(*(predict(each, ids(), 20, seed=1, **options).mean for each in (network, other)))
    network.pooling.orderings = other.pooling.orderings = Sampled(2, seed=1)
    close(*(each.rows(ids()).values for each in (network, other)))


def test_each_id_is_projected_once(monkeypatch):
    network, _ = networks(GRU(3, 5), Sampled(1), evaluate="packed")
    seen = []
    linear = nn.functional.linear
    monkeypatch.setattr(nn.functional, "linear", lambda x, *rest: seen.append(len(x)) or linear(x, *rest))
    network.pooling(network.elements(ids()))
    assert seen == [VOCABULARY]


def test_explain_says_so():
    network, other = networks(TupleMLP(2, 3, 5), Tuples(2))
    says = f"{sum(SIZES)} places in a table of {VOCABULARY}, each of which is projected once"
    assert says in network.explain(ids()) and "a table of" not in other.explain(ids())


class Own(nn.Embedding):
    def forward(self, x):
        return 2 * super().forward(x)


def hooked():
    h = nn.Embedding(VOCABULARY, 3)
    h.register_forward_hook(lambda module, x, y: 2 * y)
    return h


MORE_THAN_A_TABLE = {
    "padding": lambda: nn.Embedding(VOCABULARY, 3, padding_idx=0),
    "a norm": lambda: nn.Embedding(VOCABULARY, 3, max_norm=0.1),
    "frequencies": lambda: nn.Embedding(VOCABULARY, 3, scale_grad_by_freq=True),
    "sparse gradients": lambda: nn.Embedding(VOCABULARY, 3, sparse=True),
    "a forward of its own": lambda: Own(VOCABULARY, 3),
    "a hook": hooked,
    "more ids than occurrences": lambda: nn.Embedding(11, 3),
    "a layer": lambda: nn.Sequential(nn.Embedding(VOCABULARY, 3), nn.Linear(3, 3)),
}


@pytest.mark.parametrize("case", MORE_THAN_A_TABLE)
def test_what_is_more_than_a_table_is_called(case):
    network = JanossyNetwork(MORE_THAN_A_TABLE[case](), JanossyPooling(GRU(3, 5), Canonical()), None)
    elements = network.elements(ids())
    assert not isinstance(elements, Lookup)
    close(elements.values, network.h(ids().values))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_a_lookup_is_a_ragged_of_the_elements(dtype):
    network, other = networks(GRU(3, 5), Canonical())
    found, want = network.elements(ids(dtype=dtype)), other.elements(ids(dtype=dtype))
    assert isinstance(found, Lookup) and isinstance(found, Ragged)
    assert (found.sizes, found.dtype, found.device) == (want.sizes, want.dtype, want.device)
    assert repr(found) == repr(want) and len(found) == len(want)
    close(found.values, want.values)
    close(found[3], want[3])
    assert isinstance(found[[6, 0]], Lookup)
    for key in ([6, 0], slice(2, 5), torch.tensor([1, 4]), torch.arange(len(SIZES)) > 3):
        close(found[key].values, want[key].values)
        assert found[key].sizes == want[key].sizes
    close(found.to_padded()[0], want.to_padded()[0])
    close(found.with_values(torch.arange(found.offsets[-1])).values, torch.arange(found.offsets[-1]))
    close(found.to(torch.float32).values, want.to(torch.float32).values)
    assert found.detach().values.grad_fn is None


@pytest.mark.parametrize("wrong", [100, -1])
@pytest.mark.parametrize("size", [VOCABULARY, 50])
def test_ids_that_the_embedding_has_not_give_one_clear_error(wrong, size):
    network = JanossyNetwork(nn.Embedding(size, 3), JanossyPooling(GRU(3, 5), Canonical()), None)
    sets = ids()
    sets.values[4] = wrong
    with pytest.raises(
        ValueError, match=rf"^h, an Embedding, expects ids from 0 to {size - 1}; got {wrong}\. Give it more"
    ):
        network(sets)
