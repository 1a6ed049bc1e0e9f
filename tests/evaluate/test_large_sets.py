"""Sums over sets of very many elements, in float32, beside float64."""

from copy import deepcopy

import pytest
import torch
from torch import nn

from janossy import JanossyPooling, Ragged, Tuples
from janossy.evaluate.reduce import OF_ROWS, reduce_segments
from janossy.nn import PowerMean, SetNorm, SoftmaxMean
from janossy.nn.encoder.moments import moments_within

LARGE = (300_000, 3, 0, 5_000)


def large_sets():
    """A column of equal numbers, whose sum loses the same in every step, and a column of random ones."""
    values = torch.rand(sum(LARGE), 2, generator=torch.Generator().manual_seed(0))
    values[:, 0] = 0.1
    return Ragged.from_sizes(values, LARGE)


@pytest.mark.parametrize("reduce", OF_ROWS)
def test_reductions(reduce):
    rows = large_sets()[[0, 1, 3]]
    got, expected = reduce_segments(reduce, rows), reduce_segments(reduce, rows.double())
    torch.testing.assert_close(got.double(), expected, rtol=1e-4, atol=1e-5)


def test_the_maximum_of_equal_numbers_is_that_number():
    rows = Ragged.from_sizes(torch.full((13, 1), 0.1), [3, 10])
    for reduce in ("max", "min"):
        assert torch.equal(reduce_segments(reduce, rows), torch.full((2, 1), 0.1))


def test_a_small_set_is_added_as_before_beside_a_large_one():
    rows = large_sets()
    assert torch.equal(reduce_segments("sum", rows)[1:3], reduce_segments("sum", rows[1:3]))


def test_gradients():
    values = torch.rand(20_003, 1, requires_grad=True)
    sums = reduce_segments("sum", Ragged.from_sizes(values, [10_000, 0, 10_003]))
    (got,) = torch.autograd.grad((sums * torch.tensor([[1.0], [2.0], [3.0]])).sum(), values)
    assert torch.equal(got, torch.cat((torch.ones(10_000, 1), torch.full((10_003, 1), 3.0))))


@pytest.mark.parametrize(
    "layer",
    [
        SetNorm(2),
        JanossyPooling(nn.Identity(), Tuples(1), reduce=(SoftmaxMean(1.0), PowerMean(2.0))),
    ],
    ids=["SetNorm", "JanossyPooling"],
)
def test_layers(layer):
    sets = large_sets()
    with torch.no_grad():
        got, expected = layer(sets), deepcopy(layer).double()(sets.double())
    got, expected = (out.values if isinstance(out, Ragged) else out for out in (got, expected))
    torch.testing.assert_close(got.double(), expected, rtol=1e-3, atol=1e-4)


def test_moments_of_slots():
    sets, queries = large_sets(), torch.ones(len(LARGE), 2, 1)
    keys = torch.zeros(len(sets.values), 1)
    got, expected = (moments_within(queries.to(x.dtype), keys.to(x.dtype), x) for x in (sets, sets.double()))
    torch.testing.assert_close(got.double(), expected, rtol=1e-4, atol=1e-4)
