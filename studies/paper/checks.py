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


def tally(checks: Sequence[Check], kind: str = "patterns") -> str:
    """Returns the counts of verdicts as text: of the paper's 14 patterns below, 13 hold, 1 does not hold."""
    verdicts = Counter(check.holds for check in checks)
    phrases = (
        (True, "holds", "hold"),
        (False, "does not hold", "do not hold"),
        (None, "cannot be decided from these cells", "cannot be decided from these cells"),
    )
    parts = [f"{num} {one if num == 1 else many}" for holds, one, many in phrases if (num := verdicts[holds])]
    return f"Of the paper's {len(checks)} {kind} below, {', '.join(parts)}." if checks else ""
