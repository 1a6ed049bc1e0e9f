"""Sets in which one element decides the target, relative to the others: maximum, median, and odd one out.

The rules were fixed before anything was trained on them.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from janossy.tables import Column, SetTable
from janossy.tables.table import offsets_of
from studies.bench.data_set import DataSet, Fold, Sample

NUM_TRAINING, NUM_TEST = 10_000, 2_000

DIMENSIONS = 4
"""The number of columns of the sets with an odd element."""

Draw = Callable[[np.random.Generator], tuple[np.ndarray, float]]
"""A function that samples a set (n, columns) and its target."""


def maximum(data: Path | None = None) -> DataSet:
    """Returns the task of the largest of 1 to 10 numbers between 0 and 100 (Lee et al., 2019, Section 5.1)."""
    return _made("maximum", "1 to 10 numbers between 0 and 100, uniform. The target is the largest", draw_maximum)


def median(data: Path | None = None) -> DataSet:
    """Returns the task of the median of 5 to 29 numbers from a lognormal distribution per set."""
    what = "an odd number of 5 to 29 numbers of a lognormal distribution of its own. The target is their median"
    return _made("median", what, draw_median)


def odd_one_out(data: Path | None = None) -> DataSet:
    """Returns the task of detecting one moved point among 5 to 30. It is moved by 2; the scatter is 0.5 per column."""
    what = (
        f"5 to 30 points in {DIMENSIONS} dimensions, which scatter by 0.5 around a centre that is drawn per set. In "
        "half of the sets one of them is moved by 2 in a random direction. The question is whether one was"
    )
    return _made("odd-one-out", what, draw_odd_one_out, "classification", ("AUC", "accuracy"))


def draw_maximum(source: np.random.Generator) -> tuple[np.ndarray, float]:
    """Samples numbers, and returns them with their maximum."""
    numbers = source.uniform(0, 100, (source.integers(1, 10, endpoint=True), 1))
    return numbers, numbers.max()


def draw_median(source: np.random.Generator) -> tuple[np.ndarray, float]:
    """Samples numbers, and returns them with their median."""
    size = 2 * source.integers(2, 14, endpoint=True) + 1
    numbers = np.exp(source.normal(0, 0.3) + source.uniform(0.2, 1.2) * source.normal(size=(size, 1)))
    return numbers, float(np.median(numbers))


def draw_odd_one_out(source: np.random.Generator) -> tuple[np.ndarray, float]:
    """Samples points, and returns them with 1 if one of them is odd, else 0."""
    size, is_odd = source.integers(5, 30, endpoint=True), source.integers(2)
    points = 2 * source.normal(size=DIMENSIONS) + 0.5 * source.normal(size=(size, DIMENSIONS))
    direction = source.normal(size=DIMENSIONS)
    points[source.integers(size)] += is_odd * 2 * direction / np.linalg.norm(direction)
    return points, float(is_odd)


def _made(
    name: str, what: str, draw: Draw, task: str = "regression", scores: tuple[str, ...] = ("RMSE", "MAE")
) -> DataSet:
    def sample(num_sets: int, seed: int) -> Sample:
        source = np.random.default_rng(seed)
        drawn = [draw(source) for _ in range(num_sets)]
        values = np.concatenate([elements for elements, _ in drawn]).astype(np.float32)
        columns = {f"x{i}": Column("numeric", values[:, i].copy()) for i in range(values.shape[1])}
        targets = np.array([target for _, target in drawn])
        sizes = np.array([len(elements) for elements, _ in drawn])
        table = SetTable(offsets_of(sizes), columns, {})
        return Sample(table, targets.astype(np.int64) if task == "classification" else targets)

    return DataSet(
        name=name,
        about=f"A set is {what} (made). {NUM_TRAINING:,} sets to learn from and {NUM_TEST:,} for the test.",
        task="classification" if task == "classification" else "regression",
        scores=scores,
        num_folds=3,
        fold=lambda number: Fold(sample(NUM_TRAINING, 2 * number), {"test": partial(sample, NUM_TEST, 2 * number + 1)}),
    )


LOADERS = {"maximum": maximum, "median": median, "odd-one-out": odd_one_out}
