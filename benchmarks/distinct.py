"""The gradient of a whole data set at once, with each distinct tuple evaluated once, against its batches in turn.

The sets are those of the paper's variance task: 10 integers of 0 to 99, sorted. Both sides give the gradient of the
mean output by f's first weights. Tuples are counted in the first call, and the counts are kept, as in training on all
sets at once. One row shows the cost of counting.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from benchmarks.harness import Row
from janossy import Combinations, JanossyNetwork, JanossyPooling, Ragged, TupleMLP

NUM_SETS, NUM_INTEGERS, VOCABULARY, HIDDEN = 100_000, 10, 100, 30


def rows() -> Iterator[Row]:
    """Yields pairs and triples, shallow and deep, and an f that declares nothing."""
    for k in (2, 3):
        yield gradient_row(f"k={k}, {HIDDEN} units", k, TupleMLP(k, VOCABULARY // k, HIDDEN), 128)
    yield gradient_row("k=2, 30 and 30 units", 2, TupleMLP(2, 50, (HIDDEN, HIDDEN)), 1000)
    yield gradient_row("k=2, a plain module", 2, plain(2), 1000)
    yield gradient_row("k=2, 30 units, counted in each call", 2, TupleMLP(2, 50, HIDDEN), 128, new=True)


def plain(k: int) -> nn.Module:
    """Returns two layers that tell no evaluator their structure."""
    return nn.Sequential(nn.Flatten(), nn.Linear(k * (VOCABULARY // k), HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, HIDDEN))


def gradient_row(
    name: str, k: int, f: nn.Module, batch_size: int, *, new: bool = False, num_sets: int = NUM_SETS
) -> Row:
    """Returns the row of a gradient. ``new`` uses other sets in each call, as far as counts are concerned."""
    h = nn.Embedding(VOCABULARY, VOCABULARY // k).requires_grad_(False)
    ours, theirs = (
        JanossyNetwork(h, JanossyPooling(f, Combinations(k), evaluate=evaluate), nn.Linear(HIDDEN, 1))
        for evaluate in ("distinct", "auto")
    )
    theirs.rho = ours.rho
    x = torch.randint(VOCABULARY, (num_sets, NUM_INTEGERS))
    whole, weight, calls = Ragged.from_padded(x), next(f.parameters()), iter(range(10**9))

    def gradient_of(network: JanossyNetwork, batches: list[Ragged]) -> Tensor:
        weight.grad = None
        for batch in batches:
            (network(batch).sum() / num_sets).backward()
        assert weight.grad is not None
        return weight.grad.clone()

    def all_at_once() -> Tensor:
        return gradient_of(ours, [Ragged.from_padded(x.roll(next(calls), 0)) if new else whole])

    def in_batches() -> Tensor:
        return gradient_of(theirs, [Ragged.from_padded(batch) for batch in x.split(batch_size)])

    about = f"{num_sets} sets of {NUM_INTEGERS}, {name}, against batches of {batch_size}"
    return Row(about, all_at_once, in_batches)
