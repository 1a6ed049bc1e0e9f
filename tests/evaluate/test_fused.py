"""Fused: one step of autograd for projections and means, whatever depends on what; long sets; threads."""

from itertools import product

import pytest
import torch
from torch import nn

from janossy import Combinations, JanossyPooling, Ragged, Spectral, TupleMLP, Tuples
from janossy.evaluate import Fused
from tests.examples import D, distinct_sets
from tests.laws import close, law_parity, value_and_gradients

pytestmark = pytest.mark.usefixtures("float64")

EVALUATORS = {"fused": Fused(), "spectral": Spectral(tolerance=1e-13, enumerate_up_to=0)}
each_evaluator = pytest.mark.parametrize("evaluator", EVALUATORS.values(), ids=EVALUATORS)


@each_evaluator
def test_elements_that_depend_on_the_weights(evaluator):
    """A recurrence with shared weights has such: their gradients, and those of the gradients, count each path once."""
    f, sets = TupleMLP(2, D, 4, out_features=D), distinct_sets((3, 0, 4))
    results = []
    for e in (evaluator, "gather"):
        values = sets.values.clone().requires_grad_()
        wanted = [values, *f.parameters()]
        h = (values @ f.hidden[0].weight[:D, :D]).tanh() + f.hidden[0].bias[:D]
        once = torch.autograd.grad(
            JanossyPooling(f, Tuples(2), evaluate=e)(sets.with_values(h)).sin().sum(), wanted, create_graph=True
        )
        penalty = sum(x.square().sum() for x in once)
        results.append([*once, *torch.autograd.grad(penalty, wanted, allow_unused=True, materialize_grads=True)])
    for got, want in zip(*results, strict=True):
        close(got, want)


@each_evaluator
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("needed", [n for n in product((False, True), repeat=3) if any(n)])
def test_only_some_gradients_are_wanted(evaluator, needed, create_graph):
    """By elements, first weight and first bias."""
    f, sets = TupleMLP(2, D, 4), distinct_sets((3, 0, 1))
    results = []
    for e in (evaluator, "gather"):
        values = sets.values.clone().requires_grad_(needed[0])
        f.hidden[0].weight.requires_grad_(needed[1])
        f.hidden[0].bias.requires_grad_(needed[2])
        result = JanossyPooling(f, Combinations(2), evaluate=e)(sets.with_values(values)).square().sum()
        of_all = (values, f.hidden[0].weight, f.hidden[0].bias)
        wanted = [x for x, needs in zip(of_all, needed, strict=True) if needs]
        results.append(torch.autograd.grad(result, wanted, create_graph=create_graph))
    for got, want in zip(*results, strict=True):
        close(got, want)


@each_evaluator
def test_a_first_layer_without_bias(evaluator):
    f = TupleMLP(2, D, 4, out_features=3)
    f.hidden[0] = nn.Linear(2 * D, 4, bias=False)
    law_parity(
        JanossyPooling(f, Tuples(2), evaluate=evaluator),
        JanossyPooling(f, Tuples(2), evaluate="gather"),
        distinct_sets(),
    )


@each_evaluator
def test_parametrised_weights(evaluator):
    f = TupleMLP(2, D, 4, out_features=3)
    nn.utils.parametrizations.weight_norm(f.hidden[0])
    law_parity(
        JanossyPooling(f, Tuples(2), evaluate=evaluator),
        JanossyPooling(f, Tuples(2), evaluate="gather"),
        distinct_sets(),
    )


@each_evaluator
def test_weights_changed_before_backward_are_an_error(evaluator):
    layer = JanossyPooling(TupleMLP(2, D, 4), Tuples(2), evaluate=evaluator)
    values = distinct_sets((4,)).values.requires_grad_()
    result = layer(Ragged.from_sizes(values, (4,))).sum()
    with torch.no_grad():
        layer.f.hidden[0].weight.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward()


@each_evaluator
def test_append_size(evaluator):
    f = TupleMLP(2, D + 1, 4)
    first, second = (JanossyPooling(f, Tuples(2), evaluate=e, append_size=True) for e in (evaluator, "gather"))
    law_parity(first, second, distinct_sets())


@each_evaluator
def test_keys_order_the_elements(evaluator):
    """Increasing tuples of the order of the keys, and not of the elements."""
    f, sets, keys = TupleMLP(2, D, 4), distinct_sets(seed=1), distinct_sets(seed=2)
    got, want = (JanossyPooling(f, Combinations(2), evaluate=e)(sets, keys=keys) for e in (evaluator, "gather"))
    close(got, want)
    assert not torch.allclose(got, JanossyPooling(f, Combinations(2), evaluate="gather")(sets))


@pytest.mark.usefixtures("worth_a_thread")
@pytest.mark.parametrize("num_threads", [1, 2])
@each_evaluator
def test_threads_change_nothing(evaluator, num_threads):
    """At sets worth several threads: the same items, computed in the same order, by any of them."""
    f, sets = TupleMLP(3, D, 40, out_features=2), distinct_sets((60, 0, 1, 50, 7))
    before = torch.get_num_threads()
    expected = value_and_gradients(JanossyPooling(f, Combinations(3), evaluate="gather"), sets)
    try:
        torch.set_num_threads(num_threads)
        for got, want in zip(
            value_and_gradients(JanossyPooling(f, Combinations(3), evaluate=evaluator), sets), expected, strict=True
        ):
            close(got, want)
        assert torch.get_num_threads() == num_threads
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("orderings", [Tuples(2), Combinations(2)])
def test_relu_pairs_by_sorting(orderings, dtype):
    """Sorting is cheaper than 300² tuples here; in float32 to a few roundings of numbers of about 3."""
    f, sets = TupleMLP(2, D, 3, activation="relu"), distinct_sets((300, 0, 5, 1))
    expected = value_and_gradients(JanossyPooling(f, orderings, evaluate="gather"), sets)
    tolerance = 1e-12 if dtype == torch.float64 else 3e-6
    results = value_and_gradients(JanossyPooling(f.to(dtype), orderings, evaluate="fused"), sets.to(dtype))
    for got, want in zip(results, expected, strict=True):
        assert got.dtype == dtype
        close(got.double(), want, atol=tolerance, rtol=tolerance)
