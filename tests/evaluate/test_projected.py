"""Projected: what it refuses, what it never does; copies of weights, ensembles, precision. Parity is a law."""

import pytest
import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap

from janossy import GRU, AllPermutations, Distinct, JanossyPooling, Ragged, Sampled, TupleMLP, TupleProduct, Tuples
from janossy.evaluate import Choice, Gather, Problem, Projected
from tests.examples import D, Rows, distinct_sets, pooling
from tests.laws import close, law_parity, pooled, value_and_gradients

pytestmark = pytest.mark.usefixtures("float64")


def hooked():
    f = TupleMLP(2, D, 4)
    f.register_forward_hook(lambda module, inputs, output: output + 1)
    return f


REFUSED = [
    (GRU(D, 3), Tuples(2), "GRU declares no additive structure"),
    (lambda x: x.sum(1), Tuples(2), "function declares no additive structure"),
    (
        hooked(),
        Tuples(2),
        "TupleMLP has a hook, or a forward or layer of its own, that would not run or would run otherwise",
    ),
    (TupleMLP(2, D, 4), Tuples(3), "f takes rows of k = 2 elements, and these orderings have k = 3"),
    (TupleMLP(2, D, 4), AllPermutations(), "f takes rows of k = 2 elements, and these orderings have k = None"),
    (TupleMLP(2, D, 4), Sampled(3), "f takes rows of k = 2 elements, and these orderings have k = None"),
]


@pytest.mark.parametrize(("f", "orderings", "reason"), REFUSED)
def test_refusals_are_explained_and_auto_takes_rows(f, orderings, reason):
    problem = Problem(f, orderings, distinct_sets())
    explanation = Choice("auto").explain(problem)
    assert explanation.split(" (the cheapest")[0] in ("gather", "distinct")
    assert f"\n  projected: does not apply: {reason}" in explanation
    assert Projected().why_not_applicable(problem) == reason


def test_a_hook_is_not_bypassed():
    f = hooked()
    plain = TupleMLP(2, D, 4)
    plain.load_state_dict(f.state_dict())
    close(JanossyPooling(f, Tuples(2))(distinct_sets()), JanossyPooling(plain, Tuples(2))(distinct_sets()) + 1)


def test_whole_sets_of_another_size_get_the_function_s_own_error():
    with pytest.raises(ValueError, match=r"this TupleMLP expects rows of shape \(T, 2, 2\); got .*Match its k"):
        JanossyPooling(TupleMLP(2, D, 4), AllPermutations())(distinct_sets())


@pytest.mark.parametrize("f", [TupleMLP(2, D, 4), TupleProduct(2, D, 4)])
def test_another_k_is_refused_as_the_layer_is_made(f):
    with pytest.raises(
        ValueError, match=r"the same k for f and orderings; got Tuple\w+ of k=2 over Tuples\(k=3.* of k=3. Give both"
    ):
        JanossyPooling(f, Tuples(3))
    with pytest.raises(ValueError, match=r"of k=2 over Distinct\(.* of k=1. Give both"):
        JanossyPooling(f, Tuples(2), orderings_train=Distinct(5, k=1))


@pytest.mark.parametrize("features", [(3,), (), (2, 2)])
def test_elements_that_do_not_fit(features):
    sets = Ragged.from_sizes(torch.zeros(5, *features), [3, 2])
    with pytest.raises(ValueError, match=r"this TupleMLP expects rows of shape \(T, 2, 2\); got \(5, 2.*in_features"):
        JanossyPooling(TupleMLP(2, D, 4), Tuples(2), evaluate="projected")(sets)


def test_asked_for_a_function_that_is_not_additive():
    with pytest.raises(ValueError, match="projected does not apply: GRU declares no additive structure; use"):
        JanossyPooling(GRU(D, 3), Tuples(2), evaluate="projected")(distinct_sets())


@pytest.mark.parametrize("reduce", ["mean", "sum", "max", "logmeanexp", None])
def test_batches_without_elements(reduce):
    f = TupleMLP(2, D, (4, 5), out_features=3)
    projected, gather = (
        layer if reduce else Rows(layer)
        for layer in (
            JanossyPooling(f, Tuples(2), evaluate=each, reduce=reduce or "mean") for each in ("projected", "gather")
        )
    )
    for sizes in ((0,), (0, 0)):
        law_parity(projected, gather, distinct_sets(sizes))
    close(pooled(projected, distinct_sets(())), pooled(gather, distinct_sets(())))


def test_each_row_alone():
    law_parity(
        JanossyPooling(pooling("tuples_2", "tuple_mlp_gelu").f, Tuples(2), evaluate="projected", memory_budget=1),
        pooling("tuples_2", "tuple_mlp_gelu"),
        distinct_sets(),
    )


def test_parametrised_weights():
    f = TupleMLP(2, D, 4, out_features=3)
    nn.utils.parametrizations.weight_norm(f.hidden[0])
    for budget in (2**30, 1):
        projected = JanossyPooling(f, Tuples(2), evaluate="projected", memory_budget=budget)
        law_parity(projected, JanossyPooling(f, Tuples(2), evaluate="gather"), distinct_sets())


def test_append_size_and_a_generator():
    f, sets = TupleMLP(2, D + 1, 4), distinct_sets()
    for orderings in (Tuples(2), Sampled(3, k=2)):
        first, second = (JanossyPooling(f, orderings, evaluate=e, append_size=True) for e in ("projected", "gather"))
        law_parity(first, second, sets)


def test_an_ensemble_by_vmap():
    sets = distinct_sets((3, 0, 1, 3))
    layers = [JanossyPooling(TupleMLP(2, D, (4, 3), out_features=2), Tuples(2), evaluate="projected") for _ in range(3)]
    weights, _ = stack_module_state(layers)

    def run(weights, values):
        return functional_call(layers[0], weights, (sets.with_values(values),))

    values = torch.randn(3, *sets.values.shape)
    close(vmap(run, (0, None))(weights, sets.values), torch.stack([layer(sets) for layer in layers]))
    each = torch.stack([layer(sets.with_values(x)) for layer, x in zip(layers, values, strict=True)])
    close(vmap(run)(weights, values), each)
    gradients = vmap(torch.func.grad(lambda w, x: run(w, x).sin().sum()))(weights, values)
    expected = torch.autograd.grad(each.sin().sum(), [p for layer in layers for p in layer.parameters()])
    for i, (name, got) in enumerate(gradients.items()):
        close(got, torch.stack(expected[i :: len(gradients)]), atol=1e-12, rtol=1e-12)
        assert name in weights


@pytest.mark.parametrize("budget", [2**30, 1])
def test_gradients_flow_to_what_elements_came_from(budget):
    """A learned h before pooling, and elements that need no gradient."""
    h = nn.Linear(3, D)
    raw = distinct_sets((4, 1)).with_values(torch.randn(5, 3))
    f = TupleMLP(2, D, 4)
    for make in (lambda: h(raw.values), lambda: h(raw.values).detach()):
        gradients = []
        for evaluator in (Projected(), Gather()):
            layer = JanossyPooling(f, Tuples(2), evaluate=evaluator, memory_budget=budget)
            result = layer(raw.with_values(make())).square().sum()
            gradients.append(torch.autograd.grad(result, [*f.parameters(), *h.parameters()], allow_unused=True))
        for got, want in zip(*gradients, strict=True):
            assert (got is None) == (want is None)
            if want is not None:
                close(got, want)


@pytest.mark.parametrize("budget", [2**30, 20_000])
def test_half_precision_accumulates_in_float32(budget):
    """Over hundreds of chunks too, in value and gradient; no less precise than gather."""
    f = pooling("tuples_2", "tuple_mlp").f
    sets = distinct_sets((150,))
    expected = value_and_gradients(JanossyPooling(f, Tuples(2), evaluate="gather"), sets)
    layer = JanossyPooling(f, Tuples(2), evaluate="projected", memory_budget=budget).to(torch.bfloat16)
    for got, want in zip(value_and_gradients(layer, sets.to(torch.bfloat16)), expected, strict=True):
        assert got.dtype == torch.bfloat16
        assert (got.double() - want).norm() <= 0.02 * want.norm()
