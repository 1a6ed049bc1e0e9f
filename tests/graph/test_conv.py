"""JanossySAGEConv is SAGEConv, whatever its arguments, and reads the vertices where nothing else is asked of it."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from janossy import GRU, LSTM, Canonical, Sampled, TupleMLP, Tuples
from tests.laws import close

pytest.importorskip("torch_geometric")

from torch_geometric import EdgeIndex
from torch_geometric.explain import Explainer, GNNExplainer, ModelConfig
from torch_geometric.nn import SAGEConv

from janossy.graph import JanossyAggregation, JanossySAGEConv

pytestmark = pytest.mark.usefixtures("float64")

D, V = 3, 5

AGGREGATIONS = {
    "gru": lambda: JanossyAggregation(GRU(D, D), num_permutations=2),
    "lstm": lambda: JanossyAggregation(LSTM(D, D), orderings=Canonical()),
    "seeded": lambda: JanossyAggregation(LSTM(D, D), orderings=Sampled(3, seed=0)),
    "pairs": lambda: JanossyAggregation(TupleMLP(2, D, D), orderings=Tuples(2), reduce="sum"),
    "any f": lambda: JanossyAggregation(nn.Sequential(nn.Flatten(), nn.Linear(2 * D, D)), orderings=Tuples(2)),
    "three": lambda: ["mean", JanossyAggregation(GRU(D, D)), "max"],
}


def pair(name: str, options: dict, width=D) -> tuple[SAGEConv, JanossySAGEConv]:
    theirs = SAGEConv(width, 4, aggr=AGGREGATIONS[name](), **options)
    ours = JanossySAGEConv(width, 4, aggr=AGGREGATIONS[name](), **options)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def edges_among(num_sources: int, num_targets: int, num: int = 20) -> torch.Tensor:
    return torch.stack([torch.randint(size, (num,)) for size in (num_sources, num_targets)])


def result_and_gradients(conv, x, edges) -> list[torch.Tensor]:
    x = [part.clone().requires_grad_() for part in x]
    torch.manual_seed(3)
    result = conv(x[0] if len(x) == 1 else tuple(x), edges)
    return [result, *torch.autograd.grad(result.square().sum(), [*x, *conv.parameters()])]


@pytest.fixture
def reads(monkeypatch) -> list[int]:
    """Gives the number of rows that each aggregation read in place."""
    seen: list[int] = []
    read = JanossyAggregation.read
    monkeypatch.setattr(JanossyAggregation, "read", lambda self, x, *rest: seen.append(len(x)) or read(self, x, *rest))
    return seen


@pytest.mark.parametrize("options", [{}, {"project": True, "normalize": True}, {"root_weight": False}], ids=str)
@pytest.mark.parametrize("name", AGGREGATIONS)
@given(num=st.sampled_from([0, 3, 2 * V, 40]), seed=st.integers(0, 99))
def test_it_is_sage_conv(name, options, num, seed):
    torch.manual_seed(seed)
    theirs, ours = pair(name, options)
    x, edges = [torch.randn(V, D)], edges_among(V, V, num)
    for got, want in zip(result_and_gradients(ours, x, edges), result_and_gradients(theirs, x, edges), strict=True):
        close(got, want)


@pytest.mark.parametrize("name", AGGREGATIONS)
def test_each_vertex_is_read_once(name, reads):
    torch.manual_seed(0)
    _, ours = pair(name, {})
    ours(torch.randn(V, D), edges_among(V, V))
    assert reads == [V]
    ours(torch.randn(V, D), edges_among(V, V, 2 * V - 1))  # too few edges for it to pay
    assert reads == [V]


def test_sources_and_targets(reads):
    torch.manual_seed(0)
    theirs, ours = pair("gru", {}, (D, 2))
    x, edges = [torch.randn(4, D), torch.randn(7, 2)], edges_among(4, 7)
    for got, want in zip(result_and_gradients(ours, x, edges), result_and_gradients(theirs, x, edges), strict=True):
        close(got, want)
    assert reads == [4]


def test_it_is_sage_conv_in_evaluation():
    torch.manual_seed(0)
    fixed = {"num_permutations": 1, "orderings_eval": Sampled(4, seed=1)}
    theirs, ours = (
        kind(D, 4, aggr=JanossyAggregation(GRU(D, D), **fixed)).eval() for kind in (SAGEConv, JanossySAGEConv)
    )
    ours.load_state_dict(theirs.state_dict())
    x, edges = torch.randn(V, D), edges_among(V, V)
    close(ours(x, edges), theirs(x, edges))


def _hook(conv, register: str) -> list:
    seen: list = []
    getattr(conv, register)(lambda module, inputs, *output: seen.append(inputs))
    return seen


@pytest.mark.parametrize(
    "register",
    [
        f"register_{step}_forward_{when}"
        for step in ("propagate", "message", "aggregate")
        for when in ("pre_hook", "hook")
    ],
)
def test_a_hooked_layer_runs_its_hooks(register, reads):
    _, ours = pair("lstm", {})
    seen = _hook(ours, register)
    ours(torch.randn(V, D), edges_among(V, V))
    assert len(seen) == 1 and not reads


@pytest.mark.parametrize("name", ["lstm", "three"])
def test_a_hooked_aggregation_runs_its_hooks(name, reads):
    _, ours = pair(name, {})
    seen = _hook(ours.aggr_module, "register_forward_hook")
    ours(torch.randn(V, D), edges_among(V, V))
    assert len(seen) == 1 and not reads


def test_a_subclass_may_override_the_messages(reads):
    class Twice(JanossySAGEConv):
        def message(self, x_j):
            return 2 * x_j

    class Same(JanossySAGEConv):
        pass

    ours, twice = (kind(D, 4, aggr=AGGREGATIONS["lstm"](), root_weight=False) for kind in (JanossySAGEConv, Twice))
    twice.load_state_dict(ours.state_dict())
    x, edges = torch.randn(V, D), edges_among(V, V)
    close(twice(x, edges), ours(2 * x, edges))
    assert reads == [V]  # by ours alone
    Same(D, 4, aggr=AGGREGATIONS["lstm"]())(x, edges)
    assert reads == [V, V]


def test_an_aggregation_may_override_its_call(reads):
    class Doubled(JanossyAggregation):
        def forward(self, *given, **options):
            return 2 * super().forward(*given, **options)

    once, twice = (
        JanossySAGEConv(D, D, aggr=kind(LSTM(D, D), orderings=Canonical()), root_weight=False, bias=False)
        for kind in (JanossyAggregation, Doubled)
    )
    twice.load_state_dict(once.state_dict())
    x, edges = torch.randn(V, D), edges_among(V, V)
    close(twice(x, edges), 2 * once(x, edges))
    assert reads == [V]


def test_edges_are_explained():
    torch.manual_seed(0)
    theirs, ours = pair("lstm", {})
    x, edges = torch.randn(V, D), edges_among(V, V)
    task = ModelConfig(mode="multiclass_classification", task_level="node", return_type="raw")

    def masks(model) -> tuple[torch.Tensor, torch.Tensor]:
        torch.manual_seed(1)
        algorithm = GNNExplainer(epochs=5)
        explained = Explainer(model, algorithm, "model", task, node_mask_type="attributes", edge_mask_type="object")(
            x, edges, index=2
        )
        return explained.edge_mask, explained.node_mask

    for got, want in zip(masks(ours), masks(theirs), strict=True):
        close(got, want)
    close(ours(x, edges), theirs(x, edges))


def test_other_forms_of_edges():
    torch.manual_seed(0)
    theirs, ours = pair("lstm", {})
    x, edges = torch.randn(V, D), edges_among(V, V)
    close(ours(x, EdgeIndex(edges, sparse_size=(V, V))), theirs(x, edges))
    close(ours(x, edges.int()), theirs(x, edges))
    close(ours((x, None), edges, size=(V, V)), theirs((x, None), edges, size=(V, V)))
    theirs, ours = pair("lstm", {"flow": "target_to_source"})
    close(ours(x, edges), theirs(x, edges))


@pytest.mark.parametrize(
    ("edges", "size"),
    [
        (torch.full((2, 20), -1), None),
        (torch.full((2, 20), V), None),
        (torch.stack([torch.zeros(20, dtype=torch.long), torch.full((20,), V)]), None),
        (torch.zeros(2, 20), None),
        (torch.zeros(3, 20, dtype=torch.long), None),
        (torch.zeros(2, 20, dtype=torch.long), (V, V + 1)),
    ],
)
def test_it_refuses_what_sage_conv_refuses(edges, size):
    theirs, ours = pair("lstm", {})
    with pytest.raises((ValueError, IndexError)) as expected:
        theirs(torch.randn(V, D), edges, size=size)
    with pytest.raises(type(expected.value)) as got:
        ours(torch.randn(V, D), edges, size=size)
    assert str(got.value) == str(expected.value)


def test_a_model_is_compiled_around_it():
    torch.compiler.reset()
    torch.manual_seed(0)
    _, ours = pair("three", {})
    model = nn.Sequential(nn.Linear(D, D), nn.ReLU())

    def forward(x, edges):
        return ours(model(x), edges).relu()

    x, edges = torch.randn(V, D), edges_among(V, V)
    torch.manual_seed(4)
    expected = forward(x, edges)
    torch.manual_seed(4)
    close(torch.compile(forward, backend="aot_eager")(x, edges), expected)
