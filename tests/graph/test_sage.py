"""GraphSAGE: it is a loop over vertices that read the same neighbours, with the paper's numbers of parameters."""

import doctest
import json
from itertools import permutations
from pathlib import Path

import pytest
import torch
from torch import nn

from janossy.evaluate import Packed
from janossy.graph import layers, sage
from janossy.graph.neighbourhoods import Neighbourhoods, TwoHops, two_hops
from janossy.graph.sage import GraphSAGE
from janossy.sets import Ragged
from tests.laws import close

pytestmark = pytest.mark.usefixtures("float64")

AGGREGATIONS = ["mean", "gcn", "max", "lstm", "gru", "k2", "k3"]
D, C, H = 5, 3, 8
ROUNDING = {"atol": 1e-10, "rtol": 1e-10}

EDGES = torch.tensor([[1, 2, 3, 4, 6, 0, 2, 2, 3, 0, 0, 1, 5], [0, 0, 0, 0, 0, 1, 1, 1, 3, 2, 4, 4, 6]])
"""A hub, two parallel edges, a loop, and vertex 5, to which no edge goes."""

VERTICES = torch.tensor([5, 0, 3, 0, 1])
DRAWS = [(None, None), (2, 3), (1, 1), (None, 2)]


def graph_of(edges=EDGES) -> Neighbourhoods:
    return Neighbourhoods.from_edge_index(edges, 7)


def features() -> torch.Tensor:
    return torch.randn(7, D, generator=torch.Generator().manual_seed(7))


def model_of(aggregation, **options) -> GraphSAGE:
    torch.manual_seed(3)
    return GraphSAGE(D, C, aggregation=aggregation, hidden_features=H, **options)


def hops_of(k_1=2, k_2=3, *, resample=False, graph=None) -> TwoHops:
    generator = torch.Generator().manual_seed(1)
    return two_hops(graph or graph_of(), VERTICES, k_1=k_1, k_2=k_2, resample=resample, generator=generator)


# By definition: one vertex after the other, as in the paper's code


def read_by(layer, aggregation):
    """Returns f of the neighbours' vectors of one vertex (n, d), in their order."""
    pool = layer.pool
    if aggregation in ("lstm", "gru"):
        module = getattr(nn, aggregation.upper())(pool.f.in_features, H, batch_first=True)
        weights = dict(pool.f.named_parameters())
        return lambda x: torch.func.functional_call(module, weights, x[None])[0][0, -1] if len(x) else x.new_zeros(H)
    if aggregation == "max":
        return lambda x: pool.linear(x).relu().max(0).values if len(x) else x.new_zeros(H)
    f, k = pool.pooling.f, int(aggregation[1:])

    def average(x):
        rows = [x[list(order)] for order in dict.fromkeys(order[:k] for order in permutations(range(len(x))))]
        filled = [torch.cat((row, row.new_zeros(k - len(row), row.shape[1]))) for row in rows]
        return f(torch.stack(filled)).mean(0)

    return average


def looped(model, x, hops) -> torch.Tensor:
    """Returns the logits, each inner embedding computed anew for each use."""

    def layer(which, own, neighbours):
        module = (model.layer_one, model.layer_two)[which]
        if model.aggregation == "mean":
            mean = neighbours.mean(0) if len(neighbours) else torch.zeros_like(own)
            return module.linear.weight @ torch.cat((own, mean))
        if model.aggregation == "gcn":
            return module.linear.weight @ (own + neighbours.sum(0)) / (1 + len(neighbours))
        pooled = read_by(module, model.aggregation)(neighbours)
        return torch.cat((module.own.weight @ own, module.neighbours.weight @ pooled))

    def embedding(i):
        return layer(0, x[hops.inner[i]], x[hops.first[i]]).relu()

    def logits(b):
        neighbours = [embedding(i) for i in hops.second[b].tolist()]
        own = embedding(int(hops.targets[b]))
        output = layer(1, own, torch.stack(neighbours) if neighbours else own.new_zeros(0, len(own)))
        output = output.relu() if model.aggregation in ("mean", "gcn") else output / output.norm()
        return model.rho.weight @ output

    return torch.stack([logits(b) for b in range(len(hops.targets))])


def law_looped(model, x, hops, **tolerance) -> None:
    """Checks that the model equals the loop, in value and in gradients by features and parameters."""
    found = []
    for run in (model.of_hops, lambda x, hops: looped(model, x, hops)):
        inputs = [x.clone().requires_grad_(), *model.parameters()]
        result = run(inputs[0], hops)
        weights = torch.linspace(-1, 1, result.numel()).view_as(result)
        found.append([result.detach(), *torch.autograd.grad((result * weights).sum(), inputs, materialize_grads=True)])
    for ours, theirs in zip(*found, strict=True):
        close(ours, theirs, **(tolerance or ROUNDING))


@pytest.mark.parametrize("resample", [True, False])
@pytest.mark.parametrize("draw", DRAWS, ids=str)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_is_a_loop_over_vertices(aggregation, draw, resample):
    law_looped(model_of(aggregation), features(), hops_of(*draw, resample=resample))


@pytest.mark.parametrize("aggregation", ["lstm", "gru"])
def test_in_chunks(aggregation, monkeypatch):
    """The cells of all neighbourhoods do not fit the memory budget."""
    budgets = []

    class Notes(Packed):
        def __call__(self, problem):
            budgets.append(problem.memory_budget)
            return super().__call__(problem)

    monkeypatch.setattr(layers, "Packed", Notes)
    law_looped(model_of(aggregation, memory_budget=10_000), features(), hops_of(None, None))
    assert budgets == [10_000, 10_000]


class Unlike(GraphSAGE):
    """Does one thing otherwise."""

    what = ""

    def of_hops(self, x, hops):
        if self.what == "reads backwards":
            first = hops.first.with_values(torch.cat([each.flip(0) for each in hops.first]))
            hops = TwoHops(hops.inner, first, hops.second, hops.targets)
        embeddings = self.layer_one(x, hops.first, hops.inner)
        embeddings = embeddings if self.what == "no ReLU" else embeddings.relu()
        outputs = self.layer_two(embeddings, hops.second, hops.targets)
        return self.rho(outputs if self.what == "no norm" else nn.functional.normalize(outputs, dim=1))


@pytest.mark.parametrize("what", ["reads backwards", "no ReLU", "no norm"])
def test_another_model_is_found(what):
    torch.manual_seed(3)
    model = Unlike(D, C, aggregation="lstm", hidden_features=H)
    law_looped(model, features(), hops_of())
    model.what = what
    with pytest.raises(AssertionError):
        law_looped(model, features(), hops_of())


@pytest.mark.parametrize("resample", [True, False])
def test_draws_its_hops(resample, device):
    model, graph, x = model_of("lstm").to(device), graph_of().to(device), features().to(device)
    vertices = VERTICES.to(device)
    options = [{"resample": resample, "generator": torch.Generator(device).manual_seed(4)} for _ in range(2)]
    expected = model.of_hops(x, two_hops(graph, vertices, k_1=2, k_2=3, **options[0]))
    assert expected.shape == (len(VERTICES), C)
    close(model(x, graph, vertices, 2, 3, **options[1]), expected)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_devices_agree(aggregation, device):
    model, hops = model_of(aggregation), hops_of()
    expected = model.of_hops(features(), hops).detach()
    sets = [each.to(device) for each in (hops.inner, hops.first, hops.second, hops.targets)]
    close(model.to(device).of_hops(features().to(device), TwoHops(*sets)).cpu().detach(), expected, **ROUNDING)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_sparse_features(aggregation, layout):
    model = model_of(aggregation)
    x = features() * (features() > 0)
    x[2] = 0
    for hops in (
        hops_of(),
        two_hops(graph_of(), torch.tensor([5]), k_1=2, k_2=2),
        two_hops(graph_of(), VERTICES[:0], k_1=2, k_2=2),
    ):
        found = []
        for given in (x, x.to_sparse(layout=layout)):
            logits = model.of_hops(given, hops)
            gradients = torch.autograd.grad(logits.square().sum(), list(model.parameters()), materialize_grads=True)
            found.append([logits.detach(), *gradients])
        for ours, theirs in zip(*found, strict=True):
            close(ours, theirs, **ROUNDING)


# What is computed once


def rows_of(module, run) -> list[int]:
    """Returns the rows that a linear layer is given."""
    counts = []
    handle = module.register_forward_pre_hook(lambda _, inputs: counts.append(len(inputs[0])))
    run()
    handle.remove()
    return counts


@pytest.mark.parametrize("aggregation", ["lstm", "max", "k2"])
def test_an_embedding_used_twice_is_computed_once(aggregation):
    """The batch holds vertex 0 twice, and as a neighbour of others."""
    model = model_of(aggregation)
    for resample in (False, True):
        hops = hops_of(None, None, resample=resample)
        used = hops.inner[torch.cat((hops.targets, hops.second.values))]
        expected = len(used) if resample else len(used.unique())
        assert len(used) == 5 + 0 + 5 + 1 + 5 + 3 and len(used.unique()) == 7
        assert rows_of(model.layer_one.own, lambda hops=hops: model.of_hops(features(), hops)) == [expected]


def test_features_are_projected_once():
    model, hops = model_of("max"), hops_of(None, None, resample=True)
    assert len(hops.first.values) > 7
    assert rows_of(model.layer_one.pool.linear, lambda: model.of_hops(features(), hops)) == [7]


def test_a_hook_on_the_recurrence_runs():
    model, hops = model_of("lstm"), hops_of()
    expected = model.of_hops(features(), hops)
    called = []
    for layer in (model.layer_one, model.layer_two):
        layer.pool.f.register_forward_hook(lambda *_: called.append(1))
    close(model.of_hops(features(), hops), expected, **ROUNDING)
    assert called


# Numbers of parameters

TABLES = json.loads((Path(__file__).parents[2] / "studies" / "paper" / "tables.json").read_text(encoding="utf-8"))


def num_parameters(module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize("data", ["cora", "pubmed", "ppi"])
@pytest.mark.parametrize("aggregation", ["lstm", "mean"])
def test_as_many_parameters_as_in_table_10(aggregation, data):
    about = TABLES["table_9_graph_datasets"][data]
    model = GraphSAGE(about["features"], about["classes"], aggregation=aggregation)
    expected = TABLES["table_10_graph_trainable_parameters"][aggregation][data]
    assert num_parameters(model) == expected
    assert num_parameters(GraphSAGE(about["features"], about["classes"], aggregation="gru")) != expected
    assert (
        num_parameters(GraphSAGE(about["features"], about["classes"], aggregation=aggregation, hidden_features=254))
        != expected
    )


def test_linear_maps_have_no_bias_and_xavier_s_weights():
    model = GraphSAGE(50, 7, aggregation="lstm")
    for linear in (m for m in model.modules() if isinstance(m, nn.Linear)):
        assert linear.bias is None
        bound = (6 / (linear.in_features + linear.out_features)) ** 0.5
        assert 0.95 * bound < linear.weight.abs().max() <= bound


# Invariance


def law_edge_order(model) -> None:
    """Checks that the order of the edges does not matter to whole neighbourhoods."""
    expected = model.of_hops(features(), whole(graph_of()))
    for seed in range(3):
        shuffle = torch.randperm(EDGES.shape[1], generator=torch.Generator().manual_seed(seed))
        close(model.of_hops(features(), whole(graph_of(EDGES[:, shuffle]))), expected, **ROUNDING)


def whole(graph) -> TwoHops:
    """Returns two hops in the order of the edges. ``two_hops`` would shuffle them."""
    second = graph.whole(VERTICES)
    inner, places = torch.cat((VERTICES, second.values)).unique(return_inverse=True)
    return TwoHops(inner, graph.whole(inner), second.with_values(places[len(VERTICES) :]), places[: len(VERTICES)])


@pytest.mark.parametrize("aggregation", ["mean", "gcn", "max", "k1", "k2", "k3"])
def test_the_order_of_the_edges_does_not_matter(aggregation):
    law_edge_order(model_of(aggregation))
    logits = [model_of(aggregation)(features(), graph_of(), VERTICES) for _ in range(3)]
    for again in logits[1:]:
        close(again, logits[0], **ROUNDING)


@pytest.mark.parametrize("aggregation", ["lstm", "gru"])
def test_the_order_matters_to_one_draw_of_a_recurrence(aggregation):
    with pytest.raises(AssertionError):
        law_edge_order(model_of(aggregation))
    model = model_of(aggregation)
    assert (model(features(), graph_of(), VERTICES) - model(features(), graph_of(), VERTICES)).abs().max() > 1e-6


# Training


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_gradients_reach_all_parameters(aggregation):
    model = model_of(aggregation)
    nn.functional.cross_entropy(model.of_hops(features(), hops_of()), torch.tensor([0, 1, 2, 1, 0])).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.cover(1)
def test_dtypes(aggregation, dtype):
    model, hops = model_of(aggregation), hops_of()
    expected = model.of_hops(features(), hops)
    found = model.to(dtype).of_hops(features().to(dtype), hops)
    assert found.dtype == dtype
    close(found.double(), expected, atol=100 * torch.finfo(dtype).eps, rtol=0)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_no_edges_and_no_vertices(aggregation):
    model, alone = model_of(aggregation), Neighbourhoods.from_edge_index(EDGES[:, :0], 7)
    law_looped(model, features(), two_hops(alone, VERTICES, k_1=2, k_2=None))
    assert model(features(), graph_of(), VERTICES[:0], 2, 2).shape == (0, C)


def test_training_learns_the_span_of_the_neighbours():
    """The largest feature among the neighbours less the smallest, which no mean tells."""
    torch.manual_seed(0)
    x = torch.randn(80, 2)
    graph = Neighbourhoods.from_edge_index(torch.randint(80, (2, 320)), 80)
    spans = [
        x[each, 0].max() - x[each, 0].min() if len(each) else torch.zeros(()) for each in graph.whole(torch.arange(80))
    ]
    labels = (torch.stack(spans) > 2).long()
    model = GraphSAGE(2, 2, aggregation="lstm", hidden_features=16)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(60):
        loss = nn.functional.cross_entropy(model(x, graph, torch.arange(80), 5, 3), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-5:]) < 0.7 * sum(losses[:5])


# At the door


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((D, C, "sum"), "among 'mean', 'gcn', 'max', 'lstm', 'gru', 'k2', 'k3', …; got 'sum'"),
        ((D, C, "k0"), "got 'k0'"),
        ((D, C, "k"), "got 'k'"),
        ((D, C, "2"), "got '2'"),
        ((0, C), "got in_features=0, num_classes=3"),
        ((D, 0), "got in_features=5, num_classes=0"),
    ],
)
def test_refuses_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        GraphSAGE(*arguments[:2], **dict(zip(["aggregation"], arguments[2:], strict=False)))


def test_refuses_an_odd_width():
    with pytest.raises(ValueError, match=r"an even hidden_features.*got hidden_features=7"):
        GraphSAGE(D, C, hidden_features=7)


@pytest.mark.parametrize("shape", [(7, D + 1), (6, D), (8, D), (7, D, 1), (7,)])
def test_refuses_other_features(shape):
    with pytest.raises(ValueError, match=r"features of shape \(7, 5\), .* got"):
        model_of("mean")(torch.randn(shape), graph_of(), VERTICES)


def test_refuses_other_vertices():
    with pytest.raises(ValueError, match="got 7 to 7"):
        model_of("mean")(features(), graph_of(), torch.tensor([7]))


def test_the_example_in_the_docstring_runs():
    names = {"torch": torch, "Neighbourhoods": Neighbourhoods, "GraphSAGE": GraphSAGE}
    torch.set_default_dtype(torch.float32)
    found = doctest.DocTestFinder(recurse=False).find(GraphSAGE, module=sage, globs=names)
    assert [doctest.DocTestRunner().run(test).failed for test in found] == [0]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("widths", [(D, 2), (2, 7)])
@pytest.mark.parametrize("kind", [layers.MeanLayer, layers.GCNLayer])
def test_a_linear_map_that_a_user_changed_is_called(kind, widths, sparse):
    """Vectors by definition are those of a vertex and of the mean of its neighbours, or the mean of all."""
    layer, (d, out) = kind(*widths), widths
    wide = 2 * d if kind is layers.MeanLayer else d
    x, vertices = torch.randn(7, d), torch.tensor([1, 4, 6])
    neighbours = [[0, 2], [], [3, 3, 5]]
    sets = Ragged.from_sizes(torch.tensor([u for each in neighbours for u in each]), [2, 0, 3])
    rows = []
    for v, each in zip(vertices.tolist(), neighbours, strict=True):
        mean = x[each].mean(0) if each else torch.zeros(d)
        rows.append(torch.cat((x[v], mean)) if kind is layers.MeanLayer else x[[v, *each]].mean(0))
    given = x.to_sparse_csr() if sparse else x
    close(layer(given, sets, vertices), layer.linear(torch.stack(rows)))
    layer.linear.register_forward_hook(lambda module, args, out: out.tanh())
    close(layer(given, sets, vertices), layer.linear(torch.stack(rows)))
    layer.linear = nn.Sequential(nn.Linear(wide, 4), nn.Tanh(), nn.Linear(4, out))
    close(layer(given, sets, vertices), layer.linear(torch.stack(rows)))
