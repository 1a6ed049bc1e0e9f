"""Finite exchangeable densities: all orders by shared beginnings, against every order as a row.

log p and its gradients by the weights, float32: points in a window, GRU(2, 64), a mixture of twelve logistic-normals.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks.harness import Row, backward
from janossy import GRU, AllPermutations, JanossyPooling, Ragged
from janossy.density import Autoregressive, Bounded, ExchangeableDensity


def rows() -> Iterator[Row]:
    """Yields rows for sets of five to seven elements."""
    for num_sets, n in ((32, 5), (8, 6), (2, 7)):
        yield exact_row(num_sets, n)


def exact_row(num_sets: int, n: int) -> Row:
    q = Autoregressive(GRU(2, 64, per_position=True), Bounded([0.0, 0.0], [1.0, 1.0], num_components=12))
    density = ExchangeableDensity(q, sizes=None, orderings=AllPermutations())
    pooling = JanossyPooling(q, AllPermutations(), evaluate="gather", reduce="logmeanexp")
    sets = Ragged.from_sizes(torch.rand(num_sets * n, 2), [n] * num_sets)

    def reference() -> Tensor:
        return backward(pooling(sets)[:, 0])

    return Row(f"log p of {num_sets} sets of {n}, over all orders", lambda: backward(density(sets)), reference)
