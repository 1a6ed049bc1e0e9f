"""Sets of ids from a vocabulary, whose embeddings are projected once per item, against once per occurrence.

10,000 items, 64 features, and a million occurrences: 100,000 sets of 10, with ids falling off as 1/rank. Forward and
backward, by the embedding's weights too, float32.

Both sides are the same network, but the reference's h hides that it is an embedding. The elements of every set are then
looked up, projected and differentiated one by one, as before janossy read tables.
"""

from collections.abc import Iterator
from copy import deepcopy

import torch
from torch import Tensor, nn

from benchmarks.harness import Row
from janossy import GRU, JanossyNetwork, JanossyPooling, Ragged, Sampled, TupleMLP, Tuples

NUM_ITEMS, NUM_FEATURES, SIZE = 10_000, 64, 10


def rows() -> Iterator[Row]:
    """Yields k = 1 (DeepSets), pairs, and a recurrence."""
    for k in (1, 2):
        yield row(f"k = {k}", JanossyPooling(TupleMLP(k, NUM_FEATURES, 64), Tuples(k)))
    yield row("GRU", JanossyPooling(GRU(NUM_FEATURES, 64), Sampled(1, seed=0)))


def row(name: str, pooling: JanossyPooling, num_sets: int = 100_000) -> Row:
    """Returns the row of a network that looks up each id once, against one of another module with the same values."""
    network = JanossyNetwork(nn.Embedding(NUM_ITEMS, NUM_FEATURES), pooling, nn.Linear(64, 1))
    other = deepcopy(network)
    other.h = nn.Sequential(other.h)
    ids = torch.multinomial(
        1 / torch.arange(10.0, NUM_ITEMS + 10),
        num_sets * SIZE,
        replacement=True,
        generator=torch.Generator().manual_seed(0),
    )
    sets = Ragged.from_sizes(ids, [SIZE] * num_sets)
    return Row(
        f"{name}, {NUM_ITEMS} items, {len(ids)} occurrences, {NUM_FEATURES} features",
        lambda: step(network, sets),
        lambda: step(other, sets),
    )


def step(network: JanossyNetwork, sets: Ragged) -> Tensor:
    """Returns the outputs after a backward pass."""
    network.zero_grad()
    outputs = network(sets)
    outputs.square().mean().backward()
    return outputs.detach()
