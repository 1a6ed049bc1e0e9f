"""Compiling kernels: numba, once for each machine, here or in a process of its own, with a log line."""

import logging
import os
import pickle
import sys
import time
from collections.abc import Callable
from functools import cache, cached_property, wraps
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

import numba
import numpy as np
from numba import njit, prange
from numba.core import event

from janossy.kernels.compilation import NotCompiled, runs_apart, waits
from janossy.kernels.cpu.vector import load, load_first, store

_log = logging.getLogger("janossy")

_HERE = Path(__file__).parent
_SOURCES = b"".join(file.read_bytes() for file in sorted([*_HERE.glob("*.py"), *_HERE.parent.glob("*.py")]))
VERSION = sha256(_SOURCES).hexdigest()[:12]
"""A hash of the kernels' sources, and of the bounds and counts beside this folder. numba's cache notices a change in a
kernel's own file only, and not one in a function that it calls; so this is part of the name under which it is kept."""

WORTH_A_THREAD = 1.5e5
"""The activations that a thread is woken for: 50 to 80 microseconds of work. Waking it costs 7, and more while torch's
own threads spin."""

_process = os.getpid()


class Kernel:
    """A compiled function (*arguments, first, last) over a range of independent items.

    The first call of a signature compiles it, or loads it from numba's cache beside this file (or under the user's
    cache directory, where this one cannot be written). It releases the GIL. What the function closes over must be
    numbers or strings: numba knows its kept copy again by their values.

    Raises: NotCompiled, from a call, while another process compiles this signature.
    """

    made_by: tuple[str, str, tuple[Any, ...]] | None = None
    """The module, the function there and its arguments that make this kernel; None to compile it here only."""

    def __init__(self, function: Callable[..., None], name: str) -> None:
        function.__qualname__ = f"{name}_{VERSION}"
        self.name = name
        self._serial = njit(nogil=True, cache=True, error_model="numpy")(function)
        _kernels[self._serial] = self

    @cached_property
    def _parallel(self) -> Any:
        # The kernel is a global of this function and not in its closure, where it would spoil the name in the cache.
        function = FunctionType(_over_ranges.__code__, {"kernel": self._serial, "prange": prange})
        function.__qualname__ = f"{self.name}_{VERSION}_parallel"
        function.__module__ = __name__
        parallel = njit(nogil=True, cache=True, error_model="numpy", parallel=True)(function)
        _kernels[parallel] = self
        return parallel

    def __call__(self, num_items: int, costs: Callable[[], np.ndarray], num_threads: int, *arguments: Any) -> None:
        """Run over all items on up to so many threads; their costs (num_items,), in activations, if one asks."""
        totals = costs().cumsum() if min(num_threads, num_items) > 1 else np.zeros(1)
        num_parts = int(max(1, min(num_threads, num_items, totals[-1] / WORTH_A_THREAD)))
        if num_parts == 1 or not _may_run_in_parallel():
            self._serial(*arguments, 0, num_items)
            return
        num_parts = min(num_parts, numba.config.NUMBA_NUM_THREADS)
        targets = np.arange(1, num_parts) * (totals[-1] / num_parts)
        edges = np.concatenate(([0], np.searchsorted(totals, targets), [num_items]))
        before = numba.get_num_threads()
        numba.set_num_threads(num_parts)
        try:
            self._parallel(edges, arguments)
        finally:
            numba.set_num_threads(before)

    def compile(self, parallel: bool, signature: tuple[Any, ...]) -> None:
        """Compiles a signature, or loads it, to keep it in numba's cache."""
        (self._parallel if parallel else self._serial).compile(signature)

    def compile_apart(self, parallel: bool, signature: tuple[Any, ...]) -> bool:
        """Returns True while another process, which the first call starts, compiles this signature."""
        if self.made_by is None:
            return False
        return runs_apart(pickle.dumps((*self.made_by, parallel, signature)), _PROGRAM, numba.config.CACHE_DIR)


_kernels: dict[Any, Kernel] = {}
"""The kernels by numba's functions."""


def kernel_maker(make: Callable[..., Kernel]) -> Callable[..., Kernel]:
    """Makes each kernel once, and such that another process can make it: by a module's function of simple arguments."""

    @cache
    @wraps(make)
    def made(*arguments: Any) -> Kernel:
        result = make(*arguments)
        result.made_by = make.__module__, make.__name__, arguments
        return result

    return made


class _Compilations(event.Listener):  # type: ignore[misc]
    """The listener to numba as it begins to compile a kernel, which no file keeps yet."""

    def __init__(self) -> None:
        self._began: list[float] = []

    def on_start(self, event: event.Event) -> None:
        if (kernel := _kernels.get(event.data["dispatcher"])) is None:
            return
        self._began.append(time.perf_counter())
        parallel = event.data["dispatcher"] is not kernel._serial
        if not waits() and kernel.compile_apart(parallel, event.data["args"]):
            raise NotCompiled(kernel.name)

    def on_end(self, event: event.Event) -> None:
        function, signature = event.data["dispatcher"], event.data["args"]
        if (kernel := _kernels.get(function)) is None:
            return
        seconds = time.perf_counter() - self._began.pop()
        if signature in function.overloads and not self._began:
            _log.info("compiled the kernel %s in %.1f s; other processes will load it", kernel.name, seconds)


event.register("numba:compile", _Compilations())

_PROGRAM = "from janossy.kernels.cpu.compiled import compile_as_told; compile_as_told()"


def compile_as_told() -> None:
    """Compiles the kernel that the parent process has described on standard input."""
    module, name, arguments, *how = pickle.load(sys.stdin.buffer)
    getattr(import_module(module), name)(*arguments).compile(*how)


def _over_ranges(edges, arguments):
    for t in prange(len(edges) - 1):
        # A global that is put there; and numba does not take (*arguments, edges[t], …).
        kernel(*(arguments + (edges[t], edges[t + 1])))  # noqa: F821, RUF005


def _may_run_in_parallel() -> bool:
    """numba's OpenMP ends a forked child that uses it, and its own pool a process whose threads use it at once."""
    return os.getpid() == _process and threading_layer() in ("omp", "tbb")


@cache
def _doubled() -> Kernel:
    def doubled(x, first, last):
        for i in range(first, last):
            store(x, 16 * i, load(x, 16 * i) + load_first(x, 16 * i, 16))

    return Kernel(doubled, "doubled")


def check_compiler() -> None:
    """Raise whatever numba raises where it cannot compile vectors; RuntimeError where they come out wrong.

    Starts no threads: a forked child that has one thread for torch, as a worker of a DataLoader, may not.
    """
    x = np.arange(32, dtype=np.float32)
    _doubled()._serial(x, 0, 2)
    if not (x == 2 * np.arange(32)).all():
        raise RuntimeError(f"twice the numbers from 0 to 31 came out as {x.tolist()}")


@cache
def threading_layer() -> str:
    """Returns the layer that numba's threads run on, and starts it: "omp", "tbb", "workqueue"; "none" if it cannot."""
    try:
        _doubled()._parallel(np.array([0, 1, 2]), (np.zeros(32, np.float32),))
    except Exception:  # whatever numba may raise on a machine we have not seen
        _log.warning("kernels run on one thread only", exc_info=True)
        return "none"
    return numba.threading_layer()
