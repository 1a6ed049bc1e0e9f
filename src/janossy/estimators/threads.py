"""Threads of torch in a fit: a number that suits the size of batches, and is the same in every run."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

import joblib
import torch

from janossy.sets import Ragged

SMALL_BATCH = 20_000
"""The most elements of a batch for which one thread is as fast as several, which would only wait for each other."""


def usable_threads() -> int:
    """Returns torch's number of threads, but at most as many as the CPUs that the quota of a container leaves.

    Torch does not read that quota, and more threads would wait for each other.
    """
    return min(torch.get_num_threads(), int(joblib.cpu_count()))


@dataclass(frozen=True)
class Threads:
    """The number of threads that train networks.

    It depends only on the size of a batch, and on nothing that varies between runs. Another number of threads adds
    numbers in another order, and would train other weights.

    Args:
        asked: the number of threads. None for one if batches are small, else all.
        available: the number of all threads. A checkpoint keeps it for a fit that continues on another machine.
    """

    asked: int | None = None
    available: int = field(default_factory=usable_threads)

    @property
    def most(self) -> int:
        """The number of threads for what gains from all of them."""
        return self.asked or self.available

    def of(self, sets: Ragged, batch_size: int) -> int:
        """Returns the number of threads for batches of ``batch_size`` of these sets."""
        if self.asked is not None:
            return self.asked
        return 1 if int(batch_size) * sets.values.shape[0] <= SMALL_BATCH * len(sets) else self.available


_lock = Lock()
_entered: list[int] = []
"""One entry per ``using_threads`` in force: the number of threads before the first of them."""


@contextmanager
def using_threads(num: int) -> Iterator[None]:
    """Sets torch's number of threads inside ``with``. The last of several overlapping uses restores the old number."""
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
