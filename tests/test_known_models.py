"""docs/one-framework.md: every line runs, and is the model that it says: torch_geometric's, or a formula's."""

import re
from itertools import combinations, permutations
from pathlib import Path

import pytest
import torch
from torch import nn

from janossy import Canonical, JanossyPooling, Ragged
from janossy.evaluate import EVALUATORS
from tests.laws import close

PAGE = (Path(__file__).parents[1] / "docs" / "one-framework.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("|")][2:]
LINES = {cells[-2].strip().strip("`").partition(" = ")[0]: cells for cells in (row.split("|") for row in ROWS)}


@pytest.fixture(scope="module")
def page():
    """Gives the names that the page defines, in float64, with weights and sets from one seed."""
    names: dict[str, object] = {}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        torch.set_default_dtype(torch.float64)
        try:
            setup, of_attention = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
            for program in (setup, of_attention, *(cells[-2].strip().strip("`") for cells in LINES.values())):
                exec(compile(program, "docs/one-framework.md", "exec"), names)
        finally:
            torch.set_default_dtype(torch.float32)
    return names


@pytest.fixture
def sets(page):
    return page["sets"]


pytestmark = pytest.mark.usefixtures("float64")

PER_ELEMENT = ("matrix_layer", "set_layer", "equivariant_deep_sets", "segmentation")
POOLINGS = [name for name in LINES if name not in PER_ELEMENT]


def test_the_issue_s_models_are_all_there():
    assert list(LINES) == [
        "deep_sets", "point_net", "relation", "patchy_san", "sage_mean", "sage_max", "sage_lstm", "monotone",
        "matrix_layer", "set_layer", "attention", "machine", "set_transformer", "induced", "set_transformer_plus",
        "deep_sets_plus", "equivariant_deep_sets", "segmentation",
    ]  # fmt: skip


@pytest.mark.parametrize("name", POOLINGS)
def test_the_evaluator_is_one_that_applies(page, name):
    pooling = page[name] if isinstance(page[name], JanossyPooling) else page[name].pooling
    elements = page["pairs"] if name == "attention" else features(page) if name == "machine" else page["sets"]
    elements = elements if pooling is page[name] or name == "machine" else page[name].elements(elements)
    asked = LINES[name][-3].strip().strip("`")
    evaluator = next(evaluator for evaluator in EVALUATORS if evaluator.name == asked)
    assert evaluator.why_not_applicable(pooling.problem(elements, None, None, pooling.reduce, None)) is None


def features(page):
    """Returns samples of a factorization machine: a vector per feature, times its value."""
    source = torch.Generator().manual_seed(1)
    return Ragged.from_sizes(torch.randn(14, page["c"], generator=source), [5, 2, 7])


def perceptron(f) -> nn.Sequential:
    """Returns a TupleMLP's layers, as torch's."""
    activation = {"tanh": nn.Tanh, "relu": nn.ReLU}[f.activation]
    return nn.Sequential(*(module for layer in f.hidden for module in (layer, activation())))


def test_deep_sets(page, sets):
    aggr = pytest.importorskip("torch_geometric.nn.aggr")
    model = page["deep_sets"]
    close(model(sets), aggr.DeepSetsAggregation(perceptron(model.pooling.f), model.rho)(*sets.to_index()))


def test_point_net(page, sets):
    """PointNetConv's one vertex at the origin that sees a whole cloud."""
    nn_geometric = pytest.importorskip("torch_geometric.nn")
    model = page["point_net"]
    conv = nn_geometric.PointNetConv(perceptron(model.pooling.f), model.rho, add_self_loops=False)
    points, index = sets.to_index()
    edges = torch.stack((torch.arange(len(points)), index))
    close(model(sets), conv((None, None), (points, torch.zeros(len(sets), 3)), edges))


def test_relation_network(page, sets):
    model = page["relation"]
    g = perceptron(model.pooling.f)
    for x, found in zip(sets, model(sets), strict=True):
        pairs = [g(torch.cat((a, b))) for a, b in permutations(x, 2)]
        if len(x) > 1:
            close(found, model.rho(sum(pairs)))


def test_patchy_san(page, sets):
    weight, bias = page["receptive_field"].weight, page["receptive_field"].bias
    for x, found in zip(sets, page["patchy_san"](sets), strict=True):
        kept = sorted(x, key=lambda element: element[0].item())[: page["k"]]
        close(found, (bias + sum(weight[:, :, i] @ element for i, element in enumerate(kept))).relu())


@pytest.mark.parametrize("name", ["mean", "max"])
def test_graph_sage(page, sets, name):
    """The whole of torch_geometric's layer, with our pooling as its aggregation."""
    nn_geometric = pytest.importorskip("torch_geometric.nn")
    from janossy.graph import JanossyAggregation  # noqa: PLC0415

    pooling = page[f"sage_{name}"]
    ours = JanossyAggregation(pooling.f, orderings=pooling.orderings, reduce=pooling.reduce)
    x, index = sets.to_index()
    own = torch.randn(len(sets), 3)
    edges = torch.stack((torch.arange(len(x)), index))
    theirs = nn_geometric.SAGEConv((3, 3), 5, aggr=name, project=name == "max")
    with_ours = nn_geometric.SAGEConv((3, 3), 5, aggr=ours)
    with_ours.load_state_dict(theirs.state_dict(), strict=False)
    if name == "max":
        ours.pooling.f.hidden[0].load_state_dict(theirs.lin.state_dict())
    close(with_ours((x, own), edges), theirs((x, own), edges))


def test_graph_sage_lstm(page, sets):
    """In the order drawn it is torch_geometric's LSTM, set by set: in a batch that one reads padding."""
    aggr = pytest.importorskip("torch_geometric.nn.aggr")
    pooling = page["sage_lstm"]
    theirs = aggr.LSTMAggregation(3, page["c"])
    theirs.lstm.load_state_dict(pooling.f.state_dict())
    found = pooling(sets, generator=torch.Generator().manual_seed(5))
    drawn, owners = pooling.orderings.enumerate(sets, torch.Generator().manual_seed(5)).flatten()
    assert owners.tolist() == list(range(len(sets)))
    for positions, y in zip(drawn, found, strict=True):
        close(y, theirs(sets.values[positions], torch.zeros(len(positions), dtype=torch.long))[0])


def test_monotone_lattices(page, sets):
    """By construction: at any weights, and to any rise of columns 0 and 2; column 1 may do either."""
    model, falls = page["monotone"], 0
    for _ in range(20):
        for weight in model.parameters():
            nn.init.normal_(weight, std=2.0)
        values = sets.values * 2
        rise = torch.rand(len(values), 3)
        rise[:, 1] = 0
        before = model(sets.with_values(values))
        assert (model(sets.with_values(values + rise)) - before >= -1e-12).all()
        falls += (model(sets.with_values(values + torch.tensor([0.0, 1.0, 0.0]))) - before < -1e-6).sum()
    assert falls > 0


def test_exchangeable_matrix_layer(page):
    """Dense: θ_1 X + θ_2 (means of rows) + θ_3 (of columns) + θ_4 (of all), for every channel."""
    x = torch.randn(4, 6, 3)
    linear = [page[name][1] for name in ("of_entry", "of_row", "of_column", "of_all")]
    means = [x, x.mean(1, keepdim=True), x.mean(0, keepdim=True), x.mean((0, 1), keepdim=True)]
    bias = sum(layer.bias for layer in linear)
    expected = bias + sum(torch.einsum("ijd,cd->ijc", m, f.weight) for m, f in zip(means, linear, strict=True))
    order = torch.randperm(24)
    row, column = (i.flatten()[order] for i in torch.meshgrid(torch.arange(4), torch.arange(6), indexing="ij"))
    close(page["matrix_layer"](x.flatten(0, 1)[order], row, column), expected.flatten(0, 1)[order])


def test_equivariant_set_layer(page, sets):
    weight, bias = page["gamma"].weight, page["gamma"].bias
    found = page["set_layer"](sets)
    for x, y in zip(sets, found, strict=True):
        close(y, (x - x.max(0).values) @ weight.T + bias)


def test_attention(page, sets):
    """torch's attention with the same projections, one head; a row of it for each element."""
    model, c = page["attention"], page["c"]
    found = model(page["pairs"]).split(list(sets.sizes))
    projections = [page[name] for name in ("queries", "keys", "values")]
    theirs = nn.MultiheadAttention(c, 1, kdim=3, vdim=3, batch_first=True)
    with torch.no_grad():
        for name, layer in zip("qkv", projections, strict=True):
            getattr(theirs, f"{name}_proj_weight").copy_(torch.eye(c) if name == "q" else layer.weight)
        theirs.in_proj_bias.copy_(torch.cat((torch.zeros(c), projections[1].bias, projections[2].bias)))
        theirs.out_proj.weight.copy_(torch.eye(c))
        theirs.out_proj.bias.zero_()
    for x, y in zip(sets, found, strict=True):
        close(y, theirs(projections[0](x)[None], x[None], x[None])[0][0])


def with_weights(theirs, heads, feed_forward):
    """Gives torch_geometric's MultiheadAttentionBlock the weights of an attention and its feed-forward layer."""
    with torch.no_grad():
        theirs.attn.in_proj_weight.copy_(heads.project.weight)
        theirs.attn.in_proj_bias.copy_(heads.project.bias)
    theirs.attn.out_proj.load_state_dict(heads.out.state_dict())
    theirs.lin.load_state_dict(feed_forward.layer[0].state_dict())


def test_set_transformer(page, sets):
    aggr = pytest.importorskip("torch_geometric.nn.aggr")
    model, c, k = page["set_transformer"], page["c"], page["k"]
    theirs = aggr.SetTransformerAggregation(c, num_seed_points=k, heads=4)
    first, ff_1, linear, _, seeds, ff_2, last, ff_3, _ = model.encoder.layers
    theirs.pma.lin.load_state_dict(linear.state_dict())
    theirs.pma.seed.data = seeds.seeds.data[None]
    with_weights(theirs.encoders[0].mab, first.layer.heads, ff_1)
    with_weights(theirs.pma.mab, seeds.heads, ff_2)
    with_weights(theirs.decoders[0].mab, last.layer.heads, ff_3)
    close(model(sets), theirs(model.h(sets.values), sets.to_index()[1]))


def test_induced_set_transformer(page, sets):
    utils = pytest.importorskip("torch_geometric.nn.aggr.utils")
    model, c = page["induced"], page["c"]
    theirs = utils.InducedSetAttentionBlock(c, 8, heads=4, layer_norm=False)
    attention, ff = model.encoder.layers
    theirs.ind.data = attention.layer.points.seeds.data[None]
    with_weights(theirs.mab1, attention.layer.points.heads, attention.layer.inner)
    with_weights(theirs.mab2, attention.layer.heads, ff)
    x, mask = sets.with_values(model.h(sets.values)).to_padded()
    close(model.elements(sets).values, theirs(x, mask)[mask])


def normed(layer, x):
    """Returns the set norm of one set, in torch's words: a layer norm of all its numbers."""
    return nn.functional.layer_norm(x, x.shape) * layer.weight + layer.bias


def test_set_transformer_plus(page, sets):
    model, c = page["set_transformer_plus"], page["c"]
    attention, ff, seeds = model.encoder.layers

    def attend(heads, queries, keys):
        theirs = nn.MultiheadAttention(c, 4, batch_first=True)
        weight, bias = theirs.in_proj_weight, theirs.in_proj_bias
        weight.data, bias.data, theirs.out_proj = heads.project.weight.data, heads.project.bias.data, heads.out
        return theirs(queries[None], keys[None], keys[None])[0][0]

    for x, y in zip(sets, model(sets), strict=True):
        z = model.h(x)
        before = normed(attention.norm, z)
        z = z + attend(attention.layer.heads, before, before)
        z = z + ff.layer(normed(ff.norm, z))
        close(y, (seeds.seeds + attend(seeds.heads, seeds.seeds, z))[0])


def test_deep_sets_plus(page, sets):
    model = page["deep_sets_plus"]
    norm_1, _, linear_1, norm_2, _, linear_2 = model.encoder.layers[0].layer.layers
    for x, y in zip(sets, model(sets), strict=True):
        z = model.h(x)
        inner = linear_1(normed(norm_1, z).relu())
        close(y, (z + linear_2(normed(norm_2, inner).relu())).mean(0))


def test_equivariant_deep_sets(page, sets):
    """Γx + (Λ mean x) 1 + b."""
    linear = page["equivariant_deep_sets"].layers[1]
    own, of_mean = linear.weight.split(3, 1)
    for x, y in zip(sets, page["equivariant_deep_sets"](sets), strict=True):
        close(y, x @ own.T + x.mean(0) @ of_mean.T + linear.bias)


def test_segmentation(page, sets):
    first, _, _, last = page["segmentation"].layers
    for x, y in zip(sets, page["segmentation"](sets), strict=True):
        z = first(x).relu()
        close(y, last(torch.cat((z, z.amax(0).expand(len(z), -1)), 1)))


def test_factorization_machine(page):
    """The ANOVA kernel of order 3 by Blondel et al.'s recursion, and by its triples."""
    model, samples = page["machine"], features(page)
    for z, y in zip(samples, model(samples), strict=True):
        kernel = [torch.ones(page["c"]), *torch.zeros(3, page["c"])]
        for row in z:
            kernel = [kernel[0], *(kernel[t] + row * kernel[t - 1] for t in (1, 2, 3))]
        close(y, model.rho(kernel[3]))
        triples = [a * b * c for a, b, c in combinations(z, 3)]
        close(kernel[3], sum(triples) if triples else torch.zeros(page["c"]))


def test_patchy_san_s_order_matters(page, sets):
    """The comparisons can fail: another key gives another result."""
    other = JanossyPooling(page["patchy_san"].f, Canonical(lambda x: x[:, 1]))
    assert (other(sets) - page["patchy_san"](sets)).abs().max() > 1e-3
