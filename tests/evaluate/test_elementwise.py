"""Elementwise: one call of f for k = 1, whatever the sizes; the laws hold it to gather."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from janossy import Combinations, JanossyNetwork, JanossyPooling, Ragged, Sampled, Tuples
from janossy.evaluate.reduce import reduce_segments
from janossy.functions.structure import maps_features
from tests.examples import D, distinct_sets
from tests.laws import close
from tests.oracle import REDUCTIONS

pytestmark = pytest.mark.usefixtures("float64")


class Counted(nn.Linear):
    """A linear layer that counts its calls."""

    calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x).tanh()


@pytest.mark.parametrize("orderings", [Tuples(1), Combinations(1), Sampled(3, k=1)])
def test_sizes_that_differ_are_one_call(orderings):
    layer, sets = JanossyPooling(Counted(D, 3), orderings), distinct_sets((3, 1, 5, 0, 2, 9, 4))
    assert layer.explain(sets).startswith("gather" if orderings.draws else "elementwise")
    layer.f.calls = 0
    layer(sets).sum().backward()
    assert layer.f.calls == 1


def test_a_table_is_read_once_by_row():
    class Rows(nn.Linear):
        def forward(self, x):
            shapes.append(tuple(x.shape))
            return super().forward(x)

    shapes: list[tuple[int, ...]] = []
    network = JanossyNetwork(nn.Embedding(4, D), JanossyPooling(Rows(D, 3), Tuples(1)), None)
    ids = Ragged.from_sizes(torch.arange(20) % 4, [7, 0, 13])
    got, f = network(ids), network.pooling.f
    assert shapes == [(5, 1, D)]  # the zero vector behind four rows
    want = [nn.functional.linear(network.h(x), f.weight, f.bias).mean(0) if len(x) else f.bias for x in ids]
    close(got, torch.stack(want))


def test_dropout_draws_for_every_element_of_a_table():
    """A kept element gives 2, a dropped one 0: equal ids of a set would all give the same."""
    f = nn.Sequential(nn.Flatten(), nn.Dropout(0.5))
    network = JanossyNetwork(nn.Embedding(2, 1), JanossyPooling(f, Tuples(1)), None)
    nn.init.ones_(network.h.weight)
    rows = network.rows(Ragged.from_sizes(torch.zeros(40, dtype=torch.long), [20, 20])).values
    assert set(rows.flatten().tolist()) == {0, 2}


def test_batch_norm_sees_every_element_of_a_table():
    f = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(D))
    network = JanossyNetwork(nn.Embedding(4, D), JanossyPooling(f, Tuples(1)), None)
    ids = Ragged.from_sizes(torch.tensor([0] * 9 + [1, 2, 2]), [5, 7])
    each = network.h(ids.values)
    normed = (each - each.mean(0)) / (each.var(0, correction=0) + f[1].eps).sqrt()
    close(network(ids), torch.stack([x.mean(0) for x in ids.with_values(normed)]))
    close(f[1].running_mean, 0.1 * each.mean(0))


class Twice(nn.Linear):
    """A layer of a user's own, which reads the dimensions of a row."""

    def forward(self, x):
        return super().forward(x) * (x.dim() - 1)


def with_hook(shapes: list[tuple[int, ...]]) -> nn.Module:
    f = nn.Sequential(nn.Linear(D, 3), nn.Tanh())
    f[1].register_forward_pre_hook(lambda module, given: shapes.append(tuple(given[0].shape)))
    return f


@pytest.mark.parametrize(
    "f",
    [nn.Linear(D, 3), nn.Sequential(nn.Linear(D, 4), nn.ReLU(), nn.Linear(4, 3)), nn.Sequential(nn.LayerNorm((1, D)))],
    ids=["linear", "sequential", "of_whole_rows"],
)
def test_modules_of_features_agree_with_gather(f):
    sets = distinct_sets((3, 1, 0, 4))
    f.double()
    close(JanossyPooling(f, Tuples(1))(sets), JanossyPooling(f, Tuples(1), evaluate="gather")(sets))


def test_modules_of_a_users_own_read_rows():
    shapes: list[tuple[int, ...]] = []
    sets = distinct_sets((2, 3))
    for f in (Twice(D, 3), nn.Sequential(Twice(D, 3)), with_hook(shapes)):
        close(JanossyPooling(f, Tuples(1))(sets), JanossyPooling(f, Tuples(1), evaluate="gather")(sets))
        assert not maps_features(f)
    assert shapes == [(5, 1, 3)] * 2


def test_a_result_for_each_position_is_refused_for_longer_rows():
    with pytest.raises(ValueError, match="f must map rows"):
        JanossyPooling(nn.Linear(D, 3), Tuples(2))(distinct_sets())


numbers = st.sampled_from([-2.0, 0.0, 0.5, 1e3, -torch.inf])


@given(sets=st.lists(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=4), min_size=1, max_size=5))
@pytest.mark.parametrize("reduce", ["mean", "sum", "max", "logmeanexp"])
def test_segments_by_hand(reduce, sets):
    """Values with ties and infinities, and gradients, as of each set by itself."""
    rows = Ragged.from_sets([torch.tensor(x, dtype=torch.float64) for x in sets])
    values = rows.values.requires_grad_()
    got = reduce_segments(reduce, rows)
    want = torch.stack([REDUCTIONS[reduce](x) for x in rows])
    close(got, want)
    if values.isfinite().all():
        weights = torch.linspace(-1, 1, got.numel()).view_as(got)
        close(*(torch.autograd.grad((y * weights).sum(), values)[0] for y in (got, want)))
