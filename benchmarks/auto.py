"""``evaluate="auto"`` against every evaluator that applies. The ratio says how much slower the other one is.

Forward and backward, float32, f = TupleMLP with H units, or a recurrence. Nothing should be faster than auto by more
than a factor of 1.3: no ratio below 0.77.
"""

from collections.abc import Iterator
from functools import partial
from math import perm
from typing import NamedTuple

import torch
from torch import Tensor

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
from janossy.evaluate.choose import Considered
from janossy.orderings import Orderings

MAX_ACTIVATIONS = 3e8
"""The number of activations above which an evaluator is left out, because it would take minutes."""

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


class Case(NamedTuple):
    """A case for auto to choose for: sets (num_sets, n, d), which f reads in these orderings."""

    name: str
    f: TupleMLP | GRU | LSTM
    orderings: Orderings
    x: Tensor

    def candidates(self) -> list[Considered]:
        """Returns the evaluators that apply, without those that would take minutes."""
        num_sets, n = self.x.shape[:2]
        found = candidates(Problem(self.f, self.orderings, Ragged.from_padded(self.x)))
        if isinstance(self.f, TupleMLP) and num_sets * perm(n, self.f.k) * len(self.f.hidden[0].bias) > MAX_ACTIVATIONS:
            found = [each for each in found if each.evaluator.name not in ("gather", "projected", "fused")]
        return [each for each in found if each.cost is not None]


def rows() -> Iterator[Row]:
    """Yields every case of the grid, against every evaluator."""
    for case in cases("cpu"):
        auto = JanossyPooling(case.f, case.orderings)
        for candidate in case.candidates():
            other = JanossyPooling(case.f, case.orderings, evaluate=candidate.evaluator)
            yield Row(f"{case.name}: {candidate.evaluator.name}", partial(run, auto, case), partial(run, other, case))


def run(layer: JanossyPooling, case: Case) -> Tensor:
    """Runs forward and backward."""
    return backward(layer(Ragged.from_padded(case.x)))


def cases(device: str) -> Iterator[Case]:
    """Yields every case of the grid, on this device."""
    for num_sets, n, d, H, orderings, activation in GRID:
        x = torch.randn(num_sets * n, d).unflatten(0, (num_sets, n)).to(device).requires_grad_()
        f = TupleMLP(orderings.k, d, H, activation=activation).to(device)
        kind = "increasing" if orderings.increasing else "injective"
        yield Case(f"B={num_sets} n={n} d={d} H={H} k={orderings.k} {kind} {activation}", f, orderings, x)
    for num_sets, n, f, orderings in RECURRENT:
        x = torch.randn(num_sets * n, f.in_features).unflatten(0, (num_sets, n)).to(device).requires_grad_()
        name = f"{type(f).__name__}({f.in_features}, {f.hidden_features})"
        named = f"B={num_sets} n={n} {name} {type(orderings).__name__}({getattr(orderings, 'num_permutations', '')})"
        yield Case(named, f.to(device), orderings, x)
