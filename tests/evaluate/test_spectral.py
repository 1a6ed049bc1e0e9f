"""Spectral: its tolerance through the layer, sets beyond enumeration; that auto keeps float64 precise."""

from itertools import product
from math import perm

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from janossy import Combinations, JanossyPooling, Ragged, Spectral, TupleMLP, TupleProduct, Tuples
from janossy.evaluate import EVALUATORS, Fused, Problem
from janossy.kernels.expansions import EXPANSIONS
from tests.examples import D, distinct_sets
from tests.laws import close, value_and_gradients

pytestmark = pytest.mark.usefixtures("float64")


def results(f, orderings, evaluator, sets):
    """Returns the averages of the activations, and the gradients of their sum by the elements."""
    values = sets.values.detach().clone().requires_grad_()
    result = JanossyPooling(f, orderings, evaluate=evaluator)(sets.with_values(values))
    return result.detach(), torch.autograd.grad(result.sum(), values)[0]


def law_within_tolerance(f, orderings, tolerance, evaluator, sets, rounding=1e-12):
    """Checks that each average is within the tolerance, and so is each slope by an element's k·H pre-activations."""
    got, want = (results(f, orderings, e, sets) for e in (evaluator, "gather"))
    weight = f.hidden[0].weight.detach().abs()
    assert (got[0] - want[0]).abs().max() <= tolerance + rounding
    assert (got[1] - want[1]).abs().max() <= (tolerance + rounding) * weight.sum()


@settings(max_examples=60)
@given(data=st.data())
def test_the_tolerance(data):
    """Over activations, sizes, scales from 1e-3 to 30, k, orderings and tolerances, by the series alone."""
    k = data.draw(st.integers(1, 4))
    sizes = data.draw(st.lists(st.integers(k, 7), min_size=1, max_size=3))
    scale = 10 ** data.draw(st.floats(-3, 1.5))
    tolerance = 10.0 ** -data.draw(st.integers(1, 10))
    orderings = data.draw(st.sampled_from([Tuples(k), Combinations(k)]))
    torch.manual_seed(data.draw(st.integers(0, 9)))
    f = TupleMLP(k, D, 4, activation=data.draw(st.sampled_from(sorted(EXPANSIONS))))
    with torch.no_grad():
        f.hidden[0].weight.mul_(scale)
    law_within_tolerance(f, orderings, tolerance, Spectral(tolerance, enumerate_up_to=0), distinct_sets(sizes))


def test_the_law_of_the_tolerance_can_fail():
    torch.manual_seed(0)
    f, coarse = TupleMLP(2, D, 4), Spectral(1e-2, enumerate_up_to=0)
    law_within_tolerance(f, Tuples(2), 1e-2, coarse, distinct_sets((6, 7)))
    with pytest.raises(AssertionError):
        law_within_tolerance(f, Tuples(2), 1e-6, coarse, distinct_sets((6, 7)))


IN_FLOAT32 = [
    pytest.param(activation, marks=() if activation in ("tanh", "gelu", "sine") else pytest.mark.only_all)
    for activation in sorted(EXPANSIONS)
]
"""One of each kind of series: the others differ by numbers, which the tests in float64 see."""


@pytest.mark.parametrize("activation", IN_FLOAT32)
def test_the_default_in_float32(activation):
    """1e-5, and a few roundings of pre-activations up to about 10, whose unit is 1e-6 there."""
    f = TupleMLP(3, D, 6, activation=activation)
    sets = distinct_sets((30, 12, 0, 2))
    assert JanossyPooling(f, Tuples(3), evaluate=Spectral(enumerate_up_to=0))(sets).dtype == torch.float64
    want = results(f, Tuples(3), "gather", sets)
    got = results(f.float(), Tuples(3), Spectral(enumerate_up_to=0), sets.to(torch.float32))
    assert got[0].dtype == torch.float32
    assert (got[0] - want[0]).abs().max() < 1e-5 + 4e-6
    assert (got[1] - want[1]).abs().max() < (1e-5 + 4e-6) * f.hidden[0].weight.abs().sum()


@pytest.mark.parametrize("activation", ["tanh", "softplus"])
def test_auto_keeps_float64_precise(activation):
    """Its series have tolerance 1e-10: here by the sizes auto would choose, value and gradients within 1e-9."""
    f, sets = TupleMLP(3, D, 5, out_features=2, activation=activation), distinct_sets((50, 3, 0, 40))
    layer = JanossyPooling(f, Tuples(3))
    assert layer.explain(sets).startswith("spectral (the cheapest that applies)")
    expected = value_and_gradients(JanossyPooling(f, Tuples(3), evaluate="gather"), sets)
    errors = [
        (got - want).abs().max().item() for got, want in zip(value_and_gradients(layer, sets), expected, strict=True)
    ]
    assert max(errors) < 1e-9
    close(
        JanossyPooling(f, Tuples(3), evaluate="spectral")(sets),
        JanossyPooling(f, Tuples(3), evaluate=Spectral(1e-10))(sets),
    )
    coarse = value_and_gradients(JanossyPooling(f, Tuples(3), evaluate=Spectral(1e-5)), sets)
    assert (coarse[0] - expected[0]).abs().max() > 1e-9  # so the series was used, and 1e-5 would not do


def of_two_kinds(f, x, y, num_x, num_y):
    """Returns the mean over the ordered triples of num_x elements x and num_y elements y, by counting."""
    total = 0.0
    for kinds in product((0, 1), repeat=3):
        num = perm(num_x, kinds.count(0)) * perm(num_y, kinds.count(1))
        total = total + num / perm(num_x + num_y, 3) * f(torch.stack([(x, y)[kind] for kind in kinds])[None])[0]
    return total


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_set_beyond_enumeration(dtype):
    """2.7e10 triples: auto does not enumerate them, and gather says why it cannot."""
    f = TupleMLP(3, D, 8, out_features=2).to(dtype)
    x, y = torch.randn(2, D, dtype=dtype)
    sets = Ragged.from_sets([torch.cat((x.expand(1000, D), y.expand(2000, D))), x[None]])
    layer = JanossyPooling(f, Tuples(3))
    assert layer.explain(sets).startswith("spectral")
    result = layer(sets)
    tolerance = 1e-9 if dtype == torch.float64 else 3e-5
    close(result[0], of_two_kinds(f, x, y, 1000, 2000), atol=tolerance, rtol=0)
    result.sum().backward()
    assert f.hidden[0].weight.grad.isfinite().all()
    for evaluator in ("gather", "projected"):
        with pytest.raises(ValueError, match=r"a set of 3000 needs 26973006000.*over max_rows=10000000"):
            JanossyPooling(f, Tuples(3), evaluate=evaluator)(sets)


def test_counting_two_kinds_is_the_mean():
    f, (x, y) = TupleMLP(3, D, 4, out_features=2), torch.randn(2, D)
    sets = Ragged.from_sets([torch.cat((x.expand(3, D), y.expand(4, D)))])
    close(of_two_kinds(f, x, y, 3, 4), JanossyPooling(f, Tuples(3), evaluate="gather")(sets)[0])


# What auto chooses


def random_sets(*sizes, dtype=torch.float32):
    return Ragged.from_sizes(torch.randn(sum(sizes), D, dtype=dtype), sizes)


CHOICES = [
    (TupleMLP(2, D, 30), (3,), ("fused", "gather", "spectral")),
    (TupleMLP(3, D, 30), (1000,), ("spectral",)),
    (TupleMLP(3, D, 30), (1000, 0, 2, 5), ("spectral",)),
    (TupleMLP(2, D, 30, activation="relu"), (1000,), ("fused",)),
    (TupleMLP(2, D, (30, 30)), (100,), ("gather", "projected")),
    (TupleProduct(3, D, 30), (100,), ("permanent",)),
    (TupleProduct(2, D, 30, g=lambda j: nn.Sequential(nn.Linear(D, 30), nn.Dropout())), (100,), ("gather",)),
]


@pytest.mark.parametrize(("f", "sizes", "expected"), CHOICES)
def test_auto_chooses(f, sizes, expected):
    """Far from where two evaluators cost the same, so that no other machine would choose otherwise."""
    text = JanossyPooling(f.float(), Tuples(f.k)).explain(random_sets(*sizes))
    assert text.split(" ", 1)[0] in expected, text


def test_auto_chooses_anew_when_more_applies():
    """The choice is kept from call to call, but not beyond a dropout or a hook."""
    sets = random_sets(300)  # 2.7e7 triples
    g = [nn.Sequential(nn.Linear(D, 4), nn.Dropout()) for _ in range(3)]
    layer = JanossyPooling(TupleProduct(3, D, 4, g=g).float(), Tuples(3))
    with pytest.raises(ValueError, match="max_rows"):
        layer(sets)
    assert layer.eval()(sets).isfinite().all()
    with pytest.raises(ValueError, match="max_rows"):
        layer.train()(sets)
    layer = JanossyPooling(TupleMLP(3, D, 4).float(), Tuples(3))
    hook = layer.f.register_forward_hook(lambda *_: None)
    with pytest.raises(ValueError, match="max_rows"):
        layer(sets)
    hook.remove()
    assert layer(sets).isfinite().all() and layer.explain(sets).startswith("spectral")


@pytest.mark.parametrize(("f", "sizes", "expected"), CHOICES)
def test_explain_lists_the_cheapest_first_and_refusals_last(f, sizes, expected):
    layer, sets = JanossyPooling(f.float(), Tuples(f.k)), random_sets(*sizes)
    first, *lines = layer.explain(sets).split("\n")
    names = [line.split(":")[0].strip() for line in lines]
    assert sorted(names) == sorted(evaluator.name for evaluator in EVALUATORS)
    assert names[0] == first.split(" ", 1)[0]
    refused = ["does not apply: " in line for line in lines]
    assert refused == sorted(refused) and any(refused)
    milliseconds = [float(line.split(", ")[-1].removesuffix(" ms")) for line in lines if " ms" in line]
    assert len(milliseconds) == refused.count(False)
    assert milliseconds == sorted(milliseconds)


@pytest.mark.parametrize("evaluator", ["fused", "spectral", "permanent"])
def test_by_name(evaluator):
    f = TupleProduct(2, D, 3) if evaluator == "permanent" else TupleMLP(2, D, 3)
    layer, sets = JanossyPooling(f, Tuples(2), evaluate=evaluator), distinct_sets()
    assert layer.explain(sets).startswith(f"{evaluator} (as asked)")
    assert f"evaluate={evaluator!r}" in repr(layer)
    close(layer(sets), JanossyPooling(f, Tuples(2), evaluate="gather")(sets))


def test_costs_count_what_is_computed():
    """Permanent and spectral grow with n, fused with the tuples."""
    costs = {}
    for n in (200, 400):
        problem = Problem(TupleMLP(3, D, 10), Tuples(3), random_sets(n))
        of_product = Problem(TupleProduct(3, D, 10), Tuples(3), random_sets(n))
        costs[n] = [e.cost(p).activations for e, p in ((Fused(), problem), (Spectral(), problem))]
        costs[n].append(
            JanossyPooling(of_product.f, Tuples(3), evaluate="permanent").choice.asked.cost(of_product).activations
        )
    fused, spectral, permanent = (b / a for a, b in zip(costs[200], costs[400], strict=True))
    assert fused == pytest.approx(perm(400, 3) / perm(200, 3))
    assert 1.5 < spectral <= 2
    assert permanent == pytest.approx(2)
