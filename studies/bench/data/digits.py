"""Images of digits: their sum, and the number of different digits, for sets larger than in training."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from janossy.tables import Column, SetTable
from janossy.tables.table import offsets_of
from studies.bench.data_set import DataSet, Fold, Sample

MAX_IN_TRAINING = 20
SIZES = (5, 10, 20, 50, 100)
"""The set sizes of the tests."""
NUM_TRAINING, NUM_TEST = 10_000, 1_000
TEST_IMAGES = 0.3

Draw = Callable[[int, np.random.Generator], np.ndarray]
"""A function that samples the digits of a set of a given size."""


def digits_sum(data: Path | None = None) -> DataSet:
    """Returns the task of the sum of independent digits, learnt on sets of 1 to 20 images and tested up to 100."""
    return _digits("digits-sum", "their sum", lambda size, source: source.integers(10, size=size), np.sum)


def digits_distinct(data: Path | None = None) -> DataSet:
    """Returns the task of the number of different digits, learnt on sets of 1 to 20 images and tested up to 100.

    All possible numbers are equally frequent, as for the characters of Lee et al. (2019, "Set Transformer", Section
    5.2).
    """
    return _digits("digits-distinct", "how many different ones there are", draw_distinct, lambda x: len(np.unique(x)))


def draw_distinct(size: int, source: np.random.Generator) -> np.ndarray:
    """Returns the digits of a set: 1 to 10 different ones, at most ``size``, each at least once."""
    kinds = source.permutation(10)[: source.integers(1, min(size, 10), endpoint=True)]
    return np.concatenate((kinds, source.choice(kinds, size - len(kinds))))


def _digits(name: str, what: str, draw: Draw, target: Callable[[np.ndarray], int]) -> DataSet:
    pixels, digits = load_digits(return_X_y=True)

    def sample(images: np.ndarray, sizes: np.ndarray, source: np.random.Generator) -> Sample:
        """Returns sets of these images, with their targets."""
        drawn = [draw(size, source) for size in sizes]
        wanted = np.concatenate(drawn)
        chosen = np.empty_like(wanted)
        for digit in range(10):
            places = wanted == digit
            chosen[places] = source.choice(images[digits[images] == digit], places.sum())
        columns = {f"pixel_{i}": Column("numeric", pixels[chosen, i].astype(np.float32)) for i in range(64)}
        return Sample(SetTable(offsets_of(sizes), columns, {}), np.array([float(target(x)) for x in drawn]))

    def of_size(images: np.ndarray, size: int, number: int) -> Sample:
        return sample(images, np.full(NUM_TEST, size), np.random.default_rng([number, size]))

    def fold(number: int) -> Fold:
        train, test = train_test_split(
            np.arange(len(digits)), test_size=TEST_IMAGES, stratify=digits, random_state=number
        )
        source = np.random.default_rng(number)
        sizes = source.integers(1, MAX_IN_TRAINING, NUM_TRAINING, endpoint=True)
        return Fold(sample(train, sizes, source), {f"size {n}": partial(of_size, test, n, number) for n in SIZES})

    return DataSet(
        name=name,
        about=f"A set is 1 to {MAX_IN_TRAINING} images of handwritten digits, 8 × 8 pixels each (scikit-learn's, from "
        f"UCI); the target is {what}. Tested on other images, by set size up to {max(SIZES)}.",
        task="regression",
        scores=("RMSE", "MAE", "accuracy of rounded"),
        num_folds=3,
        fold=fold,
    )
