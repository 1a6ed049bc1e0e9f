"""The spectral path in torch operations, for devices without kernels and for second derivatives."""

from collections.abc import Callable, Sequence
from math import log, pi

import numpy as np
import torch
from torch import Tensor

from janossy.evaluate.rows.recompute import stateless_again
from janossy.evaluate.tuples.tuple_means import by_size, tuple_means
from janossy.kernels.expansions import (
    ERF,
    EXPANSIONS,
    LOG_COSH,
    SMALLEST_BOUND,
    T_ERF,
    T_TANH,
    TANH,
    TRIG,
    Expansion,
    margins,
    num_harmonics,
    rounded_up,
)
from janossy.kernels.limits import enumerated
from janossy.kernels.series_choice import chosen_for_series
from janossy.sets.transfer import upload, widest

MAX_ENUMERATED = 2e9
"""The activations, and bytes of positions, of tuples that are worth enumerating where the series cannot be used: less
than a minute."""


def series_means(
    p: Tensor,
    sizes: Sequence[int],
    increasing: bool,
    activation: str,
    tolerance: float,
    enumerate_up_to: int = -1,
    memory_budget: int | None = None,
    mean_of_series: Callable[..., Tensor] | None = None,
) -> Tensor:
    """Returns the means (B, H) of ``tuple_means``, and their slopes, to within ``tolerance`` in time linear in sizes.

    With a budget, harmonics are computed in chunks of about so many bytes, and again in backward. ``mean_of_series``
    (x (S, n, k, H), expansion, tolerance, increasing) -> (S, H) takes the place of ``Series.mean``.

    Raises: ValueError for a set with pre-activations too large or not finite that is also too large to enumerate.
    """

    def mean(x: Tensor) -> Tensor:
        series = EXPANSIONS[activation], tolerance, increasing
        if mean_of_series is not None:
            return mean_of_series(x, *series)
        return Series(x.detach(), *series).mean(x, memory_budget)

    chosen = _chosen_for_series(p.detach(), sizes, increasing, activation, tolerance, enumerate_up_to)
    if chosen.all():
        return by_size(p, sizes, mean)
    if not chosen.any():
        return tuple_means(p, sizes, increasing, activation, memory_budget)
    of_elements, n, results = np.repeat(chosen, sizes), np.asarray(sizes), []
    for each in (True, False):
        x = p.index_select(0, upload(np.flatnonzero(of_elements == each), p.device))
        of_these = tuple(n[chosen == each].tolist())
        results.append(
            by_size(x, of_these, mean) if each else tuple_means(x, of_these, increasing, activation, memory_budget)
        )
    order = np.concatenate((np.flatnonzero(chosen), np.flatnonzero(~chosen))).argsort()
    return torch.cat(results)[upload(order, p.device)]


def _chosen_for_series(
    p: Tensor, sizes: Sequence[int], increasing: bool, activation: str, tolerance: float, enumerate_up_to: int
) -> np.ndarray:
    """Returns True for the sets (B,) to compute by series, by the rule of the kernels."""
    (k, H), n = p.shape[1:], np.asarray(sizes, dtype=np.int64)
    fewest = num_harmonics(activation, tolerance, SMALLEST_BOUND)
    small = enumerated(n, k, increasing, fewest, enumerate_up_to) | (n == 0)
    if small.all():
        return np.zeros(n.shape, bool)
    bounds, finite = bounds_of_sets(p, sizes)
    most = MAX_ENUMERATED * H / (H + 8 * k)
    settings = increasing, activation, tolerance, enumerate_up_to
    chosen, _ = chosen_for_series(n, k, H, *settings, small, bounds, finite, most)
    return chosen


def bounds_of_sets(p: Tensor, sizes: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Returns how far the pre-activations of each set reach, rounded up, or 0 if they are not finite; and if they are.

    Both are (B,), on the host.
    """
    reached = np.array(by_size(p, sizes, _reach).tolist()).reshape(-1, p.shape[2]).max(1, initial=0.0)
    finite = np.isfinite(reached)
    return rounded_up(np.where(finite, reached, 0.0)), finite


def _reach(x: Tensor) -> Tensor:
    """Returns how far the pre-activations of each hidden unit reach, (S, n, k, H) -> (S, H)."""
    if x.shape[1] == 0:
        return x.sum((1, 2))
    low, high = (bound.to(widest(x.device)).sum(1) for bound in x.aminmax(dim=1))
    return torch.maximum(low.abs(), high.abs())


class Series:
    """The expansion for sets of one size, x (S, n, k, H), n ≥ k, with one bound per set and hidden unit."""

    def __init__(self, x: Tensor, expansion: Expansion, tolerance: float, increasing: bool) -> None:
        self.expansion, self.increasing = expansion, increasing
        low, high = x.to(widest(x.device)).aminmax(dim=1)
        self.centres = (low + high) / 2  # (S, k, H)
        bounds = torch.maximum(low.sum(1).abs(), high.sum(1).abs())
        if expansion.family == TRIG:
            self.centres = torch.zeros_like(low)  # angles minus a large centre would lose digits
            self.period = torch.ones_like(bounds)
            self.omega, self.num = torch.ones_like(bounds), 1
            return
        delta, cut = margins(expansion.family, tolerance)
        steps = (8 * bounds.clamp(min=SMALLEST_BOUND).log2()).ceil() / 8
        self.period = (expansion.kappa * steps.exp2() + delta) / 2  # T', (S, H)
        self.omega = expansion.kappa * pi / (2 * self.period)
        largest = self.period.max().item()
        if not largest < 1e5:
            raise ValueError(
                "the spectral evaluator cannot compute these sets: their pre-activations reach "
                f"{bounds.max().item():.1g}. Check the elements for NaN and infinity, and scale them."
            )
        self.num = int(np.ceil(cut * largest / pi))

    def mean(self, x: Tensor, memory_budget: int | None) -> Tensor:
        num_sets, n, k, H = x.shape
        result, angles, shift = self.start(x.to(widest(x.device)))
        step = self.num
        if memory_budget is not None:
            step = max(1, memory_budget // (16 * num_sets * n * H * 2 ** (k + 1)))
        for first in range(0, self.num, step):
            harmonics = range(first, min(self.num, first + step))
            if step >= self.num:
                result = result + self.terms(angles, shift, harmonics)
            else:
                result = result + stateless_again(self.terms, angles, shift, harmonics)
        return result.to(x.dtype)

    def start(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns what is no series (S, H), the angles (S, n, k, H) less their centres, and the centres' sum (S, H)."""
        e = self.expansion
        result = e.alpha + e.gamma * self.constant()
        if e.beta:
            shares = self.shares(*x.shape[1:3]).to(x)
            result = result + e.beta * torch.einsum("snjh,nj->sh", x, shares)
        angles = (x - self.centres[:, None]) * self.omega[:, None, None]
        return result, angles, self.centres.sum(1) * self.omega

    def terms(self, angles: Tensor, shift: Tensor, harmonics: range) -> Tensor:
        """Returns the sum of some harmonics, (S, H)."""
        odd = torch.tensor([2 * m + 1 for m in harmonics], dtype=angles.dtype, device=angles.device)
        z = torch.exp(1j * (angles[..., None] * odd))  # (S, n, k, H, M)
        mean = (_increasing_mean if self.increasing else _injective_mean)(z)
        mean = mean * torch.exp(1j * (shift[..., None] * odd))
        part = mean.imag if self.expansion.odd else mean.real
        frequency = self.omega[..., None] * odd / self.expansion.kappa
        return self.expansion.gamma * (self.coefficient(frequency, self.period[..., None]) * part).sum(-1)

    def constant(self) -> Tensor:
        """Returns the constant c of kernels/expansions.py."""
        if self.expansion.family in (T_TANH, T_ERF):
            return self.period
        return self.period - log(2) if self.expansion.family == LOG_COSH else torch.zeros_like(self.period)

    def coefficient(self, omega: Tensor, period: Tensor) -> Tensor:
        """Returns the coefficient a_m of kernels/expansions.py."""
        x = pi * omega / 2
        match self.expansion.family:
            case family if family == TANH:
                return pi / period / x.sinh()
            case family if family == T_TANH:
                return -(pi**2) / (2 * period) / (x.sinh() * x.tanh())  # cosh / sinh² would be ∞/∞
            case family if family == LOG_COSH:
                return -pi / period / x.sinh() / omega
            case family if family == ERF:
                return 2 / (period * omega) * (-(omega**2) / 4).exp()
            case family if family == T_ERF:
                return -(2 / omega**2 + 1) / period * (-(omega**2) / 4).exp()
        return torch.ones_like(omega)

    def shares(self, n: int, k: int) -> Tensor:
        """Returns the fractions (n, k) of tuples that have element i in position j."""
        if not self.increasing:
            return torch.full((n, k), 1 / n, dtype=torch.float64, device="cpu")
        i, j = (
            torch.arange(n, dtype=torch.float64, device="cpu")[:, None],
            torch.arange(k, dtype=torch.float64, device="cpu"),
        )
        logarithm = _log_choose(i, j) + _log_choose(n - 1 - i, k - 1 - j)
        return (
            logarithm
            - _log_choose(torch.tensor(float(n), device="cpu").double(), torch.tensor(float(k), device="cpu").double())
        ).exp()


def _log_choose(n: Tensor, k: Tensor) -> Tensor:
    value = torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma((n - k).clamp(min=0) + 1)
    return value.where(k <= n, -torch.inf)


def _injective_mean(z: Tensor) -> Tensor:
    """Returns the mean of Π_j z_j[i_j] over injective tuples, (S, n, k, …) -> (S, …).

    The method is that of kernels/cpu/series_injective.py.
    """
    return mean_of_sums([product.sum(1) for product in products_of_positions(z)], *z.shape[1:3])


def others_mean(z: Tensor) -> Tensor:
    """Returns the mean, per element, of Π_j z_j[i_j] over injective tuples of the other elements.

    Shapes: (S, n, k, …) -> (S, n, …).
    """
    n, k = z.shape[1:3]
    return mean_of_sums([product.sum(1, keepdim=True) - product for product in products_of_positions(z)], n - 1, k)


def products_of_positions(z: Tensor) -> list[Tensor]:
    """Returns each element's Π_{j ∈ S} z_j for every set S of positions, (S, n, …); bit j of a number is position j."""
    products = [z.new_ones(()).expand_as(z[:, :, 0])]
    for subset in range(1, 1 << z.shape[2]):
        j = subset.bit_length() - 1
        others = subset ^ (1 << j)
        products.append(products[others] * z[:, :, j] if others else z[:, :, j])
    return products


def mean_of_sums(power_sums: list[Tensor], n: int, k: int) -> Tensor:
    """Returns the mean over injective tuples of n elements, from the sums of their ``products_of_positions``."""
    sums, means = [power_sums[0]], [torch.ones_like(power_sums[0])]
    for subset in range(1, 1 << k):
        weight = 1 / n
        for size in range(1, subset.bit_count()):
            weight *= -size / n
        sums.append(power_sums[subset] * weight)
        lowest = subset & -subset
        others = block = subset ^ lowest
        total = sums[subset]
        while block != 0:
            block = (block - 1) & others
            total = total + sums[block | lowest] * means[others ^ block]
        means.append(total)
    factor = 1.0
    for j in range(k):
        factor *= n / (n - j)
    return means[-1] * factor


def _increasing_mean(z: Tensor) -> Tensor:
    """Returns the mean of Π_j z_j[i_j] over increasing tuples, by a chain of prefix sums."""
    n, k = z.shape[1:3]
    chain, factor = z[:, :, 0] / n, 1.0
    for j in range(1, k):
        chain = z[:, :, j] / n * (chain.cumsum(1) - chain)
        factor *= n * (j + 1) / (n - j)
    return chain.sum(1) * factor
