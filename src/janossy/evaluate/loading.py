"""Compiled kernels that a thread loads while torch operations do the work of the first calls.

numba takes most of a second to import. The first call of each function in a process therefore goes without kernels. The
second call of any function waits for them, and so does a call with much to compute. When that is follows from the
calls alone and not from the time that they take, so that results can be repeated. ``JANOSSY_KERNELS=wait`` loads
kernels in the first call.
"""

import os
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from threading import Event, Thread, current_thread, main_thread
from typing import Any
from weakref import WeakSet

import torch

from janossy.kernels import load
from janossy.kernels.compilation import waits

MOST_WHILE_LOADING = 1e7
"""Activations that torch operations compute, in a fifth of a second, while kernels are being loaded."""

DELAY, STEP = 0.3, 0.05
"""Seconds after which loading begins unless kernels are needed before, so that it takes no time from the first call;
and seconds after which the thread looks if the process is at its end."""

MOST_FUNCTIONS = 8
"""Functions whose first calls go without kernels."""


class Loading:
    """The thread that loads the kernels, and the functions that were called before they were needed."""

    def __init__(self) -> None:
        self._thread: Thread | None = None
        self._needed = Event()
        self._called: WeakSet[Any] = WeakSet()
        self._num_called = 0
        self._is_over = False

    def begins(self) -> bool:
        """Returns True while kernels are being loaded, which the first call starts; False once ``load`` has them."""
        if not self.goes_without() or not is_installed():
            self.wait()
            return False
        if self._thread is None:
            self._thread = Thread(target=self._run, name="janossy loads its kernels")
            self._thread.start()
        return True

    def called(self, function: Any) -> None:
        """Notes a call of a function. The second call of one ends the time without kernels."""
        if torch.compiler.is_compiling() or self._is_over:
            return
        try:
            again = function in self._called
            self._called.add(function)
        except TypeError:  # it takes no weak reference
            again = True
        self._num_called += not again
        if again or self._num_called > MOST_FUNCTIONS:
            self._is_over = True

    def goes_without(self, activations: Callable[[], float] | None = None) -> bool:
        """Returns True for a call without kernels; False if they are there, or to be waited for as so much is computed.

        ``activations`` counts those that torch operations would compute.
        """
        if self._is_over or waits():
            return False
        if activations is not None and activations() > MOST_WHILE_LOADING:
            self._is_over = True
        return not self._is_over

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
        steps = round(DELAY / STEP)
        while steps > 0 and main_thread().is_alive() and not self._needed.wait(STEP):
            steps -= 1
        if main_thread().is_alive():  # the process has not come to its end
            load()


@cache
def is_installed() -> bool:
    """Returns True if numba can be imported, without importing it."""
    return find_spec("numba") is not None


LOADING = Loading()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=LOADING.join)
