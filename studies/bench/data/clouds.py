"""Digits as clouds of points, which a set network must tell apart by shape."""

from functools import partial
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from janossy.tables import Column, SetTable
from janossy.tables.table import offsets_of
from studies.bench.data_set import DataSet, Fold, Sample

SIZES = {"cloud-100": (100, 100), "cloud-500": (100, 500)}
"""The smallest and the largest number of points of a cloud."""

SIDE = 8
"""The pixels of a row of an image, and of a column."""

TEST_IMAGES = 0.25


def cloud(name: str, data: Path | None = None) -> DataSet:
    """Returns the task of the digit that a cloud shows. No files are needed."""
    pixels, digits = load_digits(return_X_y=True)
    smallest, largest = SIZES[name]

    def sample(images: np.ndarray, seed: int) -> Sample:
        """Returns a cloud of each of these images, with the digits."""
        source = np.random.default_rng(seed)
        sizes = source.integers(smallest, largest, len(images), endpoint=True)
        points = np.concatenate([draw_points(pixels[i], size, source) for i, size in zip(images, sizes, strict=True)])
        columns = {axis: Column("numeric", points[:, i].astype(np.float32)) for i, axis in enumerate("xy")}
        return Sample(SetTable(offsets_of(sizes), columns, {}), digits[images])

    def fold(number: int) -> Fold:
        train, test = train_test_split(
            np.arange(len(digits)), test_size=TEST_IMAGES, stratify=digits, random_state=number
        )
        return Fold(sample(train, 2 * number), {"test": partial(sample, test, 2 * number + 1)})

    points = str(largest) if smallest == largest else f"{smallest} to {largest}"
    return DataSet(
        name=name,
        about=f"A set is {points} points, scattered like the ink of a handwritten digit of 8 × 8 pixels "
        "(scikit-learn's, from UCI). The class is the digit.",
        task="classification",
        scores=("accuracy", "balanced accuracy"),
        num_folds=3,
        fold=fold,
    )


def draw_points(image: np.ndarray, size: int, source: np.random.Generator) -> np.ndarray:
    """Samples points (size, 2) of an image (64,), in pixels: a pixel by its ink, and a uniform place within it."""
    y, x = np.divmod(source.choice(len(image), size, p=image / image.sum()), SIDE)
    return np.stack((x, -y), axis=1) + source.uniform(size=(size, 2))


LOADERS = {name: partial(cloud, name) for name in SIZES}
