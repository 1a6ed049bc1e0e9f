"""Splits of the sets into training sets and validation sets."""

import warnings
from collections.abc import Iterable
from fractions import Fraction
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold
from torch import Tensor

FEW_SETS = 2_000
"""The most sets for which five folds are the default, so that each set is validated by a network new to it."""

FOLDS = 5
PART = 0.1
MAX_SETS = 20_000
"""The most validation sets, if a tenth of the sets is more."""

SPARE_SETS = 10_000
"""The most sets for which there are spare splits: their networks are kept, and large forests take much memory."""

SPARE = 4
"""The number of spare splits."""

FEW_GROUPS = 1_000
"""The most groups whose folds are stratified. Random folds of more groups are alike."""

STRATA = 5
"""The number of quantile bins by which numbers are stratified in folds of groups."""

FINEST = 10
"""The largest denominator of a part of groups, unless the part is smaller than 1 / ``FINEST``."""


Split = tuple[Tensor, Tensor]
"""The numbers of the training sets and of the validation sets."""


class Splits(NamedTuple):
    """Splits of the sets. No set is a validation set of two of them."""

    all: list[Split]
    num_spare: int = 0
    """The number of splits, at the end of ``all``, on which a search trains only in time that it has left.

    An average that was chosen by a tenth of a few thousand sets is then chosen anew by half of them."""


def splits(
    targets: Tensor, validation: float | int | None, generator: np.random.Generator, groups: np.ndarray | None = None
) -> Splits:
    """Returns the splits, each for a network of its own.

    Splits are stratified by the targets, and by the first target if there are several.

    Args:
        validation: the fraction to leave out, or the number of folds; None for a choice by the number of sets, with
            spare splits if one split suits them.
        groups: group numbers (B,), 0 to G - 1. Sets of one group are never on both sides of a split.

    Raises: ValueError for a single group.
    """
    num, num_spare = len(targets), 0
    if validation is None:
        num_spare = SPARE if FEW_SETS < num <= SPARE_SETS else 0
        validation = FOLDS if num <= FEW_SETS else min(PART, MAX_SETS / num)
    if groups is not None and groups.max() == 0:
        raise ValueError(
            "groups expects two groups or more, as networks are judged by groups that are new to them; got "
            "one. Leave groups out to split sets."
        )
    if isinstance(validation, Integral):
        num_folds = min(int(validation), num)
        fold = (
            folds(targets, num_folds, generator)
            if groups is None
            else group_folds(targets, groups, num_folds, generator)
        )
        validation_sets = [fold == i for i in range(int(fold.max()) + 1)]
    elif groups is None:
        validation_sets = stratified_parts(targets, float(validation), 1 + num_spare, generator)
    else:
        part = (
            Fraction(validation).limit_denominator(FINEST)
            if validation > 1 / FINEST
            else Fraction(1, round(1 / validation))
        )
        fold = group_folds(targets, groups, part.denominator, generator)
        num_folds = int(fold.max()) + 1  # there may be fewer groups
        size = min(num_folds - 1, max(1, round(part * num_folds)))
        num_spare = min(num_spare, num_folds // size - 1)
        validation_sets = [(fold >= i * size) & (fold < (i + 1) * size) for i in range(1 + num_spare)]
    return Splits([((~each).nonzero()[:, 0], each.nonzero()[:, 0]) for each in validation_sets], num_spare)


def folds(targets: Tensor, num_folds: int, generator: np.random.Generator) -> Tensor:
    """Returns the fold of each set, (B,). Each class, and low and high numbers, are spread evenly over the folds.

    Of every ``num_folds`` consecutive sets in the order of their targets, each goes to another fold.
    """
    order = _by_target(targets, generator)
    num_rows = -(-len(order) // num_folds)
    each = generator.permuted(np.tile(np.arange(num_folds), (num_rows, 1)), axis=1).reshape(-1)
    fold = np.empty(len(order), np.int64)
    fold[order] = each[: len(order)]
    return torch.from_numpy(fold)


def stratified_parts(targets: Tensor, part: float, num_parts: int, generator: np.random.Generator) -> list[Tensor]:
    """Returns flags (B,) of each of several parts of the sets, at equal distances in the order of their targets.

    There is at least one set on each side. Parts share no set if they hold all sets or fewer together.
    """
    order = _by_target(targets, generator)
    num = min(len(order) - 1, max(1, round(part * len(order))))
    first, found = generator.random(), []
    for i in range(num_parts):
        places = ((np.arange(num) + (first + i / num_parts) % 1) * (len(order) / num)).astype(np.int64)
        chosen = torch.zeros(len(order), dtype=torch.bool)
        chosen[torch.from_numpy(order[places])] = True
        found.append(chosen)
    return found


def group_folds(targets: Tensor, groups: np.ndarray, num_folds: int, generator: np.random.Generator) -> Tensor:
    """Returns the fold of each set, (B,), by scikit-learn's StratifiedGroupKFold, or GroupKFold for many groups.

    If there are fewer groups than ``num_folds``, there are as many folds as groups.
    """
    num_groups = int(groups.max()) + 1
    options: dict[str, Any] = {"shuffle": True, "random_state": int(generator.integers(2**31))}
    options["n_splits"] = num_folds = min(num_folds, num_groups)
    first = _first(targets)
    strata = np.argsort(np.argsort(first, kind="stable")) * STRATA // len(first) if targets.dim() > 1 else first
    if num_groups <= FEW_GROUPS and np.unique(strata, return_counts=True)[1].max() >= num_folds:
        with warnings.catch_warnings(action="ignore"):  # about classes with fewer sets than folds
            fold = _fold_numbers(StratifiedGroupKFold(**options).split(groups, strata, groups), len(groups))
        if len(np.unique(fold)) == num_folds:
            return torch.from_numpy(fold)
    return torch.from_numpy(_fold_numbers(GroupKFold(**options).split(groups, groups=groups), len(groups)))


def _fold_numbers(parts: Iterable[tuple[np.ndarray, np.ndarray]], num: int) -> np.ndarray:
    """Returns for each set the number of the part in which it is a validation set, (B,)."""
    fold = np.empty(num, np.int64)
    for i, (_, validation_sets) in enumerate(parts):
        fold[validation_sets] = i
    return fold


def _by_target(targets: Tensor, generator: np.random.Generator) -> np.ndarray:
    """Returns the numbers of the sets in the order of their targets, ties in a random order."""
    first = _first(targets)
    return np.lexsort((generator.random(len(first)), first))


def _first(targets: Tensor) -> np.ndarray:
    return targets.numpy() if targets.dim() == 1 else targets[:, 0].numpy()
