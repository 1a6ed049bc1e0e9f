"""The importance of elements: the change of a set's prediction when one element is left out."""

from dataclasses import dataclass
from itertools import pairwise
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor

from janossy.estimators.ensemble import Ensemble
from janossy.sets import Ragged

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_ELEMENTS = 1_000_000
"""The most elements, over all copies of sets without one element, that are built at once."""


@dataclass(frozen=True, eq=False)
class ElementImportance:
    """The result of ``element_importance`` for B sets of N elements in all.

    ``changes`` holds a set's prediction minus its prediction without the element. For a classifier it is the
    probability of the class that the whole set is given. A change above 0 means that the element supports the
    prediction.

    Shapes: changes (N,), or (N, t) for several targets; offsets (B + 1,).
    """

    changes: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, b: int) -> np.ndarray:
        """Returns the changes of the elements of one set, (n,) or (n, t)."""
        b = range(len(self))[b]
        return self.changes[self.offsets[b] : self.offsets[b + 1]]

    @property
    def ranks(self) -> np.ndarray:
        """The rank of each element in its set, int64, (N,) or (N, t): 1 for the largest change. Ties share a rank.

        Rank 1 supports the prediction the most. The rank of |changes| would show what matters most, for or against.
        """
        ranks = np.empty(self.changes.shape, np.int64)
        for begin, end in pairwise(self.offsets):
            ranks[begin:end] = rankdata(-self.changes[begin:end], "min", axis=0)
        return ranks

    def plot(self, b: int = 0, labels: list[str] | None = None, path: str | PathLike[str] | None = None) -> "Figure":
        """Draws the elements of set b as bars, those that changed the most on top. Needs ``janossy[plot]``.

        ``labels`` are the names of the elements; None names them by number. With ``path``, the figure is also saved.
        Raises: ImportError without matplotlib; ValueError for another number of labels.
        """
        try:
            from matplotlib.figure import Figure  # noqa: PLC0415
        except ImportError as error:
            raise ImportError("ElementImportance.plot needs matplotlib: pip install 'janossy[plot]'.") from error
        changes = self[b] if self[b].ndim == 2 else self[b][:, None]
        names = [f"element {i}" for i in range(len(changes))] if labels is None else labels
        if len(names) != len(changes):
            raise ValueError(f"plot expects a label for each of the {len(changes)} elements; got {len(names)}.")
        order = np.argsort(np.linalg.norm(changes, axis=1))[-30:]
        figure = Figure(figsize=(6, 1.2 + 0.25 * len(order)), layout="constrained")
        axes = figure.subplots()
        height = 0.8 / changes.shape[1]
        for j in range(changes.shape[1]):
            axes.barh(np.arange(len(order)) + j * height, changes[order, j], height, label=f"target {j}")
        axes.set_yticks(np.arange(len(order)) + 0.4 - height / 2, [names[i] for i in order])
        axes.axvline(0, color="#888888", linewidth=0.8)
        axes.set_xlabel("the prediction less that without the element")
        axes.spines[["top", "right"]].set_visible(False)
        if changes.shape[1] > 1:
            axes.legend(frameon=False)
        if path is not None:
            figure.savefig(path, dpi=130)
        return figure


def leave_one_out(
    ensemble: Ensemble, sets: Ragged, context: Tensor | None, num_permutations: int
) -> tuple[Tensor, Tensor]:
    """Returns the mean prediction of each set (B, out), and of each set without each of its elements (N, out)."""
    whole = ensemble.predict(sets, context, num_permutations).mean
    without, gathered, num_elements = [whole[:0]], [], 0
    for b, n in enumerate(sets.sizes):
        gathered.append(b)
        num_elements += n * n
        if num_elements > MAX_ELEMENTS or b + 1 == len(sets):
            # Each set of n elements is copied n times. Copy i is without element i.
            chosen = sets[gathered]
            parts = [
                torch.arange(m).expand(m, m)[~torch.eye(m, dtype=torch.bool)] + begin
                for begin, m in zip(chosen.offsets.tolist(), chosen.sizes, strict=False)
            ]
            owners = torch.tensor(gathered).repeat_interleave(torch.tensor(chosen.sizes))
            shorter = Ragged.from_sizes(
                chosen.values[torch.cat(parts)], [m - 1 for m in chosen.sizes for _ in range(m)]
            )
            if len(shorter):
                of_sets = None if context is None else context[owners]
                sizes = [n + 1 for n in shorter.sizes]  # the networks that predict the whole set
                without.append(ensemble.predict(shorter, of_sets, num_permutations, sizes=sizes).mean)
            gathered, num_elements = [], 0
    return whole, torch.cat(without)
