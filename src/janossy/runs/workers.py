"""Worker processes that run trials, each on its own pipe: one that is killed takes nothing else with it."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, ClassVar, Protocol

import torch

Progress = Callable[[float], None]
"""Called now and then with the amount of training done since the last call, in the trial's own units."""


class Trial(Protocol):
    """One training run, that can be sent to another process: what of, which number of it, and the settings."""

    numbered: ClassVar[str]
    """What the number counts: "seed", "fold"."""

    @property
    def place(self) -> tuple[str, str, int]:
        """What tells it from other trials: two names and the number."""

    @property
    def settings(self) -> Any:
        """The dataclass that its result keeps as "config"."""

    @property
    def units(self) -> float:
        """How much progress there is to report."""

    @property
    def cost(self) -> float:
        """Relative time."""

    def train(self, progress: Progress) -> dict[str, Any]:
        """The result."""

    def score(self, result: dict[str, Any]) -> str:
        """The score of a result, for a reader."""


def name_of(trial: Trial) -> str:
    """The place of a trial, for a reader."""
    first, second, number = trial.place
    return f"{first} {second} {trial.numbered} {number}"


@dataclass(frozen=True)
class Event:
    """What happened to a trial: "started", "progress" (units done since), "done" (its result), "failed" (why)."""

    kind: str
    trial: Trial
    value: Any = None


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    trial: Trial


def work(trials: Sequence[Trial], num_workers: int) -> Iterator[Event]:
    """Run the trials, the most expensive first, and yield what happens; every worker is gone when this ends."""
    waiting = sorted(reversed(trials), key=lambda trial: trial.cost)  # popped from behind: equal ones as they are given
    workers: list[_Worker] = []
    try:
        while waiting or workers:
            while waiting and len(workers) < num_workers:
                workers.append(_start(waiting.pop()))
                yield Event("started", workers[-1].trial)
            for pipe in wait([worker.pipe for worker in workers], timeout=1.0):
                (worker,) = (w for w in workers if w.pipe is pipe)
                try:
                    event = Event(*worker.pipe.recv())
                except EOFError:
                    worker.process.join()
                    workers.remove(worker)
                    reason = f"its process ended with code {worker.process.exitcode} (killed, or out of memory?)"
                    yield Event("failed", worker.trial, reason)
                    continue
                yield event
                if event.kind in ("done", "failed"):
                    if waiting:
                        worker.trial = waiting.pop()
                        worker.pipe.send(worker.trial)
                        yield Event("started", worker.trial)
                    else:
                        workers.remove(worker)
                        worker.pipe.send(None)
                        worker.process.join()
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.join()


def _start(trial: Trial) -> _Worker:
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_train_until_none, args=(there,), daemon=True)
    # Inherited by the child: Ctrl-C is for this process alone, which then ends its workers.
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process.start()
    finally:
        signal.signal(signal.SIGINT, previous)
    there.close()
    here.send(trial)
    return _Worker(process, here, trial)


def _train_until_none(pipe: Connection) -> None:
    torch.set_num_threads(1)
    parent = parent_process()
    while (trial := pipe.recv()) is not None:

        def progress(units: float, trial: Trial = trial) -> None:
            if parent is not None and not parent.is_alive():
                os._exit(1)
            pipe.send(("progress", trial, units))

        try:
            result = trial.train(progress)
        except Exception as error:
            pipe.send(("failed", trial, f"{type(error).__name__}: {error}"))
        else:
            pipe.send(("done", trial, result))
