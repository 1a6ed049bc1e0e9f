"""The series with its slopes in torch operations, by which calls go until kernels are there."""

from itertools import combinations, permutations

import pytest
import torch

from janossy.evaluate.tuples import operators, series_slopes
from janossy.evaluate.tuples.operators import SERIES_MEANS
from janossy.evaluate.tuples.series_means import series_means
from janossy.functions.structure import ACTIVATIONS
from janossy.kernels.compilation import NotCompiled
from janossy.kernels.expansions import EXPANSIONS
from tests.laws import close

pytestmark = pytest.mark.usefixtures("float64")

SIZES = (6, 0, 3, 6, 2)
TOLERANCE = 1e-8


def by_definition(p, increasing, activation):
    """Returns the means of SIZES' sets, by brute force."""
    k, means = p.shape[1], []
    for x in p.split(SIZES):
        n = min(len(x), k)
        tuples = list((combinations if increasing else permutations)(range(len(x)), n))
        values = [ACTIVATIONS[activation](sum(x[i, j] for j, i in enumerate(row))) for row in tuples if row]
        means.append(torch.stack(values).mean(0) if values else p.new_zeros(p.shape[2]))
    return torch.stack(means)


def draw(k, reach=2.0):
    return (reach * torch.randn(sum(SIZES), k, 3)).requires_grad_()


def with_slopes(p, increasing, activation):
    once = series_slopes.MeanWithSlopes.apply
    return series_means(p, SIZES, increasing, activation, TOLERANCE, 0, mean_of_series=once)


@pytest.mark.parametrize("increasing", [False, True])
@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("activation", EXPANSIONS)
def test_values_and_gradients_are_those_of_the_definition(activation, k, increasing):
    p, weights = draw(k), torch.randn(len(SIZES), 3)
    found, expected = with_slopes(p, increasing, activation), by_definition(p, increasing, activation)
    close(found, expected, atol=TOLERANCE, rtol=0)
    gradients = (torch.autograd.grad((means * weights).sum(), p)[0] for means in (found, expected))
    close(*gradients, atol=10 * TOLERANCE, rtol=0)
    with torch.no_grad():
        close(with_slopes(p, increasing, activation), found, atol=1e-14, rtol=0)


@pytest.mark.parametrize("increasing", [False, True])
@pytest.mark.parametrize("piece", [1, 16 * 6 * 2, 16 * 6 * 2 * 3 * 2])
def test_pieces_of_sets_and_of_units_change_nothing(piece, increasing, monkeypatch):
    p = draw(2)
    whole = with_slopes(p, increasing, "gelu")
    monkeypatch.setattr(series_slopes, "PIECE", piece)
    in_pieces = with_slopes(p, increasing, "gelu")
    close(in_pieces, whole, atol=1e-2 * TOLERANCE, rtol=0)
    close(*(torch.autograd.grad(x.sum(), p)[0] for x in (in_pieces, whole)), atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("increasing", [False, True])
def test_second_derivatives_while_a_kernel_is_compiled(increasing, monkeypatch):
    def is_being_compiled(name, *_):
        raise NotCompiled(name)

    monkeypatch.setattr(operators, "means_and_slopes", is_being_compiled)
    p, offsets = draw(2), torch.tensor((0, *SIZES)).cumsum(0)
    second = []
    for means in (
        SERIES_MEANS.means(p, offsets, increasing, "tanh", TOLERANCE, 0),
        by_definition(p, increasing, "tanh"),
    ):
        (first,) = torch.autograd.grad(means.square().sum(), p, create_graph=True)
        second.append(torch.autograd.grad(first.square().sum(), p)[0])
    close(*second, atol=1e-5, rtol=1e-5)
