"""torch.compile: no graph break for sets of one size, forward and backward as without it."""

import pytest
import torch

from janossy import GRU, Canonical, JanossyNetwork, JanossyPooling, Ragged
from tests.examples import ORDERINGS, distinct_sets, pooling
from tests.laws import close, value_and_gradients

pytestmark = pytest.mark.usefixtures("float64")


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def pairs():
    for ordering in ORDERINGS:
        yield ordering, "gru"
        if getattr(ORDERINGS[ordering], "k", None):
            yield ordering, "tuple_mlp"
    yield from (("tuples_2", function) for function in ("rnn", "lstm_deep_bidirectional", "transformer", "convolution"))


def compiled_equals_eager(ordering, function, backend, tolerance):
    layer = pooling(ordering, function)
    compiled = torch.compile(layer, fullgraph=True, backend=backend)
    sets = distinct_sets((3, 3, 3))
    if ordering in ("sampled_1", "sampled_4", "sampled_4_first_2"):  # torch.compile takes no generator
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
    compiled_equals_eager(ordering, function, "aot_eager", 1e-12)


@pytest.mark.parametrize(("ordering", "function"), [("tuples_2", "tuple_mlp"), ("all_permutations", "gru")])
def test_other_sizes_compile_anew(ordering, function):
    """Sizes that change from call to call, unequal ones and empty sets among them."""
    layer = pooling(ordering, function)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for sizes in [(3, 3), (4, 4), (4, 4, 4), (2, 0, 3, 2), (5,)]:
        sets = distinct_sets(sizes)
        close(compiled(sets), layer(sets))


def test_network():
    network = JanossyNetwork(torch.nn.Embedding(9, 3), JanossyPooling(GRU(3, 4), Canonical()), torch.nn.Linear(4, 1))
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
    sets = Ragged.from_padded(torch.tensor([[3, 1, 4], [1, 5, 0]]))
    close(compiled(sets), network(sets))


@pytest.mark.slow
def test_inductor():
    compiled_equals_eager("tuples_2", "tuple_mlp", "inductor", 1e-10)
