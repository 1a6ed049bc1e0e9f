"""The batches of a stream, read one window of pieces at a time."""

from collections.abc import Callable, Iterator, Sequence

from torch import Tensor

from janossy.estimators.batches import Examples
from janossy.estimators.clock import now
from janossy.estimators.streams.order import Order


class Reader:
    """The batches of one process, in the order that ``order`` says; one window of pieces is in memory at a time.

    ``read``: returns the examples of a piece, without its validation sets.
    """

    def __init__(self, read: Callable[[int], Examples], order: Order, rank: int) -> None:
        self.read, self.order, self.rank = read, order, rank
        self.seed = order.seed
        self.steps_per_epoch = order.steps_an_epoch()
        self.seconds = 0.0
        """Spent on reading."""

    def batches(self, step: int) -> Iterator[tuple[Examples | None, int]]:
        """Yields batches from the ``step``-th on, each with the number of sets in the batches of all processes.

        A batch is None if other processes still have one in this pass.
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
