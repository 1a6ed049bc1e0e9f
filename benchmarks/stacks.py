"""Whole training steps of fifteen stacked networks of the arithmetic study, against the authors' loop for each.

A step is that of the benchmark `step`, at batch 128. Each network has its own batch, order and state of Adam. Theirs
trains fifteen networks, one after the other, with torch's layers. Both sides have the same weights, see the same
batches in the same orders, and get the same numbers. The ratio is therefore that of one network in the stack to one by
itself.
"""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn

from benchmarks.harness import Row
from benchmarks.step import LEARNING_RATE, NAMES, NUM_EXAMPLES, TASK, authors, on, trainable
from janossy import Ragged, Stack
from studies.paper.adam import Adam
from studies.paper.arithmetic.models import MODELS, Model

NUM_NETWORKS, NUM_STEPS, BATCH_SIZE = 15, 1, 128


def rows() -> Iterator[Row]:
    """Yields every model, on one thread and on two."""
    for num_threads in (1, 2):
        for name in NAMES:
            yield stack_row(name, num_threads)


def stack_row(name: str, num_threads: int, num_networks: int = NUM_NETWORKS) -> Row:
    """Returns the row of one step of all networks per call. Each side continues from its last step."""
    networks = [MODELS[name].build(TASK, "sum", "uniform") for _ in range(num_networks)]
    theirs = [authors(MODELS[name], network) for network in networks]
    threads = "1 thread" if num_threads == 1 else f"{num_threads} threads"
    return Row(
        f"{name.removesuffix('-linear')}, {num_networks} networks, {threads}",
        partial(on, num_threads, our_steps(Stack(networks))),
        partial(on, num_threads, their_steps(MODELS[name], theirs)),
    )


def our_steps(stack: Stack) -> Callable[[], Tensor]:
    """Returns a function that steps all networks at once."""
    (x, y), each = TASK.draw(NUM_EXAMPLES, 0), zip(*map(batches, range(len(stack))), strict=True)
    optimizer = Adam(trainable(stack), lr=LEARNING_RATE)
    x, sources = x.sort(1).values, generators(len(stack))  # sorted in advance, like theirs

    def steps() -> Tensor:
        for _ in range(NUM_STEPS):
            batch = torch.cat(next(each))
            sets = Ragged.from_padded(x.index_select(0, batch))
            outputs = stack(sets, joined=True, generators=sources)
            losses = (outputs[:, :, 0] - y[batch].view(len(stack), -1)).abs().mean(1)
            optimizer.zero_grad()
            losses.sum().backward()
            optimizer.step()
            losses.tolist()
        return losses.detach()

    return steps


def their_steps(model: Model, modules: list[nn.Module]) -> Callable[[], Tensor]:
    """Returns a function that runs a plain loop over torch's layers for each network."""
    (x, y), each = TASK.draw(NUM_EXAMPLES, 0), [batches(number) for number in range(len(modules))]
    optimizers = [torch.optim.Adam(trainable(module), lr=LEARNING_RATE) for module in modules]
    sources = generators(len(modules))
    x = x.sort(1).values
    if model.k is not None:
        x = x[:, torch.combinations(torch.arange(TASK.num_integers), model.k)]

    def of_one(module: nn.Module, optimizer: torch.optim.Optimizer, some: Iterator[Tensor], source) -> Tensor:
        for _ in range(NUM_STEPS):
            batch = next(some)
            of_batch = x[batch]
            if model.k is None:
                noise = torch.randint(2**62, of_batch.shape, generator=source)
                of_batch = of_batch.gather(1, noise.argsort(1))
            loss = (module(of_batch)[:, 0] - y[batch]).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss.item()
        return loss.detach()

    def steps() -> Tensor:
        return torch.stack([of_one(*mine) for mine in zip(modules, optimizers, each, sources, strict=True)])

    return steps


def batches(seed: int) -> Iterator[Tensor]:
    """Yields the batches of one network, epoch after epoch."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(NUM_EXAMPLES, generator=generator)
        yield from order.split(BATCH_SIZE)


def generators(num: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(1000 + number) for number in range(num)]
