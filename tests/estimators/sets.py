"""Small data with known answers."""

import numpy as np


def bags(num: int, seed: int = 0) -> tuple[list[np.ndarray], np.ndarray]:
    """Returns sets of 1 to 5 elements (n, 2), and True for those with an element above 1 in column 0."""
    random = np.random.default_rng(seed)
    sets = [random.normal(size=(n, 2)) for n in random.integers(1, 6, num)]
    return sets, np.array([x[:, 0].max() > 1 for x in sets])


def sums(num: int, seed: int = 0) -> tuple[list[np.ndarray], np.ndarray]:
    """Returns sets of 1 to 5 elements (n, 2), and the sum of column 0 of each."""
    random = np.random.default_rng(seed)
    sets = [random.normal(size=(n, 2)) for n in random.integers(1, 6, num)]
    return sets, np.array([x[:, 0].sum() for x in sets])
