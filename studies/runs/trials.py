"""Trials: the training runs of a study, as jobs of worker processes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from janossy.batch.workers import Job
from janossy.batch.workers import Progress as Progress


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
