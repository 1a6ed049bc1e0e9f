"""A small synthetic data set of bags, because the bench's own are real."""

import numpy as np

from studies.bench.data.bags import sample_of_bags
from studies.bench.data_set import DataSet
from studies.bench.folds import cross_validation


def rows_of_bags(num_bags=40, features=3, seed=0):
    """Returns rows in the form of files of bags. A bag's label is 1 if one of its instances is far from zero."""
    rng = np.random.default_rng(seed)
    rows = []
    for bag in range(num_bags):
        label = bag % 2
        instances = rng.normal(size=(rng.integers(1, 6), features))
        instances[0, 0] += 6 * label
        rows += [[label, bag + 1, *instance] for instance in instances]
    return np.array(rows)


def made(data=None):
    """Returns a stand-in for Musk 1."""
    num_folds, fold = cross_validation(sample_of_bags(rows_of_bags(), "made"), num_repetitions=1)
    return DataSet("musk1", "Made", "classification", ("accuracy", "AUC"), num_folds, fold, {"somebody": "0.9 (0.1)"})
