"""Worker processes that run jobs, each on its own pipe: one that is killed takes nothing else with it."""

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
"""Called now and then with the amount of work done since the last call, in the job's own units."""


class Job(Protocol):
    """One worker's task at a time, in a form that can be sent to it."""

    @property
    def cost(self) -> float:
        """Relative time."""

    def run(self, progress: Progress) -> Any:
        """Returns the result."""


class Trial(Job, Protocol):
    """One training run: what of, which number of it, and the settings."""

    numbered: ClassVar[str]
    """The name of what the number counts: "seed", "fold"."""

    @property
    def place(self) -> tuple[str, str, int]:
        """Returns the key that tells the trial from others: two names and the number."""

    @property
    def settings(self) -> Any:
        """The dataclass that its result keeps as "config"."""

    @property
    def units(self) -> float:
        """Returns the units of progress that the job reports in all."""

    def score(self, result: dict[str, Any]) -> str:
        """Returns the score of a result, for a reader."""


def name_of(*trials: Trial) -> str:
    """Returns the place of a trial, or of some that differ in their numbers alone, for a reader."""
    first, second, _ = trials[0].place
    numbers = ", ".join(str(trial.place[2]) for trial in trials)
    return f"{first} {second} {trials[0].numbered}{'s' if len(trials) > 1 else ''} {numbers}"


class Trials(Job, Protocol):
    """Trials that one worker runs at once."""

    @property
    def trials(self) -> Sequence[Trial]:
        """Returns the trials, in the order of their results."""

    @property
    def units(self) -> float:
        """Returns the units of progress that the job reports in all."""

    def run(self, progress: Progress) -> list[dict[str, Any]]:
        """Returns the result of each."""


JobsOf = Callable[[Sequence[Any]], Sequence[Trials]]
"""A choice of the trials that are run together."""


@dataclass(frozen=True)
class Alone:
    """A trial that is run by itself."""

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
    """Returns each trial by itself."""
    return [Alone(trial) for trial in trials]


J = TypeVar("J", bound=Job)


@dataclass(frozen=True)
class Event(Generic[J]):
    """One event of a job: "started", "progress" (units done since), "done" (its result) or "failed" (the reason)."""

    kind: str
    job: J
    value: Any = None


@dataclass
class _Worker(Generic[J]):
    process: BaseProcess
    pipe: Connection
    job: J


def work(jobs: Sequence[J], num_workers: int, in_order: bool = False) -> Iterator[Event[J]]:
    """Runs the jobs, the most expensive first, and yield what happens; every worker is gone when this ends.

    in_order: run them as they are given.
    """
    waiting = list(reversed(jobs))  # popped from behind: equally expensive ones as they are given
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
    # Inherited by the child: Ctrl-C is for this process alone, which then ends its workers.
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
