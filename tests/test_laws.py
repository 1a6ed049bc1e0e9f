"""Every ordering × function × evaluator × reduce obeys the laws."""

from math import comb, factorial, perm

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel

from janossy import Ragged
from tests.examples import (
    APPLICABLE,
    APPLICABLE_REDUCED,
    EVALUATORS,
    EXACT,
    FITTING,
    INVARIANT,
    ORDERINGS,
    REDUCES,
    SEEDED,
    SORTED,
    D,
    applies,
    distinct_sets,
    pooling,
    tied_sets,
)
from tests.laws import (
    law_batch_mates,
    law_count,
    law_definition,
    law_gradients,
    law_invariant,
    law_parity,
    law_rows_are_orderings,
)

pytestmark = pytest.mark.usefixtures("float64")

sizes = st.lists(st.integers(0, 4), max_size=5)


@pytest.mark.parametrize(("ordering", "function", "evaluator", "reduce"), APPLICABLE_REDUCED)
def test_definition(ordering, function, evaluator, reduce):
    with torch.no_grad():
        law_definition(pooling(ordering, function, evaluator, reduce), tied_sets((3, 0, 1, 2, 4)))


@pytest.mark.parametrize("function", ["tuple_mlp", "gru"])
@pytest.mark.parametrize("ordering", ORDERINGS)
def test_definition_at_five_elements(ordering, function):
    if (ordering, function) in FITTING:
        law_definition(pooling(ordering, function), distinct_sets())


@pytest.mark.parametrize("make", [distinct_sets, tied_sets])
@pytest.mark.parametrize("ordering", ORDERINGS)
def test_count_and_rows(ordering, make):
    law_count(ORDERINGS[ordering], make())
    law_rows_are_orderings(ORDERINGS[ordering], make())


@pytest.mark.parametrize("ordering", ORDERINGS)
@given(sizes=sizes)
def test_count_and_rows_at_any_sizes(ordering, sizes):
    law_count(ORDERINGS[ordering], distinct_sets(sizes))
    law_rows_are_orderings(ORDERINGS[ordering], distinct_sets(sizes))


def test_counts_need_no_enumeration():
    assert ORDERINGS["all_permutations"].num_rows(1000) == factorial(1000)
    assert ORDERINGS["tuples_3"].num_rows(10**9) == perm(10**9, 3)  # Prop. 2.1
    assert ORDERINGS["combinations_2"].num_rows(10**9) == comb(10**9, 2)
    assert ORDERINGS["canonical"].num_rows(10**9) == 1
    assert ORDERINGS["sampled_4"].num_rows(10**9) == 4


@pytest.mark.parametrize(
    ("ordering", "function", "reduce"),
    [(*case, r) for case in FITTING if case[0] in INVARIANT for r in REDUCES if r and applies(*case, "gather", r)],
)
def test_invariance(ordering, function, reduce):
    for sets in (distinct_sets(), tied_sets()):
        law_invariant(pooling(ordering, function, reduce=reduce), sets, bitwise=ordering in SORTED)


@pytest.mark.parametrize("ordering", INVARIANT)
@given(data=st.data(), dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16]))
def test_invariance_with_duplicates_and_ties(ordering, data, dtype):
    n = data.draw(st.integers(0, 4))
    element = st.lists(st.sampled_from([-1.0, 0.0, 0.5]), min_size=D, max_size=D)
    x = torch.tensor(data.draw(st.lists(element, min_size=n, max_size=n)), dtype=dtype).reshape(n, D)
    y = x[data.draw(st.permutations(range(n)))]
    layer = pooling(ordering, "gru").to(dtype)
    a, b = (layer(Ragged.from_sets([z])) for z in (x, y))
    assert a.dtype == dtype
    tolerance = 0 if ordering in SORTED else 4 * torch.finfo(dtype).eps
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("ordering", "function", "evaluator"), [triple for triple in APPLICABLE if triple[0] in EXACT + SEEDED]
)
def test_independence_of_batch_mates(ordering, function, evaluator):
    law_batch_mates(pooling(ordering, function, evaluator), distinct_sets((3, 0, 4, 1, 2)))


@pytest.mark.parametrize(
    ("ordering", "function", "evaluator", "reduce"), [case for case in APPLICABLE_REDUCED if case[2] != "gather"]
)
def test_parity_of_evaluators(ordering, function, evaluator, reduce):
    sets = distinct_sets((3, 0, 1, 2, 3))
    law_parity(pooling(ordering, function, evaluator, reduce), pooling(ordering, function, "gather", reduce), sets)


# torch's fused attention is differentiable once only; its plain one as often as you like.
@pytest.mark.parametrize(("ordering", "function"), FITTING)
@pytest.mark.cover(1)  # rows know no f, and f no orderings
def test_gradients(ordering, function):
    with sdpa_kernel(SDPBackend.MATH):
        law_gradients(pooling(ordering, function), distinct_sets((3, 0, 1)), twice=True)


def recomputed():
    """Yields every ordering with two functions; the others, which a recomputation calls alike, in all cases only."""
    for ordering, function in FITTING:
        if function in ("tuple_mlp", "gru"):
            yield ordering, function
        elif ordering == "sampled_4_first_2":
            yield pytest.param(ordering, function, marks=pytest.mark.only_all)


@pytest.mark.parametrize(("ordering", "function"), list(recomputed()))
@pytest.mark.cover(1)  # rows know no f, and f no orderings
def test_gradients_when_recomputed(ordering, function):
    with sdpa_kernel(SDPBackend.MATH):
        law_gradients(pooling(ordering, function, "gather_each_row_alone"), distinct_sets((2, 0)), twice=True)


@pytest.mark.parametrize(
    ("ordering", "function", "evaluator"), [triple for triple in APPLICABLE if "gather" not in triple[2]]
)
@pytest.mark.cover(1)  # the first derivatives of every pair are compared with gather's, by test_parity_of_evaluators
def test_gradients_without_rows(ordering, function, evaluator):
    with sdpa_kernel(SDPBackend.MATH):
        law_gradients(pooling(ordering, function, evaluator), distinct_sets((3, 0, 1)), twice=True)


def test_every_evaluator_applies_somewhere():
    assert {evaluator for _, _, evaluator in APPLICABLE} == set(EVALUATORS)


@pytest.mark.parametrize("reduce", REDUCES)
@pytest.mark.parametrize("evaluator", ["gather", "gather_each_row_alone", "projected", "projected_a_few_rows_at_once"])
def test_gradients_of_each_reduce(evaluator, reduce):
    law_gradients(pooling("tuples_2", "tuple_mlp_tanh", evaluator, reduce), distinct_sets((2, 0)), twice=True)
