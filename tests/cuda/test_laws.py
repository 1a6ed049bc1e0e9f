"""Layers on the kernels of Triton, in float32, against brute force in float64: gather on the CPU."""

from copy import deepcopy

import pytest
import torch
from torch.func import functional_call, grad, stack_module_state, vmap

from janossy import Combinations, JanossyPooling, Spectral, TupleMLP, TupleProduct, Tuples
from tests.cuda.conftest import DEVICE
from tests.examples import D, distinct_sets, tied_sets
from tests.laws import law_batch_mates, law_invariant, value_and_gradients

FUNCTIONS = {
    "fused": lambda k: TupleMLP(k, D, 5, out_features=3, activation="gelu"),
    "permanent": lambda k: TupleProduct(k, D, 5, out_features=3),
    "spectral": lambda k: TupleMLP(k, D, 5, out_features=3, activation="cosine"),  # whose series is exact
}
EVALUATORS = sorted(FUNCTIONS)
OPTIONS = {"spectral": Spectral(enumerate_up_to=0)}
ORDERINGS = {"tuples": Tuples, "combinations": Combinations}
CLOSE = {"atol": 2e-6, "rtol": 2e-6}

each_evaluator = pytest.mark.parametrize("evaluator", EVALUATORS)
each_ordering = pytest.mark.parametrize("ordering", sorted(ORDERINGS))


def layers(evaluator, k=2, ordering="tuples", reduce="mean"):
    """Returns the layer under test, and brute force with the same weights in float64."""
    torch.manual_seed(0)
    layer = JanossyPooling(
        FUNCTIONS[evaluator](k), ORDERINGS[ordering](k), evaluate=OPTIONS.get(evaluator, evaluator), reduce=reduce
    )
    exact = JanossyPooling(deepcopy(layer.f).double(), layer.orderings, evaluate="gather", reduce=reduce)
    return layer.to(DEVICE), exact


def on_device(sets):
    return sets.to(DEVICE, torch.float32)


def exactly(sets):
    return sets.to(torch.float64)


def close(got, want, **tolerance):
    torch.testing.assert_close(got.double().cpu(), want.double(), **(tolerance or CLOSE))


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@each_ordering
@each_evaluator
def test_values_and_gradients_are_brute_force_s(evaluator, ordering, k):
    layer, exact = layers(evaluator, k, ordering)
    sets = exactly(distinct_sets((3, 0, 1, 5)))
    got, want = value_and_gradients(layer, on_device(sets)), value_and_gradients(exact, sets)
    assert len(got) == len(want) > 2
    for a, b in zip(got, want, strict=True):
        close(a, b)


@each_ordering
@each_evaluator
def test_sums_and_elements_that_are_equal(evaluator, ordering):
    layer, exact = layers(evaluator, 2, ordering, "sum")
    sets = exactly(tied_sets((4, 0, 3)))
    close(layer(on_device(sets)), exact(sets), atol=1e-5, rtol=1e-5)


@each_evaluator
def test_the_order_of_elements_and_other_sets_change_nothing(evaluator, monkeypatch):
    monkeypatch.setattr("tests.laws.EXACT", CLOSE)
    layer, _ = layers(evaluator)
    sets = on_device(distinct_sets((3, 0, 4)))
    law_invariant(layer, sets)
    law_batch_mates(layer, sets)


@each_evaluator
def test_a_gradient_penalty(evaluator):
    results = []
    for layer, move in zip(layers(evaluator), (on_device, exactly), strict=True):
        sets = move(distinct_sets((4, 0, 3)))
        values = sets.values.clone().requires_grad_()
        (slope,) = torch.autograd.grad(layer(sets.with_values(values)).sin().sum(), values, create_graph=True)
        results.append(torch.autograd.grad(slope.square().sum(), [values, *layer.parameters()], allow_unused=True))
    assert results[1][0].abs().max() > 1e-4
    for got, want in zip(*results, strict=True):
        if want is None:
            assert got is None or not got.any()
        else:
            close(got, want, atol=1e-5, rtol=1e-5)


@each_evaluator
def test_an_ensemble_by_vmap(evaluator):
    members = [layers(evaluator)[0] for _ in range(2)]
    with torch.no_grad():
        for p in members[1].parameters():
            p.mul_(1.5)
    weights, _ = stack_module_state(members)
    sets = on_device(distinct_sets((3, 0, 2)))

    def loss(weights):
        return functional_call(members[0], weights, (sets,)).sin().sum()

    got = vmap(grad(loss))(weights)
    for b in range(2):
        want = grad(loss)({name: p[b].detach() for name, p in weights.items()})
        for name in want:
            close(got[name][b], want[name].cpu())
