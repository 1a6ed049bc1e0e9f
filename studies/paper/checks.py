"""Sentences of the paper that our numbers confirm or refute."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """A sentence, a verdict (None if results are missing), and our numbers."""

    sentence: str
    holds: bool | None
    numbers: str

    @property
    def verdict(self) -> str:
        return {True: "holds", False: "does not hold", None: "not enough cells"}[self.holds]


def tally(checks: Sequence[Check]) -> str:
    """Returns the counts of verdicts as text: of the 14 patterns of the paper, 9 hold, 3 do not hold, …"""
    verdicts = Counter(check.holds for check in checks)
    phrases = ((True, "hold"), (False, "do not hold"), (None, "cannot be decided from these cells"))
    parts = [f"{verdicts[holds]} {phrase}" for holds, phrase in phrases if verdicts[holds]]
    return f"Of the paper's {len(checks)} patterns below, {', '.join(parts)}."
