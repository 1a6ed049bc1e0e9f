"""``gather`` at the paper's sizes, against the plain enumerate-stack-apply formula on a dense batch.

Forward and backward, float32, B = 128. f is the paper's MLP (30 tanh units), LSTM(50) or GRU(80). For increasing tuples
the reference receives sorted sets, and gather sorts them. For permutations the reference samples set by set.
"""

from collections.abc import Iterator
from itertools import combinations, permutations

import torch
from torch import Tensor, nn

from benchmarks.harness import Row, backward, torch_module
from janossy import GRU, LSTM, Combinations, JanossyNetwork, JanossyPooling, Ragged, Sampled, TupleMLP, Tuples, predict
from janossy.evaluate import Gather

BATCH = 128


def rows() -> Iterator[Row]:
    """Yields k-ary pooling for k = 1, 2, 3, recurrences on one permutation, and their prediction by 20."""
    for n in (5, 10):
        for k in (1, 2, 3):
            yield _tuples(n, k, f"injective tuples, n={n} k={k}", Tuples(k), permutations)
        for k in (2, 3):
            yield _tuples(n, k, f"increasing tuples, n={n} k={k}", Combinations(k), combinations)
        for f in (LSTM(100, 50), GRU(100, 80)):
            yield _permutation(n, f)
            yield _prediction(n, f)


def _tuples(n: int, k: int, name: str, orderings, enumerate_tuples) -> Row:
    d = 100 // k
    f = TupleMLP(k, d, 30)
    pooling = JanossyPooling(f, orderings, evaluate=Gather())
    x = torch.randn(BATCH, n, d, requires_grad=True)
    # Sorted beforehand, so that the reference does not sort.
    with torch.no_grad():
        x[:, :, 0] = x[:, :, 0].sort(1).values

    def reference() -> Tensor:
        index = torch.tensor(list(enumerate_tuples(range(n), k)))
        stacked = x[:, index]
        return backward(f(stacked.flatten(0, 1)).unflatten(0, stacked.shape[:2]).mean(1))

    return Row(name, lambda: backward(pooling(Ragged.from_padded(x))), reference)


def _permutation(n: int, f: LSTM | GRU) -> Row:
    pooling = JanossyPooling(f, Sampled(1), evaluate=Gather())
    x = torch.randn(BATCH, n, 100, requires_grad=True)
    recurrence = torch_module(f)

    def reference() -> Tensor:
        permuted = torch.stack([elements[torch.randperm(n)] for elements in x])
        return backward(recurrence(permuted)[0][:, -1])

    name = f"{type(f).__name__}, n={n}, 1 permutation"
    return Row(name, lambda: backward(pooling(Ragged.from_padded(x))), reference)


def _prediction(n: int, f: LSTM | GRU) -> Row:
    rho = nn.Linear(f.hidden_features, 1)
    network = JanossyNetwork(None, JanossyPooling(f, Sampled(1), evaluate=Gather()), rho)
    x = torch.randn(BATCH, n, 100)
    recurrence = torch_module(f)

    @torch.no_grad()
    def reference() -> Tensor:
        outputs = []
        for _ in range(20):
            permuted = torch.stack([elements[torch.randperm(n)] for elements in x])
            outputs.append(rho(recurrence(permuted)[0][:, -1]))
        return torch.stack(outputs).mean(0)

    return Row(
        f"{type(f).__name__}, n={n}, predict by 20 permutations (forward)",
        lambda: predict(network, Ragged.from_padded(x), 20).mean,
        reference,
    )
