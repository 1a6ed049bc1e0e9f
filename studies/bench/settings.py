"""The settings of a run, which every result keeps."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """The settings of every fit, beside those of the data set (``DataSet.settings``)."""

    auto_seconds: float | None = 600.0
    """The time budget of "auto", in CPU seconds; None for no limit. Single models have none."""
    max_epochs: int | None = None
    """The most epochs of networks; None for the estimators' choice by the number of sets."""
    pairs_a_set: int = 4000
    triples_a_set: int = 1000
    """The largest mean number of pairs or triples per training set for predictions from all of them; else sampled."""
    most_copied: int = 1000
    """The most columns for which k3 and k2+features are run. They copy all columns for each sampled tuple."""
    most_attended: int = 300
    """The largest set size for which every element attends to every other."""
