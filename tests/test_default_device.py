"""Sets on the CPU while torch's default device is another, which holds no numbers here: nothing is made there."""

import pytest
import torch
from torch import nn

from janossy import (
    GRU,
    AllPermutations,
    Canonical,
    Distinct,
    JanossyNetwork,
    JanossyPooling,
    Ragged,
    Sampled,
    TupleMLP,
    TupleProduct,
    Tuples,
    collate,
    predict,
)
from janossy.losses import chamfer_distance
from janossy.nn import Relations, SelfAttention
from janossy.sets import SimilarSizes

SIZES = (3, 0, 1, 4)
VALUES = torch.randn(sum(SIZES), 2)
LAYERS = {
    "pairs": lambda: JanossyPooling(TupleMLP(2, 2, 3), Tuples(2)),
    "pairs, several reductions": lambda: JanossyPooling(TupleMLP(2, 2, 3), Tuples(2), reduce=("max", "std")),
    "products": lambda: JanossyPooling(TupleProduct(2, 2, 3), Tuples(2)),
    "all orders": lambda: JanossyPooling(GRU(2, 3), AllPermutations()),
    "seeded": lambda: JanossyPooling(GRU(2, 3), Sampled(2, seed=0)),
    "sorted": lambda: JanossyPooling(GRU(2, 3), Canonical(key=(0, 1), k=2)),
    "distinct": lambda: JanossyPooling(TupleMLP(2, 2, 3), Distinct(3, k=2, seed=0)),
    "relations": lambda: Relations(TupleMLP(3, 2, 3)),
    "attention": lambda: SelfAttention(2, num_heads=1),
}
NETWORK = JanossyNetwork(None, JanossyPooling(GRU(2, 3), Sampled(1)), nn.Linear(3, 2))
CALLS = {
    "sets": lambda sets: Ragged.from_sets(sets.to_sets()).values,
    "sizes": lambda sets: Ragged.from_sizes(sets.values, sets.sizes).values,
    "padded": lambda sets: Ragged.from_padded(*sets.to_padded()).values,
    "one set": lambda sets: sets[-1],
    "chosen": lambda sets: sets[[0, 3]].values,
    "joined": lambda sets: Ragged.cat(sets.split(2)).values,
    "collate": lambda sets: collate([(x,) for x in sets])[0].values,
    "distance": lambda sets: chamfer_distance(sets, sets.detach()),
    "predict": lambda sets: predict(NETWORK, sets, 8, seed=0, link="softmax", keep_outputs=True).standard_error,
    "tolerance": lambda sets: predict(NETWORK, sets, 8, seed=0, tolerance=0.1, batch_size=2).mean,
}


def with_another_default(call):
    torch.set_default_device("meta")
    try:
        return call(Ragged(VALUES, torch.tensor([0, 3, 3, 4, 8], device="cpu")))
    finally:
        torch.set_default_device(None)


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    layer = LAYERS[name]()
    got, expected = with_another_default(layer), layer(Ragged.from_sizes(VALUES, SIZES))
    got, expected = (out.values if isinstance(out, Ragged) else out for out in (got, expected))
    assert torch.equal(got, expected)


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    assert torch.equal(with_another_default(CALLS[name]), CALLS[name](Ragged.from_sizes(VALUES, SIZES)))


def test_batches_of_a_loader():
    def batches(sets):
        return list(SimilarSizes(sets.sizes, batch_size=2))

    assert with_another_default(batches) == batches(Ragged.from_sizes(VALUES, SIZES))
