"""Threads of torch in a fit: as many as a batch is worth, the same whenever the fit is repeated."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

import torch

from janossy.sets import Ragged

SMALL_BATCH = 20_000
"""Elements of a batch up to which one thread is as fast as several, which would only wait for each other."""


@dataclass(frozen=True)
class Threads:
    """The number of threads by which networks are trained.

    It follows from the size of a batch, and from nothing that varies between runs. Another number of threads adds
    numbers in another order, and would train other weights.

    Args:
        asked: so many; None for one if batches are small, else all.
        available: all there are. A checkpoint keeps it for a fit that goes on elsewhere.
    """

    asked: int | None = None
    available: int = field(default_factory=torch.get_num_threads)

    def of(self, sets: Ragged, batch_size: int) -> int:
        """Returns the number of threads for batches of so many of these sets."""
        if self.asked is not None:
            return self.asked
        return 1 if batch_size * sets.values.shape[0] <= SMALL_BATCH * len(sets) else self.available


_lock = Lock()
_entered: list[int] = []
"""An entry for each ``using_threads`` in force: the number of threads before the first of them."""


@contextmanager
def using_threads(num: int) -> Iterator[None]:
    """Lets torch use so many threads meanwhile. The last of several that overlap restores what was there before."""
    with _lock:
        _entered.append(_entered[0] if _entered else torch.get_num_threads())
        torch.set_num_threads(num)
    try:
        yield
    finally:
        with _lock:
            before = _entered.pop()
            if not _entered:
                torch.set_num_threads(before)
