"""The estimated time of layers from sets to sets: it follows from sizes and widths, and no element is computed."""

import pytest
import torch
from torch import nn

from janossy import GRU, JanossyNetwork, JanossyPooling, Ragged, TupleMLP, TupleProduct, Tuples
from janossy import nn as layers
from janossy.nn.encoder.cost import outline
from tests.examples import SET_LAYERS, WIDTH, distinct_sets, set_layer


def seconds(layer, *sizes):
    return layer.seconds(outline(Ragged.from_sizes(torch.zeros(0, layer.in_features or 64), []), sizes))


@pytest.mark.parametrize("name", SET_LAYERS)
def test_seconds_and_sizes(name):
    """Sizes are those of the result; more sets take longer, values do not count, and the layer is as it was."""
    layer, sets = set_layer(name).train(), distinct_sets(width=WIDTH)
    assert layer.sizes_of(sets.sizes) == layer(sets).sizes
    few, many = layer.seconds(sets), layer.seconds(Ragged.cat([sets] * 40))
    assert 0 < few < many < 10 and few == layer.seconds(sets.with_values(sets.values * torch.nan))
    assert layer.training


BLOCKS = {
    "attention": (layers.attention_blocks(64), 100),
    "induced": (layers.attention_blocks(64, num_points=16), 10),
    "pairs": ([layers.Relations(TupleMLP(2, 64, 64, activation="tanh"))], 10),
    "pairs of relu": ([layers.Relations(TupleMLP(2, 64, 64, activation="relu"))], 10),
    "triples": ([layers.Relations(TupleMLP(3, 64, 64, activation="tanh"))], 10),
    "products": ([layers.Relations(TupleProduct(3, 64, 64))], 10),
    "pairs by rows": ([layers.Relations(GRU(64, 64), k=2)], 100),
    "slots": ([layers.SlotAttention(64), layers.ConcatenatedElements(4), nn.Linear(256, 64)], 10),
    "slots with moments": ([layers.SlotAttention(64, input_features=64), layers.ConcatenatedElements(4)], 10),
    "seeds": ([layers.SeedAttention(64), layers.ConcatenatedElements(1), nn.Linear(64, 64)], 10),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_what_grows_with_the_size_and_what_with_its_square(name):
    blocks, ratio = BLOCKS[name]
    encoder = layers.SetEncoder(blocks)
    small, large = (300, 3_000) if name == "pairs by rows" else (100_000, 1_000_000)
    assert seconds(encoder, large) / seconds(encoder, small) == pytest.approx(ratio, rel=0.1)
    twice = layers.SetEncoder([layers.Residual(nn.Sequential(nn.Linear(64, 64)), norm=nn.LayerNorm(64)), *blocks])
    assert seconds(twice, small) > seconds(encoder, small)


def test_rows_that_are_too_many_are_refused():
    layer = layers.Relations(GRU(64, 4), k=3)
    with pytest.raises(ValueError, match="max_rows"):
        seconds(layers.SetEncoder([layer]), 10_000)


def test_a_network_adds_its_encoder_and_applies_it_to_no_element(monkeypatch):
    pooling, h = JanossyPooling(TupleMLP(2, 64, 3), Tuples(2), reduce="max"), nn.Linear(2, 64)
    encoder = layers.SetEncoder(layers.attention_blocks(64, num_blocks=2))
    sets = Ragged.from_sets([torch.randn(n, 2) for n in (300, 0, 200)])
    alone, network = JanossyNetwork(h, pooling), JanossyNetwork(h, pooling, encoder=encoder)
    assert alone.seconds(sets) == pooling.cost(alone.elements(sets)).seconds
    seen, forward = [], layers.SelfAttention.forward

    def spy(self, elements):
        seen.append(len(elements.values))
        return forward(self, elements)

    monkeypatch.setattr(layers.SelfAttention, "forward", spy)
    found = network.seconds(sets)
    assert found == pytest.approx(alone.seconds(sets) + encoder.seconds(sets.with_values(h(sets.values))))
    assert not any(seen) and network.training
    behind_seeds = layers.SetEncoder([*encoder.layers, layers.SeedAttention(64, num_seeds=2)])
    assert JanossyNetwork(h, pooling, encoder=behind_seeds).seconds(sets) < found  # 2 pairs of seeds, and not 90,000
    with pytest.raises(ValueError, match="max_rows"):
        network.seconds(sets, Tuples(2, max_rows=10))
