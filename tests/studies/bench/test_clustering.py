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
from studies.bench.mixtures import LEAST_SCALE, NUM_OUTPUTS, SCALE, Mixtures, draw
from studies.bench.settings import Settings

SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=4)


def drawn(sizes, seed):
    """Returns points, and unrelated mixtures."""
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
def few(monkeypatch):
    """Gives the data set with few sets."""
    pytest.importorskip("torch_geometric")
    module = import_module("studies.bench.data.clustering")
    monkeypatch.setattr(module, "NUM_TRAINING", 4)
    monkeypatch.setattr(module, "NUM_TEST", 3)
    monkeypatch.setattr(module, "AT_ONCE", 3)
    monkeypatch.setattr("studies.bench.clustering.NUM_DRAWS", 2)
    return module.clustering()


def test_every_network_is_trained_and_scored(few):
    """By the harness: the truth is alike for all, and a step of EM never loses."""
    measured = import_module("studies.bench.trial").measure
    scores = {}
    for model in import_module("studies.bench.clustering").NETWORKS:
        cell = measured(few, model, 0, Settings(max_epochs=1), lambda part: None)
        scores[model] = [cell.scores["test"][name] for name in few.scores]
        assert cell.num_parameters > 60_000 and cell.num_train == 4 and cell.num_test == 3
    said, after, truth = np.array([*scores.values()]).T
    assert (said < truth).all() and (said <= after).all() and len(set(truth)) == 1 and len(set(said)) == len(said)
    sets, mixtures = draw(3, torch.Generator().manual_seed(1))
    assert truth[0] == pytest.approx(float(mixtures.log_likelihood(sets).mean()), abs=1e-6)
    assert measured(few, "trees", 0, Settings(), lambda part: None).does_not_apply


def test_folds_are_others_and_always_the_same(few):
    first, again, other = (few.fold(number).tests["test"]() for number in (0, 0, 1))
    assert np.array_equal(first.targets, again.targets) and not np.array_equal(first.targets, other.targets)
    assert not np.array_equal(first.targets, few.fold(0).train.targets[:3])


def test_training_learns_and_can_be_repeated(few, monkeypatch):
    monkeypatch.setattr("studies.bench.clustering.BATCH", 1)
    sets = few.fold(0).train.sets

    def fitted(num_passes):
        return import_module("studies.bench.clustering").MixtureEstimator("k2", 0, num_passes).fit(sets)

    first = fitted(8)
    assert np.mean(first.losses[-4:]) < np.mean(first.losses[:4]) - 0.5
    assert np.array_equal(first.predict(sets), fitted(8).predict(sets))
