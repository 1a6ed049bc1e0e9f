"""Unplanned ends of a fit: the clock that measures its time, and Ctrl-C."""

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
    """Returns the seconds since a fixed time, by the clock in force."""
    return _CLOCK.get()()


@contextmanager
def time_by(clock: Callable[[], float]) -> Iterator[None]:
    """Measures time by this clock inside ``with``, such as ``time.process_time`` on a shared machine."""
    token = _CLOCK.set(clock)
    try:
        yield
    finally:
        _CLOCK.reset(token)


class Interrupts:
    """A handler of Ctrl-C inside ``with``: the first sets ``came``, the second raises KeyboardInterrupt.

    Long work checks ``came``. If handlers are nested, all of them receive every signal. Nothing changes outside the
    main thread, or if another handler is set or the signal is ignored.

    Args:
        signals: the signals to handle. Commands also handle SIGTERM, which batch systems send.
        patient: False if the first signal raises KeyboardInterrupt too. It may be changed inside ``with``.

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
        """True after a signal has raised a KeyboardInterrupt, even if a library caught or replaced the exception."""
        return self.insisted or (self.came and not self.patient)

    def check(self) -> None:
        """Raises the KeyboardInterrupt again if there was one."""
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
