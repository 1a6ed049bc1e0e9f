"""MonotoneLattice: it is multilinear interpolation (scipy's), and increases whatever its weights; so do sets of it."""

from itertools import product

import numpy as np
import pytest
import torch
from scipy.interpolate import RegularGridInterpolator
from torch import nn

from janossy import JanossyNetwork, JanossyPooling, Ragged, Tuples
from janossy.functions import MonotoneLattice
from tests.laws import close

pytestmark = pytest.mark.usefixtures("float64")

INCREASING = {"none": [], "one": [1], "some": [0, 2], "all": [3, 2, 1, 0]}


def lattice(increasing, scale=3.0) -> MonotoneLattice:
    f = MonotoneLattice(4, 2, increasing=increasing, num_keypoints=5, low=-2.0, high=1.5)
    for weight in f.parameters():
        nn.init.normal_(weight, std=scale)
    return f


@pytest.mark.parametrize("name", INCREASING)
def test_is_scipys_interpolation_of_calibrated_inputs(name):
    f = lattice(INCREASING[name])
    corners = f.corners().detach().numpy()
    grid = np.empty((2, 2, 2, 2, 2))
    for bits in product((0, 1), repeat=4):
        grid[bits] = corners[sum(bit << j for j, bit in enumerate(bits))]
    keypoints = np.linspace(-2.0, 1.5, 5)
    at_keypoints = f.calibrated(torch.as_tensor(keypoints)[:, None].expand(5, 4)).detach().numpy()
    x = torch.randn(50, 4) * 2
    calibrated = np.stack([np.interp(x[:, j], keypoints, at_keypoints[:, j]) for j in range(4)], 1)
    close(f.calibrated(x), torch.as_tensor(calibrated))
    close(f(x), torch.as_tensor(RegularGridInterpolator([(0, 1)] * 4, grid)(calibrated.clip(0, 1))))


@pytest.mark.parametrize("name", INCREASING)
def test_increases_by_construction(name):
    for _ in range(20):
        f = lattice(INCREASING[name])
        x, rise = torch.randn(200, 4) * 2, torch.zeros(200, 4)
        rise[:, f.increasing] = torch.rand(200, len(f.increasing)) * 3
        assert (f(x + rise) - f(x) >= -1e-12).all()
        others = [j for j in range(4) if j not in f.increasing]
        if others:  # and so this can fail
            rise[:, others] = 1
            assert (f(x + rise) - f(x) < -1e-3).any()


def test_calibrators_rise_from_0_to_1():
    f = lattice([0, 2])
    ends = f.calibrated(torch.tensor([[-2.0] * 4, [1.5] * 4, [-9.0] * 4, [9.0] * 4]))
    close(ends[:, [0, 2]], torch.tensor([[0.0, 0.0], [1.0, 1.0]] * 2))
    close(ends[2:], ends[:2])


def test_every_strictly_monotone_lattice_is_one():
    """The corners of max(x, y) + (x + y)/10, which no sum of rising parts has: its mixed difference is negative."""
    f = MonotoneLattice(2, 1, increasing=[0, 1])
    wanted = torch.tensor([0.0, 1.1, 1.1, 1.2])
    with torch.no_grad():
        f.lowest.zero_()
        f.steps.copy_(torch.tensor([1.1, 1.1, 0.1])[:, None].expm1().log())
    close(f.corners()[:, 0], wanted)


def test_a_network_of_sets_increases_too():
    """In the chosen columns of any element, at any weights; and by adding nothing else."""
    for _ in range(20):
        rho = nn.Sequential(nn.Sigmoid(), MonotoneLattice(3, 1, increasing=[0, 1, 2], low=0, high=1))
        network = JanossyNetwork(None, JanossyPooling(MonotoneLattice(3, 3, increasing=[0, 2]), Tuples(1)), rho)
        for weight in network.parameters():
            nn.init.normal_(weight, std=2.0)
        sets = Ragged.from_sizes(torch.randn(12, 3), [4, 1, 7])
        risen = sets.values.clone()
        risen[torch.rand(12) < 0.5] += torch.tensor([0.7, 0.0, 0.3])
        assert (network(sets.with_values(risen)) - network(sets) >= -1e-12).all()


def test_what_is_not_a_number_stays_so():
    y = MonotoneLattice(2, 1, increasing=[0])(torch.tensor([[torch.nan, 0.0], [0.5, 0.0], [torch.inf, -torch.inf]]))
    assert y[0].isnan().all() and y[1:].isfinite().all()
