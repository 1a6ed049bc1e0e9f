"""Recurrences under autocast to bfloat16: products rounded, all else in float32, on the compiled kernels."""

import numpy as np
import pytest
import torch

from janossy import GRU, LSTM, RNN, AllPermutations, JanossyPooling, Ragged, Sampled
from janossy.evaluate import Packed, SharedPrefixes
from janossy.evaluate.cells import half, layers
from janossy.evaluate.cells.forest import Shape
from janossy.evaluate.cells.half import HalfCells, are_paths
from janossy.kernels import load

pytestmark = pytest.mark.skipif(load() is None, reason="needs the compiled kernels")

SIZES = (3, 0, 1, 9, 4, 4, 0, 7, 2, 12)
ROUNDED = 2**-8
"""Half a step of bfloat16, of a number of order one."""


@pytest.fixture
def runs(monkeypatch):
    """How often the compiled way was taken; its blocks are of three rows."""
    taken = []

    class Spy:
        @staticmethod
        def apply(*arguments):
            taken.append(arguments)
            return HalfCells.apply(*arguments)

    monkeypatch.setattr(layers, "HalfCells", Spy)
    monkeypatch.setattr(half, "BLOCK", 3)
    return taken


def layer_of(f, width=20, budget=2**30, **options):
    torch.manual_seed(0)
    return JanossyPooling(f(5, width, **options), Sampled(4, seed=1), Packed(), memory_budget=budget)


def values_and_gradients(layer, autocast):
    """The result, and its gradients by elements and weights, relative to the norm of each in float32."""
    values = torch.randn(sum(SIZES), 5, generator=torch.Generator().manual_seed(2)).requires_grad_()
    weights = torch.randn(len(SIZES), 1, generator=torch.Generator().manual_seed(3))
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        result = layer(Ragged.from_sizes(values, SIZES))
    inputs = [values, *layer.parameters()]
    return [result.detach(), *torch.autograd.grad((result * weights).sum(), inputs)]


def errors(found, exact):
    return [float((a.float() - b).norm() / b.norm()) for a, b in zip(found, exact, strict=True)]


@pytest.mark.parametrize("budget", [2**30, 1])
@pytest.mark.parametrize("options", [{}, {"num_layers": 2}, {"bidirectional": True}])
@pytest.mark.parametrize("f", [RNN, GRU, LSTM])
def test_values_and_gradients_are_float32s_rounded(f, options, budget, runs, monkeypatch):
    layer = layer_of(f, budget=budget, **options)
    exact = values_and_gradients(layer, autocast=False)
    assert not runs
    found = errors(values_and_gradients(layer, autocast=True), exact)
    assert runs
    monkeypatch.setattr(layers, "are_paths", lambda shape: False)
    in_torch = errors(values_and_gradients(layer, autocast=True), exact)
    assert max(found) < 1.2 * max(in_torch)
    assert max(found) < 4 * ROUNDED or "num_layers" in options  # whose first layer goes by torch
    assert max(errors([1.1 * each for each in exact], exact)) > 4 * ROUNDED


@pytest.mark.parametrize("f", [RNN, GRU, LSTM])
def test_without_gradients_the_values_are_the_same(f, runs):
    layer = layer_of(f)
    expected = values_and_gradients(layer, autocast=True)[0]
    values = torch.randn(sum(SIZES), 5, generator=torch.Generator().manual_seed(2))
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert layer(Ragged.from_sizes(values, SIZES)).equal(expected)
    assert len(runs) == 2


@pytest.mark.parametrize("block", [1, 5, 1024])
def test_blocks_of_any_size_give_the_same(block, runs, monkeypatch):
    layer = layer_of(LSTM)
    expected = values_and_gradients(layer, autocast=True)
    monkeypatch.setattr(half, "BLOCK", block)
    assert max(errors(values_and_gradients(layer, autocast=True), expected)) < ROUNDED


def shape_of(parents, ends, levels, trees):
    return Shape(*(np.array(each) for each in (parents, ends, levels, trees)))


@pytest.mark.parametrize(
    ("shape", "are"),
    [
        (shape_of([-1, -1, 0], [2, 1], [0, 2, 3], [0, 2]), True),
        (shape_of([-1, -1, 0], [2, 1, -1], [0, 2, 3], [0, 2]), True),  # a row of length 0
        (shape_of([-1, -1, 0], [1, 2], [0, 2, 3], [0, 2]), False),  # rows in another order than their first cells
        (shape_of([-1, -1, 1], [0, 2], [0, 2, 3], [0, 2]), False),  # the longer one comes last
        (shape_of([-1, 0, 0], [1, 2], [0, 1, 3], [0, 2]), False),  # a shared beginning
        (shape_of([-1, 0], [1, 0], [0, 1, 2], [0, 2]), False),  # a row that is another's beginning
    ],
)
def test_paths_are_told_from_other_forests(shape, are):
    assert are_paths(shape) is are


def test_gradients_can_be_differentiated(runs):
    layer = layer_of(LSTM)
    values = torch.randn(sum(SIZES), 5).requires_grad_()

    def penalty(autocast):
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            result = layer(Ragged.from_sizes(values, SIZES))
        (gradient,) = torch.autograd.grad(result.square().sum(), values, create_graph=True)
        return torch.autograd.grad(gradient.square().sum(), values)[0]

    exact = penalty(autocast=False)
    assert max(errors([penalty(autocast=True)], [exact])) < 8 * ROUNDED
    assert runs


@pytest.mark.parametrize(
    ("f", "orderings", "evaluator"),
    [
        (LSTM(5, 4), Sampled(4, seed=1), Packed()),  # fewer units than a vector
        (LSTM(5, 20, unrolled=True), Sampled(4, seed=1), Packed()),
        (LSTM(5, 20), AllPermutations(), SharedPrefixes()),  # rows that share cells
    ],
)
def test_what_has_no_kernels_or_no_paths_goes_by_torch(f, orderings, evaluator, runs):
    layer = JanossyPooling(f, orderings, evaluator)
    with torch.autocast("cpu", torch.bfloat16):
        result = layer(Ragged.from_sizes(torch.randn(7, 5), (4, 3)))
    assert result.isfinite().all() and not runs
