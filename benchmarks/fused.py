"""``fused`` against the plain enumerate-stack-apply formula on a dense batch, and against PyG's DeepSets.

Forward and backward, float32, f = TupleMLP with one hidden layer of H tanh units. The reference stacks every tuple,
applies the layer and takes the mean. For increasing tuples the reference is given sorted sets; ours sorts them.
"""

from collections.abc import Iterator
from itertools import combinations, permutations

import torch
from torch import Tensor, nn
from torch_geometric.nn import DeepSetsAggregation

from benchmarks.harness import Row, backward
from janossy import Combinations, JanossyPooling, Ragged, TupleMLP, Tuples


def rows() -> Iterator[Row]:
    """Yields the sizes of the paper's tasks, larger sets, and DeepSets."""
    yield tuples_row(128, 10, 100, 30, Tuples(2), permutations)
    yield tuples_row(128, 10, 100, 30, Tuples(3), permutations)
    yield tuples_row(32, 100, 64, 128, Tuples(2), permutations)
    yield tuples_row(128, 10, 100, 30, Combinations(3), combinations)
    yield tuples_row(128, 10, 33, 30, Combinations(3), combinations)
    for num_sets, n, d, H in ((128, 10, 100, 30), (32, 100, 64, 128), (1024, 30, 64, 64)):
        yield _deep_sets(num_sets, n, d, H)


def tuples_row(num_sets: int, n: int, d: int, H: int, orderings, enumerate_tuples, evaluate: str = "fused") -> Row:
    """Returns one row. ``enumerate_tuples(range(n), k)`` lists the positions that the reference stacks."""
    k = orderings.k
    kind = "increasing" if orderings.increasing else "injective"
    x, reference = dense(num_sets, n, d, H, k, enumerate_tuples)
    pooling = JanossyPooling(reference.f, orderings, evaluate=evaluate)
    return Row(
        f"{kind} tuples, B={num_sets} n={n} d={d} H={H} k={k}",
        lambda: backward(pooling(Ragged.from_padded(x))),
        reference,
    )


def dense(num_sets: int, n: int, d: int, H: int, k: int, enumerate_tuples):
    """Returns sets x (B, n, d), sorted by their first feature, and the plain formula on them."""
    f = TupleMLP(k, d, H)
    x = torch.randn(num_sets, n, d)
    x[:, :, 0] = x[:, :, 0].sort(1).values
    x.requires_grad_()
    index = torch.tensor(list(enumerate_tuples(range(n), k)))

    def reference() -> Tensor:
        stacked = x[:, index]
        return backward(f(stacked.flatten(0, 1)).unflatten(0, stacked.shape[:2]).mean(1))

    reference.f = f
    return x, reference


def _deep_sets(num_sets: int, n: int, d: int, H: int) -> Row:
    f = TupleMLP(1, d, H)
    pooling = JanossyPooling(f, Tuples(1), evaluate="fused")
    deep_sets = DeepSetsAggregation(local_nn=nn.Sequential(f.hidden[0], nn.Tanh()))
    deep_sets.aggr = "mean"
    x = torch.randn(num_sets * n, d, requires_grad=True)
    sizes = torch.full((num_sets,), n)
    index = torch.arange(num_sets).repeat_interleave(sizes)
    ptr = torch.arange(num_sets + 1) * n

    def reference() -> Tensor:
        return backward(deep_sets(x, index, dim_size=num_sets) / n)

    return Row(
        f"k=1, B={num_sets} n={n} d={d} H={H}, against PyG's DeepSetsAggregation",
        lambda: backward(pooling(Ragged.from_ptr(x, ptr))),
        reference,
    )
