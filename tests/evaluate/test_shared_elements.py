"""Elements that several sets share: places in a table are the elements themselves, in value and gradient."""

from dataclasses import replace

import pytest
import torch

from janossy import Ragged, TupleMLP, Tuples
from janossy.evaluate import MEMORY_BUDGET, Gather, Problem
from tests.examples import (
    APPLICABLE_REDUCED,
    EVALUATORS,
    MEMORY_BUDGETS,
    ORDERINGS,
    D,
    distinct_sets,
    drawing,
    generator,
    pooling,
)
from tests.laws import close

pytestmark = pytest.mark.usefixtures("float64")

FUNCTIONS = (
    "tuple_mlp_gelu",
    "tuple_mlp_one_layer_tanh",
    "tuple_mlp_one_layer_relu",
    "tuple_product_of_mlps",
    "gru",
    "lstm_deep_bidirectional",
)

SIZES = (4, 0, 1, 3)
PLACES = (2, 0, 2, 4, 1, 3, 2, 0)
"""Repeated within a set and across sets; one element of the table is in no set, and sets are smaller than k."""

CASES = [
    case
    for case in APPLICABLE_REDUCED
    if case[1] in FUNCTIONS and case[3] in ("mean", "sum", None) and not ORDERINGS[case[0]].weighs_rows
]


def law_shared(orderings, f, evaluator, reduce, keys, sizes=SIZES, places=PLACES, memory_budget=MEMORY_BUDGET):
    """Checks that the result and its gradients by table and parameters equal those of elements put in place."""
    sets = Ragged.from_sizes(torch.tensor(places, dtype=torch.long), sizes)
    found = []
    for shares in (True, False):
        table = torch.randn(6, D, generator=generator(1)).requires_grad_()
        gathered = sets.with_values(table[sets.values])
        problem = Problem(
            f, orderings, gathered, keys=keys, reduce=reduce, memory_budget=memory_budget, **drawing(orderings)
        )
        if shares:
            problem = replace(problem, elements=sets, keys=keys, table=table)
        assert evaluator.why_not_applicable(problem) is None
        result = evaluator(problem)
        result = result.values if isinstance(result, Ragged) else result
        weights = torch.linspace(-1, 1, result.numel()).view_as(result)
        total = (result * weights).sum() + 0 * table.sum()  # which no set may need
        wanted = (table, *f.parameters())
        found.append([result.detach(), *torch.autograd.grad(total, wanted, materialize_grads=True)])
    for got, want in zip(*found, strict=True):
        close(got, want)


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize(("ordering", "function", "evaluator", "reduce"), CASES)
def test_places_are_the_elements(ordering, function, evaluator, reduce, keyed):
    """Orders are of the elements, or of keys that say another order."""
    budget = MEMORY_BUDGETS.get(evaluator, MEMORY_BUDGET)
    keys = distinct_sets(SIZES) if keyed else None
    f = pooling(ordering, function).f
    law_shared(ORDERINGS[ordering], f, EVALUATORS[evaluator], reduce, keys, memory_budget=budget)


@pytest.mark.parametrize("sizes", [(4, 4), SIZES, (8,), (0, 0), ()], ids=str)
@pytest.mark.parametrize("width", [1, 9])
@pytest.mark.parametrize("reduce", ["mean", "sum"])
@pytest.mark.parametrize("evaluator", ["fused", "spectral"])
def test_single_elements(sizes, width, reduce, evaluator):
    """Counted, where the activations are many: σ of every value once, times its share of each set."""
    f = TupleMLP(1, D, width, out_features=3)
    law_shared(Tuples(1), f, EVALUATORS[evaluator], reduce, None, sizes, PLACES[: sum(sizes)])


@pytest.mark.parametrize("sizes", [(), (0, 0)])
@pytest.mark.parametrize("ordering", ["tuples_2", "canonical", "sampled_4_seeded"])
def test_no_places(ordering, sizes):
    f = pooling(ordering, "gru").f
    for name in ("gather", "packed"):
        law_shared(ORDERINGS[ordering], f, EVALUATORS[name], "mean", None, sizes, ())


def test_each_distinct_element_is_projected_once(monkeypatch):
    """The table's purpose: as many projections as it has rows, however many places there are."""
    seen, linear = [], torch.nn.functional.linear
    monkeypatch.setattr(torch.nn.functional, "linear", lambda x, *rest: seen.append(len(x)) or linear(x, *rest))
    sets = Ragged.from_sizes(torch.tensor(PLACES * 10), (16,) * 5)
    problem = Problem(pooling("sampled_4", "gru").f, ORDERINGS["sampled_4"], sets, table=torch.randn(6, D))
    EVALUATORS["packed"](problem)
    assert seen == [6]


def test_the_law_can_fail():
    class Misplaces(Gather):
        def __call__(self, problem):
            if problem.table is not None:
                problem = replace(problem, table=problem.table.roll(1, 0))
            return super().__call__(problem)

    with pytest.raises(AssertionError):
        law_shared(Tuples(2), pooling("tuples_2", "tuple_mlp").f, Misplaces(), "mean", None)
