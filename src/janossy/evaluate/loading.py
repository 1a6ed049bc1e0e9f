"""Compiled kernels that a thread loads while torch operations do the work of the first calls.

numba takes most of a second to import, and holds Python's lock meanwhile, so that calls beside it are slow. The first
calls of a process therefore go without kernels, until torch operations have taken about as long as the import takes: no
process waits longer than for twice what is best for it. A call with much to compute waits for kernels at once. When
that is follows from the calls alone and not from the time that they take, so that results can be repeated. A thread
imports earlier if no layer is called for a moment. ``JANOSSY_KERNELS=wait`` loads kernels in the first call. An
estimate of a call's cost loads none.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from threading import Event, Thread, current_thread, main_thread
from time import monotonic

import torch

from janossy.kernels import load
from janossy.kernels.compilation import waits

MOST_WHILE_LOADING = 1e7
"""Activations that torch operations compute, in a fifth of a second, in one call while kernels are being loaded."""

ACTIVATIONS_PER_SECOND, SECONDS_PER_CALL = 5e7, 1e-3
"""The speed of torch operations, and the time that each call of a layer takes besides, forward and backward."""

SECONDS = 0.8
"""Seconds of calls, by these two, that go without kernels: as many as loading takes."""

DELAY, STEP = 0.3, 0.05
"""Seconds without a call after which loading begins, unless kernels are needed before; and seconds after which the
thread looks if that is so, or if the process is at its end."""


_estimating: ContextVar[bool] = ContextVar("estimating", default=False)


@contextmanager
def estimating() -> Iterator[None]:
    """Loads no kernels meanwhile, in this thread: what asks for them only wants to know if calls will have them."""
    token = _estimating.set(True)
    try:
        yield
    finally:
        _estimating.reset(token)


class Loading:
    """The thread that loads the kernels, and the time that calls have taken without them."""

    def __init__(self) -> None:
        self._thread: Thread | None = None
        self._needed = Event()
        self._seconds = 0.0
        self._last = 0.0
        self._is_over = False

    def begins(self) -> bool:
        """Returns True while kernels are being loaded, which the first call starts; False once ``load`` has them."""
        if _estimating.get() and is_installed():
            return True
        if not self.goes_without() or not is_installed():
            self.wait()
            return False
        if self._thread is None:
            self._last = monotonic()
            self._thread = Thread(target=self._run, name="janossy loads its kernels")
            self._thread.start()
        return True

    def called(self) -> None:
        """Notes a call of a layer."""
        if not torch.compiler.is_compiling() and not self._is_over:
            self._add(SECONDS_PER_CALL)

    def goes_without(self, activations: Callable[[], float] | None = None) -> bool:
        """Returns True for a call without kernels; False if they are there, or to be waited for as so much is computed.

        ``activations`` counts those that torch operations would compute.
        """
        if self._is_over or waits():
            return False
        if activations is not None:
            num = activations()
            self._add(SECONDS if num > MOST_WHILE_LOADING else num / ACTIVATIONS_PER_SECOND)
        return not self._is_over

    def _add(self, seconds: float) -> None:
        self._last = monotonic() + seconds  # the import would slow the call down
        self._seconds += seconds
        self._is_over = self._seconds >= SECONDS

    def wait(self) -> None:
        """Waits until kernels are loaded, if they are being loaded; nothing goes without them any more."""
        self._is_over = True
        self.join()
        self._thread = None

    def join(self) -> None:
        """Waits for the thread. A fork in the middle of an import would leave its locks held."""
        if self._thread is not None and self._thread is not current_thread():
            self._needed.set()
            self._thread.join()

    def _run(self) -> None:
        while main_thread().is_alive() and monotonic() - self._last < DELAY and not self._needed.wait(STEP):
            pass
        if main_thread().is_alive():  # the process has not come to its end
            load()


@cache
def is_installed() -> bool:
    """Returns True if numba can be imported, without importing it."""
    return find_spec("numba") is not None


LOADING = Loading()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=LOADING.join)
