"""What may be chosen of a run; every result keeps it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Of every fit, beside what a data set asks for itself (``DataSet.settings``)."""

    auto_seconds: float | None = 600.0
    """The time budget of "auto", on the clock; None for no limit. Single models have none."""
    max_epochs: int | None = None
    """Of networks; None for what the estimators take by the number of sets."""
    peers_learning_rate: float | None = None
    """Of peers that are networks; None for that of ours."""
    exact_pairs: int = 200_000
    exact_triples: int = 200_000
    """If training sets have no more pairs or triples in all, predictions average over all of them; else over draws."""
    most_attended: int = 300
    """Elements of the largest set up to which every element attends to every other."""
