"""Examples to learn from, and batches of them, which are cut from all sets by index."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from janossy.sets import Ragged

EPOCH_SETS = 100_000
"""An epoch is a pass over the training sets, or so many of them, after which one looks at the validation sets."""


@dataclass(frozen=True, eq=False)
class Examples(Dataset):
    """Encoded sets with their targets and weights, all on one device; chosen from by sets.

    Shapes: context (B, e), or None of no columns; targets (B,) of classes, or (B, t) of numbers; weights (B,).
    """

    sets: Ragged
    context: Tensor | None
    targets: Tensor
    weights: Tensor

    def __len__(self) -> int:
        return len(self.sets)

    def __getitem__(self, chosen: Any) -> "Examples":
        context = None if self.context is None else self.context[chosen]
        return Examples(self.sets[chosen], context, self.targets[chosen], self.weights[chosen])

    @staticmethod
    def cat(parts: Sequence["Examples"]) -> "Examples":
        """All of them, one after the other."""
        if len(parts) == 1:
            return parts[0]
        contexts = [part.context for part in parts if part.context is not None]
        return Examples(
            Ragged.cat([part.sets for part in parts]),
            torch.cat(contexts) if contexts else None,
            torch.cat([part.targets for part in parts]),
            torch.cat([part.weights for part in parts]),
        )

    def to(self, device: Any) -> "Examples":
        context = None if self.context is None else self.context.to(device)
        return Examples(self.sets.to(device), context, self.targets.to(device), self.weights.to(device))


class Batches:
    """The examples in order, so many at a time."""

    def __init__(self, examples: Examples, batch_size: int) -> None:
        self.examples = examples
        self.batch_size = batch_size

    def __iter__(self) -> Iterator[tuple[Examples, Tensor]]:
        for begin in range(0, len(self.examples), self.batch_size):
            batch = self.examples[begin : begin + self.batch_size]
            yield batch, batch.targets


class RandomBatches:
    """An epoch of batches of the examples in random order; where that is not a whole pass, the next one goes on."""

    def __init__(self, examples: Examples, batch_size: int, generator: torch.Generator) -> None:
        self.examples = examples
        self.batch_size = min(batch_size, len(examples))
        self.generator = generator
        self.order = torch.empty(0, dtype=torch.long, device=generator.device)

    def __iter__(self) -> Iterator[tuple[Examples, Tensor]]:
        for _ in range(num_batches(len(self.examples), self.batch_size)):
            if len(self.order) == 0:
                self.order = torch.randperm(len(self.examples), generator=self.generator, device=self.generator.device)
            # What is left at the end of a pass, too little for a batch, joins the last one.
            end = self.batch_size if 2 * len(self.order) > 3 * self.batch_size else len(self.order)
            batch, self.order = self.examples[self.order[:end]], self.order[end:]
            yield batch, batch.targets


def num_batches(num_sets: int, batch_size: int) -> int:
    """The steps of an epoch."""
    in_epoch = min(num_sets, EPOCH_SETS)
    return max(1, ceil(in_epoch / min(batch_size, num_sets) - 0.5))
