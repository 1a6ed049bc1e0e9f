"""The limits of a search, and the plans of training that follow from them and from the number of sets."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf

import numpy as np

from janossy.estimators.batches import num_batches
from janossy.estimators.training import Plan

FEW = 3
"""The most candidates that are trained to the end at once. If there are more, short rounds show the promising ones."""

PARTS = (1 / 8, 3 / 8, 7 / 8, 15 / 8, 31 / 8)
"""The total training of a candidate after each round, in full trainings. Each round is twice as long as the last."""

FEWEST_STEPS = 200
"""The fewest training steps before a candidate is evaluated, unless its whole training has fewer."""

FEW_SETS = 500
"""The number of training sets from which a batch has 64 sets or more: as good as 32 in two thirds of the time."""


@dataclass(frozen=True)
class Limits:
    """The limits of a search: seconds, and settings that else follow from the number of sets (None)."""

    seconds: float = inf
    max_epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    patience: int | None = None

    def plan(self, num_sets: int, part: float) -> Plan:
        """Returns the plan of a training on ``num_sets`` sets, for a part of a full training."""
        fewest = 32 if num_sets < FEW_SETS else 64
        batch_size = self.batch_size or int(min(1024, max(fewest, 2 ** round(np.log2(num_sets**0.5)))))
        full = self.max_epochs or max(10, round(400 / num_sets**0.25))
        fewest_epochs = min(full, ceil(FEWEST_STEPS / num_batches(num_sets, batch_size)))
        epochs = max(fewest_epochs, round(full * part))
        return Plan(epochs, batch_size, self.learning_rate or 1e-2, self.patience_of(epochs, 3))

    def patience_of(self, epochs: int, share: int) -> int:
        """Returns the patience in the limits, or this share of the epochs, at least 10."""
        return self.patience or max(10, epochs // share)

    def parts(self, num_candidates: int) -> Sequence[float]:
        """Returns the total training of a candidate after each round, in full trainings."""
        if num_candidates <= FEW:
            return (1.0,)
        return PARTS if self.max_epochs is None else (*(part for part in PARTS if part < 1), 1.0)
