"""The claims of docs/theory.md on Theorem 2.1 and Proposition 2.2: bounds by other means, and tables as committed."""

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch

from studies.experiments.theory import convergence, staircase
from studies.experiments.theory.staircase import KS, SIZE

DOCS = Path(__file__).parents[3] / "docs"
RESULTS = DOCS / "results" / "theory"


def committed(name: str) -> dict:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def test_the_tables_are_those_of_the_numbers_and_of_the_page():
    page = (DOCS / "theory.md").read_text(encoding="utf-8")
    of_stairs, of_steps = committed("staircase"), committed("convergence")
    assert (of_stairs["command"], of_steps["command"]) == (staircase.COMMAND, convergence.COMMAND)
    tables = [staircase.table(of_stairs["cells"]), staircase.alternating_table(of_stairs["cells"])]
    assert (RESULTS / "staircase.md").read_text(encoding="utf-8") == "\n".join(tables)
    tables.append(convergence.table(of_steps["cells"]))
    assert (RESULTS / "convergence.md").read_text(encoding="utf-8") == tables[2]
    assert all(table in page for table in tables)
    for figure in ("staircase", "convergence"):
        assert (RESULTS / f"{figure}.png").exists() and f"results/theory/{figure}.png" in page


def test_what_was_run_is_all_that_there_is_to_run():
    cells = committed("staircase")["cells"]
    keys = [{name: cell[name] for name in ("k", "n", "arity", "rho", "seed")} for cell in cells]
    assert sorted(map(str, keys)) == sorted(map(str, staircase.cells(2)))


@pytest.mark.parametrize("n", [4, SIZE])
@pytest.mark.parametrize("k", KS)
def test_the_bound_is_the_least_error_there_is(k, n):
    """By least squares on symmetric polynomials that are sums of functions of k − 1 elements; by brute force."""
    x, weights = staircase.nodes(n)
    product = torch.stack([x[:, list(chosen)].prod(1) for chosen in combinations(range(n), k)]).mean(0)
    torch.testing.assert_close(staircase.target(x, k)[:, 0], product, rtol=1e-12, atol=1e-12)
    assert ((product.square() * weights).sum() - 1).item() == pytest.approx(staircase.variance(k, n))
    lower = [torch.stack([x[:, list(c)].prod(1) for c in combinations(range(n), j)]).sum(0) for j in range(k)]
    lower += [x.square().sum(1), (x**3).sum(1)] if k > 1 else []
    matrix, root = torch.stack(lower, 1), weights.sqrt()
    found = torch.linalg.lstsq(matrix * root[:, None], (product * root)[:, None]).solution
    residual = ((matrix @ found)[:, 0] - product).square() @ weights
    assert residual.item() == pytest.approx(staircase.least_error(k, n), rel=1e-9)


def test_no_network_is_below_the_bound_and_k_ary_ones_are_not_bound():
    """The committed ones; with a linear ρ."""
    for cell in committed("staircase")["cells"]:
        least = staircase.least_error(cell["k"], cell["n"])
        if cell["rho"] == "linear":
            if cell["arity"] == cell["k"]:
                assert cell["mse"] < least / 15
            else:
                assert least * (1 - 1e-6) < cell["mse"] < 1.01 * least
        if cell["n"] == cell["k"] and cell["arity"] < cell["k"]:
            assert abs(cell["alternating"]) < 1e-9


def test_a_fit():
    found = staircase.fit(2, 2, 2, "linear", seed=0, steps=150)
    lower = staircase.fit(2, 2, 1, "linear", seed=0, steps=150)
    assert found["mse"] < staircase.least_error(2, 2) / 10 and found["alternating"] == pytest.approx(4, abs=0.5)
    assert lower["mse"] >= staircase.least_error(2, 2) and abs(lower["alternating"]) < 1e-12


@pytest.mark.statistical
def test_the_constants_of_the_proposition():
    """The gradient's mean by autograd; its square by 20,000 draws, to 5 standard errors, once in 10^6 seeds."""
    problem = convergence.Problem()
    weights = (problem.optimum + torch.tensor([0.5, -1.0, 0.2, 0.3])).requires_grad_()
    (gradient,) = torch.autograd.grad(problem.gap(weights), weights)
    away = weights.detach() - problem.optimum
    assert (away @ gradient).item() >= problem.modulus * away.square().sum().item()
    orders = torch.stack([torch.randperm(4, generator=torch.Generator().manual_seed(i)) for i in range(24 * 40)])
    chosen = orders[torch.randint(len(orders), (20_000, len(problem.x)), generator=torch.Generator().manual_seed(1))]
    rows = problem.x[torch.arange(len(problem.x))[:, None], chosen]
    terms = convergence.Terms()(rows.flatten(0, 1)).unflatten(0, chosen.shape[:2])
    drawn = (2 * terms * (terms @ weights.detach() - problem.y[:, 0])[..., None]).mean(1)
    error = 5 * drawn.std(0) / len(drawn) ** 0.5
    assert ((drawn.mean(0) - gradient).abs() < error + 0.01).all()
    assert drawn.square().sum(1).mean().item() <= problem.noise * (1 + away.square().sum().item())


def test_the_bound_holds_for_the_committed_runs():
    for record in committed("convergence")["cells"]:
        assert (np.array(record["distance"]) <= np.array(record["bound"])).all()
        assert (np.array(record["gap"]) <= record["curvature"] * np.array(record["bound"])).all()
    decreasing, constant = committed("convergence")["cells"]
    assert decreasing["gap"][-1] < 1e-4 < constant["gap"][-1]


def test_a_short_run():
    problem = convergence.Problem()
    path = convergence.run(problem, True, [1, 30], steps=30, replicates=4)
    distances = problem.distance(path).mean(1)
    assert path.shape == (2, 4, 4) and distances[1] < distances[0] < problem.distance(torch.zeros(4))
    limit = convergence.bound(problem, True, 30)
    assert distances[0] <= limit[0] and distances[1] <= limit[29]
