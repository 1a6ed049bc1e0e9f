"""The records of a search: one per candidate that it tried, and its progress."""

from dataclasses import dataclass, field
from typing import Any

OF_LARGER = "predicts the sets that are larger than in training"
"""The note of the candidate that was chosen for these (``larger_sets``)."""


class NothingTrained(ValueError):
    """An error: the time was over, or an interrupt came, before the first training step of any network."""


class UnfinishedTraining(UserWarning):
    """A warning: training ended early, by the time or an interrupt. The best weights so far predict."""


@dataclass(frozen=True)
class Epoch:
    """The losses after an epoch, with its number and the number planned. Training may end before."""

    number: int
    planned: int
    train_loss: float
    valid_loss: float


@dataclass(frozen=True)
class Trial:
    """One candidate of a search.

    - ``loss``: the loss on validation sets, weighted as in training: cross-entropy, or the squared error of
      standardised targets. It decides the search.
    - ``score``: the accuracy, or R², on the same sets.
    - ``weight``: the weight of the candidate in the prediction, 0 if only others are used.
    - ``rung``: the last round of the search in which it was trained.
    - ``note``: the reason why it was not tried, or ended early.
    - ``history``: the losses of each epoch, for each network.
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
    """The position among the candidates of the search. It tells two functions of one name apart."""

    def __str__(self) -> str:
        """Returns the strategy's name with the settings that differ from its own."""
        settings = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        return f"{self.strategy} ({settings})" if settings else self.strategy


@dataclass(frozen=True)
class Progress:
    """The progress of a search after an epoch of one network; with ``trial``, after the last epoch of a candidate.

    ``seconds`` have passed since the first search began. ``seconds_left`` remain until the last one ends at the latest.
    ``repetition`` is 0 in the first search, of at most ``num_searches``.
    """

    candidate: str
    rung: int
    network: int
    num_networks: int
    epoch: Epoch
    seconds: float
    seconds_left: float
    trial: Trial | None = None
    repetition: int = 0
    num_searches: int = 1

    @property
    def round(self) -> str:
        """The round of the search as text, with the number of the search if it is not the first."""
        return f"search {self.repetition + 1}, " * bool(self.repetition) + f"round {self.rung + 1}"

    def __str__(self) -> str:
        where = f"{self.seconds:6.1f} s, {self.round}, {self.candidate}"
        if self.trial is not None:
            end = f"loss {self.trial.loss:.4f}, score {self.trial.score:.4f}"
            return f"{where}: {end}, {self.trial.note}" if self.trial.note else f"{where}: {end}"
        of = f", network {self.network + 1} of {self.num_networks}" if self.num_networks > 1 else ""
        losses = f"loss {self.epoch.train_loss:.4f}, {self.epoch.valid_loss:.4f} of sets left out"
        return f"{where}{of}, epoch {self.epoch.number} of {self.epoch.planned}: {losses}"
