"""Compiles the kernels that most tests run, each once, on two cores: ``python -m tests.compile_kernels``.

Otherwise each of pytest's workers compiles nearly all of them, because workers do not wait for each other. Kernels that
are missing here are compiled by the tests that need them.
"""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product

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
from janossy.nn.encoder import Relations
from janossy.orderings import Orderings

DTYPES = (torch.float64, torch.float32)
IN_FLOAT32 = ("tanh", "relu", "gelu", "sine")
EVERY = 10.0
"""The seconds between two lines of progress."""

Layer = tuple[nn.Module, torch.dtype, int]
"""A layer or a stack, the dtype of its elements, and the size of a set; bfloat16 stands for autocast to it."""


def families() -> Iterator[list[Layer]]:
    """Yields layers that together call the kernels; those whose kernels share functions in one list, for one process.

    f is float32 here, whatever its elements are.
    """
    yield [
        (JanossyPooling(TupleMLP(2, 2, 4), orderings(2), evaluate=Spectral(1e-3, enumerate_up_to=0)), dtype, 6)
        for dtype, orderings in product(DTYPES, (Tuples, Combinations))
    ]  # one kernel serves all activations
    yield [(Relations(TupleMLP(k, 2, 4), evaluate=Spectral(1e-3, enumerate_up_to=0)), torch.float64, 6) for k in (2, 3)]
    for dtype in DTYPES:
        yield [
            (JanossyPooling(recurrence(2, 4), Sampled(2), evaluate="packed"), dtype, 3)
            for recurrence in (LSTM, GRU, RNN)
        ]
    yield [
        (JanossyPooling(recurrence(2, 16), Sampled(2), evaluate="packed"), torch.bfloat16, 3)
        for recurrence in (LSTM, GRU, RNN)
    ]
    yield [(_stack(recurrence(2, 8), Sampled(1)), torch.float64, 3) for recurrence in (LSTM, GRU, RNN)]
    yield [
        (JanossyPooling(TupleProduct(k, 2, 4), orderings(k), evaluate="permanent"), dtype, k)
        for dtype, k, orderings in product(DTYPES, (1, 2, 3, 4), (Tuples, Combinations))
    ]
    for dtype, activations in ((torch.float64, ACTIVATIONS), (torch.float32, IN_FLOAT32)):
        yield [
            (JanossyPooling(TupleMLP(2, 2, 4, activation=activation), Tuples(2), evaluate="fused"), dtype, 3)
            for activation in activations
        ] + [  # pairs of one hidden unit and this many elements are sorted
            (JanossyPooling(TupleMLP(2, 2, 1, activation="relu"), Tuples(2), evaluate="fused"), dtype, 3000)
        ]
    yield [(_stack(TupleMLP(k, 2, 8), Tuples(k)), torch.float64, 4) for k in (1, 2, 3)]


def _stack(f: nn.Module, orderings: Orderings) -> Stack:
    return Stack([JanossyNetwork(nn.Embedding(2, 2), JanossyPooling(f, orderings), None)] * 2)


def compile_family(i: int) -> int:
    """Runs the layers of a list, and returns how many they are."""
    layers = list(families())[i]
    for layer, precision, n in layers:
        dtype = torch.float32 if precision == torch.bfloat16 else precision
        if isinstance(layer, Stack):
            sets = Ragged.from_sizes(torch.arange(2 * n) % 2, [n, n])
        else:
            sets = Ragged.from_sizes(torch.randn(n, 2, dtype=dtype), [n])
        for gradients in (True, False):
            with torch.set_grad_enabled(gradients):
                with torch.autocast("cpu", enabled=dtype != precision):
                    result = layer.to(dtype)(sets)
                result = result.values if isinstance(result, Ragged) else result
                if gradients:
                    result.sum().backward()
    return len(layers)


def main() -> None:
    os.environ["JANOSSY_KERNELS"] = "wait"  # here, and in the processes below
    if load() is None:
        return  # without numba, tests run in torch operations
    start, lists = time.monotonic(), list(families())
    num, done, told = sum(map(len, lists)), 0, start
    with ProcessPoolExecutor(2) as pool:
        for num_compiled in pool.map(compile_family, range(len(lists))):
            done += num_compiled
            if time.monotonic() - told > EVERY:
                told = time.monotonic()
                print(f"kernels: {done} of {num}", flush=True)
    took = f"{time.monotonic() - start:.0f} s, {sum(os.times()[:4]):.0f} CPU seconds"
    print(f"compiled kernels, or found them compiled, for {num} layers in {took}")


if __name__ == "__main__":
    main()
