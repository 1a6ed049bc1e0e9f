"""Names of encoded columns and of their codes, by which statistics are called."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ColumnNames:
    """Names of the encoded columns of elements and of sets: codes first, then numbers.

    ``labels`` and ``context_labels``: by the number of a column of codes, what codes are called; else their numbers.
    """

    elements: Sequence[str]
    context: Sequence[str] = ()
    labels: Mapping[int, Sequence[str]] = field(default_factory=dict)
    context_labels: Mapping[int, Sequence[str]] = field(default_factory=dict)
    num_codes: int = 0

    @property
    def numbers(self) -> list[str]:
        """The names of the elements' columns of numbers."""
        return list(self.elements[self.num_codes :])

    def label(self, column: int, code: int) -> str:
        """Returns a code of the elements, with its column."""
        labels = self.labels.get(column)
        return f"{self.elements[column]}={labels[code] if labels else code}"

    def context_label(self, column: int, code: int) -> str:
        """Returns a code of the sets, with its column."""
        labels = self.context_labels.get(column)
        return f"{self.context[column]}={labels[code] if labels else code}"
