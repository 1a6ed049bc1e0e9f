"""JanossyAggregation: it is JanossyPooling of neighbourhoods, by PyG's conventions, in PyG's layers."""

import copy
import doctest
import importlib
import io
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from janossy import (
    GRU,
    LSTM,
    AllPermutations,
    Canonical,
    Combinations,
    ImportanceSampled,
    JanossyPooling,
    Ragged,
    Sampled,
    TupleMLP,
    Tuples,
)
from tests.laws import close

pytest.importorskip("torch_geometric")

from torch_geometric import EdgeIndex
from torch_geometric.nn import GATConv, GraphSAGE, HeteroConv, MessagePassing, SAGEConv, to_hetero
from torch_geometric.nn.aggr import LSTMAggregation, MeanAggregation, MultiAggregation

import janossy.graph
from janossy.graph import JanossyAggregation

pytestmark = pytest.mark.usefixtures("float64")

D = 3

EXACT = {
    "tuples": (lambda: TupleMLP(2, D, 4), Tuples(2)),
    "combinations": (lambda: TupleMLP(2, D, 4), Combinations(2)),
    "all_permutations": (lambda: GRU(D, 4), AllPermutations()),
    "canonical": (lambda: LSTM(D, 4), Canonical()),
    "seeded": (lambda: LSTM(D, 4), Sampled(3, seed=0)),
}


def exact(name: str) -> JanossyAggregation:
    torch.manual_seed(1)
    build, orderings = EXACT[name]
    return JanossyAggregation(build(), orderings=orderings)


def assert_differ(a, b, *, by: float) -> None:
    assert (a - b).abs().max() > by


def elements(sizes) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns sets of these sizes, end to end, and the sorted index."""
    x = torch.randn(sum(sizes), D, generator=torch.Generator().manual_seed(sum(sizes)))
    return x, torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes, dtype=torch.long))


# The definition and the conventions

neighbourhood_sizes = st.lists(st.integers(0, 4), min_size=1, max_size=6)


@pytest.mark.parametrize("name", EXACT)
@given(sizes=neighbourhood_sizes, order=st.randoms(use_true_random=False))
def test_is_pooling_of_the_neighbourhoods_in_any_order(name, sizes, order):
    aggregation = exact(name)
    x, index = elements(sizes)
    expected = aggregation.pooling(Ragged.from_sizes(x, sizes))
    shuffle = torch.tensor(order.sample(range(len(x)), len(x)), dtype=torch.long)
    close(aggregation(x, index, dim_size=len(sizes)), expected)
    close(aggregation(x[shuffle], index[shuffle], dim_size=len(sizes)), expected)
    close(aggregation(x, ptr=Ragged.from_sizes(x, sizes).offsets), expected)
    close(aggregation(x, index, ptr=Ragged.from_sizes(x, sizes).offsets), expected)


def test_random_permutations_are_those_of_pooling():
    f = GRU(D, 4)
    x, index = elements([3, 0, 4])
    torch.manual_seed(5)
    expected = JanossyPooling(f, Sampled(2))(Ragged.from_sizes(x, [3, 0, 4]))
    torch.manual_seed(5)
    aggregation = JanossyAggregation(f, num_permutations=2)
    close(aggregation(x, index), expected)
    assert_differ(aggregation(x, index), expected, by=1e-6)


@pytest.mark.parametrize("reduce", ["sum", "max", "logmeanexp"])
def test_reduce_is_handed_on(reduce):
    f = GRU(D, 4)
    x, index = elements([3, 2])
    expected = JanossyPooling(f, AllPermutations(), reduce=reduce)(Ragged.from_sizes(x, [3, 2]))
    close(JanossyAggregation(f, orderings=AllPermutations(), reduce=reduce)(x, index), expected)


def test_evaluate_is_handed_on():
    with pytest.raises(ValueError, match="fused does not apply"):
        JanossyAggregation(GRU(D, 4), evaluate="fused")(*elements([3]))


def test_dim_size_adds_empty_neighbourhoods():
    f = TupleMLP(2, D, 4)
    x, index = elements([2, 0, 3])
    of_tuples, of_sequences = JanossyAggregation(f, orderings=Tuples(2)), JanossyAggregation(LSTM(D, 4))
    for aggregation, empty in ((of_tuples, f(torch.zeros(1, 2, D))[0]), (of_sequences, torch.zeros(4))):
        assert aggregation(x, index).shape == (3, 4)
        result = aggregation(x, index, dim_size=6)
        assert result.shape == (6, 4)
        close(result[[1, 3, 4, 5]], empty.expand(4, 4))


@pytest.mark.parametrize("name", EXACT)
def test_no_elements(name):
    aggregation, (x, index) = exact(name), elements([])
    assert aggregation(x, index).shape == (0, 4)
    assert aggregation(x, index, dim_size=3).shape == (3, 4)
    assert aggregation(x, ptr=torch.zeros(3, dtype=torch.long)).shape == (2, 4)


def test_without_index_all_is_one_neighbourhood():
    aggregation, (x, index) = exact("tuples"), elements([5])
    close(aggregation(x), aggregation(x, index))
    close(aggregation.forward(x), aggregation(x, index))
    close(aggregation(x, dim=0), aggregation(x, index))


def test_max_num_elements_drops_none():
    aggregation, (x, index) = exact("canonical"), elements([4, 2])
    close(aggregation(x, index, max_num_elements=2), aggregation(x, index))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("name", EXACT)
def test_dtypes(name, dtype):
    x, index = elements([3, 0, 2])
    expected = exact(name)(x, index)
    result = exact(name).to(dtype)(x.to(dtype), index)
    assert result.dtype == dtype
    rounding = 20 * torch.finfo(dtype).eps
    close(result.double(), expected, atol=rounding, rtol=rounding)


def test_int32_index():
    aggregation, (x, index) = exact("canonical"), elements([3, 2])
    close(aggregation(x, index.int()), aggregation(x, index))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"index": torch.tensor([0, 1, 4, 1]), "dim_size": 3}, r"from 0 to .* = 2; got 0 to 4.*dim_size"),
        ({"index": torch.tensor([0, -1, 1, 1])}, "got -1"),
        ({"index": torch.tensor([0, 1])}, r"shape \(4,\)"),
        ({"ptr": torch.tensor([0, 3])}, "the number of elements, 4"),
        ({"ptr": torch.tensor([0, 4]), "dim_size": 2}, "dim_size"),
        ({"index": torch.tensor([0, 0, 1, 1]), "dim": 1}, "dim=1. The last dimension holds"),
        ({"index": torch.tensor([0, 0, 1, 1]), "dim": -1}, "dim=-1. The last dimension holds"),
    ],
)
def test_refuses_what_is_no_index(arguments, message):
    with pytest.raises(ValueError, match=message):
        exact("canonical")(torch.randn(4, D), **arguments)


def test_refuses_elements_without_features():
    with pytest.raises(ValueError, match=r"expects elements \(N, d\).*got shape \(4,\)"):
        exact("canonical")(torch.randn(4), torch.tensor([0, 0, 1, 1]), dim=0)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("dim", [0, 1, 2, -2, -3, -4])
def test_each_head_is_pooled_alike(name, dim):
    aggregation = exact(name)
    shape = [2, 3, 2, D]
    shape[dim] = 5
    x, index = torch.randn(shape), torch.tensor([2, 0, 2, 2, 0])
    result = aggregation(x, index, dim_size=4, dim=dim)
    result, x = result.movedim(dim, 0).flatten(1, 2), x.movedim(dim, 0).flatten(1, 2)
    assert result.shape[::2] == (4, 4)
    for head in range(x.shape[1]):
        close(result[:, head], aggregation(x[:, head], index, dim_size=4))
    ptr = torch.tensor([0, 1, 1, 5])
    close(aggregation(x, ptr=ptr, dim=0)[:, 1], aggregation(x[:, 1], ptr=ptr))
    assert aggregation(x[:, :0], index, dim=0).shape == (3, 0, 4)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"num_permutations": 4, "orderings": Tuples(2)}, "not both"),
        ({"num_permutations_eval": 4, "orderings": Tuples(2)}, "not both"),
        ({"num_permutations": 0}, "num_permutations >= 1"),
        ({"num_permutations_eval": 0}, "num_permutations_eval >= 1"),
        ({"num_permutations_eval": 4, "orderings_eval": Sampled(4, seed=0)}, "not both"),
        ({"num_permutations_eval": 4, "reduce": "sum"}, "scale"),
        ({"orderings_eval": Sampled(4, seed=0), "reduce": "sum"}, "scale"),
        ({"reduce": None}, "reduce=None"),
        ({"reduce": "median"}, "'median'"),
        ({"evaluate": "quickly"}, "'quickly'"),
    ],
)
def test_refuses_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        JanossyAggregation(GRU(D, 4), **arguments)


# Batch-mates: what padding does, and its absence


def law_batch_mates(aggregation, dtype=torch.float64, **tolerance) -> None:
    """Checks that two elements are pooled alike with and without a neighbourhood of thirty in the batch."""
    x, index = elements([2, 30])
    x = x.to(dtype)
    close(aggregation(x, index)[0], aggregation(x[:2], index[:2])[0], **tolerance)


@pytest.mark.parametrize("name", ["tuples", "combinations", "canonical", "seeded"])
def test_batch_mates_do_not_matter(name):
    law_batch_mates(exact(name))
    law_batch_mates(exact(name).float(), torch.float32, atol=1e-6, rtol=0)


def test_batch_mates_matter_to_padding():
    torch.manual_seed(0)
    padding = LSTMAggregation(D, 4)
    with pytest.raises(AssertionError):
        law_batch_mates(padding)
    x, index = elements([2, 30])
    assert_differ(padding(x, index)[0], padding(x[:2], index[:2])[0], by=1e-2)


def test_equals_pyg_where_pyg_does_not_pad():
    theirs, ours = LSTMAggregation(D, 4), LSTM(D, 4)
    ours.load_state_dict(theirs.lstm.state_dict())
    x, index = elements([3, 3])
    x = x[torch.cat([3 * b + x[3 * b : 3 * b + 3, 0].argsort() for b in range(2)])]
    close(JanossyAggregation(ours, orderings=Canonical())(x, index), theirs(x, index))


# Training and evaluation


@pytest.mark.parametrize("name", EXACT)
def test_gradients_reach_elements_and_parameters(name):
    aggregation, (x, index) = exact(name), elements([3, 0, 2])
    shuffle = torch.tensor([4, 1, 0, 3, 2])
    assert torch.autograd.gradcheck(lambda x: aggregation(x, index[shuffle]), x[shuffle].requires_grad_())
    aggregation(x, index).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in aggregation.parameters())


def test_more_permutations_in_evaluation():
    aggregation = JanossyAggregation(GRU(D, 4), num_permutations=1, num_permutations_eval=400)
    x, index = elements([3, 4])
    exactly = JanossyAggregation(aggregation.pooling.f, orderings=AllPermutations())(x, index)

    def error() -> float:
        return (aggregation(x, index) - exactly).square().mean().sqrt().item()

    torch.manual_seed(0)
    in_training = max(error() for _ in range(5))
    aggregation.eval()
    assert max(error() for _ in range(5)) < in_training / 5
    aggregation.train()
    assert max(error() for _ in range(5)) > in_training / 5


def test_other_orderings_in_evaluation():
    f, fixed = GRU(D, 4), Sampled(5, seed=0)
    aggregation, (x, index) = JanossyAggregation(f, orderings_eval=fixed), elements([3, 4])
    assert_differ(aggregation(x, index), aggregation(x, index), by=1e-6)
    aggregation.eval()
    close(aggregation(x, index), JanossyAggregation(f, orderings=fixed)(x, index))
    close(aggregation(x.flip(0), index.flip(0)), aggregation(x, index))
    assert "JanossyAggregation(GRU, orderings_eval=Sampled(num_permutations=5" in repr(aggregation)
    canonical = JanossyAggregation(f, orderings=Canonical(), orderings_eval=AllPermutations()).eval()
    close(canonical(x, index), JanossyAggregation(f, orderings=AllPermutations())(x, index))


def test_modules_of_the_orderings_in_evaluation_are_the_layer_s():
    key = nn.Linear(D, 1)
    aggregation = JanossyAggregation(GRU(D, 4), orderings_eval=Canonical(key=key))
    assert any(p is key.weight for p in aggregation.parameters())
    copy = JanossyAggregation(GRU(D, 4), orderings_eval=Canonical(key=nn.Linear(D, 1)))
    copy.load_state_dict(aggregation.state_dict())
    x, index = elements([3, 4])
    assert torch.equal(copy.eval()(x, index), aggregation.eval()(x, index))
    aggregation.reset_parameters()
    assert not torch.equal(key.weight, copy.orderings_eval.key.weight)


def test_fixed_in_evaluation():
    f, (x, index) = GRU(D, 4), elements([7, 4])
    for options in ({}, {"num_permutations_eval": 4}, {"orderings_eval": Sampled(3, exhaust=0)}):
        fixed, fresh = JanossyAggregation(f, **options, fixed_in_eval=True), JanossyAggregation(f, **options)
        assert_differ(fixed(x, index), fixed(x, index), by=1e-6)
        assert torch.equal(fixed.eval()(x, index), fixed(x, index))
        assert_differ(fresh.eval()(x, index), fresh(x, index), by=1e-6)
    assert repr(JanossyAggregation(f, fixed_in_eval=True)) == "JanossyAggregation(GRU, fixed_in_eval=True)"
    with pytest.raises(ValueError, match="JanossyAggregation expects, with fixed_in_eval"):
        JanossyAggregation(f, orderings_eval=ImportanceSampled(2), fixed_in_eval=True)


def test_the_evaluator_is_kept_in_evaluation():
    aggregation = JanossyAggregation(GRU(D, 4), num_permutations_eval=2, evaluate="fused").eval()
    with pytest.raises(ValueError, match="fused does not apply"):
        aggregation(*elements([3]))


# As a module


def test_state_dict_holds_every_weight_once():
    f = LSTM(D, 4)
    aggregation = JanossyAggregation(f, num_permutations_eval=5)
    weights = [f"pooling.f.{name}" for name in f.state_dict()]
    assert list(aggregation.state_dict()) == ["pooling._extra_state", *weights]


def test_state_dict_deepcopy_and_pickle_keep_the_result():
    original, (x, index) = exact("canonical"), elements([3, 0, 2])
    expected = original(x, index)
    restored = JanossyAggregation(LSTM(D, 4), orderings=Canonical())
    assert_differ(restored(x, index), expected, by=1e-3)
    restored.load_state_dict(original.state_dict())
    copied = copy.deepcopy(original)
    file = io.BytesIO()
    torch.save(original, file)
    file.seek(0)
    pickled = torch.load(file, weights_only=False)
    with torch.no_grad():
        for parameter in original.parameters():
            parameter.zero_()
    for aggregation in (restored, copied, pickled):
        close(aggregation(x, index), expected)


class Wrapped(nn.Module):
    """A function whose weights are a submodule's."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(D, 4, batch_first=True)

    def forward(self, x):
        return self.gru(x)[1][0]


@pytest.mark.parametrize("build", [lambda: TupleMLP(2, D, (5, 4)), lambda: LSTM(D, 4), Wrapped])
def test_reset_parameters_draws_all_of_f_anew(build):
    aggregation = JanossyAggregation(build(), orderings=Tuples(2))
    before = copy.deepcopy(aggregation.state_dict())
    torch.manual_seed(3)
    aggregation.reset_parameters()
    torch.manual_seed(3)
    fresh = build().state_dict()
    for name, _ in aggregation.named_parameters():
        after = aggregation.state_dict()[name]
        assert_differ(after, before[name], by=1e-3)
        close(after, fresh[name.removeprefix("pooling.f.")])


def test_reset_parameters_prefers_f_s_own():
    class Constant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4))

        def reset_parameters(self) -> None:
            nn.init.constant_(self.weight, 7.0)

        def forward(self, x):
            return self.weight.expand(len(x), 4)

    conv = SAGEConv(4, 2, aggr=JanossyAggregation(Constant()))
    close(conv.aggr_module.pooling.f.weight.detach(), torch.full((4,), 7.0))


def test_a_plain_function():
    def last(rows):
        return rows[:, -1]

    aggregation = JanossyAggregation(last, orderings=Canonical(key=lambda x: x[:, 0]))
    aggregation.reset_parameters()
    x, index = elements([3, 2])
    close(aggregation(x, index), torch.stack([part[part[:, 0].argmax()] for part in x.split([3, 2])]))
    assert "JanossyAggregation(last, orderings=Canonical(" in repr(aggregation)


def test_repr_is_one_line():
    f = nn.Sequential(nn.Flatten(), nn.Linear(2 * D, 4))
    assert repr(JanossyAggregation(f, num_permutations=3)) == "JanossyAggregation(Sequential, num_permutations=3)"
    both = JanossyAggregation(LSTM(D, 4), num_permutations=2, num_permutations_eval=20)
    assert "num_permutations=2, num_permutations_eval=20" in repr(both)
    assert repr(both) in repr(SAGEConv(D, 5, aggr=both))
    assert "orderings=Sampled(num_permutations=8" in repr(JanossyAggregation(f, orderings=Sampled(8, seed=0)))


# In PyG's layers

EDGES = torch.tensor([[0, 3, 1, 2, 4, 0, 2, 1], [1, 1, 0, 1, 0, 3, 3, 1]])  # unsorted, and nothing points at 2 and 4


def neighbours_of(vertex: int, x, edges=EDGES):
    return x[edges[0, edges[1] == vertex]]


@pytest.mark.parametrize("options", [{}, {"project": True}, {"normalize": True}, {"root_weight": False}], ids=str)
def test_sage_conv(options):
    conv = SAGEConv(D, 5, aggr=JanossyAggregation(GRU(D, D), orderings=AllPermutations()), **options)
    x = torch.randn(5, D)
    messages = conv.lin(x).relu() if "project" in options else x
    pooled = conv.aggr_module.pooling(Ragged.from_sets([neighbours_of(v, messages) for v in range(5)]))
    expected = conv.lin_l(pooled) + (0 if "root_weight" in options else conv.lin_r(x))
    expected = nn.functional.normalize(expected) if "normalize" in options else expected
    close(conv(x, EDGES), expected)
    shuffle = torch.tensor([5, 0, 7, 2, 1, 6, 3, 4])
    close(conv(x, EDGES[:, shuffle]), expected)


def test_gat_conv():
    """Each head's attention-weighted messages, pooled in their canonical order."""
    conv = GATConv(D, 4, heads=2, aggr=JanossyAggregation(GRU(4, 4), orderings=Canonical()), add_self_loops=False)
    x = torch.randn(5, D)
    result, (edges, attention) = conv(x, EDGES, return_attention_weights=True)
    messages = attention[..., None] * conv.lin(x).view(5, 2, 4)[edges[0]]
    each = [Ragged.from_sets([messages[edges[1] == v, head] for v in range(5)]) for head in range(2)]
    expected = torch.cat([conv.aggr_module.pooling(sets) for sets in each], 1)
    close(result, expected + conv.bias)
    result.sum().backward()
    assert all(p.grad is not None for p in conv.parameters())


def compiled_equals_eager(conv, backend: str) -> None:
    model = nn.Sequential(nn.Linear(D, D), nn.ReLU(), conv, nn.ReLU(), nn.Linear(5, 2))

    def run(x, edges, compiled: bool) -> list[torch.Tensor]:
        torch.manual_seed(5)
        lin, relu, conv, after, out = model

        def forward(x, edges):
            return out(after(conv(relu(lin(x)), edges)))

        result = (torch.compile(forward, backend=backend) if compiled else forward)(x, edges)
        return [result, *torch.autograd.grad(result.square().sum(), list(model.parameters()))]

    for edges in (EDGES, EDGES[:, :5]):  # other neighbourhoods
        x = torch.randn(5, D)
        for got, want in zip(run(x, edges, True), run(x, edges, False), strict=True):
            close(got, want)


@pytest.mark.parametrize(
    ("f", "orderings", "backend"),
    [
        # tests/graph/test_conv.py and tests/test_compile.py have each on less
        pytest.param(lambda: TupleMLP(2, D, D), Tuples(2), "aot_eager", marks=pytest.mark.only_all),
        pytest.param(lambda: LSTM(D, D), Sampled(2), "eager", marks=pytest.mark.only_all),
        pytest.param(lambda: TupleMLP(2, D, D), Tuples(2), "inductor", marks=pytest.mark.only_all),
    ],
)
def test_a_model_is_compiled_around_it(f, orderings, backend):
    torch.compiler.reset()
    compiled_equals_eager(SAGEConv(D, 5, aggr=JanossyAggregation(f(), orderings=orderings)), backend)


def test_it_is_not_compiled_itself():
    torch.compiler.reset()
    seen = []

    class Watching(nn.Module):
        def forward(self, x):
            seen.append(torch.compiler.is_compiling())
            return x.sum(1)

    compiled = torch.compile(JanossyAggregation(Watching(), orderings=Tuples(2)), backend="eager")
    compiled(*elements([2, 3]))
    assert seen and not any(seen)


def test_sage_conv_bipartite():
    aggregation = JanossyAggregation(LSTM(D, D), orderings=Canonical())
    conv = SAGEConv((D, 2), 5, aggr=aggregation)
    sources, targets = torch.randn(5, D), torch.randn(6, 2)
    pooled = aggregation.pooling(Ragged.from_sets([neighbours_of(v, sources) for v in range(6)]))
    close(conv((sources, targets), EDGES), conv.lin_l(pooled) + conv.lin_r(targets))
    close(conv((sources, None), EDGES, size=(5, 6)), conv.lin_l(pooled))


def test_sage_conv_learns_the_width_of_another_f():
    conv = SAGEConv(-1, 5, aggr=JanossyAggregation(TupleMLP(2, D, 7), orderings=Tuples(2)))
    assert conv(torch.randn(5, D), EDGES).shape == (5, 5)
    assert conv.lin_l.in_channels == 7


def test_sage_conv_takes_every_form_of_edges():
    conv = SAGEConv(D, 5, aggr=exact_of_width(D))
    x = torch.randn(5, D)
    expected = conv(x, EDGES)
    by_target = EDGES[:, EDGES[1].argsort()]
    close(conv(x, EdgeIndex(EDGES, sparse_size=(5, 5))), expected)
    close(conv(x, EdgeIndex(by_target, sparse_size=(5, 5), sort_order="col")), expected)  # gives ptr as well
    transposed = torch.sparse_coo_tensor(EDGES.flip(0), torch.ones(8), (5, 5), check_invariants=True)
    close(conv(x, transposed.coalesce()), expected)


def exact_of_width(width: int) -> JanossyAggregation:
    return JanossyAggregation(LSTM(D, width), orderings=Canonical())


def test_hetero_conv():
    writes, cites = ("author", "writes", "paper"), ("paper", "cites", "paper")
    convs = {
        relation: SAGEConv((D, D), 4, aggr=JanossyAggregation(f, orderings=orderings))
        for relation, f, orderings in ((writes, LSTM(D, D), Canonical()), (cites, TupleMLP(2, D, D), Tuples(2)))
    }
    x = {"author": torch.randn(2, D), "paper": torch.randn(5, D)}
    written = torch.tensor([[1, 0, 1], [4, 4, 0]])
    with pytest.warns(UserWarning, match="author"):  # to whom no relation points
        layer = HeteroConv(convs, aggr="sum")
    layer.reset_parameters()
    result = layer(x, {writes: written, cites: EDGES})
    expected = convs[writes]((x["author"], x["paper"]), written) + convs[cites](x["paper"], EDGES)
    assert list(result) == ["paper"]
    close(result["paper"], expected)


def test_to_hetero():
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = SAGEConv((D, D), 4, aggr=exact_of_width(D))

        def forward(self, x, edge_index):
            return self.conv(x, edge_index).relu()

    to, back = ("author", "writes", "paper"), ("paper", "by", "author")
    layer = to_hetero(Layer(), (["author", "paper"], [to, back]))
    x = {"author": torch.randn(2, D), "paper": torch.randn(5, D)}
    written = torch.tensor([[1, 0, 1], [4, 4, 0]])
    result = layer(x, {to: written, back: written.flip(0)})
    assert {kind: len(y) for kind, y in result.items()} == {"author": 2, "paper": 5}
    forward, backward = (layer.conv["__".join(relation)].aggr_module.pooling.f for relation in (to, back))
    assert_differ(forward.weight_ih_l0, torch.zeros(()), by=1e-3)
    assert forward is not backward


@pytest.mark.parametrize("mode, width", [("cat", 7), ("sum", 3)])
def test_multi_aggregation(mode, width):
    ours = exact_of_width(4 if mode == "cat" else D)
    aggregation = MultiAggregation(["mean", ours], mode=mode)
    x, index = elements([3, 0, 2])
    parts = MeanAggregation()(x, index), ours(x, index)
    result = aggregation(x, index)
    assert result.shape == (3, width)
    close(result, torch.cat(parts, dim=1) if mode == "cat" else parts[0] + parts[1])


def test_multi_aggregation_in_sage_conv():
    conv = SAGEConv(D, 5, aggr=["mean", exact_of_width(D)])
    assert conv.lin_l.in_channels == 2 * D
    assert conv(torch.randn(5, D), EDGES).shape == (5, 5)


class EdgeConv(MessagePassing):
    """Messages of both ends of an edge, pooled."""

    def __init__(self, aggr, **kwargs) -> None:
        super().__init__(aggr, **kwargs)
        self.lin = nn.Linear(2 * D, D)

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x)

    def message(self, x_i, x_j):
        return self.lin(torch.cat((x_i, x_j - x_i), dim=1))


@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
def test_any_message_passing(flow):
    aggregation = exact_of_width(4)
    conv = EdgeConv(aggregation, flow=flow)
    x = torch.randn(5, D)
    here, there = (1, 0) if flow == "source_to_target" else (0, 1)
    messages = conv.message(x[EDGES[here]], x[EDGES[there]])
    expected = aggregation.pooling(Ragged.from_sets([messages[EDGES[here] == v] for v in range(5)]))
    close(conv(x, EDGES), expected)


class EachItsOwn(GraphSAGE):
    """The model of docs/pyg.md, in the order of the features."""

    def init_conv(self, in_channels, out_channels, **options):
        f = GRU(in_channels, in_channels)
        return SAGEConv(in_channels, out_channels, aggr=JanossyAggregation(f, orderings=Canonical()), **options)


def test_in_every_layer_of_a_model():
    model = EachItsOwn(D, hidden_channels=6, num_layers=3, out_channels=2)
    functions = [conv.aggr_module.pooling.f for conv in model.convs]
    assert [f.in_features for f in functions] == [D, 6, 6]
    weights = [p.data_ptr() for f in functions for p in f.parameters()]
    assert len(set(weights)) == len(weights)
    x, edges = torch.randn(5, D), torch.tensor([[0, 1, 2, 3, 4, 1, 2], [1, 1, 1, 0, 2, 3, 3]])
    result = model(x, edges)
    close(model(x, edges[:, torch.randperm(7)]), result)
    result.sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    before = [p.clone() for f in functions for p in f.parameters()]
    model.reset_parameters()
    assert not any(map(torch.equal, before, (p for f in functions for p in f.parameters())))


def test_training_lowers_the_loss():
    torch.manual_seed(0)
    x, edges = torch.randn(40, D), torch.randint(40, (2, 160))
    spans = [neighbours_of(v, x, edges)[:, 0] for v in range(40)]
    target = torch.stack([span.max() - span.min() if len(span) else torch.zeros(()) for span in spans])
    conv = SAGEConv(D, 8, aggr=JanossyAggregation(LSTM(D, D), num_permutations=1))
    model = nn.ModuleList([conv, nn.Linear(8, 1)])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(60):
        loss = (model[1](conv(x, edges).tanh())[:, 0] - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-5:]) < 0.5 * sum(losses[:5])


# At the door


def test_without_torch_geometric_the_extra_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "torch_geometric"]:
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("janossy.graph", "janossy.graph.aggregation"):
        monkeypatch.delitem(sys.modules, name)
    graph = importlib.import_module("janossy.graph")
    assert graph.GraphSAGE(2, 2).in_features == 2
    with pytest.raises(ImportError, match=r"torch_geometric: pip install janossy\[graph\]"):
        _ = graph.JanossyAggregation


def test_what_graph_does_not_have_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Neighborhoods'"):
        _ = janossy.graph.Neighborhoods


def test_the_example_in_the_docstring_runs():
    names = {"torch": torch, "GRU": GRU, "JanossyAggregation": JanossyAggregation}
    module = sys.modules[JanossyAggregation.__module__]
    found = doctest.DocTestFinder(recurse=False).find(JanossyAggregation, module=module, globs=names)
    assert [doctest.DocTestRunner().run(test) for test in found] == [(0, 2)]
