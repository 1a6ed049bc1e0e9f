"""Categories as mean targets of the training sets that hold them, out of fold for the training sets themselves."""

from copy import deepcopy

import numpy as np
import torch
from torch import Tensor

from janossy.estimators.batches import Examples
from janossy.nn.statistics import CodeValues, ContextCodeValues, PooledStatistics

FOLDS = 5
"""The folds of the training sets. The values that one fold reads are from the targets of the others."""

MAX_CLASSES = 16
"""The most classes with values of their own: those that most training sets have."""

SHRINKAGE = (1.0, 1_000.0)
"""The least and the largest number of average sets by which means are shrunk."""

TINY = 1e-9
"""A number below which variances and differences of weights are rounding."""


def num_values(task_outputs: int, *, is_class: bool) -> int:
    """Returns the number of values per category: one per target or class, and one for two classes."""
    if not is_class:
        return task_outputs
    return 1 if task_outputs == 2 else min(task_outputs, MAX_CLASSES)


def as_numbers(y: np.ndarray, classes: np.ndarray | None, num: int) -> np.ndarray:
    """Returns the targets (B, num) of which means are taken: numbers, or indicators of the most frequent classes.

    Args:
        y: numbers (B, t), or the positions (B,) of the classes among ``classes``.
        classes: the classes that occur, ascending; None for numbers.
        num: the number of values per category, from ``num_values``.
    """
    if classes is None:
        return y.astype(np.float64)
    most = np.bincount(y, minlength=len(classes)).argsort(kind="stable")[::-1]
    chosen = np.sort(most[:num]) if len(classes) > 2 else np.array([1])
    found = np.zeros((len(y), num))
    found[:, : len(chosen)] = y[:, None] == chosen
    return found


def encode_targets(
    statistics: PooledStatistics, examples: Examples, targets: np.ndarray, weights: np.ndarray
) -> PooledStatistics:
    """Returns the statistics with the value of each category from these sets, for ``CodeValues`` of any column.

    The value is the mean of the targets of the sets that hold the category, less the mean of all sets, shrunk towards 0
    as if m further sets were average. m is the ratio of the variance within categories to that between them, by the
    method of moments. It is the best m for normal effects. Categories that no set holds have value 0, as code 0 has.

    Shapes: targets (B, width), weights (B,).
    """
    found, kinds = deepcopy(statistics), (CodeValues, ContextCodeValues)
    weight = torch.from_numpy(weights / weights.mean())
    y = torch.from_numpy(targets)
    deviations = y - (weight @ y) / weight.sum()
    sets = found.sorted(examples.sets, examples.context)
    for block in found.blocks:
        if isinstance(block, kinds):
            codes, owners = block.codes_of(sets)
            block.values.copy_(_values(codes, owners, deviations, weight, block.num_values))
    return found


def _values(codes: Tensor, owners: Tensor, deviations: Tensor, weight: Tensor, num: int) -> Tensor:
    """Returns the value of each code, (num, width) float64."""
    held = (owners * num + codes).unique()
    owners, codes = held // num, held % num
    total, squared = (weight.new_zeros(num).index_add_(0, codes, x[owners])[:, None] for x in (weight, weight.square()))
    summed = weight.new_zeros(num, deviations.shape[1])
    summed.index_add_(0, codes, (weight[:, None] * deviations)[owners])
    variance = (weight @ deviations.square()) / weight.sum()
    # Σ_c W_c mean_c² has the expectation ``between`` Σ_c W_c + ``within`` Σ_c Σ w² / W_c; the variance is their sum.
    squares, alone = ((x / total.clamp_min(TINY)).sum(0) for x in (summed.square(), squared))
    spare = total.sum() - alone
    between = ((squares - alone * variance) / spare.clamp_min(TINY)).clamp_min(0)
    between = between.where(spare > TINY * total.sum(), 0.0)
    within = (variance - between).clamp_min(0)
    least, largest = SHRINKAGE
    shrinkage = (within / between.clamp_min(TINY)).clamp(least, largest)
    values = summed / (total + shrinkage)
    values[0] = 0.0
    return values


def encoded_by_targets(
    statistics: PooledStatistics,
    rows: tuple[Tensor, Tensor],
    sets: tuple[Examples, Examples],
    targets: np.ndarray,
    weights: np.ndarray,
    seed: int,
    groups: np.ndarray | None = None,
) -> tuple[PooledStatistics, Tensor, Tensor]:
    """Returns the statistics with values from the training sets, with the rows of training and of validation sets.

    The columns of a training set are from the targets of the other folds, so that no set reads its own target, or that
    of another set of its group.

    Args:
        rows: the statistics of both with all values 0, (B, F) and (V, F).
        sets: the training sets and the validation sets.
        targets: those of the training sets, (B, width).
        weights: those of the training sets, (B,).
        seed: determines the folds.
        groups: those of the training sets, (B,), which stay together in a fold.
    """
    training, validation = sets
    places, few = _encoded_part(statistics)
    if not len(places):
        return statistics, *rows
    x, valid_x = rows[0].clone(), rows[1].clone()
    together = np.arange(len(training)) if groups is None else np.unique(groups, return_inverse=True)[1]
    fold = (np.random.default_rng(seed).permutation(together.max() + 1) % FOLDS)[together]
    for i in range(fold.max() + 1):
        others = np.flatnonzero(fold != i)
        own = torch.from_numpy(np.flatnonzero(fold == i))
        if len(others):
            values = encode_targets(few, training[torch.from_numpy(others)], targets[others], weights[others])
            some = training[own]
            x[own[:, None], places] = values(some.sets, some.context)
    found = encode_targets(statistics, training, targets, weights)
    valid_x[:, places] = _encoded_part(found)[1](validation.sets, validation.context)
    return found, x, valid_x


def _encoded_part(statistics: PooledStatistics) -> tuple[Tensor, PooledStatistics]:
    """Returns the columns of the blocks whose values are from targets, and the statistics of these blocks alone."""
    place, places, blocks = 0, [], []
    for block in statistics.blocks:
        width = int(block.out_features)  # type: ignore[arg-type]
        if isinstance(block, CodeValues | ContextCodeValues):
            places.append(torch.arange(place, place + width))
            blocks.append(block)
        place += width
    part = PooledStatistics(blocks, **{name: x for name, x in statistics.config().items() if name != "blocks"})
    part.offsets.copy_(statistics.offsets)
    return torch.cat(places) if places else torch.zeros(0, dtype=torch.int64), part
