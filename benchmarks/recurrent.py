"""Recurrences over sets, against code written by hand in torch, and PyG's LSTMAggregation.

Forward and backward, float32, with gradients by the elements too, unless the row says otherwise. Power-law sizes have
mean 13.1 and maximum 800. Both sides read these sets in one given order. Elsewhere each side samples its random
permutations, and the time includes this.
"""

from collections.abc import Callable, Iterator
from itertools import permutations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch_geometric.nn import LSTMAggregation

from benchmarks.harness import Row, backward, torch_module
from janossy import (
    GRU,
    LSTM,
    AllPermutations,
    Canonical,
    JanossyNetwork,
    JanossyPooling,
    MinGRU,
    Ragged,
    Sampled,
    predict,
)


def rows() -> Iterator[Row]:
    """Yields skewed sizes, equal sizes, the exact average, and a parallel scan."""
    yield power_law_row(as_pyg)
    yield power_law_row(as_packed)
    yield power_law_row(as_packed, by_elements=False)
    for num_sets in (128, 1024):
        yield equal_sizes_row(num_sets)
        yield inference_row(num_sets)
    yield exact_row()
    for num_sets in (8, 32):
        yield scan_row(num_sets)


def power_law_sizes(num_sets: int = 2000, largest: int = 800) -> list[int]:
    """Returns sizes whose tail falls off as a power, in random order."""
    u = torch.rand(num_sets, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    sizes = (4 * (1 - u) ** (-1 / 1.35)).long().clamp(1, largest)
    sizes[num_sets // 2] = largest
    return sizes.tolist()


Reference = Callable[[LSTM, Ragged], tuple[str, Callable[[Tensor], Tensor]]]


def power_law_row(reference: Reference, num_sets: int = 2000, *, by_elements: bool = True) -> Row:
    """Returns the row of LSTM(64, 64), with gradients by the weights, and by the elements or not."""
    f = LSTM(64, 64)
    sizes = power_law_sizes(num_sets)
    x = torch.randn(sum(sizes), 64)
    x[:, 0] = torch.linspace(-1.7, 1.7, len(x))  # sorted, so that the canonical order is the stored one
    x.requires_grad_(by_elements)
    sets = Ragged.from_sizes(x, sizes)
    pooling = JanossyPooling(f, Canonical(key=lambda x: x[:, 0]))
    name, theirs = reference(f, sets)
    which = "" if by_elements else ", gradients by the weights only"
    return Row(
        f"LSTM(64, 64), {num_sets} sets of power-law sizes{which}, against {name}",
        lambda: backward(pooling(sets)),
        lambda: backward(theirs(x)),
        agree="LSTMAggregation" not in name,  # PyG's reads padding
    )


def as_pyg(f: LSTM, sets: Ragged) -> tuple[str, Callable[[Tensor], Tensor]]:
    aggregation = LSTMAggregation(f.in_features, f.hidden_features)
    aggregation.lstm.load_state_dict(f.state_dict())
    index = sets.to_index()[1]
    return "PyG's LSTMAggregation", lambda x: aggregation(x, index, dim_size=len(sets))


def as_packed(f: LSTM, sets: Ragged) -> tuple[str, Callable[[Tensor], Tensor]]:
    module, lengths = torch_module(f), torch.tensor(sets.sizes)
    owners = sets.to_index()[1]
    places = torch.cat([torch.arange(n) for n in sets.sizes])

    def run(x: Tensor) -> Tensor:
        # pad_sequence would do for forward, but its backward copies the whole padded batch once for every set.
        padded = x.new_zeros(len(sets), max(sets.sizes), x.shape[1]).index_put((owners, places), x)
        packed = pack_padded_sequence(padded, lengths, batch_first=True, enforce_sorted=False)
        return module(packed)[1][0][0]

    return "pack_padded_sequence(enforce_sorted=False)", run


def equal_sizes_row(num_sets: int) -> Row:
    """Returns the row of one random permutation of ten elements, GRU(100, 80)."""
    f = GRU(100, 80)
    pooling, module = JanossyPooling(f, Sampled(1)), torch_module(f)
    x = torch.randn(num_sets, 10, 100, requires_grad=True)

    def reference() -> Tensor:
        return backward(module(_permuted(x, 1).flatten(0, 1))[1][0])

    name = f"GRU(100, 80), {num_sets} sets of 10, 1 permutation, against nn.GRU on the dense batch"
    return Row(name, lambda: backward(pooling(Ragged.from_padded(x))), reference)


def inference_row(num_sets: int) -> Row:
    """Returns the row of twenty permutations at inference, without gradients."""
    f = GRU(100, 80)
    network, module = JanossyNetwork(None, JanossyPooling(f, Sampled(1)), None), torch_module(f)
    x = torch.randn(num_sets, 10, 100)

    @torch.no_grad()
    def reference() -> Tensor:
        return module(_permuted(x, 20).flatten(0, 1))[1][0].unflatten(0, (num_sets, 20)).mean(1)

    name = f"GRU(100, 80), {num_sets} sets of 10, 20 permutations, forward, against nn.GRU on the dense batch"
    return Row(name, lambda: predict(network, Ragged.from_padded(x), 20).mean, reference)


def exact_row(num_sets: int = 4, n: int = 7) -> Row:
    """Returns the row of the mean over all orderings, against stacking them."""
    f = GRU(100, 80)
    pooling, module = JanossyPooling(f, AllPermutations()), torch_module(f)
    x = torch.randn(num_sets, n, 100, requires_grad=True)
    orders = torch.tensor(list(permutations(range(n))))

    def reference() -> Tensor:
        return backward(module(x[:, orders].flatten(0, 1))[1][0].unflatten(0, (num_sets, -1)).mean(1))

    name = f"GRU(100, 80), {num_sets} sets of {n}, all {len(orders)} orders, against enumerating"
    return Row(name, lambda: backward(pooling(Ragged.from_padded(x))), reference)


def scan_row(num_sets: int, n: int = 1000) -> Row:
    """Returns the row of a recurrence with gates that ignore the state, against one with gates that read it.

    They are other functions, with equally many units.
    """
    f, module = MinGRU(64, 64), nn.GRU(64, 64, batch_first=True)
    pooling = JanossyPooling(f, Sampled(1))
    x = torch.randn(num_sets, n, 64, requires_grad=True)

    def reference() -> Tensor:
        return backward(module(_permuted(x, 1).flatten(0, 1))[1][0])

    name = f"MinGRU(64, 64), {num_sets} sets of {n}, 1 permutation, against nn.GRU(64, 64)"
    return Row(name, lambda: backward(pooling(Ragged.from_padded(x))), reference, agree=False)


def _permuted(x: Tensor, num: int) -> Tensor:
    """Returns random permutations of each set (B, num, n, d)."""
    num_sets, n, d = x.shape
    order = torch.rand(num_sets, num, n).argsort(-1)
    return x.gather(1, order.flatten(1, 2)[..., None].expand(-1, -1, d)).unflatten(1, (num, n))
