"""Classes of a fit: one class per set, one in each of several columns, or any number of labels per set."""

from dataclasses import dataclass
from typing import cast

import numpy as np
from torch import Tensor

from janossy.estimators.description import ClassKind
from janossy.estimators.tasks import Classification


@dataclass(frozen=True, eq=False)
class ClassTargets:
    """The classes of a fit, by whose codes networks learn.

    - "one": one class per set; ``classes`` has one array.
    - "columns": one class per set in each of t columns; ``classes`` has one array per column.
    - "labels": any number of labels per set; ``classes`` has one array of the L labels, each present or absent.
    """

    kind: ClassKind
    classes: list[np.ndarray]

    @property
    def public(self) -> np.ndarray | list[np.ndarray]:
        """The attribute ``classes_``."""
        return self.classes if self.kind == "columns" else self.classes[0]

    def task(self, ordinal: bool, num_sets: int | None = None) -> Classification:
        """Returns the classification task, with the doubt of so many sets, or with none.

        Raises: ValueError for ordered classes in several columns or labels.
        """
        if self.kind == "labels":
            sizes: tuple[int, ...] = (2,) * len(self.classes[0])
        else:
            sizes = tuple(map(len, self.classes))
        if ordinal and self.kind != "one":
            raise ValueError("SetClassifier expects one class per set if ordinal=True; got several. Fit one by one.")
        return Classification(sizes, ordinal, 0.0 if num_sets is None else 1 / (num_sets + 2))

    @property
    def are_flags(self) -> bool:
        """True if each classification is of 0 and 1, so that one probability is enough."""
        return self.kind == "labels" or (
            self.kind == "columns" and all(np.array_equal(each, [0, 1]) for each in self.classes)
        )

    def decoded(self, codes: np.ndarray) -> np.ndarray:
        """Returns the classes (B,) or (B, t) for codes (B, t), or tuples of labels (B,)."""
        if self.kind == "one":
            return cast(np.ndarray, self.classes[0][codes[:, 0]])
        if self.kind == "columns":
            columns = [classes[codes[:, j]] for j, classes in enumerate(self.classes)]
            if len({column.dtype.kind for column in columns}) > 1:
                columns = [column.astype(object) for column in columns]
            return np.stack(columns, 1)
        found = np.empty(len(codes), object)
        for row, each in enumerate(codes):
            found[row] = tuple(self.classes[0][each > 0].tolist())
        return found

    def arranged(self, columns: Tensor) -> np.ndarray | list[np.ndarray]:
        """Returns the columns of all probabilities in the form of ``predict_proba``."""
        numbers = columns.numpy()
        if self.kind == "one":
            return numbers
        sizes = self.task(False).sizes
        parts = np.split(numbers, np.cumsum(sizes)[:-1], axis=1)
        return np.stack([part[:, 1] for part in parts], 1) if self.are_flags else parts
