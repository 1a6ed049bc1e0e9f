"""Gradients of long rows, which vanish below the smallest normal number."""

import platform

import pytest
import torch

from janossy import GRU, LSTM, RNN
from janossy.evaluate.cells.forest import paths
from janossy.evaluate.cells.layers import run
from janossy.evaluate.on_kernels import on_kernels
from janossy.functions.structure import recurrent

SMALLEST = torch.finfo(torch.float32).tiny
LENGTH = 700


@pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64") or not on_kernels(torch.zeros(1)),
    reason="kernels that leave denormal numbers as they are, as on other processors, or none",
)
@pytest.mark.parametrize("cell", [RNN, GRU, LSTM])
def test_vanished_gradients_are_zero_and_the_thread_keeps_its_mode(cell):
    torch.manual_seed(0)
    f = cell(3, 20)
    exact = cell(3, 20).double()
    exact.load_state_dict({name: weight.double() for name, weight in f.state_dict().items()})
    projections = torch.randn(LENGTH, len(f.get_parameter("weight_ih_l0")))
    gradients = []
    for each in (f, exact):
        x = projections.to(each.get_parameter("weight_ih_l0").dtype, copy=True).requires_grad_()
        run(each, ([x], paths([torch.arange(LENGTH)[None]])), recurrent(each)).sum().backward()
        gradients.append([x.grad, each.get_parameter("weight_hh_l0").grad])
    ours, theirs = gradients

    sizes = ours[0].abs()
    vanished = theirs[0].abs() < SMALLEST
    assert vanished.any() and (theirs[0][vanished] != 0).any()
    assert not ((sizes > 0) & (sizes < SMALLEST)).any()
    assert torch.tensor(SMALLEST) / 2 > 0  # elsewhere denormal numbers are numbers
    for mine, its in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.double(), its, rtol=1e-4, atol=1e-5)
