"""The expansions of kernels/expansions.py keep their proved bounds, for values and slopes, at every range."""

from math import ceil, log, pi

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from janossy.kernels.expansions import ERF, EXPANSIONS, FAMILIES, LOG_COSH, T_ERF, T_TANH, TANH, margins, num_harmonics

PHI = {
    TANH: torch.tanh,
    T_TANH: lambda u: u * u.tanh(),
    LOG_COSH: lambda u: u.abs() + torch.log1p(torch.exp(-2 * u.abs())) - log(2),
    ERF: torch.erf,
    T_ERF: lambda u: u * torch.erf(u),
}
ODD = (TANH, ERF)
SIGMA = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "silu": torch.nn.functional.silu,
    "softplus": torch.nn.functional.softplus,
    "erf": torch.erf,
    "gelu": torch.nn.functional.gelu,
    "sine": torch.sin,
    "cosine": torch.cos,
}


def coefficients(family, omega, period):
    x = pi * omega / 2
    return {
        TANH: lambda: pi / period / x.sinh(),
        T_TANH: lambda: -(pi**2) / (2 * period) * x.cosh() / x.sinh() ** 2,
        LOG_COSH: lambda: -pi / period / x.sinh() / omega,
        ERF: lambda: 2 / (period * omega) * (-(omega**2) / 4).exp(),
        T_ERF: lambda: -(2 / omega**2 + 1) / period * (-(omega**2) / 4).exp(),
    }[family]()


def worst_errors(family, bound, tolerance, spared=0):
    """Returns the largest errors of value and slope on [−bound, bound], with ``spared`` harmonics fewer than asked."""
    delta, cut = margins(family, tolerance)
    period = (bound + delta) / 2
    omega = (2 * torch.arange(ceil(cut * period / pi) - spared, dtype=torch.float64) + 1) * pi / (2 * period)
    a = coefficients(family, omega, period)
    u = torch.linspace(-bound, bound, 2001, dtype=torch.float64, requires_grad=True)
    exact = PHI[family](u)
    (slope,) = torch.autograd.grad(exact.sum(), u)
    phase = u.detach()[:, None] * omega
    constant = {T_TANH: period, T_ERF: period, LOG_COSH: period - log(2)}.get(family, 0.0)
    value = constant + (phase.sin() if family in ODD else phase.cos()) @ a
    by_series = (phase.cos() if family in ODD else -phase.sin()) @ (a * omega)
    return (value - exact).abs().max().item(), (by_series - slope).abs().max().item()


@pytest.mark.parametrize("family", FAMILIES)
@given(
    bound=st.one_of(st.floats(1e-6, 1.0), st.floats(1.0, 40.0), st.floats(40.0, 3000.0)),
    digits=st.floats(1.0, 11.0),
)
def test_bounds_hold(family, bound, digits):
    tolerance = 10.0**-digits
    rounding = 1e-14 * (1 + bound)
    assert max(worst_errors(family, bound, tolerance)) <= tolerance + rounding


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("tolerance", [1e-3, 1e-6, 1e-9])
def test_bounds_are_not_wasteful(family, tolerance):
    """The test above can fail: without half of the harmonics it does; and the bound is within ten of the truth."""
    delta, cut = margins(family, tolerance)
    num = ceil(cut * (8.0 + delta) / 2 / pi)
    assert max(worst_errors(family, 8.0, tolerance, spared=num // 2)) > tolerance
    assert max(worst_errors(family, 8.0, tolerance)) > tolerance / 10


@pytest.mark.parametrize("activation", EXPANSIONS)
def test_every_activation_is_its_family(activation):
    e = EXPANSIONS[activation]
    t = torch.linspace(-5, 5, 101, dtype=torch.float64)
    phi = PHI.get(e.family, torch.sin if e.odd else torch.cos)
    torch.testing.assert_close(e.alpha + e.beta * t + e.gamma * phi(e.kappa * t), SIGMA[activation](t))
    assert e.odd == torch.allclose(phi(t), -phi(-t))
    assert e.gamma <= 1 and e.gamma * e.kappa <= 1


def test_harmonics_grow_with_the_range_and_slowly_with_the_tolerance():
    assert num_harmonics("tanh", 1e-4, 8.0) <= 20
    assert num_harmonics("tanh", 1e-4, 800.0) / num_harmonics("tanh", 1e-4, 400.0) == pytest.approx(2, rel=0.03)
    assert num_harmonics("tanh", 1e-8, 8.0) < 2.5 * num_harmonics("tanh", 1e-4, 8.0)
    assert num_harmonics("sine", 1e-8, 1e9) == 1
