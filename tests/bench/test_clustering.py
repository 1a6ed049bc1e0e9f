"""Mixtures of Gaussians: their draws, log-likelihood against scipy and EM against scikit-learn; networks that learn."""

from importlib import import_module

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture

from janossy import Ragged
from janossy.bench.mixtures import LEAST_SCALE, NUM_OUTPUTS, SCALE, Mixtures, draw

SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=4)


def drawn(sizes, seed):
    """Points, and mixtures that have nothing to do with them."""
    source = torch.Generator().manual_seed(seed)
    points = torch.randn(sum(sizes), 2, generator=source, dtype=torch.float64)
    outputs = torch.randn(len(sizes), NUM_OUTPUTS, generator=source, dtype=torch.float64)
    return Ragged.from_sizes(points, sizes), Mixtures.of(outputs)


@given(SIZES, st.integers(0, 100))
def test_log_likelihood_is_that_of_scipy(sizes, seed):
    sets, mixtures = drawn(sizes, seed)
    for b, points in enumerate(sets):
        density = sum(
            float(mixtures.log_weights[b, k].exp())
            * multivariate_normal(mixtures.means[b, k], np.diag(mixtures.scales[b, k] ** 2)).pdf(points.numpy())
            for k in range(4)
        )
        assert float(mixtures.log_likelihood(sets)[b]) == pytest.approx(np.log(density).mean())


@given(SIZES, st.integers(0, 100))
def test_a_step_of_em_never_loses(sizes, seed):
    sets, mixtures = drawn(sizes, seed)
    after = mixtures.after_em(sets)
    held = after.scales.amin((1, 2)) > LEAST_SCALE
    assert (after.log_likelihood(sets) >= mixtures.log_likelihood(sets) - 1e-9)[held].all()
    torch.testing.assert_close(after.log_weights.exp().sum(1), torch.ones(len(sizes), dtype=torch.float64))


def test_a_step_of_em_is_that_of_scikit_learn():
    sets, mixtures = drawn([60], 3)
    theirs = GaussianMixture(
        4, covariance_type="diag", reg_covar=0, max_iter=1, tol=0,
        weights_init=mixtures.log_weights[0].exp().numpy(), means_init=mixtures.means[0].numpy(),
        precisions_init=mixtures.scales[0].numpy() ** -2.0,
    )  # fmt: skip
    with pytest.warns(match="converge"):
        theirs.fit(sets.values.numpy())
    ours = mixtures.after_em(sets)
    np.testing.assert_allclose(ours.log_weights[0].exp(), theirs.weights_, rtol=1e-6)
    np.testing.assert_allclose(ours.means[0], theirs.means_, rtol=1e-6)
    np.testing.assert_allclose(ours.scales[0] ** 2, theirs.covariances_, rtol=1e-6)


@pytest.mark.statistical
def test_draws_are_as_the_paper_says():
    """To 5 standard errors; the paper's oracle is −1.4726, of some test sets of its own."""
    sets, truth = draw(1500, torch.Generator().manual_seed(5))
    again, _ = draw(1500, torch.Generator().manual_seed(5))
    assert torch.equal(sets.values, again.values) and min(sets.sizes) == 100 and max(sets.sizes) == 500
    assert truth.means.abs().max() <= 4 and truth.scales.eq(SCALE).all()
    weights = truth.log_weights.exp()
    assert abs(float(weights[:, 0].mean()) - 0.25) < 5 * (0.0375 / 1500) ** 0.5
    assert float(weights[:, 0].var()) == pytest.approx(0.0375, rel=0.15)  # of Dirichlet(1, 1, 1, 1): 3/80
    found = truth.log_likelihood(sets)
    assert abs(float(found.mean()) + 1.4726) < 5 * float(found.std()) / 1500**0.5 + 0.01
    assert float(truth.after_em(sets).log_likelihood(sets).mean()) > float(found.mean())


def test_a_component_without_points_stays():
    sets = Ragged.from_sets([torch.zeros(3, 2)])
    far = Mixtures(torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[[0.0, 0.0], [90.0, 90.0]]]), torch.ones(1, 2, 2))
    after = far.after_em(sets)
    assert after.means[0, 1].tolist() == [90, 90] and after.scales[0, 1].tolist() == [1, 1]
    assert (
        after.scales[0, 0].tolist() == pytest.approx([LEAST_SCALE] * 2) and after.log_likelihood(sets).isfinite().all()
    )


@pytest.fixture
def small(monkeypatch):
    """The bench of clustering, on few sets."""
    pytest.importorskip("torch_geometric")
    clustering = import_module("janossy.bench.clustering")
    for name, num in {"NUM_TEST": 6, "BATCH": 2, "NUM_DRAWS": 2, "MOST_EM": 10}.items():
        monkeypatch.setattr(clustering, name, num)
    return clustering


def test_every_network_is_trained_and_scored(small):
    best = max(score["log_likelihood"] for score in small.oracle().values())
    scores = {name: small.fit_and_score(factory, 0, 1) for name, factory in small.MODELS.items()}
    for score in scores.values():
        assert -60 < score["log_likelihood"] < best and score["log_likelihood"] <= score["after_em"] < best + 0.1
        assert score["parameters"] > 80_000 and score["error"] > 0
    assert len({score["log_likelihood"] for score in scores.values()}) == len(scores)


def test_training_learns_and_can_be_repeated(small):
    def losses(num_steps):
        torch.manual_seed(0)
        return small.fit(small.MODELS["k2"](small.POINTS, small.NOTHING, NUM_OUTPUTS), 0, num_steps)

    first = losses(20)
    assert losses(20)[:3] == first[:3] and np.mean(first[-4:]) < np.mean(first[:4]) - 0.5
