"""The order in which processes learn from the sets of pieces, and the reader that follows it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
import torch
from torch import Tensor

from janossy.estimators.batches import EPOCH_SETS, Examples, num_batches, seed_of
from janossy.estimators.interrupts import now

BUFFER_SETS, BUFFER_ELEMENTS = 2**16, 2**20
"""The smallest shuffle buffer: sets are shuffled among this many sets, or sets of this many elements, in memory."""


@dataclass(frozen=True)
class Window:
    """Pieces that are read together and whose sets are shuffled together, with the sizes of their batches."""

    pieces: tuple[int, ...]
    batches: tuple[int, ...]


@dataclass(frozen=True)
class Place:
    """The position of a batch: the pass, the window in it, and the batch in the window.

    ``window`` is None if the process has no batch and waits for others.
    """

    number: int
    window: int | None
    batch: int
    num_sets: int
    """The number of sets in the batches of all processes."""


@dataclass(frozen=True)
class Order:
    """The order of a fit, from the number of sets and elements in each piece. It is the same in all processes.

    In each pass, pieces are dealt to the processes anew, and no two processes read the same piece. A process shuffles
    the sets of as many pieces as its buffer holds, then goes on to the next. Processes with fewer batches wait.
    """

    num_sets: Sequence[int]
    num_elements: Sequence[int]
    batch_size: int
    """The batch size of all processes together."""
    num_processes: int
    seed: int

    def windows(self, number: int, rank: int) -> list[Window]:
        """Returns the windows that a process reads in a pass."""
        order = np.random.default_rng([self.seed, number]).permutation(len(self.num_sets))
        dealt = [int(i) for i in order[rank :: self.num_processes] if self.num_sets[i]]
        windows: list[Window] = []
        waiting: list[int] = []
        for place, i in enumerate(dealt):
            waiting.append(i)
            sets, elements = (sum(each[j] for j in waiting) for each in (self.num_sets, self.num_elements))
            if sets >= BUFFER_SETS or elements >= BUFFER_ELEMENTS or place + 1 == len(dealt):
                windows.append(Window(tuple(waiting), self._batches(sets)))
                waiting = []
        return windows

    def _batches(self, num_sets: int) -> tuple[int, ...]:
        size = max(1, self.batch_size // self.num_processes)
        num = max(1, ceil(num_sets / size - 0.5))
        return tuple(num_sets // num + (i < num_sets % num) for i in range(num))

    def places(self, rank: int, step: int) -> Iterator[Place]:
        """Yields the batches of this process from number ``step`` on, without end."""
        number = 0
        while True:
            of_all = [self._batches_of(number, each) for each in range(self.num_processes)]
            num_steps = max(map(len, of_all))
            for at in range(step, num_steps):
                num_sets = sum(batches[at][2] for batches in of_all if at < len(batches))
                mine = of_all[rank]
                window, batch = mine[at][:2] if at < len(mine) else (None, 0)
                yield Place(number, window, batch, num_sets)
            step = max(0, step - num_steps)
            number += 1

    def steps_an_epoch(self) -> int:
        """Returns the steps of an epoch: of a pass, or of the sets of an epoch. Waiting processes add steps."""
        steps = num_batches(total := sum(self.num_sets), self.batch_size)
        if self.num_processes == 1:
            return steps
        of_pass = max(len(self._batches_of(0, rank)) for rank in range(self.num_processes))
        return max(steps, ceil(of_pass * min(1.0, EPOCH_SETS / total)))

    def _batches_of(self, number: int, rank: int) -> list[tuple[int, int, int]]:
        """Returns the window, the number in it, and the size of each batch of a process in a pass."""
        windows = self.windows(number, rank)
        return [(w, b, size) for w, window in enumerate(windows) for b, size in enumerate(window.batches)]

    def shuffled(self, number: int, window: int, rank: int, num_sets: int) -> torch.Tensor:
        """Returns the random order of the sets of a window."""
        generator = torch.Generator().manual_seed(seed_of(self.seed, number, window, rank))
        return torch.randperm(num_sets, generator=generator)


class Reader:
    """The batches of one process in the order of ``order``. One window of pieces is in memory at a time.

    ``read`` returns the examples of a piece without its validation sets.
    """

    def __init__(self, read: Callable[[int], Examples], order: Order, rank: int) -> None:
        self.read, self.order, self.rank = read, order, rank
        self.seed = order.seed
        self.steps_per_epoch = order.steps_an_epoch()
        self.seconds = 0.0
        """The seconds spent on reading."""

    def batches(self, step: int) -> Iterator[tuple[Examples | None, int]]:
        """Yields batches from number ``step`` on, each with the number of sets in the batches of all processes.

        A batch is None if only other processes still have one in this pass.
        """
        in_memory: tuple[int, int] | None = None
        parts: Sequence[Tensor] = ()
        for place in self.order.places(self.rank, step):
            if place.window is None:
                yield None, place.num_sets
                continue
            if in_memory != (place.number, place.window):
                began = now()
                window = self.order.windows(place.number, self.rank)[place.window]
                examples = Examples.cat([self.read(i) for i in window.pieces])
                shuffled = self.order.shuffled(place.number, place.window, self.rank, len(examples))
                parts = shuffled.split(window.batches)
                in_memory = place.number, place.window
                self.seconds += now() - began
            yield examples[parts[place.batch]], place.num_sets
