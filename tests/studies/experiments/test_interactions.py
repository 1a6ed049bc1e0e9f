"""The networks of interactions are of the order that they say; the committed page is the runs'."""

import json
from itertools import combinations
from math import prod
from pathlib import Path
from statistics import mean

import pytest
import torch

from janossy import Ragged
from janossy.graph import Neighbourhoods
from janossy.inference import interaction_order
from studies.experiments.graphs.interaction_tables import gain, table
from studies.experiments.graphs.interactions import SETUPS, TRUTH, cell, orders, truth_of
from studies.experiments.graphs.neighbour_tasks import SHARPNESS, mean_product, planted, planted_log_odds, real
from studies.experiments.graphs.readers import BOUNDED, FLEXIBLE, MODELS, Reader, Schedule
from studies.paper.graphs.datasets import VertexData

RESULTS = Path(__file__).parents[3] / "docs" / "results" / "graphs"
SCHEDULE = Schedule(8, 0.0, 0.02, 0.0, batch=16, num_steps=20, look_every=5)


def a_graph(n: int = 60) -> VertexData:
    torch.manual_seed(0)
    x = torch.randn(n, 5)
    graph = Neighbourhoods.from_edge_index(torch.randint(n, (2, 5 * n)), n)
    return VertexData("cora", x, x[:, :7].argmax(1), graph, *torch.arange(n).split([n - 30, 10, 20]))


@pytest.mark.parametrize("model", [model for model in MODELS if model != "0"])
def test_the_order_of_a_network_is_what_it_says(model):
    torch.manual_seed(1)
    network = Reader(model, 3, 2, 2, SCHEDULE).eval().double()
    own = torch.randn(3, dtype=torch.float64)

    def target(sets: Ragged) -> torch.Tensor:
        return network.read(own.expand(len(sets), -1), sets, exact=True)

    elements = 3 * torch.randn(20, 8, dtype=torch.float64)
    found = interaction_order(target, elements, 4, max_order=4, num_samples=200)
    order = int(model) if model in BOUNDED else 4
    assert (found.shares[:order] > 1e-9).all()
    assert (found.shares[order:].abs() < 1e-12).all()


def test_neighbours_do_not_matter_to_the_network_of_order_0():
    network = Reader("0", 3, 2, 2, SCHEDULE).eval()
    own = torch.randn(2, 3)
    sets = [Ragged.from_sizes(torch.randn(5, 2), [2, 3]) for _ in range(2)]
    assert torch.equal(network(own, sets[0]), network(own, sets[1]))


@pytest.mark.parametrize("k", [1, 2, 3])
def test_mean_product(k):
    sets = [torch.randn(n, dtype=torch.float64) for n in (0, 1, 2, 3, 6)]
    expected = [mean([prod(s) for s in combinations(values.tolist(), k)] or [0.0]) for values in sets]
    torch.testing.assert_close(mean_product(Ragged.from_sets(sets), k), torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("k", [1, 2, 3])
def test_planted_labels_are_of_their_order(k):
    data = a_graph(2000)  # so many that their signs nearly sum to zero
    task = planted(data, k, 0, hidden=False)
    shares = orders(truth_of(task), task, 0, near=False)
    assert shares[k - 1] > 0.8 and all(abs(share) < 0.15 for j, share in enumerate(shares) if j != k - 1)
    log_odds = planted_log_odds(task.signs, data, torch.arange(2000), k)
    assert log_odds.abs().max() <= SHARPNESS
    sure = log_odds.abs() > 5
    assert (task.data.y[sure] == (log_odds[sure] > 0)).double().mean() > 0.95


def test_hidden_signs_are_those_of_a_component():
    data = a_graph()
    task = planted(data, 2, 0, hidden=True)
    assert torch.equal(task.neighbour, real(data).neighbour) and abs(task.signs.sum()) <= 1
    centred = data.x - data.x.mean(0)
    component = centred @ torch.linalg.svd(centred)[2][0]
    sides = torch.where(component > component.median(), 1.0, -1.0)
    assert torch.equal(task.signs * task.signs[0], sides * sides[0]) or (task.signs * sides).mean().abs() > 0.9


def test_a_neighbour_is_its_features_and_its_neighbours_mean():
    data = a_graph()
    task = real(data)
    for v in range(5):
        near = data.x[data.graph.whole(torch.tensor([v])).values]
        expected = torch.cat((data.x[v], near.mean(0) if len(near) else torch.zeros(5)))
        torch.testing.assert_close(task.neighbour[v], expected)
        torch.testing.assert_close(task.own[v, -1], torch.tensor(len(near) + 1.0).log())


@pytest.mark.parametrize("model", (*MODELS, TRUTH))
def test_cell(model, monkeypatch):
    monkeypatch.setattr("studies.experiments.graphs.interactions.NUM_VERTICES", 3)
    monkeypatch.setattr("studies.experiments.graphs.interactions.NUM_CUBES", 10)
    found = cell(planted(a_graph(), 2, 0, hidden=False), model, 0, SCHEDULE)
    assert 0 <= found["test"] <= 1
    assert ("own" in found) == ("any" in found) == (model in (*FLEXIBLE, TRUTH))


def test_gain():
    assert gain([0.1, 0.3]) == "+0.2000 ± 0.1000"


def test_page():
    data = json.loads((RESULTS / "interactions.json").read_text(encoding="utf-8"))
    assert data["command"] == "python -m studies.experiments.graphs.interactions"
    assert {cell["task"] for cell in data["cells"]} <= set(SETUPS)
    assert table(data["cells"]) == (RESULTS / "interactions.md").read_text(encoding="utf-8")
