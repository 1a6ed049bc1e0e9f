"""The records of a search: one per candidate that it tried, and its progress."""

from dataclasses import dataclass, field
from typing import Any


class NothingTrained(ValueError):
    """An end of the time, or an interrupt, before any network had learnt for a step."""


class UnfinishedTraining(UserWarning):
    """A warning that time was over, or an interrupt came, before training had ended: the best so far predicts."""


@dataclass(frozen=True)
class Epoch:
    """The losses after an epoch, one of as many as are planned, unless training ends early."""

    number: int
    planned: int
    train_loss: float
    valid_loss: float


@dataclass(frozen=True)
class Trial:
    """One candidate of a search.

    ``loss``: of predictions for sets that were left out of training, weighed as in training: cross-entropy, or the
    squared error of standardised targets. It decides. ``score``: their accuracy, or R². ``weight``: the candidate's in
    the prediction, 0 where other candidates are used. ``rung``: the round of the search up to which it was trained.
    ``note``: why it was not tried, or ended early. ``history``: the losses of each epoch, of each network.
    """

    strategy: str
    settings: dict[str, Any]
    rung: int
    epochs: int
    seconds: float
    loss: float
    score: float
    weight: float = 0.0
    note: str = ""
    history: list[list[dict[str, float]]] = field(default_factory=list, repr=False)
    candidate: int = 0
    """The candidate's place among those that were searched: two functions may have one name."""

    def __str__(self) -> str:
        """Names the candidate: its strategy, and the settings in which it differs from that."""
        settings = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        return f"{self.strategy} ({settings})" if settings else self.strategy


@dataclass(frozen=True)
class Progress:
    """The progress of a search: after an epoch of one of a candidate's networks; or, with ``trial``, after its last.

    ``seconds``: since the search began; ``seconds_left``: until it ends at the latest.
    """

    candidate: str
    rung: int
    network: int
    num_networks: int
    epoch: Epoch
    seconds: float
    seconds_left: float
    trial: Trial | None = None

    def __str__(self) -> str:
        where = f"{self.seconds:6.1f} s, round {self.rung + 1}, {self.candidate}"
        if self.trial is not None:
            end = f"loss {self.trial.loss:.4f}, score {self.trial.score:.4f}"
            return f"{where}: {end}, {self.trial.note}" if self.trial.note else f"{where}: {end}"
        of = f", network {self.network + 1} of {self.num_networks}" if self.num_networks > 1 else ""
        losses = f"loss {self.epoch.train_loss:.4f}, {self.epoch.valid_loss:.4f} of sets left out"
        return f"{where}{of}, epoch {self.epoch.number} of {self.epoch.planned}: {losses}"
