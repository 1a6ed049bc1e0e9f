"""Worker processes that run jobs, each with its own pipe. If one is killed, the others go on."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, ClassVar, Generic, Protocol, TypeVar

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


class Trial(Job, Protocol):
    """One training run: two names, a number, and the settings."""

    numbered: ClassVar[str]
    """The name of the numbered thing: "seed" or "fold"."""

    @property
    def place(self) -> tuple[str, str, int]:
        """The key of the trial: two names and the number."""

    @property
    def settings(self) -> Any:
        """The dataclass that a result keeps as "config"."""

    @property
    def units(self) -> float:
        """The total of the units of progress that the job reports."""

    def score(self, result: dict[str, Any]) -> str:
        """Returns the score of a result as text."""


def name_of(*trials: Trial) -> str:
    """Returns the place of a trial, or of several that differ only in their numbers, as text."""
    first, second, _ = trials[0].place
    numbers = ", ".join(str(trial.place[2]) for trial in trials)
    return f"{first} {second} {trials[0].numbered}{'s' if len(trials) > 1 else ''} {numbers}"


class Trials(Job, Protocol):
    """Trials that one worker runs at once."""

    @property
    def trials(self) -> Sequence[Trial]:
        """The trials, in the order of their results."""

    @property
    def units(self) -> float:
        """The total of the units of progress that the job reports."""

    def run(self, progress: Progress) -> list[dict[str, Any]]:
        """Returns the result of each trial."""


JobsOf = Callable[[Sequence[Any]], Sequence[Trials]]
"""A function that chooses which trials run together."""


@dataclass(frozen=True)
class Alone:
    """A trial that runs by itself."""

    trial: Trial

    @property
    def trials(self) -> Sequence[Trial]:
        return (self.trial,)

    @property
    def units(self) -> float:
        return self.trial.units

    @property
    def cost(self) -> float:
        return self.trial.cost

    def run(self, progress: Progress) -> list[dict[str, Any]]:
        return [self.trial.run(progress)]


def one_by_one(trials: Sequence[Trial]) -> list[Trials]:
    """Returns one job per trial."""
    return [Alone(trial) for trial in trials]


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
                except EOFError:
                    worker.process.join()
                    workers.remove(worker)
                    reason = f"its process ended with code {worker.process.exitcode} (killed, or out of memory?)"
                    yield Event("failed", worker.job, reason)
                    continue
                yield event
                if event.kind in ("done", "failed"):
                    if waiting:
                        worker.job = waiting.pop()
                        worker.pipe.send(worker.job)
                        yield Event("started", worker.job)
                    else:
                        workers.remove(worker)
                        worker.pipe.send(None)
                        worker.process.join()
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.join()


def _start(job: J) -> _Worker[J]:
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_run_until_none, args=(there,), daemon=True)
    # The child inherits this: Ctrl-C reaches only the parent, which then ends its workers.
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process.start()
    finally:
        signal.signal(signal.SIGINT, previous)
    there.close()
    here.send(job)
    return _Worker(process, here, job)


def _run_until_none(pipe: Connection) -> None:
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
