"""Examples to learn from, and batches of them by index."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import ceil
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from janossy.sets import Ragged

EPOCH_SETS = 100_000
"""The largest number of sets of an epoch. An epoch is a pass over the training sets, or this many, before
validation."""

SHUFFLING = 2**32 - 2
"""The entry in the seeds of shuffling that stands where training's seeds have the process."""


@dataclass(frozen=True, eq=False)
class Examples(Dataset["Examples"]):
    """Encoded sets with their targets and weights, all on one device. An index selects sets.

    Shapes: context (B, e), or None if there are no columns; targets (B,) of classes, or (B, t) of numbers; weights
        (B,).
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

    def digest(self) -> str:
        """Returns text that identifies these examples."""
        sha = sha256()
        for tensor in (self.sets.values, self.sets.offsets, self.context, self.targets, self.weights):
            if tensor is not None:
                sha.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
                sha.update(tensor.contiguous().cpu().numpy().tobytes())
        return sha.hexdigest()

    @staticmethod
    def cat(parts: Sequence["Examples"]) -> "Examples":
        """Returns all examples of the parts, end to end."""
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


class BatchSource(Protocol):
    """The source of training's batches. The seed and the number of the step determine their order."""

    seed: int

    @property
    def steps_per_epoch(self) -> int: ...

    def batches(self, step: int) -> Iterator[tuple[Examples | None, int]]: ...


class RandomBatches:
    """Batches of examples in memory. Each pass takes every set once, in its own random order."""

    def __init__(self, examples: Examples, batch_size: int, seed: int) -> None:
        self.examples, self.seed = examples, seed
        self.batch_size = min(batch_size, len(examples))
        self.steps_per_epoch = num_batches(len(examples), batch_size)

    def batches(self, step: int) -> Iterator[tuple[Examples, int]]:
        """Yields batches from number ``step`` on, without end, each with its number of sets."""
        # If too few sets remain at the end of a pass for a batch of their own, they join the last one.
        num_sets = len(self.examples)
        steps_per_pass = max(1, ceil(num_sets / self.batch_size - 0.5))
        device = self.examples.sets.device
        while True:
            number, first = divmod(step, steps_per_pass)
            shuffled = torch.Generator().manual_seed(seed_of(self.seed, number, SHUFFLING))
            order = torch.randperm(num_sets, generator=shuffled).to(device)
            for i in range(first, steps_per_pass):
                end = num_sets if i + 1 == steps_per_pass else (i + 1) * self.batch_size
                indices = order[i * self.batch_size : end]
                yield self.examples[indices], len(indices)
            step = (number + 1) * steps_per_pass


def num_batches(num_sets: int, batch_size: int) -> int:
    """Returns the number of steps of an epoch."""
    in_epoch = min(num_sets, EPOCH_SETS)
    return max(1, ceil(in_epoch / min(batch_size, num_sets) - 0.5))


def seed_of(*numbers: int) -> int:
    """Returns one seed for torch from several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))


def short_seed_of(*numbers: int) -> int:
    """Returns one seed of 32 bits from several numbers, as scikit-learn takes no larger one."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def seed_all(seed: int, device: torch.device) -> None:
    """Seeds torch's random numbers on the CPU and the device, as ``torch.manual_seed`` does on all devices.

    Without a GPU, ``torch.manual_seed`` formats the stack of calls several times, for errors of later GPUs.
    """
    if device.type == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)
