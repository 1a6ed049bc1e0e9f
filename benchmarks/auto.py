"""``evaluate="auto"`` against every evaluator that applies: the ratio says how much slower the other one is.

Forward and backward, float32, f = TupleMLP with H units, or a recurrence. Nothing should beat auto by more than 1.3: no
ratio below 0.77.
"""

from collections.abc import Iterator
from math import perm

import torch

from benchmarks.harness import Row, backward
from janossy import (
    GRU,
    LSTM,
    AllPermutations,
    Canonical,
    Combinations,
    JanossyPooling,
    Ragged,
    Sampled,
    TupleMLP,
    Tuples,
)
from janossy.evaluate import Problem, candidates

MAX_ACTIVATIONS = 3e8
"""An evaluator that would take so many is left out: it would take minutes."""

GRID = [
    # (sets, n, d, H, orderings, activation)
    (128, 5, 50, 30, Tuples(2), "tanh"),
    (128, 10, 100, 30, Tuples(1), "tanh"),
    (128, 10, 100, 30, Tuples(2), "tanh"),
    (128, 10, 100, 30, Tuples(3), "tanh"),
    (128, 10, 33, 30, Combinations(3), "tanh"),
    (32, 100, 64, 128, Tuples(2), "tanh"),
    (32, 100, 64, 128, Tuples(2), "relu"),
    (32, 100, 64, 64, Tuples(2), "gelu"),
    (4, 60, 16, 32, Tuples(3), "tanh"),
    (8, 30, 16, 32, Combinations(4), "silu"),
    (1, 1000, 16, 32, Tuples(2), "tanh"),
    (1, 1000, 16, 32, Tuples(2), "relu"),
    (1, 2000, 16, 32, Tuples(3), "tanh"),
    (1, 2, 4, 8, Tuples(2), "tanh"),
]


RECURRENT = [
    # (sets, n, f, orderings)
    (1, 3, GRU(4, 8), Sampled(1, seed=0)),
    (128, 10, GRU(100, 80), Canonical()),
    (128, 10, LSTM(100, 50), Sampled(1, seed=0)),
    (128, 10, LSTM(100, 50), Sampled(20, seed=0)),
    (64, 100, LSTM(64, 64, num_layers=2, bidirectional=True), Canonical()),
    (128, 10, GRU(32, 32), Tuples(2)),
    (1, 4, GRU(4, 8), AllPermutations()),
    (16, 5, GRU(100, 80), AllPermutations()),
    (4, 7, GRU(100, 80), AllPermutations()),
]


def rows() -> Iterator[Row]:
    """Every case of the grid, against every evaluator."""
    for num_sets, n, d, H, orderings, activation in GRID:
        x = torch.randn(num_sets * n, d, requires_grad=True)
        f = TupleMLP(orderings.k, d, H, activation=activation)
        kind = "increasing" if orderings.increasing else "injective"
        case = f"B={num_sets} n={n} d={d} H={H} k={orderings.k} {kind} {activation}"
        yield from _against_each(case, f, orderings, x, num_sets, n)
    for num_sets, n, f, orderings in RECURRENT:
        x = torch.randn(num_sets * n, f.in_features, requires_grad=True)
        name = f"{type(f).__name__}({f.extra_repr().split(', num')[0]})"
        case = f"B={num_sets} n={n} {name} {type(orderings).__name__}({getattr(orderings, 'num', '')})"
        yield from _against_each(case, f, orderings, x, num_sets, n)


def _against_each(case: str, f, orderings, x, num_sets: int, n: int) -> Iterator[Row]:
    auto = JanossyPooling(f, orderings)
    sets = Ragged.from_padded(x.unflatten(0, (num_sets, n)))
    too_many = isinstance(f, TupleMLP) and num_sets * perm(n, f.k) * len(f.hidden[0].bias) > MAX_ACTIVATIONS
    for candidate in candidates(Problem(f, orderings, sets)):
        name = candidate.evaluator.name
        if candidate.cost is None or (too_many and name in ("gather", "projected", "fused")):
            continue
        other = JanossyPooling(f, orderings, candidate.evaluator)
        yield Row(
            f"{case}: {name}",
            lambda: backward(auto(Ragged.from_padded(x.unflatten(0, (num_sets, n))))),
            lambda other=other: backward(other(Ragged.from_padded(x.unflatten(0, (num_sets, n))))),
        )
