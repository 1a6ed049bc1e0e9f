"""Gather's memory budget: rows at once, bytes saved against the cost model, recomputation."""

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.utils._pytree import tree_iter

from janossy import GRU, LSTM, RNN, AllPermutations, JanossyPooling, Ragged, Sampled, TupleMLP, Tuples
from janossy.evaluate import MEMORY_BUDGET, Cost, Gather, Problem, Projected, Rates
from janossy.evaluate.cost import Work
from janossy.evaluate.rows import recompute
from janossy.nn.encoder import pair_bias
from tests.evaluate.spy import Spy, budget_for
from tests.examples import (
    FUNCTIONS,
    Convolution,
    D,
    Rows,
    Transformer,
    distinct_sets,
    generator,
    pooling,
)
from tests.laws import close, law_saves_no_more_than, peak_bytes, saved_bytes

pytestmark = pytest.mark.usefixtures("float64")


def pool(f, evaluator, reduce, memory_budget):
    """Returns a layer over pairs, or its rows if ``reduce`` is None."""
    layer = JanossyPooling(f, Tuples(2), evaluate=evaluator, reduce=reduce or "mean", memory_budget=memory_budget)
    return layer if reduce else Rows(layer)


def test_the_default_budget_is_a_gibibyte():
    layer = JanossyPooling(TupleMLP(2, D, 4), Tuples(2))
    assert layer.memory_budget == Problem(layer.f, Tuples(2), distinct_sets((2,))).memory_budget == 2**30


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
@pytest.mark.parametrize("reduce", ["mean", "max", None])
def test_at_most_so_many_rows_at_once(rows, reduce):
    spy = Spy(pooling("tuples_2", "tuple_mlp").f)
    layer = pool(spy, Gather(), reduce, budget_for(rows, spy))
    values = distinct_sets((4, 2, 4, 0, 1)).values.requires_grad_()
    result = layer(Ragged.from_sizes(values, (4, 2, 4, 0, 1)))
    forward = [len(x) for x in spy.seen]
    assert max(forward) == rows
    assert sum(forward) == 12 + 2 + 12 + 1 + 1
    (result if reduce else result.values).sum().backward()
    recomputed = [len(x) for x in spy.seen[len(forward) :]]
    assert max(recomputed) <= rows
    assert sum(recomputed) == sum(count for count in (24, 2, 1, 1) if count > rows)  # a single chunk needs none


def test_one_chunk_is_not_recomputed():
    spy = Spy(pooling("tuples_2", "tuple_mlp").f)
    values = distinct_sets((4,)).values.requires_grad_()
    JanossyPooling(spy, Tuples(2))(Ragged.from_sizes(values, (4,))).sum().backward()
    assert [len(x) for x in spy.seen] == [12]


def law_estimate_covers(evaluator, f, d, length, dtype):
    """Checks that the cost model's bytes are no less than what is saved for backward, and not a hundred times more."""
    sets = distinct_sets((length,) * 64).to(dtype)
    sets = sets.with_values(torch.randn(len(sets.values), d, dtype=dtype, requires_grad=True))
    problem = Problem(f, Sampled(4, k=length), sets, generator=generator())
    estimate = evaluator.cost(problem).bytes
    measured = saved_bytes(lambda: evaluator(problem), [*f.parameters(), sets.values])
    assert measured > estimate / 100, f"saves {measured} bytes, estimated {estimate:.0f}: that says nothing"
    assert measured <= estimate, f"saves {measured} bytes, estimated at most {estimate:.0f}"


@pytest.mark.parametrize(
    ("function", "length"),
    [
        (name, length)
        for name in FUNCTIONS
        for length in (1, 2, 5, 8)
        if length >= FUNCTIONS[name].least_k and (name, length) != ("monotone_lattice", 8)  # of 2^16 corners
    ],
)
def test_bytes_saved_are_within_the_estimate(function, length):
    f = FUNCTIONS[function].build(length)
    law_estimate_covers(Gather(), f, D, length, torch.float64)
    if "tuple_mlp" in function:
        law_estimate_covers(Projected(), f, D, length, torch.float64)


WIDE = {
    "tuple_mlp": lambda k: TupleMLP(k, 100, 30),
    "rnn": lambda k: RNN(100, 50),
    "gru": lambda k: GRU(100, 80),
    "lstm": lambda k: LSTM(100, 50),
    "lstm_deep_bidirectional": lambda k: LSTM(100, 50, num_layers=2, bidirectional=True),
    "lstm_narrow": lambda k: LSTM(16, 16),
    "transformer": lambda k: Transformer(100, 32),
    "convolution": lambda k: Convolution(100, 32),
}


@pytest.mark.parametrize("length", [1, 2, 5, 8])
@pytest.mark.parametrize("function", WIDE)
def test_bytes_saved_at_real_widths_are_within_the_estimate(function, length):
    """float32 on a CPU: other kernels than float64's."""
    f, d = WIDE[function](length).float(), 16 if "narrow" in function else 100
    law_estimate_covers(Gather(), f, d, length, torch.float32)
    if function == "tuple_mlp":
        law_estimate_covers(Projected(), f, d, length, torch.float32)


def test_an_estimate_that_is_off_is_found():
    class Hides(nn.Module):
        def forward(self, x):
            return (x[..., None] * torch.ones(500)).sin().sum((1, 2))

    with pytest.raises(AssertionError, match="estimated at most"):
        law_estimate_covers(Gather(), Hides(), D, 2, torch.float64)


@pytest.mark.parametrize("evaluator", [Gather, Projected])
def test_chunks_save_less(evaluator):
    layer = JanossyPooling(pooling("tuples_2", "tuple_mlp_tanh").f, Tuples(2), evaluate=evaluator())
    sets = distinct_sets((30,) * 4)
    sets.values.requires_grad_()
    whole = saved_bytes(lambda: layer(sets), list(layer.parameters()))
    chunked = JanossyPooling(layer.f, Tuples(2), evaluate=evaluator(), memory_budget=whole // 20)
    law_saves_no_more_than(whole / 5, lambda: chunked(sets))


def test_cost_counts():
    f = pooling("tuples_2", "tuple_mlp").f
    problem = Problem(f, Tuples(2), distinct_sets((4, 3)))
    assert Work.of(f, whole_rows=True).flops(2) == 2 * (2 * D) * 4
    assert Work.of(f, whole_rows=False).flops(2) == 2 * 2 * (2 * D) * 4
    cost = Gather().cost(problem)
    assert (cost.flops, cost.activations) == ((12 + 6) * 2 * (2 * D) * 4, (12 + 6) * 4)
    cost = Projected().cost(problem)  # 7 elements projected twice, and the sums of 18 rows
    assert (cost.flops, cost.activations) == (7 * 2 * D * 2 * 4 + 18 * 2 * 4, 18 * 4)
    deep = TupleMLP(2, D, (4, 5), out_features=3)
    later = [evaluator.cost(Problem(deep, Tuples(2), distinct_sets((4,)))) for evaluator in (Gather(), Projected())]
    assert [cost.activations for cost in later] == [12 * (4 + 5 + 3)] * 2
    assert later[1].flops == 4 * 2 * D * 2 * 4 + 12 * (2 * 4 + 2 * (4 * 5 + 5 * 3))
    assert Gather().cost(Problem(lambda x: x.sum(1), Tuples(2), distinct_sets((4,)))).flops == 0
    assert Gather().cost(Problem(f, AllPermutations(), distinct_sets(()))).bytes == 0


def test_costs_of_countless_rows():
    sets = Ragged.from_sizes(torch.zeros(1000, D), [1000])
    assert Gather().cost(Problem(GRU(D, 3), AllPermutations(), sets)).seconds > 1e100


def test_seconds():
    assert Cost(4.0, 6.0, 10.0, Rates(2.0, 3.0, 5.0, 7.0)).seconds == 7 + 2 + 2 + 2


@pytest.mark.parametrize("reduce", ["mean", "sum", "max", "logmeanexp", None])
def test_dropout_under_recomputation_is_consistent(reduce):
    """Gradients are those of the forward pass that was drawn: they equal finite differences with the same seed."""
    f = nn.Sequential(nn.Flatten(), nn.Linear(2 * D, 6), nn.Dropout(0.5), nn.Linear(6, 3))
    layer = pool(f, Gather(), reduce, budget_for(2, f))
    sets = distinct_sets((3, 3))

    def run(values):
        torch.manual_seed(9)
        result = layer(sets.with_values(values))
        return result if reduce else result.values

    assert len(run(sets.values)) > 0 and layer.training
    assert torch.autograd.gradcheck(run, sets.values.clone().requires_grad_())


@pytest.mark.parametrize(
    ("f", "evaluator"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(2 * D, 6), nn.Dropout(0.5), nn.Linear(6, 3)), "gather"),
        (GRU(D, 3, num_layers=2, dropout=0.5), "packed"),
        (GRU(D, 3, num_layers=2, dropout=0.5), "shared_prefixes"),
    ],
)
def test_the_device_of_what_is_recomputed_is_known(f, evaluator, monkeypatch):
    """Torch draws the random numbers of a GPU again if a tensor on it is among the arguments of its checkpoint."""
    devices = spied_checkpoints(monkeypatch)
    JanossyPooling(f.double(), Tuples(2), evaluate=evaluator, memory_budget=1)(distinct_sets((4, 3)))
    assert devices and all(devices)


def test_the_device_of_a_bias_that_is_recomputed_is_known(monkeypatch):
    monkeypatch.setattr(pair_bias, "MEMORY_BUDGET", 1)
    devices = spied_checkpoints(monkeypatch)
    pair_bias.bias_of_pairs(TupleMLP(2, D, 4).double(), torch.randn(2, 3, D), 4)
    assert devices and all(devices)


def spied_checkpoints(monkeypatch) -> list[set]:
    """Returns a list that gets the devices of the tensors among the arguments of each checkpoint."""
    devices, real = [], recompute.checkpoint

    def checkpoint(run, *arguments, **options):
        devices.append({x.device for x in tree_iter(arguments) if isinstance(x, torch.Tensor)})
        return real(run, *arguments, **options)

    monkeypatch.setattr(recompute, "checkpoint", checkpoint)
    return devices


@pytest.mark.parametrize("budget", [MEMORY_BUDGET, 1])
@pytest.mark.parametrize("evaluator", [Gather(), Projected()])
def test_recomputation_uses_the_weights_of_forward(evaluator, budget):
    """Under functional_call (of an ensemble, of a meta-learner) the weights are gone again by backward."""
    f = TupleMLP(2, D, 4)
    layer = JanossyPooling(f, Tuples(2), evaluate=evaluator, memory_budget=budget)
    weights = {name: (p.detach() + 1).requires_grad_() for name, p in layer.named_parameters()}
    result = functional_call(layer, weights, (distinct_sets((4,)),)).sum()
    gradients = torch.autograd.grad(result, list(weights.values()))
    f.load_state_dict({name.removeprefix("f."): p for name, p in weights.items()})
    expected = torch.autograd.grad(layer(distinct_sets((4,))).sum(), list(f.parameters()))
    for got, want in zip(gradients, expected, strict=True):
        close(got, want)


@pytest.mark.parametrize("evaluator", [Gather(), Projected()])
def test_weights_changed_before_backward_are_an_error(evaluator):
    layer = JanossyPooling(TupleMLP(2, D, 4, out_features=3), Tuples(2), evaluate=evaluator, memory_budget=1)
    result = layer(distinct_sets((4,))).sum()
    with torch.no_grad():
        layer.f.output.weight.zero_()
    with pytest.raises(RuntimeError, match=r"weight output\.weight was modified in place.*call backward before"):
        result.backward()


@pytest.mark.parametrize(("evaluator", "reduce"), [(Gather(), "mean"), (Gather(), None), (Projected(), "mean")])
def test_weights_made_in_inference_mode(evaluator, reduce):
    with torch.inference_mode():
        f = TupleMLP(2, D, 4, out_features=3)
        whole, chunked = (pool(f, evaluator, reduce, budget)(distinct_sets((4, 3))) for budget in (MEMORY_BUDGET, 1))
    with torch.no_grad():
        again = pool(f, evaluator, reduce, 1)(distinct_sets((4, 3)))
    for found in (chunked, again):
        close(*((x if reduce else x.values).clone() for x in (found, whole)))


@pytest.mark.parametrize(
    ("function", "evaluator"),
    [
        *((function, Gather) for function in ("tuple_mlp", "lstm", "transformer")),
        pytest.param("gru", Gather, marks=pytest.mark.only_all),
        pytest.param("tuple_mlp", Projected, marks=pytest.mark.only_all),
        ("tuple_mlp_gelu", Projected),
    ],
)
def test_the_peak_is_within_the_budget(function, evaluator):
    """Forward and backward, positions and temporaries included."""
    budget = 2**21
    sets = distinct_sets((60,) * (12 if "mlp" in function else 4))
    sets.values.requires_grad_()
    f = pooling("tuples_2", function).f
    whole, chunked = (JanossyPooling(f, Tuples(2), evaluate=evaluator(), memory_budget=b) for b in (2**30, budget))
    assert peak_bytes(lambda: whole(sets).sum().backward()) > 2 * budget
    assert peak_bytes(lambda: chunked(sets).sum().backward()) <= budget


def test_projected_never_writes_rows_of_elements():
    sets = distinct_sets((40,))
    sets = sets.with_values(torch.randn(40, 200).requires_grad_())
    f = TupleMLP(2, 200, 4)
    rows_of_elements = 40 * 39 * 2 * 200 * 8
    gathered, projected = (JanossyPooling(f, Tuples(2), evaluate=evaluator()) for evaluator in (Gather, Projected))
    assert peak_bytes(lambda: gathered(sets).sum().backward()) > rows_of_elements
    assert peak_bytes(lambda: projected(sets).sum().backward()) < rows_of_elements / 5
