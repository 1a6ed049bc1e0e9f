"""Measures of densities, and of sampled sets."""

from typing import Any

import numpy as np
import torch

from janossy import Ragged
from janossy.density import CategoricalSizes, ExchangeableDensity, NegativeBinomialSizes
from studies.experiments.density.processes import Process

EDGES = np.linspace(0, 0.7, 29)
COUNTS = (2, 5, 10, 20, 50)
SCHEMES = ("independent", "stratified", "designed")


def pair_correlation(sets: Ragged) -> dict[str, Any]:
    """Returns g(r): the frequency of distances between points of a set, relative to points of different sets."""
    within = np.concatenate([torch.pdist(x).numpy() for x in sets])
    random = np.random.default_rng(0)
    points = sets.values.numpy()
    first, second = random.integers(len(points), size=(2, 20 * len(points)))
    owners = sets.to_index()[1].numpy()
    apart = owners[first] != owners[second]
    between = np.linalg.norm(points[first[apart]] - points[second[apart]], axis=1)
    found = np.histogram(within, EDGES)[0] / len(within)
    expected = np.histogram(between, EDGES)[0] / len(between)
    return {"r": ((EDGES[1:] + EDGES[:-1]) / 2).round(4).tolist(), "ratio": (found / expected).round(4).tolist()}


def same_pairs(sets: Ragged) -> dict[str, Any]:
    """Returns the frequency of equal elements within a set, relative to elements of different sets."""
    alike = [(x[:, None] == x).sum() - len(x) for x in sets]
    num = sum(n * (n - 1) for n in sets.sizes)
    shares = torch.bincount(sets.values) / len(sets.values)
    return {"ratio": float(sum(alike)) / num / float(shares.square().sum())}


def bounds(model: ExchangeableDensity, test: Ragged) -> dict[str, dict[str, tuple[float, float]]]:
    """Returns, per scheme and number of orders, the mean gap of bounds on large sets and their reported error."""
    large = test[[b for b, n in enumerate(test.sizes) if n >= 5][:100]]
    exact = model.log_prob(large).log_prob
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for scheme in SCHEMES:
        found[scheme] = {}
        for m in COUNTS:
            bound = model.log_prob(large, m, max_exact=0, scheme=scheme)
            gap = float((exact - bound.log_prob).mean())
            found[scheme][str(m)] = (round(gap, 5), round(float(bound.standard_error.mean()), 5))
    return found


def log_sizes(process: Process, train: Ragged, test: Ragged) -> dict[str, float]:
    """Returns the mean log P(n) of the test's sizes, n >= 1."""
    n = torch.tensor(test.sizes)
    fitted = {
        "categorical": CategoricalSizes.fitted(train.sizes),
        "negative binomial": NegativeBinomialSizes.fitted(train.sizes),
    }
    with torch.no_grad():
        means = {name: float(sizes.log_prob(n).mean()) for name, sizes in fitted.items()}
    return {"truth": float(process.log_sizes()[n.numpy()].mean()), **means}
