"""TupleFeatures: interactions of pairs, from the definition."""

from itertools import combinations
from math import ceil, pi, sqrt

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from janossy.functions import TupleFeatures
from tests.examples import generator
from tests.laws import close

pytestmark = pytest.mark.usefixtures("float64")

COLUMNS = {"differences": [2, 0], "absolute_differences": [1, 2], "products": [0, 3], "equal": [[3], [1, 3]]}
MEASURES = {"distances": [[1, 2], [0]], "units": {1: 0.5, 2: 2.0}, "periods": {2: 2 * pi}}


def by_definition(row: list[list[float]]) -> list[float]:
    """Computes what COLUMNS and MEASURES say of one row, in plain numbers."""
    found = []
    for x, y in combinations(row, 2):
        difference = [(a - b) * MEASURES["units"].get(c, 1.0) for c, (a, b) in enumerate(zip(x, y, strict=True))]
        difference[2] -= 2 * pi * ceil(difference[2] / (2 * pi) - 0.5)
        found += [difference[2], difference[0], abs(difference[1]), abs(difference[2]), x[0] * y[0], x[3] * y[3]]
        found += [float(x[3] == y[3]), float(x[3] == y[3] and x[1] == y[1])]
        found += [sqrt(difference[1] ** 2 + difference[2] ** 2), abs(difference[0])]
    return found


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_definition(k):
    rows = torch.randn(20, k, 4, generator=generator()) * 4
    rows[:, :, 3] = torch.randint(3, (20, k), generator=generator())  # a category
    rows[::2, :, 1] = 1.0
    features = TupleFeatures(k, 4, **COLUMNS, **MEASURES)
    assert features.out_features == 10 * k * (k - 1) // 2
    close(features(rows), torch.tensor([by_definition(row) for row in rows.tolist()]).view(20, -1))


@given(turns=st.integers(-3, 3), angle=st.floats(-3.1, 3.1), period=st.sampled_from([2 * pi, 360.0, 24.0]))
def test_angles_know_no_whole_turns(turns, angle, period):
    features = TupleFeatures(2, 1, differences=[0], distances=[[0]], periods={0: period})
    there = angle / (2 * pi) * period
    row = torch.tensor([[[there + turns * period], [0.0]]])
    close(features(row), torch.tensor([[there, abs(there)]]), atol=1e-9, rtol=0)


def test_half_a_turn_is_positive_and_float32_stays_in_range():
    features = TupleFeatures(2, 1, differences=[0], periods={0: 2.0})
    rows = torch.tensor([[[1.0], [0.0]], [[-1.0], [0.0]], [[3.0], [0.0]], [[0.0], [0.0]]])
    close(features(rows), torch.tensor([[1.0], [1.0], [1.0], [0.0]]))
    angles = TupleFeatures(2, 1, differences=[0], periods={0: 2 * pi})
    many = torch.randn(10_000, 2, 1, generator=generator(), dtype=torch.float32) * 100
    assert angles(many).dtype == torch.float32 and angles(many).abs().max() <= pi + 1e-4


def test_equal_elements_have_distance_zero_and_a_finite_gradient():
    x = torch.ones(3, 2, 4, requires_grad=True)
    TupleFeatures(2, 4, **COLUMNS, **MEASURES)(x).sum().backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"differences": 0}, TypeError, r"differences as a list of columns 0 … 2; got 0"),
        ({"products": [3]}, ValueError, r"products as a list of columns 0 … 2, those of an element; got \[3\]"),
        ({"absolute_differences": [True]}, TypeError, r"got \[True\]"),
        ({"equal": [0]}, TypeError, r"each of equal as a list of columns 0 … 2; got 0"),
        ({"distances": "ab"}, TypeError, r"distances as a list of lists of columns; got 'ab'"),
        ({"periods": [0]}, TypeError, r"periods as a dict of positive numbers, one per column; got \[0\]"),
        ({"periods": {0: 0.0}}, ValueError, r"positive numbers, one per column; got \{0: 0.0\}"),
        ({"periods": {0: float("nan")}}, ValueError, r"positive numbers"),
        ({"units": {5: 1.0}}, ValueError, r"the keys of units as a list of columns 0 … 2.*got \[5\]"),
        ({"units": {0: "x"}}, TypeError, r"positive numbers"),
    ],
)
def test_errors(arguments, error, message):
    with pytest.raises(error, match=message):
        TupleFeatures(2, 3, **arguments)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64], ids=str)
def test_elements_that_are_no_floats_are_an_error(dtype):
    with pytest.raises(ValueError, match=rf"expects elements in floating point; got {dtype}. Convert"):
        TupleFeatures(2, 1, differences=[0])(torch.zeros(3, 2, 1, dtype=dtype))
