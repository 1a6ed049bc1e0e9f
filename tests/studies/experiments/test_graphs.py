"""The networks of graphs train and keep their best weights; the committed table is that of the runs."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from torch_geometric.nn import SAGEConv

from janossy.graph import Neighbourhoods
from studies.experiments.graphs.models import (
    BASELINES,
    CONVOLUTIONS,
    OURS,
    Architecture,
    FirstNeighbours,
    Network,
    is_sampled,
)
from studies.experiments.graphs.plans import PLANS, chosen
from studies.experiments.graphs.tables import comparison, table
from studies.experiments.graphs.training import Piece, Schedule, fit, pieces, score
from studies.paper.graphs.datasets import VertexData

RESULTS = Path(__file__).parents[3] / "docs" / "results" / "graphs"


def a_graph(multilabel: bool = False, parts: torch.Tensor | None = None, n: int = 40) -> VertexData:
    torch.manual_seed(0)
    x = torch.randn(n, 5)
    y = (x[:, :3] > 0).float() if multilabel else x[:, :3].argmax(1)
    edges = torch.randint(n, (2, 150))
    if parts is not None:
        edges = edges[:, parts[edges[0]] == parts[edges[1]]]
    graph = Neighbourhoods.from_edge_index(edges, n)
    return VertexData("cora", x, y, graph, *torch.arange(n).split([n - 20, 10, 10]), parts)


@pytest.mark.parametrize("jump", [None, "cat", "max"])
@pytest.mark.parametrize("model", CONVOLUTIONS)
@pytest.mark.cover(1)
def test_each_model_learns(model, jump):
    data = a_graph()
    (train,) = pieces(data, data.train)
    network = Network(model, 5, 3, Architecture(8, 2, 0.0, residual=jump is not None, jump=jump))
    loss = [torch.nn.functional.cross_entropy(network(train.x, train.edges)[train.vertices], train.y).item()]
    fit(network, [train], [train], Schedule(0.02, 0.0, max_epochs=30, patience=30))
    loss += [torch.nn.functional.cross_entropy(network(train.x, train.edges)[train.vertices], train.y).item()]
    assert loss[1] < loss[0]
    assert len(score(network, [train], 3)) == 3


@pytest.mark.parametrize("model", CONVOLUTIONS)
def test_only_sampled_models_are_random(model):
    data = a_graph()
    (piece,) = pieces(data, data.test)
    network = Network(model, 5, 3, Architecture(8, 2, 0.5, residual=True, jump="cat")).eval()
    changes = not torch.equal(network(piece.x, piece.edges), network(piece.x, piece.edges))
    assert changes == is_sampled(model)
    if model in OURS and not is_sampled(model):
        order = torch.randperm(piece.edges.shape[1])
        torch.testing.assert_close(network(piece.x, piece.edges[:, order]), network(piece.x, piece.edges))


def test_the_best_weights_are_kept():
    data = a_graph()
    train, validation = (pieces(data, vertices) for vertices in (data.train, data.validation))
    network = Network("GCN", 5, 3, Architecture(8, 2, 0.5, residual=False, jump=None))
    fitted = fit(network, train, validation, Schedule(0.05, 0.0, max_epochs=40, patience=5))
    assert score(network, validation, 1) == [fitted["validation"]]
    assert fitted["epochs"] in (40, fitted["epochs_kept"] + 5)


def test_graphs_apart_are_read_as_together():
    parts = torch.arange(40) // 10
    data = a_graph(multilabel=True, parts=parts)
    network = Network("GAT", 5, 3, Architecture(8, 2, 0.5, residual=True, jump="cat")).eval()
    (whole,) = pieces(replace(data, parts=None), data.train)
    apart = pieces(data, data.train)
    assert [len(piece.x) for piece in apart] == [10, 10]
    logits = torch.cat([network(piece.x, piece.edges)[piece.vertices] for piece in apart])
    torch.testing.assert_close(logits, network(whole.x, whole.edges)[whole.vertices])
    torch.testing.assert_close(torch.cat([piece.y for piece in apart]), whole.y)


def test_first_neighbours():
    edges = torch.tensor([[1, 2, 3, 0], [0, 0, 0, 1]])
    x = torch.randn(4, 8)
    conv = FirstNeighbours(8, 2)
    whole = SAGEConv(8, 8, aggr="lstm")
    whole.load_state_dict(conv.state_dict())
    torch.testing.assert_close(conv(x, edges), whole(x, edges[:, [0, 1, 3]]))


def test_the_choice_is_by_the_first_seeds_validation():
    num_settings, num_seeds = len(PLANS["cora"].settings), PLANS["cora"].num_tuning_seeds
    key = {"dataset": "cora", "model": "GCN"}
    cells = [
        {**key, "seed": seed, "setting": setting, "validation": 0.9 if setting == 1 else 0.5, "test": [setting]}
        for seed in range(num_seeds)
        for setting in range(num_settings)
    ]
    assert chosen(cells[:-1], "cora", "GCN") is None
    assert chosen([*cells, {**cells[0], "seed": num_seeds, "validation": 100.0}], "cora", "GCN") == 1


def test_a_setting_is_an_architecture_with_a_learning_rate():
    plan = replace(PLANS["cora"], learning_rates=(0.1, 0.2))
    assert [(each, schedule.learning_rate) for each, schedule in plan.settings] == [
        (architecture, rate) for architecture in plan.architectures for rate in (0.1, 0.2)
    ]
    assert {schedule.learning_rate for _, schedule in PLANS["cora"].settings} == {PLANS["cora"].schedule.learning_rate}


def test_on_ppi_each_model_is_tried_with_the_same_learning_rates():
    plan = PLANS["ppi"]
    rates = plan.learning_rates
    assert len(rates) > 1
    assert {model for model in plan.models if model in OURS} == {"Janossy singles", "mean, Janossy GRU"}
    key = {"dataset": "ppi", "seed": 0, "test": [0.5], "num_trainable_parameters": 1, "epochs_kept": 1, "epochs": 1}
    best = dict(zip(plan.models, range(len(plan.models)), strict=True))
    cells = [
        {
            **key,
            "model": model,
            "setting": number,
            "validation": 0.9 if number == best[model] % len(rates) else 0.5,
            "seconds": 1.0,
            "architecture": asdict(architecture),
            "schedule": asdict(schedule),
        }
        for model in plan.models
        for number, (architecture, schedule) in enumerate(plan.settings)
    ]
    assert [chosen(cells, "ppi", model) for model in plan.models] == [i % len(rates) for i in best.values()]
    page = table(cells)
    for model, i in best.items():
        (line,) = (line for line in page.splitlines() if line.strip("| *").startswith(model))
        assert f"rate {rates[i % len(rates)]} |" in line


def test_comparison():
    runs = {"GCN": [(0.5, 0.6), (0.7, 0.6)], "GAT": [(0.1, 0.9), (0.1, 0.9)], "Janossy GRU": [(0.5, 0.7), (0.7, 0.9)]}
    results = {
        model: [{"seed": seed, "validation": v, "test": [0.0, t]} for seed, (v, t) in enumerate(pairs)]
        for model, pairs in runs.items()
    }
    assert "**Janossy GRU** − **GCN**, paired: +0.2000 (standard error 0.1000), 2 seeds." in comparison(results)


def test_table():
    data = json.loads((RESULTS / "best.json").read_text(encoding="utf-8"))
    assert data["command"] == "python -m studies.experiments.graphs.best"
    assert table(data["cells"]) == (RESULTS / "best.md").read_text(encoding="utf-8")


def test_pieces_hold_only_what_counts():
    data = a_graph()
    (piece,) = pieces(data, data.test)
    assert isinstance(piece, Piece) and torch.equal(piece.y, data.y[data.test])
    assert set(BASELINES) | set(OURS) == set(CONVOLUTIONS)
