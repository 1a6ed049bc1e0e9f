"""Ten whole training steps of the arithmetic study, against the loop of the authors' code.

A step indexes a batch, runs forward, loss and backward, updates the weights by Adam, and logs the loss. The task is the
variance of 10 integers, by the released protocol (sums, L1).

Theirs makes all combinations of the sorted sequences in advance, or shuffles the sequences of the batch. It uses
torch's layers and stock Adam. Ours receives sorted sequences, and uses ``studies.paper.adam.Adam``, whose steps equal
those of ``torch.optim.Adam(fused=True)``. Both sides have the same weights, see the same batches in the same orders,
and get the same numbers.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from itertools import combinations

import torch
from torch import Tensor, nn

from benchmarks.harness import Row, torch_module
from janossy import JanossyNetwork, Ragged
from studies.paper.adam import Adam
from studies.paper.arithmetic.models import MODELS, Model
from studies.paper.arithmetic.tasks import TASKS, Task

NAMES = ("k1-linear", "k2-linear", "k3-linear", "lstm-linear", "gru-linear")
TASK = TASKS["variance"]
NUM_EXAMPLES, NUM_STEPS, LEARNING_RATE = 8192, 10, 1e-3


def rows() -> Iterator[Row]:
    """Yields every model, two sizes of batch, on one thread and on two."""
    for num_threads in (1, 2):
        for batch_size in (128, 1024):
            for name in NAMES:
                yield step_row(name, batch_size, num_threads)


def step_row(name: str, batch_size: int, num_threads: int) -> Row:
    """Returns the row of ten steps per call. Each side continues from its last step."""
    network = MODELS[name].build(TASK, "sum", "uniform")
    theirs = authors(MODELS[name], network)
    return Row(
        f"{name.removesuffix('-linear')}, batch {batch_size}, {num_threads} thread{'s' if num_threads > 1 else ''}",
        partial(on, num_threads, our_steps(network, batch_size)),
        partial(on, num_threads, their_steps(MODELS[name], theirs, batch_size)),
    )


def on(num_threads: int, steps: Callable[[], Tensor]) -> Tensor:
    """Returns the result of ``steps`` on ``num_threads`` threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(num_threads)
    try:
        return steps()
    finally:
        torch.set_num_threads(before)


def our_steps(network: JanossyNetwork, batch_size: int) -> Callable[[], Tensor]:
    """Returns a function that trains as ``studies.paper.arithmetic.train`` does."""
    (x, y), generator = TASK.draw(NUM_EXAMPLES, 0), torch.Generator().manual_seed(1)
    optimizer = Adam(trainable(network), lr=LEARNING_RATE)
    options = {"generator": generator}
    if not network.pooling.orderings.draws:
        x, options = x.sort(1).values, {}  # in advance, like theirs

    def loss(batch: Tensor) -> Tensor:
        return (network(Ragged.from_padded(x[batch]), **options)[:, 0] - y[batch]).abs().mean()

    return partial(steps_of, loss, optimizer, batches(batch_size))


def their_steps(model: Model, module: nn.Module, batch_size: int, task: Task = TASK) -> Callable[[], Tensor]:
    """Returns a function that runs a plain loop over torch's layers."""
    (x, y), generator = task.draw(NUM_EXAMPLES, 0), torch.Generator().manual_seed(1)
    optimizer = torch.optim.Adam(trainable(module), lr=LEARNING_RATE)
    if model.k is not None:
        tuples = torch.tensor(list(combinations(range(task.num_integers), model.k)))
        x = x.sort(1).values[:, tuples]

    def loss(batch: Tensor) -> Tensor:
        of_batch = x[batch]
        if model.k is None:  # once per epoch in their code; here per batch, from the numbers that ours samples
            noise = torch.randint(2**62, of_batch.shape, generator=generator)
            of_batch = of_batch.gather(1, noise.argsort(1))
        return (module(of_batch)[:, 0] - y[batch]).abs().mean()

    return partial(steps_of, loss, optimizer, batches(batch_size))


def steps_of(loss_of: Callable[[Tensor], Tensor], optimizer: torch.optim.Optimizer, each: Iterator[Tensor]) -> Tensor:
    """Steps on the next batches, and returns the last loss."""
    logged = 0.0
    for _ in range(NUM_STEPS):
        loss = loss_of(next(each))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        logged += loss.item()
    return loss.detach()


def batches(batch_size: int) -> Iterator[Tensor]:
    """Yields batches, epoch after epoch."""
    generator = torch.Generator().manual_seed(2)
    while True:
        order = torch.randperm(NUM_EXAMPLES, generator=generator)
        yield from order[: NUM_EXAMPLES // batch_size * batch_size].split(batch_size)


def trainable(module: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def authors(model: Model, network: JanossyNetwork) -> nn.Module:
    """Returns torch's layers with the network's weights, for integers (B, T, k), or (B, n)."""
    h = nn.Embedding.from_pretrained(network.h.weight.clone())
    rho = deepcopy(network.rho[0] if len(network.rho) == 1 else network.rho)
    if model.k is None:
        return Recurrent(h, torch_module(network.pooling.f), rho)
    first = network.pooling.f.hidden[0]
    f = nn.Linear(first.in_features, first.out_features)
    f.load_state_dict(first.state_dict())
    return Summed(h, f, rho)


class Summed(nn.Module):
    """The network ρ(Σ_t tanh(f([h(x_1), …, h(x_k)]))), over the tuples t of each set."""

    def __init__(self, h: nn.Module, f: nn.Module, rho: nn.Module) -> None:
        super().__init__()
        self.h, self.f, self.rho = h, f, rho

    def forward(self, x: Tensor) -> Tensor:
        return self.rho(torch.tanh(self.f(self.h(x).flatten(2))).sum(1))


class Recurrent(nn.Module):
    """ρ of f's last hidden state."""

    def __init__(self, h: nn.Module, f: nn.Module, rho: nn.Module) -> None:
        super().__init__()
        self.h, self.f, self.rho = h, f, rho

    def forward(self, x: Tensor) -> Tensor:
        return self.rho(self.f(self.h(x))[0][:, -1])
