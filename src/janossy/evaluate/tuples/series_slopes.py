"""The spectral path in torch operations with its slopes, differentiable once: what calls use until kernels are there.

As in the kernels, the slopes are computed beside the means, and each harmonic is the one before times a factor. Nothing
is kept per harmonic. Autograd through ``series_means`` takes ten times as long.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from janossy.evaluate.tuples.series_means import Series, mean_of_sums, products_of_positions
from janossy.kernels.expansions import Expansion

PIECE = 2**20
"""The bytes of one harmonic that are computed at once: a few such arrays fit a core's cache."""


class MeanWithSlopes(torch.autograd.Function):
    """(x, expansion, tolerance, increasing) -> the mean of ``Series``: (S, n, k, H), n ≥ k -> (S, H)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, expansion: Expansion, tolerance: float, increasing: bool) -> Tensor:
        num_sets, n, k, H = x.shape
        columns = max(1, min(H, PIECE // (16 * n * k)))
        sets = max(1, PIECE // (16 * n * k * columns))
        mean = x.new_empty(num_sets, H)
        slopes = x.new_empty(x.shape if ctx.needs_input_grad[0] else 0)
        with _on_one_thread():
            for s in range(0, num_sets, sets):
                for h in range(0, H, columns):
                    piece = x[s : s + sets, :, :, h : h + columns]
                    there = Series(piece, expansion, tolerance, increasing)
                    of_piece = slopes[s : s + sets, :, :, h : h + columns] if ctx.needs_input_grad[0] else None
                    mean[s : s + sets, h : h + columns] = _mean(there, piece, of_piece)
        ctx.save_for_backward(slopes)
        return mean

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (slopes,) = ctx.saved_tensors
        return slopes * gradient[:, None, None], None, None, None


@contextmanager
def _on_one_thread() -> Iterator[None]:
    """Operations take microseconds here: threads that share them mostly wait for each other, on a busy machine long."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(num_threads)


def _mean(series: Series, x: Tensor, slopes: Tensor | None) -> Tensor:
    """Returns the mean, and puts the slopes, if they are wanted."""
    e, (n, k) = series.expansion, x.shape[1:3]
    mean, angles, shift = series.start(x.double())
    total = None if slopes is None else torch.zeros_like(angles, dtype=torch.complex128)
    z = torch.polar(torch.ones_like(angles), angles)
    turn = z * z
    for m in range(series.num):
        if m > 0:
            z *= turn
        odd = 2 * m + 1
        coefficient = series.coefficient(series.omega * (odd / e.kappa), series.period)
        seed = (e.gamma * (-1j if e.odd else 1)) * coefficient * torch.exp(1j * (shift * odd))
        add = _increasing if series.increasing else _injective
        mean = mean + add(z, seed, series.omega * odd, total)
    if slopes is not None and total is not None:  # d exp(iωp) = iω exp(iωp) dp, and Re(iw) = −Im(w)
        slopes.copy_(e.beta * series.shares(n, k)[:, :, None] - total.imag)
    return mean


def _injective(z: Tensor, seed: Tensor, rate: Tensor, slopes: Tensor | None) -> Tensor:
    """Returns the mean of Re(seed · Π_j z_j[i_j]); adds rate · seed · z ∂mean/∂z to the slopes."""
    n, k = z.shape[1:3]
    products = products_of_positions(z)
    sums = [product.sum(1).requires_grad_(slopes is not None) for product in products]
    with torch.set_grad_enabled(slopes is not None):
        mean = (seed * mean_of_sums(sums, n, k)).real
        total = mean.sum()
    if slopes is None:
        return mean
    for subset, by_sum in enumerate(torch.autograd.grad(total, sums[1:]), start=1):
        weight = (by_sum.conj() * rate)[:, None]
        for j in range(k):
            if subset >> j & 1:
                slopes[:, :, j].addcmul_(products[subset], weight)
    return mean.detach()


def _increasing(z: Tensor, seed: Tensor, rate: Tensor, slopes: Tensor | None) -> Tensor:
    """Returns what ``_injective`` does, for increasing tuples."""
    n, k = z.shape[1:3]
    factor = 1.0
    for j in range(k):
        factor *= n * (j + 1) / (n - j)
    z = z / n
    before = [torch.ones_like(z[:, :, 0])]
    for j in range(k - 1):
        chain = z[:, :, j] * before[j]
        before.append(chain.cumsum(1) - chain)
    seed = seed * factor
    mean = (seed * (z[:, :, k - 1] * before[k - 1]).sum(1)).real
    if slopes is None:
        return mean
    behind = (seed * rate)[:, None].expand_as(before[0])
    for j in range(k - 1, -1, -1):
        chain = z[:, :, j] * behind
        slopes[:, :, j] += chain * before[j]
        behind = chain.sum(1, keepdim=True) - chain.cumsum(1)
    return mean
