"""An output for each k-tuple: rows and their positions belong together, and follow the elements."""

import pytest
import torch

from janossy import (
    AllPermutations,
    Canonical,
    Combinations,
    Distinct,
    JanossyPooling,
    Ragged,
    Sampled,
    TupleMLP,
    Tuples,
)
from tests.examples import D, distinct_sets, drawing, tied_sets
from tests.laws import close

pytestmark = pytest.mark.usefixtures("float64")

SIZES = (3, 0, 4, 1, 3)


def layer(orderings):
    torch.manual_seed(0)
    return JanossyPooling(TupleMLP(orderings.k, D, 4), orderings)


@pytest.mark.parametrize("make", [distinct_sets, tied_sets])
@pytest.mark.parametrize(
    "orderings",
    [Tuples(1), Tuples(2), Tuples(3), Combinations(2), Canonical(k=2), Sampled(3, k=2, seed=1), Distinct(3, k=2)],
)
def test_rows_are_f_of_the_elements_at_their_positions(orderings, make):
    pooling, sets = layer(orderings), make(SIZES)
    rows, positions = pooling.rows(sets, **drawing(orderings)), pooling.positions(sets, **drawing(orderings))
    assert rows.sizes == positions.sizes
    for x, y, places in zip(sets, rows, positions, strict=True):
        close(y, pooling.f(torch.cat((x, torch.zeros(1, D)))[places]))


@pytest.mark.parametrize("orderings", [Tuples(2), Tuples(3)])
def test_outputs_follow_the_elements(orderings):
    pooling, x = layer(orderings), distinct_sets((4,)).values
    order = torch.tensor([2, 0, 3, 1])
    sets, shuffled = Ragged.from_sizes(x, [4]), Ragged.from_sizes(x[order], [4])
    places = [tuple(row.tolist()) for row in pooling.positions(sets)[0]]
    outputs = dict(zip(places, pooling.rows(sets)[0], strict=True))
    for row, output in zip(pooling.positions(shuffled)[0], pooling.rows(shuffled)[0], strict=True):
        close(output, outputs[tuple(order[row].tolist())])


def test_whole_sets_have_no_tuples():
    with pytest.raises(ValueError, match="positions expects orderings of k elements"):
        JanossyPooling(lambda x: x.sum(1), AllPermutations()).positions(distinct_sets())
