"""Splits of the training sets into those that networks learn from and those that they are judged by."""

from numbers import Integral

import numpy as np
import torch
from torch import Tensor

FEW_SETS = 2_000
"""Up to so many sets, five networks each leave out another fifth: each set is judged by one that has not seen it."""

FOLDS = 5
PART = 0.1
MAX_SETS = 20_000
"""Of more sets a tenth is left out, and never more than this many."""


def splits(
    targets: Tensor, validation: float | int | None, generator: np.random.Generator
) -> list[tuple[Tensor, Tensor]]:
    """The numbers of the sets to learn from and to be judged by, of each network; stratified by the targets.

    ``validation``: the part to leave out, or the number of folds; None for what suits the number of sets.
    """
    num = len(targets)
    if validation is None:
        validation = FOLDS if num <= FEW_SETS else min(PART, MAX_SETS / num)
    num_folds = int(validation) if isinstance(validation, Integral) else max(2, round(1 / validation))
    num_folds = min(num_folds, num)
    fold = folds(targets, num_folds, generator)
    validated = range(num_folds) if isinstance(validation, Integral) else range(1)
    return [((fold != i).nonzero()[:, 0], (fold == i).nonzero()[:, 0]) for i in validated]


def folds(targets: Tensor, num_folds: int, generator: np.random.Generator) -> Tensor:
    """The fold of each set, (B,): each has as many of each class, or of low and high numbers, as can be.

    In the order of their targets, every ``num_folds`` neighbours go to different folds. Several targets count as their
    first.
    """
    first = targets.numpy() if targets.dim() == 1 else targets[:, 0].numpy()
    order = np.lexsort((generator.random(len(first)), first))
    num_rows = -(-len(first) // num_folds)
    each = generator.permuted(np.tile(np.arange(num_folds), (num_rows, 1)), axis=1).reshape(-1)
    fold = np.empty(len(first), np.int64)
    fold[order] = each[: len(first)]
    return torch.from_numpy(fold)
