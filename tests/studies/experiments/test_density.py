"""The processes of density are what they say, as are the models beside ours; the page is of the runs."""

from math import pi
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from janossy import Ragged
from janossy.density import Bounded, Categories, ExchangeableDensity
from studies.experiments.density import energy
from studies.experiments.density.compare import SEEDS, TRUTH, results, runs, table
from studies.experiments.density.energy import DeepSetsEnergy, base_of
from studies.experiments.density.measures import pair_correlation, same_pairs
from studies.experiments.density.models import CORRELATIONS, MODELS, fit
from studies.experiments.density.processes import PROCESSES, HardCore, log_volumes
from studies.experiments.density.symmetric import Bruno, Polya
from tests.laws import close

RESULTS = Path(__file__).parents[3] / "docs" / "results" / "density"


@pytest.mark.statistical
@pytest.mark.parametrize("name", PROCESSES)
def test_sizes_are_drawn_as_the_truth_says(name):
    """χ²; fails once in 10^5 seeds. The same seed draws the same."""
    process = PROCESSES[name]
    if name == "hard core":
        sizes = process.chains(600, 700, 7)[1]
        assert np.array_equal(process.chains(5, 40, 7)[0], process.chains(5, 40, 7)[0])
    else:
        sizes = np.array(process.draw(3000, 7).sizes)
        assert process.draw(5, 3).sizes == process.draw(5, 3).sizes
    expected = np.exp(process.log_sizes())
    assert expected.sum() == pytest.approx(1)
    counts = np.bincount(sizes, minlength=len(expected))
    some = expected * len(sizes) > 8
    hoped = expected[some] / expected[some].sum() * counts[some].sum()
    assert chisquare(counts[some], hoped).pvalue > 1e-5 and counts[some].sum() > 0.97 * len(sizes)


def test_volumes_of_hard_cores_against_a_closed_form():
    """The probability that two uniform points in the square are nearer than R is πR² − 8R³/3 + R⁴/2."""
    R = 0.25
    found = np.exp(log_volumes(HardCore(), 5000))
    assert found[1] == 1
    assert found[2] == pytest.approx(1 - pi * R**2 + 8 * R**3 / 3 - R**4 / 2, abs=0.004)
    three = torch.rand(100_000, 3, 2, generator=torch.Generator().manual_seed(0))
    distances = torch.stack([(three[:, i] - three[:, j]).norm(dim=1) for i, j in ((0, 1), (0, 2), (1, 2))])
    assert found[3] == pytest.approx(float((distances > R).all(0).double().mean()), abs=0.01)
    touching = Ragged.from_sets([torch.tensor([[0.5, 0.5], [0.6, 0.5]]), torch.tensor([[0.1, 0.1]])])
    assert HardCore().log_prob(touching).tolist() == [-torch.inf, 0]


def test_the_density_of_clusters_by_hand_and_its_integral():
    """One point and two, by drawing parents; and ∫ p(x | 1) dx = 1."""
    process = PROCESSES["clusters"]
    ticks = (torch.arange(30) + 0.5) / 30
    points = torch.cartesian_prod(ticks, ticks)
    assert process.log_prob(Ragged.from_sizes(points, [1] * 900)).exp().mean() == pytest.approx(1, abs=2e-3)
    x = torch.tensor([[0.5, 0.5], [0.55, 0.45]])
    generator = torch.Generator().manual_seed(0)
    parents = torch.rand(400_000, 2, 2, generator=generator, dtype=torch.float64)
    normal = torch.distributions.Normal(0.0, 1.0)
    inside = (normal.cdf((1 - parents) / 0.06) - normal.cdf(-parents / 0.06)).prod(2)
    of_points = [torch.distributions.Normal(parents, 0.06).log_prob(p.double()).sum(2).exp() / inside for p in x]
    expected = (of_points[0].mean(1) * of_points[1].mean(1)).mean()
    assert process.log_prob(Ragged.from_sets([x])).exp()[0] == pytest.approx(float(expected), rel=0.05)


def test_the_density_of_the_urn_sums_to_one():
    process = PROCESSES["urn"]
    pairs = torch.cartesian_prod(torch.arange(9), torch.arange(9))
    found = process.log_prob(Ragged.from_sizes(pairs.flatten(), [2] * 81)).exp()
    assert found.sum() == pytest.approx(1) and found[0] == 0  # there is one ball of the first colour
    assert found[-1] == pytest.approx(3 / 16 * 2 / 15)


def perturbed(q):
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in q.parameters():
            weight += 0.4 * torch.randn_like(weight)
    return q.double()


@pytest.mark.parametrize("name", ["bruno", "polya"])
def test_the_models_beside_ours_are_exchangeable_and_densities(name):
    bounded = Bounded([0.0, 0.0], [1.0, 1.0])
    torch.set_default_dtype(torch.float64)
    try:
        q = perturbed(Bruno(bounded, 0.1, 4, 5) if name == "bruno" else Polya(Categories(3)))
        p = ExchangeableDensity(q)
        drawn = p.sample(sizes=[4] * 6, generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            found = p.log_prob(drawn).log_prob
            close(found, p.log_prob(Ragged.from_sets([x.flip(0) for x in drawn])).log_prob, atol=1e-9, rtol=1e-9)
            steps = [sum(q.next(x[None, :t]).log_prob(x[None, t])[0] for t in range(4)) for x in drawn]
            close(found, torch.stack(steps), atol=1e-9, rtol=1e-9)
            if name == "polya":
                x = torch.cartesian_prod(torch.arange(3), torch.arange(3))
                total = p.log_prob(Ragged.from_sizes(x.flatten(), [2] * 9)).log_prob.exp().sum()
            else:
                z = torch.linspace(-14, 14, 200)
                grid = torch.sigmoid(torch.cartesian_prod(z, z))
                volume = (grid * (1 - grid)).prod(1) * (z[1] - z[0]) ** 2
                total = (p.log_prob(Ragged.from_sizes(grid, [1] * len(grid))).log_prob.exp() * volume).sum()
            assert total == pytest.approx(1, abs=5e-3)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.statistical
def test_the_energy_is_normalised(monkeypatch):
    """Over all pairs of nine colours, to five times the error that it reports."""
    monkeypatch.setattr(energy, "POOL", 4000)
    torch.manual_seed(0)
    model = DeepSetsEnergy(base_of(Categories(9)))
    pairs = torch.cartesian_prod(torch.arange(9), torch.arange(9))
    sets = Ragged.from_sizes(pairs.flatten(), [2] * 81)
    found = model.log_prob(sets)
    assert found.log_prob.exp().sum().log().abs() < 5 * found.standard_error[0] + 1e-5
    assert model.sample([2, 3, 2]).sizes == (2, 3, 2)


def test_pairs_of_independent_elements_are_uncorrelated():
    random = torch.Generator().manual_seed(0)
    found = pair_correlation(Ragged.from_sizes(torch.rand(12_000, 2, generator=random), [6] * 2000))
    assert np.abs(np.array(found["ratio"])[4:] - 1).max() < 0.12
    drawn = torch.randint(5, (6000,), generator=random)
    assert same_pairs(Ragged.from_sizes(drawn, [6] * 1000))["ratio"] == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("model", MODELS)
def test_every_model_trains_and_is_measured(model, monkeypatch):
    monkeypatch.setattr(energy, "POOL", 100)
    process = PROCESSES["urn"]
    train = process.draw(200, 0)
    fitted = fit(model, process.head(), train, train[:20], 0, 3)
    assert (fitted.correlation in CORRELATIONS) == (model == "BRUNO-like") and fitted.seconds > 0
    with torch.no_grad():
        assert fitted.model.log_prob(train[:5]).log_prob.isfinite().all()
        assert fitted.model.sample(sizes=[2, 4]).sizes == (2, 4)


def test_the_page_is_that_of_the_runs():
    cells = results(RESULTS)
    held = {(cell["process"], cell["model"], cell["seed"]) for cell in cells}
    assert held == {tuple(cell.values()) for cell in runs()} and SEEDS >= 2
    assert table(cells) == (RESULTS / "compare.md").read_text(encoding="utf-8")
    assert (RESULTS / "compare.png").exists() and any(cell["model"] == TRUTH for cell in cells)


def test_the_numbers_in_the_documentation_are_those_of_the_runs():
    text = (RESULTS.parents[1] / "density.md").read_text(encoding="utf-8").split("## What higher order buys")[1]
    rows = [line.split("|")[2:-1] for line in text.splitlines() if line.startswith("|")][2:]
    cells = results(RESULTS)
    for model, row in zip(MODELS, rows, strict=True):
        for process, said in zip(PROCESSES, row, strict=True):
            below = [c["below_truth"] for c in cells if (c["process"], c["model"]) == (process, model)]
            assert float(said) == round(sum(below) / len(below), 2), (model, process)
