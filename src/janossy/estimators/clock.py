"""The clock by which searches keep their time: that of the wall, or for a while another."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic

_CLOCK: ContextVar[Callable[[], float]] = ContextVar("clock", default=monotonic)


def now() -> float:
    """Seconds since a time that stays."""
    return _CLOCK.get()()


@contextmanager
def time_by(clock: Callable[[], float]) -> Iterator[None]:
    """Keep time by this clock meanwhile, such as ``time.process_time`` on a machine that others use too."""
    token = _CLOCK.set(clock)
    try:
        yield
    finally:
        _CLOCK.reset(token)
