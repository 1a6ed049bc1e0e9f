"""Boosted trees on pooled statistics of sets, without pairs except those added by hand."""

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingClassifier

from janossy import Ragged
from studies.experiments.sets.generators import Task

BINS = 30


def statistics(sets: Ragged, task: Task) -> np.ndarray:
    """Returns each set's size; counts of each category; mean, standard deviation, minimum and maximum of each
    number.
    """
    return np.array([_of_set(x, task) for x in sets])


def _of_set(x: torch.Tensor, task: Task) -> list[float]:
    num_codes = len(task.layout.vocabularies)
    found = [float(len(x))]
    for column, vocabulary in enumerate(task.layout.vocabularies):
        found += torch.bincount(x[:, column].long(), minlength=vocabulary).tolist()
    numbers = x[:, num_codes:]
    for summary in (numbers.mean(0), numbers.std(0, correction=0), numbers.amin(0), numbers.amax(0)):
        found += summary.tolist()
    return found


def pair_histogram(sets: Ragged) -> np.ndarray:
    """Returns the histogram of ΔR over the pairs of each jet, as shares, beside its size."""
    edges = torch.linspace(0, 2, BINS + 1)
    found = []
    for x in sets:
        i, j = torch.triu_indices(len(x), len(x), 1)
        d_eta, d_phi = (x[i, 1:] - x[j, 1:]).unbind(1)
        d_phi = torch.remainder(d_phi + torch.pi, 2 * torch.pi) - torch.pi
        counts = torch.histogram(torch.hypot(d_eta, d_phi).clamp(max=1.999), edges).hist
        found.append([float(len(x)), *(counts / len(i)).tolist()])
    return np.array(found)


def fit_trees(train: np.ndarray, y: torch.Tensor, test: np.ndarray) -> np.ndarray:
    """Returns probabilities of class 1 by scikit-learn's boosted trees, stopped early."""
    trees = HistGradientBoostingClassifier(max_iter=500, learning_rate=0.05, early_stopping=True, random_state=0)
    return trees.fit(train, y.numpy()).predict_proba(test)[:, 1]
