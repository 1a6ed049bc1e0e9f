"""The settings of a run; every result keeps them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """The settings of every fit, beside what a data set asks for itself (``DataSet.settings``)."""

    auto_seconds: float | None = 600.0
    """The time budget of "auto", in CPU seconds; None for no limit. Single models have none."""
    max_epochs: int | None = None
    """The most epochs of networks; None for what the estimators take by the number of sets."""
    pairs_a_set: int = 4000
    triples_a_set: int = 1000
    """If training sets have no more pairs or triples on average, predictions average over all; else over draws."""
    most_copied: int = 1000
    """Columns up to which k3 and k2+features are run: they copy all of them for each tuple that they draw."""
    most_attended: int = 300
    """Elements of the largest set up to which every element attends to every other."""
