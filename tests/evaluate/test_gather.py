"""Gather: what f sees, batches without elements, what f may return."""

import pytest
import torch

from janossy import Canonical, Combinations, JanossyPooling, Ragged, Tuples
from janossy.evaluate import Gather
from tests.evaluate.spy import Spy
from tests.examples import (
    FITTING,
    ORDERINGS,
    D,
    distinct_sets,
    pooling,
)
from tests.laws import close

pytestmark = pytest.mark.usefixtures("float64")


@pytest.mark.parametrize("ordering", ORDERINGS)
def test_f_never_sees_padding_nor_empty_rows(ordering):
    orderings = ORDERINGS[ordering]
    sets = distinct_sets((0, 3, 1, 4, 0))
    spy = Spy(pooling("tuples_2", "gru").f)
    JanossyPooling(spy, orderings, evaluate="gather")(sets.with_values(sets.values.abs() + 1))
    rows = [row for x in spy.seen for row in x]
    k = orderings.k
    assert all(x.shape[0] > 0 and x.shape[1] > 0 for x in spy.seen)
    empty = 0 if k is None else sets.sizes.count(0)
    assert len(rows) == sum(orderings.num_rows(n) for n in sets.sizes if n > 0) + empty * orderings.num_rows(0)
    real = sum(int((row != 0).all(1).sum()) for row in rows)
    assert real == sum(orderings.num_rows(n) * min(n, k or n) for n in sets.sizes)
    if k is None:
        assert all((x != 0).all() for x in spy.seen)


@pytest.mark.parametrize("sizes", [(), (0,), (0, 0)])
@pytest.mark.parametrize("reduce", ["mean", "sum", "max", "logmeanexp", None])
@pytest.mark.parametrize(
    ("ordering", "function"),
    [(o, f) for o, f in FITTING if f in ("tuple_mlp", "gru", "transformer") and not ORDERINGS[o].weighs_rows],
)
def test_batches_without_elements(ordering, function, reduce, sizes):
    layer = pooling(ordering, function, reduce=reduce)
    result = layer(distinct_sets(sizes))
    width = layer(distinct_sets((2,)))[0].shape[-1]
    assert len(result) == len(sizes)
    if reduce is None:
        result = result.values
        assert len(result) == len(sizes) * layer.orderings.num_rows(0)
    assert result.shape[1] == width
    if getattr(layer.orderings, "k", None) is None:
        assert not result.any()


@pytest.mark.parametrize("reduce", ["mean", "max"])
def test_an_f_that_is_a_plain_function_of_integers(reduce):
    sets = Ragged.from_sets([torch.tensor([3, 1, 2]), torch.tensor([5])])
    result = JanossyPooling(lambda x: (x[:, 0] - x[:, -1])[:, None].double(), Canonical(), reduce=reduce)(sets)
    assert result.tolist() == [[-2.0], [0.0]]


@pytest.mark.parametrize(
    ("f", "got"),
    [
        (lambda x: x, r"\(6, 2, 2\)"),
        (lambda x: x.sum(1)[:3], r"\(3, 2\)"),
        (lambda x: x.sum((1, 2)), r"\(6,\)"),
        (lambda x: (x, x), "tuple"),
    ],
)
def test_an_f_that_returns_the_wrong_thing(f, got):
    with pytest.raises(ValueError, match=rf"f must map rows \(6, 2, 2\) to \(6, c\); got {got}. Reduce the sequence"):
        JanossyPooling(f, Tuples(2))(distinct_sets((3,)))


def test_the_gradient_of_a_maximum_is_shared_among_ties():
    """Chunked or not, tied rows share one gradient: its sum is the same, though chunks share it out differently."""
    for budget in (2**30, 1):
        values = torch.ones(3, D).requires_grad_()
        layer = JanossyPooling(
            lambda x: x.sum((1, 2))[:, None], Combinations(1), evaluate=Gather(), reduce="max", memory_budget=budget
        )
        layer(Ragged.from_sizes(values, [3])).sum().backward()
        close(values.grad.sum(0), torch.ones(D))
