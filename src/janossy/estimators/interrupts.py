"""Ctrl-C as a wish to end: heard where nothing is left half-done."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class Interrupts:
    """Within ``with`` a first Ctrl-C sets ``came``, which long work looks at; a second raises KeyboardInterrupt.

    Where another is in force around it, that hears of both too. Outside the main thread, and where somebody else takes
    care of SIGINT or ignores it, nothing changes.

    Example:
        >>> with Interrupts() as interrupts:
        ...     print(interrupts.came)
        False
    """

    def __init__(self) -> None:
        self.came = self.insisted = False

    def __enter__(self) -> Self:
        self.before: Any = None
        if threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGINT)
            self.outer = getattr(before, "__self__", None)
            if isinstance(self.outer, Interrupts):
                self.came = self.outer.came
            if before is signal.default_int_handler or isinstance(self.outer, Interrupts):
                self.before = signal.signal(signal.SIGINT, self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.before is not None:
            signal.signal(signal.SIGINT, self.before)

    def check(self) -> None:
        """Raise a KeyboardInterrupt after a second Ctrl-C, which something may have caught."""
        if self.insisted:
            raise KeyboardInterrupt

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.insisted = self.came
        self.came = True
        if isinstance(self.outer, Interrupts):
            self.outer._hear(number, frame)
        if self.insisted:
            raise KeyboardInterrupt
