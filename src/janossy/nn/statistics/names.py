"""Names of encoded columns and of their codes, from which the names of statistics are made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ColumnNames:
    """Names of the encoded columns of elements and of sets: codes first, then numbers.

    ``labels`` and ``context_labels`` hold the names of codes per column of codes. Without them, codes are numbers.
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
        """Returns the name of an element's code, with its column."""
        labels = self.labels.get(column)
        return f"{self.elements[column]}={labels[code] if labels else code}"

    def context_label(self, column: int, code: int) -> str:
        """Returns the name of a set's code, with its column."""
        labels = self.context_labels.get(column)
        return f"{self.context[column]}={labels[code] if labels else code}"
