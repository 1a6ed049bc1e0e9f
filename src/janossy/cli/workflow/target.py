"""Whether a target is a class or a number."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

TaskName = Literal["classification", "regression"]

MOST_CLASSES = 20
"""Whole numbers that are no more than so many different ones are taken as classes."""

WHOLE = 2**53
"""From here on every float64 is a whole number, and scikit-learn takes none for a class from 2**63 on."""


@dataclass(frozen=True)
class Taken:
    """What a target is taken as, and why, in words."""

    task: TaskName
    reason: str


def taken_as(targets: np.ndarray) -> Taken:
    """Classes if they are text or booleans, or few different whole numbers; else numbers, as several always are.

    Shapes: targets (B,), or (B, t).
    """
    if targets.ndim == 2:
        return Taken("regression", "as several targets are")
    if targets.dtype.kind in "OUb":
        return Taken("classification", "as it is text" if targets.dtype.kind != "b" else "as it is true or false")
    if targets.dtype.kind == "M":
        return Taken("regression", "as it is dates")
    different = len(np.unique(targets))
    are_whole = np.array_equal(targets, np.round(targets)) and (np.abs(targets) < WHOLE).all()
    if are_whole and different <= MOST_CLASSES:
        return Taken("classification", f"as it has {different} different whole numbers")
    return Taken("regression", f"as it has {different:,} different numbers")
