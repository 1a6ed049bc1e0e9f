"""Functions of k elements without a k: they take that of the orderings, once; another k is told at construction."""

import pytest
import torch
from torch import nn

from janossy import (
    AllPermutations,
    Combinations,
    JanossyNetwork,
    JanossyPooling,
    Ragged,
    Sampled,
    TupleMLP,
    TupleProduct,
    Tuples,
)
from janossy.functions import FeaturedMLP, TupleFeatures
from janossy.nn import CachedMean, Relations
from janossy.saving import load, save
from tests.examples import D, distinct_sets
from tests.laws import close

pytestmark = pytest.mark.usefixtures("float64")

WITHOUT_K = {
    "TupleMLP": lambda **k: TupleMLP(**k, in_features=D, hidden_features=(5, 4), norm="layer", dtype=torch.float64),
    "TupleProduct": lambda **k: TupleProduct(**k, in_features=D, rank=4, out_features=2),
    "TupleProduct of networks": lambda **k: TupleProduct(**k, in_features=D, rank=4, g=lambda j: nn.Linear(D, 4)),
}
ORDERINGS = {"pairs": Tuples(2), "choices of 3": Combinations(3), "sampled pairs": Sampled(2, k=2, seed=0)}


def seeded(make):
    torch.manual_seed(0)
    return make()


@pytest.mark.parametrize("name", WITHOUT_K)
def test_a_function_without_k_is_shown(name):
    assert repr(WITHOUT_K[name]()).endswith("(k is not set)")


@pytest.mark.parametrize("orderings", ORDERINGS)
@pytest.mark.parametrize("name", WITHOUT_K)
def test_the_orderings_say_k(name, orderings, tmp_path):
    make, orderings, sets = WITHOUT_K[name], ORDERINGS[orderings], distinct_sets((3, 0, 1, 4))
    layer = seeded(lambda: JanossyPooling(make(), orderings))
    given = seeded(lambda: JanossyPooling(make(k=orderings.k), orderings))
    assert repr(layer) == repr(given) and layer.f.k == orderings.k
    close(layer(sets), given(sets), atol=0, rtol=0)
    save(JanossyNetwork(pooling=layer), tmp_path / "network")
    close(load(tmp_path / "network")(sets), layer(sets))


@pytest.mark.parametrize("make", WITHOUT_K.values(), ids=list(WITHOUT_K))
def test_k_is_taken_once(make):
    f = make()
    assert not list(f.parameters())
    with pytest.raises(ValueError, match=r"expects k; got none\. Give k=, or JanossyPooling"):
        f(torch.ones(5, 2, D))
    with pytest.raises(ValueError, match=r"expects orderings of k elements for a .* without k; got AllPermutations"):
        JanossyPooling(f, AllPermutations())
    JanossyPooling(f, Tuples(2))
    with pytest.raises(ValueError, match=r"the same k for f and orderings; got .* of k=2 over Tuples\(k=3"):
        JanossyPooling(f, Tuples(3))
    with pytest.raises(ValueError, match=r"the same k for f and orderings; got .* of k=2 over"):
        JanossyPooling(make(), Tuples(2), orderings_train=Sampled(2, k=3))


def test_other_layers_say_k_too():
    mean = CachedMean(TupleMLP(in_features=D, hidden_features=4), num_elements=9, out_features=4)
    relations = Relations(TupleMLP(in_features=D, hidden_features=4), k=2)
    assert (mean.f.k, relations.f.k) == (1, 2)
    assert relations(Ragged.from_sizes(torch.randn(3, D), [3])).shape == (1, None, 4)


def test_another_k_is_told_at_construction_whatever_f_declares():
    featured = FeaturedMLP(2, D, 4, features=TupleFeatures(2, D, products=[0]))
    hooked = TupleMLP(2, D, 4)
    hooked.register_forward_hook(lambda *_: None)
    for f in (featured, hooked):
        with pytest.raises(ValueError, match=r"of k=2 over .* Give both the same k, or give f no k"):
            JanossyPooling(f, Tuples(3))
