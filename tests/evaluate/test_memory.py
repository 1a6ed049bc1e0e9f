"""Gather's memory budget: rows at once, bytes saved against the cost model, recomputation."""

from itertools import accumulate

import pytest
import torch
from torch import nn
from torch.func import functional_call

from janossy import (
    GRU,
    LSTM,
    RNN,
    AllPermutations,
    Gather,
    JanossyPooling,
    Ragged,
    Sampled,
    TupleMLP,
    Tuples,
)
from janossy.evaluate.cost import flops_per_row
from tests.evaluate.spy import Spy, budget_for
from tests.examples import (
    FUNCTIONS,
    Convolution,
    D,
    Transformer,
    distinct_sets,
    generator,
    pooling,
)
from tests.laws import close, law_saves_no_more_than, saved_bytes

pytestmark = pytest.mark.usefixtures("float64")


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
@pytest.mark.parametrize("reduce", ["mean", "max", None])
def test_at_most_so_many_rows_at_once(rows, reduce):
    spy = Spy(pooling("tuples_2", "tuple_mlp").f)
    layer = JanossyPooling(spy, Tuples(2), Gather(budget_for(rows, spy)), reduce)
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


def law_estimate_covers(f, d, length, dtype):
    """The cost model's bytes are no less than what Gather saves for backward, and not a hundred times more."""
    sets = distinct_sets((length,) * 64).to(dtype)
    sets = sets.with_values(torch.randn(len(sets.values), d, dtype=dtype, requires_grad=True))
    orderings = Sampled(4, k=length)
    rows = orderings.enumerate(sets, generator())
    estimate = Gather().cost(f, orderings, sets).bytes
    measured = saved_bytes(lambda: Gather()(f, sets, rows), [*f.parameters(), sets.values])
    assert measured > estimate / 100, f"saves {measured} bytes, estimated {estimate:.0f}: that says nothing"
    assert measured <= estimate, f"saves {measured} bytes, estimated at most {estimate:.0f}"


@pytest.mark.parametrize("length", [1, 2, 5, 8])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_bytes_saved_are_within_the_estimate(function, length):
    law_estimate_covers(FUNCTIONS[function].build(length), D, length, torch.float64)


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
    law_estimate_covers(WIDE[function](length).float(), 16 if "narrow" in function else 100, length, torch.float32)


def test_an_estimate_that_is_off_is_found():
    class Hides(nn.Module):
        def forward(self, x):
            return (x[..., None] * torch.ones(500)).sin().sum((1, 2))

    with pytest.raises(AssertionError, match="estimated at most"):
        law_estimate_covers(Hides(), D, 2, torch.float64)


def test_chunks_save_less():
    layer = pooling("tuples_2", "tuple_mlp_tanh")
    sets = distinct_sets((30,) * 4)
    sets.values.requires_grad_()
    whole = saved_bytes(lambda: layer(sets), list(layer.parameters()))
    chunked = JanossyPooling(layer.f, Tuples(2), Gather(whole // 20))
    law_saves_no_more_than(whole / 5, lambda: chunked(sets))


def test_cost_counts():
    f = pooling("tuples_2", "tuple_mlp").f
    assert flops_per_row(f, 2) == 2 * 2 * 4 * 2 * D  # an upper estimate: the first layer sees both elements at once
    assert Gather().cost(f, Tuples(2), distinct_sets((4, 3))).flops == (12 + 6) * flops_per_row(f, 2)
    assert Gather().cost(lambda x: x.sum(1), Tuples(2), distinct_sets((4,))).flops == 0
    assert Gather().cost(f, AllPermutations(), distinct_sets(())).bytes == 0


@pytest.mark.parametrize("reduce", ["mean", "sum", "max", "logmeanexp", None])
def test_dropout_under_recomputation_is_consistent(reduce):
    """Gradients are those of the forward pass that was drawn: they equal finite differences with the same seed."""
    f = nn.Sequential(nn.Flatten(), nn.Linear(2 * D, 6), nn.Dropout(0.5), nn.Linear(6, 3))
    layer = JanossyPooling(f, Tuples(2), Gather(budget_for(2, f)), reduce)
    sets = distinct_sets((3, 3))

    def run(values):
        torch.manual_seed(9)
        result = layer(sets.with_values(values))
        return result if reduce else result.values

    assert len(run(sets.values)) > 0 and layer.training
    assert torch.autograd.gradcheck(run, sets.values.clone().requires_grad_())


@pytest.mark.parametrize("evaluator", [Gather(), Gather(1)], ids=["whole", "chunked"])
def test_recomputation_uses_the_weights_of_forward(evaluator):
    """As under functional_call (of an ensemble, of a meta-learner), whose weights are gone again by backward."""
    f = TupleMLP(2, D, 4)
    layer = JanossyPooling(f, Tuples(2), evaluator)
    weights = {name: (p.detach() + 1).requires_grad_() for name, p in layer.named_parameters()}
    result = functional_call(layer, weights, (distinct_sets((4,)),)).sum()
    gradients = torch.autograd.grad(result, list(weights.values()))
    f.load_state_dict({name.removeprefix("f."): p for name, p in weights.items()})
    expected = torch.autograd.grad(layer(distinct_sets((4,))).sum(), list(f.parameters()))
    for got, want in zip(gradients, expected, strict=True):
        close(got, want)


def test_weights_changed_before_backward_are_an_error():
    layer = JanossyPooling(TupleMLP(2, D, 4, 3), Tuples(2), Gather(1))
    result = layer(distinct_sets((4,))).sum()
    with torch.no_grad():
        layer.f.output.weight.zero_()
    with pytest.raises(RuntimeError, match=r"weight output\.weight was modified in place.*call backward before"):
        result.backward()


def peak_bytes(run) -> int:
    """The most that tensors allocated by ``run()`` take at one time."""
    run()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiled:
        run()
    changes = [event for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = accumulate(event.nbytes() for event in sorted(changes, key=lambda event: event.start_ns()))
    return max(held)


@pytest.mark.parametrize("function", ["tuple_mlp", "gru", "lstm", "transformer"])
def test_the_peak_is_within_the_budget(function):
    """Forward and backward, positions and temporaries included."""
    budget = 2**21
    sets = distinct_sets((60,) * 12)
    sets.values.requires_grad_()
    f = pooling("tuples_2", function).f
    whole, chunked = (JanossyPooling(f, Tuples(2), Gather(b)) for b in (2**30, budget))
    assert peak_bytes(lambda: whole(sets).sum().backward()) > 2 * budget
    assert peak_bytes(lambda: chunked(sets).sum().backward()) <= budget
