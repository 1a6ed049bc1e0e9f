"""The experiments of orders: their sets by hand, a short run of each, pages that are those of the runs."""

import json
from pathlib import Path

import pytest
import torch

from janossy.graph import Neighbourhoods
from studies.experiments.orders import arithmetic, neighbourhoods, two_coordinates
from studies.experiments.orders.training import Plan, kendall
from studies.paper.graphs.datasets import VertexData

RESULTS = Path(__file__).parents[3] / "docs" / "results" / "orders"
SHORT = Plan(steps=3, num_rows=8, rate=1e-2, scorer_rate=1e-2)


@pytest.mark.parametrize("module", [two_coordinates, arithmetic, neighbourhoods])
def test_pages_are_those_of_the_runs(module):
    name = module.__name__.rpartition(".")[2]
    data = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    assert data["command"] == f"python -m {module.__name__}"
    assert module.table(data["cells"]) == (RESULTS / f"{name}.md").read_text(encoding="utf-8")
    assert (RESULTS / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_the_target_of_two_coordinates_by_hand():
    x, y = two_coordinates.draw(50, 3)
    for each, target in zip(x, y, strict=True):
        a = [pair[0] for pair in sorted(each.tolist(), key=lambda pair: pair[1])]
        assert abs(a[0] - a[1] + a[2] - a[3] - target.item()) < 1e-6


def test_kendalls_tau_by_hand():
    truth = torch.tensor([[1.0, 2, 3]])
    assert kendall(truth * 5, truth) == 1 and kendall(-truth, truth) == -1
    assert kendall(torch.tensor([[1.0, 3, 2]]), truth) == pytest.approx(1 / 3)


@pytest.mark.parametrize("row", two_coordinates.ROWS)
def test_two_coordinates_run(row, monkeypatch):
    monkeypatch.setattr(two_coordinates, "NUM_TEST", 50)
    found = two_coordinates.cell(row, 0, SHORT)
    assert found["r2"] < 1 and ("tau" in found) == (row in two_coordinates.LEARNED)


@pytest.mark.parametrize("row", arithmetic.NAMES)
def test_arithmetic_runs(row, monkeypatch):
    monkeypatch.setattr(arithmetic, "NUM_TEST", 50)
    found = arithmetic.cell("unique_count", row, 0, SHORT)
    assert 0 <= found["accuracy"] <= 1 and found["rmse"] > 0


@pytest.mark.parametrize("row", neighbourhoods.NAMES)
def test_neighbourhoods_run(row, monkeypatch, tmp_path):
    monkeypatch.setattr(neighbourhoods, "EPOCHS", 2)
    generator = torch.Generator().manual_seed(0)
    graph = Neighbourhoods.from_edge_index(torch.randint(30, (2, 120), generator=generator), 30)
    x, y = torch.randn(30, 5, generator=generator).to_sparse(), torch.arange(30) % 7
    data = VertexData("cora", x, y, graph, torch.arange(20), torch.arange(20, 25), torch.arange(25, 30))
    keys = neighbourhoods.keys_of(data, tmp_path / "keys.pt")
    assert torch.equal(keys, neighbourhoods.keys_of(data, tmp_path / "keys.pt")) and keys.shape == (120, 5)
    found = neighbourhoods.cell(data, keys, row, 0)
    assert 0 <= found["test"] <= 1 and ("weights" in found) == (row == "weighed")
