"""Training steps of four networks of the estimators, on their own batches: one ``Stack`` against one by one.

The networks are those of ``build_network``, on sets of 1 to 12 elements of four columns. A step is forward, squared
error and backward, without the optimiser. Both sides have the same weights and batches, and get the same numbers. The
rows are for one thread. Where the stack computes a part network by network, it cannot gain there.
"""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from benchmarks.harness import Row
from benchmarks.step import on
from janossy import JanossyNetwork, Ragged, Stack
from janossy.estimators.strategies import build_network
from janossy.tables.layout import Layout

NUM_NETWORKS, NUM_BATCHES = 4, 20
LAYOUT = Layout((12,), 3)


def rows() -> Iterator[Row]:
    """Yields the strategies, for batches of 32 and 64 sets."""
    for batch_size in (32, 64):
        for name in ("k1", "attention", "gru", "k2+features"):
            yield row(name, batch_size)


def row(name: str, batch_size: int) -> Row:
    """Returns the row of one step of all networks per call, on one of several batches in turn."""
    networks = [build_network(name, LAYOUT, Layout(), 1) for _ in range(NUM_NETWORKS)]
    stack = Stack(networks)
    each = [[batch(batch_size, NUM_NETWORKS * i + r) for r in range(NUM_NETWORKS)] for i in range(NUM_BATCHES)]
    return Row(
        f"{name}, {NUM_NETWORKS} networks, batch {batch_size}",
        partial(on, 1, in_turn(partial(stack_step, stack), each)),
        partial(on, 1, in_turn(partial(single_steps, networks), each)),
    )


def batch(num_sets: int, seed: int) -> Ragged:
    source = torch.Generator().manual_seed(seed)
    sizes = torch.randint(1, 13, (num_sets,), generator=source).tolist()
    codes = torch.randint(12, (sum(sizes), 1), generator=source)
    return Ragged.from_sizes(torch.cat((codes, torch.randn(sum(sizes), 3, generator=source)), 1), sizes)


def in_turn(step: Callable[[list[Ragged]], Tensor], batches: list[list[Ragged]]) -> Callable[[], Tensor]:
    """Returns a function that takes a step on the next batches, as new batches have other sizes."""
    number = -1

    def next_step() -> Tensor:
        nonlocal number
        number += 1
        return step(batches[number % len(batches)])

    return next_step


def stack_step(stack: Stack, sets: list[Ragged]) -> Tensor:
    stack.zero_grad()
    losses = stack(sets, generators=generators()).square().mean((1, 2))
    losses.sum().backward()
    return losses.detach()


def single_steps(networks: list[JanossyNetwork], sets: list[Ragged]) -> Tensor:
    losses = []
    for network, own, generator in zip(networks, sets, generators(), strict=True):
        network.zero_grad()
        losses.append(network(own, generator=generator).square().mean())
        losses[-1].backward()
    return torch.stack(losses).detach()


def generators() -> list[torch.Generator]:
    return [torch.Generator().manual_seed(number) for number in range(NUM_NETWORKS)]
