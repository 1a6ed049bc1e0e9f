"""Worker processes that run jobs, each with its own pipe. If one is killed, the others go on."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, Protocol, TypeVar

import torch

Progress = Callable[[float], None]
"""A function that is called now and then with the work done since the last call, in the job's own units."""


class Job(Protocol):
    """A task for one worker, in a form that can be sent to it."""

    @property
    def cost(self) -> float:
        """The relative time that the job takes."""

    def run(self, progress: Progress) -> Any:
        """Returns the job's result."""


J = TypeVar("J", bound=Job)


@dataclass(frozen=True)
class Event(Generic[J]):
    """An event of a job: "started", "progress" (units since the last), "done" (the result) or "failed" (the reason)."""

    kind: str
    job: J
    value: Any = None


@dataclass
class _Worker(Generic[J]):
    process: BaseProcess
    pipe: Connection
    job: J


def work(jobs: Sequence[J], num_workers: int, in_order: bool = False) -> Iterator[Event[J]]:
    """Runs the jobs, the most expensive first, and yields their events. All workers have ended when this ends.

    ``in_order``: True runs the jobs in the given order.
    """
    waiting = list(reversed(jobs))  # popped from the end, so that equal costs keep the given order
    if not in_order:
        waiting.sort(key=lambda job: job.cost)
    workers: list[_Worker[J]] = []
    try:
        while waiting or workers:
            while waiting and len(workers) < num_workers:
                workers.append(_start(waiting.pop()))
                yield Event("started", workers[-1].job)
            for pipe in wait([worker.pipe for worker in workers], timeout=1.0):
                (worker,) = (w for w in workers if w.pipe is pipe)
                try:
                    event = Event(*worker.pipe.recv())
                except (EOFError, ConnectionError):  # a reset: the worker ended before it read its job
                    worker.process.join()
                    workers.remove(worker)
                    reason = f"its process ended with code {worker.process.exitcode} (killed, or out of memory?)"
                    yield Event("failed", worker.job, reason)
                    continue
                yield event
                if event.kind in ("done", "failed"):
                    if waiting:
                        worker.job = waiting.pop()
                        _send(worker.pipe, worker.job)
                        yield Event("started", worker.job)
                    else:
                        workers.remove(worker)
                        _send(worker.pipe, None)
                        worker.process.join()
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.join()


def _start(job: J) -> _Worker[J]:
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=run_until_none, args=(there,), daemon=True)
    # The child inherits this: Ctrl-C reaches only the parent, which then ends its workers.
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process.start()
    finally:
        signal.signal(signal.SIGINT, previous)
    there.close()
    _send(here, job)
    return _Worker(process, here, job)


def _send(pipe: Connection, job: Job | None) -> None:
    """Sends a job. If the worker has ended, the next ``recv`` says so."""
    with suppress(ConnectionError):
        pipe.send(job)


def run_until_none(pipe: Connection) -> None:
    """Runs the jobs that come through the pipe, until None comes: a worker's whole work."""
    torch.set_num_threads(1)
    parent = parent_process()
    while (job := pipe.recv()) is not None:

        def progress(units: float, job: Job = job) -> None:
            if parent is not None and not parent.is_alive():
                os._exit(1)
            pipe.send(("progress", job, units))

        try:
            result = job.run(progress)
        except Exception as error:
            pipe.send(("failed", job, f"{type(error).__name__}: {error}"))
        else:
            pipe.send(("done", job, result))
