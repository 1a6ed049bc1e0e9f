"""The choice between waiting for a kernel's compiler and pooling in torch operations meanwhile.

``JANOSSY_KERNELS`` in the environment is one of

- ``background``, the default: a kernel that no process has compiled yet is compiled in a process of its own. Until it
  can be loaded, the same sums run in torch operations.
- ``wait``: the first call of a kernel compiles it. Results do not depend on the time that takes.
- ``off``: torch operations only.

``torch.use_deterministic_algorithms(True)`` waits too, and so do the estimators.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

CHOICES = "background", "wait", "off"

_lock = Lock()
_num_waiting = 0
_num_missed = 0
"""Calls of kernels that other processes were compiling."""


class NotCompiled(Exception):
    """A kernel is being compiled in another process."""


def choice() -> str:
    """Returns what ``JANOSSY_KERNELS`` says.

    Raises: ValueError for anything but one of ``CHOICES``.
    """
    name = os.environ.get("JANOSSY_KERNELS") or "background"
    if name not in CHOICES:
        raise ValueError(f"JANOSSY_KERNELS expects one of {', '.join(CHOICES)}; got {name!r}.")
    return name


@contextmanager
def waiting() -> Iterator[None]:
    """Waits for compilers meanwhile, in every thread."""
    global _num_waiting
    with _lock:
        _num_waiting += 1
    try:
        yield
    finally:
        with _lock:
            _num_waiting -= 1


@contextmanager
def hurrying() -> Iterator[Callable[[], bool]]:
    """Lifts ``waiting`` meanwhile, in every thread; yields a function that says if a kernel was not compiled yet."""
    global _num_waiting
    with _lock:
        lifted, _num_waiting = _num_waiting, 0
    before = _num_missed
    try:
        yield lambda: _num_missed > before
    finally:
        with _lock:
            _num_waiting += lifted


def waits() -> bool:
    """Returns True if a kernel is compiled by the call that needs it."""
    return _num_waiting > 0 or choice() != "background"


_processes: dict[bytes, subprocess.Popen[bytes]] = {}


def runs_apart(request: bytes, program: str, cache: str) -> bool:
    """Returns True while another process, which the first call starts, does what is requested.

    The process reads the request on standard input. It goes on if this one ends, so that the next one loads the kernel.
    """
    global _num_missed
    process = _processes.get(request)
    if process is None:
        if not sys.executable or getattr(sys, "frozen", False):  # no Python to start
            return False
        environment = {**os.environ, "JANOSSY_KERNELS": "wait", "PYTHONPATH": os.pathsep.join(sys.path)}
        if cache:
            environment["NUMBA_CACHE_DIR"] = cache
        nowhere = subprocess.DEVNULL
        try:
            process = subprocess.Popen(
                [sys.executable, "-c", program], env=environment, stdin=subprocess.PIPE, stdout=nowhere, stderr=nowhere
            )
            with process.stdin as pipe:  # type: ignore[union-attr]
                pipe.write(request)
        except OSError:
            return False
        _processes[request] = process
    is_running = process.poll() is None
    _num_missed += is_running
    return is_running


def finish_compilations() -> bool:
    """Waits for the processes that compile kernels. The next call of a kernel loads it.

    Returns True if a process was waited for. A step of training may need further kernels: call it until it is False.
    """
    running = [process for process in list(_processes.values()) if process.poll() is None]
    for process in running:
        process.wait()
    return bool(running)
