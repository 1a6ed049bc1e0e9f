"""Compiles the kernels that most tests run, each once, on two cores: ``python -m tests.compile_kernels``.

Otherwise each of pytest's workers compiles nearly all of them, because workers do not wait for each other. Kernels that
are missing here are compiled by the tests that need them.
"""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, product

import torch
from torch import nn

from janossy import (
    GRU,
    LSTM,
    RNN,
    Combinations,
    JanossyNetwork,
    JanossyPooling,
    Ragged,
    Sampled,
    Spectral,
    Stack,
    TupleMLP,
    TupleProduct,
    Tuples,
)
from janossy.functions import ACTIVATIONS
from janossy.kernels import load
from janossy.kernels.expansions import EXPANSIONS

DTYPES = (torch.float64, torch.float32)
FEW_IN_FLOAT32 = ("tanh", "relu", "gelu", "sine")
EVERY = 10.0
"""The seconds between two lines of progress."""


def layers() -> Iterator[tuple[JanossyPooling, torch.dtype, int]]:
    """Yields layers that together call the kernels, with dtype and set size, those with the longest compilation first.

    f is float32 here, whatever its elements are.
    """
    for dtype, activation, orderings in product(DTYPES, EXPANSIONS, (Tuples(2), Combinations(2))):
        if dtype == torch.float64 or activation in FEW_IN_FLOAT32:
            f = TupleMLP(2, 2, 4, activation=activation)
            yield JanossyPooling(f, orderings, evaluate=Spectral(1e-3, enumerate_up_to=0)), dtype, 6
    for dtype, recurrence in product(DTYPES, (LSTM, GRU, RNN)):
        yield JanossyPooling(recurrence(2, 4), Sampled(2), evaluate="packed"), dtype, 3
    for dtype, k in product(DTYPES, (1, 2, 3, 4)):
        for orderings in (Tuples(k), Combinations(k)):
            yield JanossyPooling(TupleProduct(k, 2, 4), orderings, evaluate="permanent"), dtype, k
    for dtype, activation in product(DTYPES, ACTIVATIONS):
        if dtype == torch.float64 or activation in FEW_IN_FLOAT32:
            yield JanossyPooling(TupleMLP(2, 2, 4, activation=activation), Tuples(2), evaluate="fused"), dtype, 3
    for dtype in DTYPES:  # pairs of one hidden unit and this many elements are sorted
        yield JanossyPooling(TupleMLP(2, 2, 1, activation="relu"), Tuples(2), evaluate="fused"), dtype, 3000


def stacks() -> Iterator[tuple[JanossyPooling, int]]:
    """Yields layers whose stacks call the kernels of stacks, in float64, with the size of a set."""
    for recurrence in (LSTM, GRU, RNN):
        yield JanossyPooling(recurrence(2, 8), Sampled(1)), 3
    for k in (1, 2, 3):
        yield JanossyPooling(TupleMLP(k, 2, 8), Tuples(k)), 4


def compile_stack(i: int) -> None:
    pooling, n = list(stacks())[i]
    stack = Stack([JanossyNetwork(nn.Embedding(2, 2), pooling, None)] * 2).double()
    sets = Ragged.from_sizes(torch.arange(2 * n) % 2, [n, n])
    stack(sets).sum().backward()
    with torch.no_grad():
        stack(sets)


def compile_one(i: int) -> None:
    layer, dtype, n = list(layers())[i]
    sets = Ragged.from_sizes(torch.randn(n, 2, dtype=dtype), [n])
    layer.to(dtype)(sets).sum().backward()
    with torch.no_grad():
        layer(sets)


def main() -> None:
    os.environ["JANOSSY_KERNELS"] = "wait"  # here, and in the processes below
    if load() is None:
        return  # without numba, tests run in torch operations
    start, num, num_stacks = time.monotonic(), len(list(layers())), len(list(stacks()))
    told = start
    with ProcessPoolExecutor(2) as pool:
        done = pool.map(compile_one, range(num)), pool.map(compile_stack, range(num_stacks))
        for i, _ in enumerate(chain(*done), start=1):
            if time.monotonic() - told > EVERY:
                told = time.monotonic()
                print(f"kernels: {i} of {num + num_stacks}", flush=True)
    print(
        f"compiled kernels, or found them compiled, for {num + num_stacks} layers in {time.monotonic() - start:.0f} s"
    )


if __name__ == "__main__":
    main()
