"""Amortised clustering: sets of points, for which a network predicts the Gaussian mixture that generated them."""

from pathlib import Path

import numpy as np
import torch

from janossy.tables import Column, SetTable
from studies.bench.data_set import DataSet, Fold, Sample
from studies.bench.mixtures import draw

NUM_TRAINING, NUM_TEST = 100_000, 1_000

AT_ONCE = 5_000
"""The number of sets that are sampled together. All 100,000 at once take 5.9 GB."""


def clustering(data: Path | None = None) -> DataSet:
    """Returns 100,000 sets for a single pass, so that none is seen twice, and 1,000 for the test.

    The target of a set, for comparison only, is the log-likelihood per point under the true mixture.
    """
    return DataSet(
        name="clustering",
        about="A set is 100 to 500 points of four Gaussians in the plane. A network says the mixture, whose "
        "log-likelihood per point is loss and score (Lee et al., 2019, Section 5.3). Ours and peers are as wide as "
        "there; deepsets is the paper's rFF + Pooling. They take 10,000 steps of 10 sets. The paper took 50,000, so "
        "that its figures are what more training gives. EM sees the sets, and so passes the true parameters",
        task="mixtures",
        scores=("log-likelihood", "log-likelihood after EM", "of the true parameters"),
        num_folds=3,
        fold=lambda number: Fold(sample(NUM_TRAINING, 2 * number), {"test": lambda: sample(NUM_TEST, 2 * number + 1)}),
        published={
            "the true parameters (Lee et al.)": "−1.473",
            "rFF + Pooling": "−2.001 (0.012), after a step of EM −1.619 (0.004)",
            "rFF + Dotprod": "−1.855 (0.013), −1.562 (0.005)",
            "ISAB (16) + PMA": "−1.501 (0.007), −1.453 (0.004)",
        },
    )


def sample(num_sets: int, seed: int) -> Sample:
    """Returns sampled sets, and the log-likelihood per point under the mixture of each."""
    generator = torch.Generator().manual_seed(seed)
    points, sizes, truth = [], [], []
    for begin in range(0, num_sets, AT_ONCE):
        sets, mixtures = draw(min(AT_ONCE, num_sets - begin), generator)
        points.append(sets.values)
        sizes.append(sets.offsets.diff())
        truth.append(mixtures.log_likelihood(sets))
    values, offsets = torch.cat(points), np.concatenate([[0], torch.cat(sizes).cumsum(0).numpy()])
    columns = {name: Column("numeric", values[:, i].numpy()) for i, name in enumerate("xy")}
    return Sample(SetTable(offsets, columns, {}), torch.cat(truth).numpy().astype(np.float64))
