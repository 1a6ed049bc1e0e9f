"""Ends that a fit does not plan: the clock by which it keeps its time, and Ctrl-C."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from types import FrameType, TracebackType
from typing import Any, Self

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


class Interrupts:
    """Within ``with`` a first Ctrl-C sets ``came``, which long work looks at; a second raises KeyboardInterrupt.

    If another is in force around it, both hear of every signal. Outside the main thread, and if somebody else takes
    care of a signal or ignores it, nothing changes.

    Args:
        signals: those that are heard; commands hear SIGTERM too, which batch systems send.
        patient: False if the first signal raises KeyboardInterrupt too. It may be changed meanwhile.

    Example:
        >>> with Interrupts() as interrupts:
        ...     print(interrupts.came)
        False
    """

    def __init__(self, *signals: signal.Signals, patient: bool = True) -> None:
        self.signals, self.patient = signals or (signal.SIGINT,), patient
        self.came = self.insisted = False
        self.number: int = signal.SIGINT
        """The signal that came."""
        self.outer: Interrupts | None = None
        self.inner: Interrupts | None = None
        self.before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            return self
        for each in self.signals:
            before = signal.getsignal(each)
            owner = getattr(before, "__self__", None)
            if isinstance(owner, Interrupts):
                self.outer, owner.inner, self.came = owner, self, owner.came
            if before in (signal.default_int_handler, signal.SIG_DFL) or isinstance(owner, Interrupts):
                self.before[each] = signal.signal(each, self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each, before in self.before.items():
            signal.signal(each, before)
        if self.outer is not None:
            self.outer.inner = None

    @property
    def ends(self) -> bool:
        """True once a signal has raised a KeyboardInterrupt, which a library may have caught or turned into another."""
        return self.insisted or (self.came and not self.patient)

    def check(self) -> None:
        """Raises the KeyboardInterrupt again, if there was one."""
        if self.ends:
            raise KeyboardInterrupt

    def _hear(self, number: int, frame: FrameType | None) -> None:
        each: Interrupts | None = self
        while each is not None and each.outer is not None:
            each = each.outer
        is_patient = True
        while each is not None:
            each.insisted, each.came, each.number = each.came, True, number
            is_patient = is_patient and each.patient
            each = each.inner
        if self.insisted or not is_patient:
            raise KeyboardInterrupt
