"""torch.compile: no graph break, for sets of one size or of several, forward and backward as without it."""

import subprocess
import sys
from itertools import permutations

import pytest
import torch

from janossy import (
    GRU,
    AllPermutations,
    Canonical,
    JanossyEquivariant,
    JanossyNetwork,
    JanossyPooling,
    Ragged,
    Sampled,
    TupleMLP,
    TupleProduct,
    Tuples,
)
from janossy.evaluate import on_kernels
from janossy.orderings import AsGiven
from janossy.sets.transfer import constant_when_compiled
from tests.examples import ORDERINGS, D, distinct_sets, drawing, pooling
from tests.laws import close, law_parity, value_and_gradients

pytestmark = pytest.mark.usefixtures("float64")


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def test_a_constant_is_marked_as_torch_marks_it():
    ours, theirs = constant_when_compiled(lambda: 0), torch.compiler.assume_constant_result(lambda: 0)
    assert vars(ours) == vars(theirs) != {}


@pytest.mark.only_all  # test_sampled_of_mixed_sizes has such sets too
def test_no_graph_break_where_small_sets_give_all_orders():
    layer, sets = pooling("sampled_1", "gru").eval(), distinct_sets((3, 2, 3))
    layer.orderings = Sampled(6)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    close(compiled(sets), layer(sets, AllPermutations()))


ONE_OF_EACH = (
    "all_permutations",
    "as_given_first_2",
    "combinations_3_tying_key",
    "canonical_3_keys",
    "sampled_3_exact_last_2",
    "distinct_4_first_2_seeded",
    "learned_drawn_3",
)
"""An ordering of each class: tracing takes half a second per case. Other tests compile ``Tuples(2)``."""


def pairs():
    """Yields orderings with a recurrence and an MLP, and a few functions. make test takes an ordering of each class."""
    for ordering in ORDERINGS:
        if ORDERINGS[ordering].weighs_rows:  # their rows are joined by code that breaks the graph
            continue
        yield pytest.param(ordering, "gru", marks=[] if ordering in ONE_OF_EACH else pytest.mark.only_all)
        if ORDERINGS[ordering].k:
            yield pytest.param(ordering, "tuple_mlp", marks=[] if ordering == "tuples_3" else pytest.mark.only_all)
    for function in ("lstm_deep_bidirectional", "transformer", "rnn", "convolution", "tuple_mlp_gelu"):
        yield pytest.param("tuples_2", function, marks=pytest.mark.only_all)


def compiled_equals_eager(
    ordering, function, backend, tolerance, evaluator="auto", reduce="mean", sizes=(3, 3, 3), fullgraph=True
):
    layer = pooling(ordering, function, evaluator, reduce)
    compiled = torch.compile(layer, fullgraph=fullgraph, backend=backend)
    sets = distinct_sets(sizes)
    if drawing(layer.orderings):  # torch.compile takes no generator
        torch.manual_seed(5)
        result = compiled(sets)
        torch.manual_seed(5)
        close(result, layer(sets))
        result.sum().backward()
        assert all(p.grad.isfinite().all() for p in layer.parameters())
        assert not torch.equal(compiled(sets), compiled(sets))
        return
    for got, want in zip(
        value_and_gradients(_As(compiled, layer), sets), value_and_gradients(layer, sets), strict=True
    ):
        close(got, want, atol=tolerance, rtol=tolerance)


class _As:
    """A compiled layer with the attributes that the laws look at."""

    def __init__(self, compiled, layer):
        self.compiled, self.orderings, self.parameters = compiled, layer.orderings, layer.parameters

    def __call__(self, sets):
        return self.compiled(sets)


@pytest.mark.parametrize(("ordering", "function"), list(pairs()))
def test_no_graph_break(ordering, function):
    """Orderings are traced for one f by Dynamo alone: what autograd sees of them is the same rows."""
    backend = "eager" if function == "gru" and ordering != "all_permutations" else "aot_eager"
    compiled_equals_eager(ordering, function, backend, 1e-12)


@pytest.mark.parametrize("sizes", [(3, 3, 3), (3, 0, 1, 4, 3)])
@pytest.mark.parametrize("reduce", ["mean", "sum"])
@pytest.mark.parametrize(
    ("evaluator", "function"),
    [
        ("gather", "tuple_mlp_tanh"),
        pytest.param("projected", "tuple_mlp_tanh", marks=pytest.mark.only_all),
        ("fused", "tuple_mlp_one_layer_tanh"),
        ("spectral", "tuple_mlp_one_layer_tanh"),
        pytest.param("spectral_where_cheaper", "tuple_mlp_one_layer_tanh", marks=pytest.mark.only_all),
        ("permanent", "tuple_product_of_mlps"),
    ],
)
@pytest.mark.cover(1)
def test_no_graph_break_in_an_evaluator(evaluator, function, reduce, sizes):
    compiled_equals_eager("combinations_2", function, "aot_eager", 1e-12, evaluator, reduce, sizes)


@pytest.mark.parametrize("sizes", [pytest.param((3, 3, 3), marks=pytest.mark.only_all), (3, 0, 1, 4, 3)])
@pytest.mark.parametrize(
    "name", ["fused", *(pytest.param(each, marks=pytest.mark.only_all) for each in ("spectral", "permanent"))]
)
def test_no_graph_break_without_kernels(name, sizes, monkeypatch):
    monkeypatch.setattr(on_kernels, "load", lambda: None)
    function = "tuple_product_of_mlps" if name == "permanent" else "tuple_mlp_one_layer_tanh"
    fullgraph = name != "spectral"  # there the number of harmonics depends on the elements
    compiled_equals_eager("tuples_2", function, "aot_eager", 1e-12, name, "mean", sizes, fullgraph)


@pytest.mark.parametrize(
    ("ordering", "function", "evaluator"),
    [
        ("tuples_2", "tuple_mlp", "auto"),
        pytest.param("tuples_2", "tuple_mlp", "spectral", marks=pytest.mark.only_all),
        pytest.param("tuples_2", "tuple_mlp", "projected", marks=pytest.mark.only_all),
        pytest.param("tuples_2", "tuple_product_of_mlps", "permanent", marks=pytest.mark.only_all),
        pytest.param("all_permutations", "gru", "auto", marks=pytest.mark.only_all),
    ],
)
def test_other_sizes_compile_anew(ordering, function, evaluator):
    """Sizes that change from call to call, unequal ones and empty sets among them."""
    layer = pooling(ordering, function, evaluator)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for sizes in [(3, 3), (4, 4, 4), (2, 0, 3, 2)]:
        sets = distinct_sets(sizes)
        close(compiled(sets), layer(sets))


class SumOfLogs(torch.nn.Module):
    """The same in every order."""

    def forward(self, x):
        return x.abs().log1p().sum(1)


class Discounted(torch.nn.Module):
    """Another in every order, and soon compiled."""

    def forward(self, x):
        return (x * 0.5 ** torch.arange(x.shape[1], dtype=x.dtype)[:, None]).sum(1)


MIXED_BATCHES = [(2, 0, 1, 3), (3, 3), (2, 0, 4)]


def sampled_of_mixed_sizes(num, backend, batches) -> None:
    """Checks that what no order changes is as without compiling, a seed fixes the same rows, and draws are
    permutations.
    """
    alike, seeded = JanossyPooling(SumOfLogs(), Sampled(num)), JanossyPooling(Discounted(), Sampled(num, seed=0))
    drawn = JanossyPooling(Discounted(), Sampled(num))

    def together(sets):
        return alike(sets), seeded(sets), drawn(sets)

    compiled = torch.compile(together, fullgraph=True, backend=backend)
    for sizes in batches:
        sets = distinct_sets(sizes)
        of_all, of_seed, of_draw = compiled(sets)
        close(of_all, alike(sets))
        close(of_seed, seeded(sets))
        if num == 1:
            for x, y in zip(sets, of_draw, strict=True):
                orders = torch.tensor(list(permutations(range(len(x)))), dtype=torch.long)
                assert (Discounted()(x[orders]) - y).abs().amax(1).min() < 1e-12


@pytest.mark.parametrize(
    ("num", "backend"),
    [(1, "eager"), *(pytest.param(num, "aot_eager", marks=pytest.mark.only_all) for num in (1, 4))],
)
def test_sampled_of_mixed_sizes(num, backend, request):
    sampled_of_mixed_sizes(num, backend, MIXED_BATCHES if request.config.option.all else MIXED_BATCHES[:2])


@pytest.mark.only_all
def test_sampled_of_mixed_sizes_by_inductor():
    sampled_of_mixed_sizes(1, "inductor", [(2, 0, 1)])


@pytest.mark.parametrize(
    "orderings",
    [*(pytest.param(each, marks=pytest.mark.only_all) for each in (AsGiven(), Canonical())), Sampled(2, seed=0)],
)
def test_outputs_for_each_element(orderings):
    layer = JanossyEquivariant(GRU(D, 3, bidirectional=True, per_position=True), orderings)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for sizes in [(3, 3), (4, 0, 2, 4)]:
        sets, gradients = distinct_sets(sizes), []
        for each in (layer, compiled):
            outputs = each(sets).values
            close(outputs, layer(sets).values)
            gradients.append(torch.autograd.grad(outputs.square().sum(), list(layer.parameters())))
        for got, want in zip(*gradients, strict=True):
            close(got, want)


@pytest.mark.parametrize(
    "reduce", ["mean", *(pytest.param(each, marks=pytest.mark.only_all) for each in ("max", "logmeanexp"))]
)
def test_single_elements(reduce):
    layer = JanossyPooling(torch.nn.Linear(D, 3), Tuples(1), reduce=reduce)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for sizes in [(3, 3), (4, 1, 2), (4, 0, 2)]:
        sets = distinct_sets(sizes)
        close(compiled(sets), layer(sets))


def test_batch_norm_sees_no_other_rows():
    f = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.BatchNorm1d(D))
    layer = JanossyPooling(f, Tuples(1))
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for sizes in [(3, 3), (4, 1, 2), (4, 0, 2)]:
        sets, means = distinct_sets(sizes), []
        for each in (layer, compiled):
            f[1].reset_running_stats()
            means.append((each(sets), f[1].running_mean.clone()))
        for got, want in zip(*means, strict=True):
            close(got, want)


def test_network():
    network = JanossyNetwork(torch.nn.Embedding(9, 3), JanossyPooling(GRU(3, 4), Canonical()), torch.nn.Linear(4, 1))
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
    sets = Ragged.from_padded(torch.tensor([[3, 1, 4], [1, 5, 0]]))
    close(compiled(sets), network(sets))


@pytest.mark.parametrize(
    ("f", "chosen"),
    [
        (TupleMLP(3, 2, 64), ("spectral",)),
        pytest.param(TupleMLP(2, 2, 64, activation="relu"), ("fused",), marks=pytest.mark.only_all),
        pytest.param(TupleMLP(2, 2, (64, 8)), ("gather", "projected"), marks=pytest.mark.only_all),
        pytest.param(TupleProduct(3, 2, 64), ("permanent",), marks=pytest.mark.only_all),
    ],
)
def test_what_auto_chooses(f, chosen):
    f.double()
    layer, sets = JanossyPooling(f, Tuples(f.k)), distinct_sets((40,) * 4)
    assert layer.explain(sets).split(" ")[0] in chosen
    for got, want in zip(
        value_and_gradients(_As(torch.compile(layer, fullgraph=True, backend="aot_eager"), layer), sets),
        value_and_gradients(layer, sets),
        strict=True,
    ):
        close(got, want)


@pytest.mark.only_all
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_kernels_that_are_loaded_while_compiling(backend):
    """In a process of its own, as the first thing that it does; numba changes torch's number of threads otherwise."""
    program = f"""
import torch
from janossy import JanossyPooling, Ragged, TupleMLP, Tuples
torch.set_num_threads(1)
layer = JanossyPooling(TupleMLP(2, 2, 4), Tuples(2), evaluate="fused")
sets = Ragged.from_sizes(torch.randn(6, 2), (3, 3))
torch.testing.assert_close(torch.compile(layer, fullgraph=True, backend="{backend}")(sets), layer(sets))
assert torch.get_num_threads() == 1
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.only_all  # test_other_sizes_compile_anew traces the same layer without a compiler of C++
def test_inductor():
    compiled_equals_eager("tuples_2", "tuple_mlp", "inductor", 1e-10)


def test_gates_in_one_kernel_where_asked():
    """docs/gpu.md: cells run depth by depth call f's own step, which may be a compiled one."""
    calls, sets = [], distinct_sets((3, 2))
    f, plain = (GRU(D, 3, unrolled=True) for _ in range(2))
    f.load_state_dict(plain.state_dict())

    def backend(graph, examples):
        calls.append(graph)
        return graph.forward

    f.step = torch.compile(GRU.step, dynamic=True, backend=backend)
    law_parity(*(JanossyPooling(each, AllPermutations(), evaluate="shared_prefixes") for each in (f, plain)), sets)
    assert calls
