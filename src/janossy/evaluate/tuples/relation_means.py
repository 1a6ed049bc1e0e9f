"""Means of f(i, i_2, …, i_k) for each element i over the tuples of the other elements, none of which is written.

Every function maps numbers of elements (N, k, H) to (N, H). Sets lie end to end. The tuples of a set of n < k elements
are filled up with zero vectors, whose numbers are 0 unless they are given.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate, permutations
from typing import Any, cast

import torch
from torch import Tensor, nn

from janossy.evaluate.loading import LOADING
from janossy.evaluate.on_kernels import on_kernels_eagerly, on_threads, one_by_one, takes_gradients, unless_compiling
from janossy.evaluate.rows.recompute import computed_again, gradients_again, stateless_again
from janossy.evaluate.tuples.series_means import Series, others_mean
from janossy.functions.structure import ACTIVATIONS
from janossy.kernels.expansions import EXPANSIONS, TYPICAL_BOUND, num_harmonics
from janossy.sets.transfer import upload, widest


def product_relations(factors: Tensor, sizes: Sequence[int]) -> Tensor:
    """Returns the means of z_1[i] Π_j z_j[i_j] over the tuples of the others, by power sums.

    The sums are in float64, on MPS in float32. The factors (N + 1, k, R) end with those of the zero vector.
    """
    zero = factors[-1].to(widest(factors.device))

    def mean(z: Tensor) -> Tensor:
        m, wide = min(z.shape[1], len(zero)), z.to(zero)  # a sum less a large element has few digits of the others
        others = others_mean(wide[:, :, 1:m]) if m > 1 else 1
        return (wide[:, :, 0] * others * zero[m:].prod(0)).to(z.dtype)

    return _by_size(factors[:-1], sizes, mean)


def relu_relations(p: Tensor, sizes: Sequence[int]) -> Tensor:
    """Returns the means of relu(p_1[i] + p_2[j]) over the others j, by sorting, for sets of two elements or more."""
    return _by_size(p, sizes, _relu_by_sorting)


def series_relations(
    p: Tensor, offsets: Tensor, sizes: Sequence[int], activation: str, tolerance: float, memory_budget: int
) -> Tensor:
    """Returns the means of σ(p_1[i] + Σ_j p_j[i_j]) over the tuples of the others, to within ``tolerance``.

    Each set has k elements or more, or none.
    Compiled kernels compute k = 2 and 3. Torch operations compute the rest, in chunks of harmonics that keep to the
    budget.
    """

    def in_torch(p: Tensor) -> Tensor:
        return _by_size(p, sizes, lambda x: _by_series(x, activation, tolerance, memory_budget))

    if p.shape[1] <= 3 and on_kernels_eagerly(p):
        LOADING.goes_without(lambda: 2.0 * num_harmonics(activation, tolerance, TYPICAL_BOUND) * p.numel())
        with unless_compiling():
            return cast(Tensor, _OnKernels.apply(p, offsets, activation, tolerance, in_torch))  # type: ignore[no-untyped-call]
    return in_torch(p)


def enumerated_relations(p: Tensor, sizes: Sequence[int], activation: str, memory_budget: int) -> Tensor:
    """Returns the means of σ(p_1[i] + Σ_j p_j[i_j]) over the tuples of the others, by enumerating them.

    Chunks that keep to the budget are computed again in backward.
    """
    return _by_size(p, sizes, lambda x: _by_tuples(x[:, :, : x.shape[1]], ACTIVATIONS[activation], memory_budget))


class _OnKernels(torch.autograd.Function):
    """The means by compiled kernels; a second derivative is that of the same means in torch operations."""

    @staticmethod
    def forward(ctx: Any, p: Tensor, offsets: Tensor, activation: str, tolerance: float, in_torch: Any) -> Tensor:
        ctx.save_for_backward(p, offsets)
        ctx.activation, ctx.tolerance, ctx.in_torch = activation, tolerance, in_torch
        return _on_kernels(p, offsets, activation, tolerance, None)

    @staticmethod
    @one_by_one
    def backward(ctx: Any, by_means: Tensor) -> tuple[Tensor | None, ...]:
        p, offsets = ctx.saved_tensors
        if takes_gradients():
            with unless_compiling():
                return _on_kernels(p, offsets, ctx.activation, ctx.tolerance, by_means), *(None,) * 4
        return *gradients_again(ctx.in_torch, (p,), (True,), by_means), *(None,) * 4


def _on_kernels(p: Tensor, offsets: Tensor, activation: str, tolerance: float, weights: Tensor | None) -> Tensor:
    of_means = None if weights is None else weights.detach().numpy()
    arrays = p.detach().numpy(), offsets.numpy()
    return torch.from_numpy(on_threads("relation_means", *arrays, activation, tolerance, of_means))


def _by_series(x: Tensor, activation: str, tolerance: float, memory_budget: int) -> Tensor:
    """Returns the means for sets of one size, (S, n, k, H) -> (S, n, H), by the series of docs/spectral.md."""
    num_sets, n, k, H = x.shape
    lost = ~x.detach().flatten(1).isfinite().all(1)
    x = x.masked_fill(lost[:, None, None, None], 0)
    series = Series(x.detach(), EXPANSIONS[activation], tolerance, increasing=False)
    e, wide = series.expansion, x.to(widest(x.device))
    result = e.alpha + e.gamma * series.constant()[:, None]
    if e.beta:
        others = wide[:, :, 1:]
        linear = wide[:, :, 0] + ((others.sum(1, keepdim=True) - others) / (n - 1)).sum(2)
        result = result + e.beta * linear
    angles = (wide - series.centres[:, None]) * series.omega[:, None, None]
    shift = series.centres.sum(1) * series.omega

    def terms(angles: Tensor, harmonics: range) -> Tensor:
        odd = torch.tensor([2 * m + 1 for m in harmonics], dtype=angles.dtype, device=angles.device)
        z = torch.exp(1j * (angles[..., None] * odd))
        mean = z[:, :, 0] * others_mean(z[:, :, 1:]) * torch.exp(1j * (shift[..., None] * odd))[:, None]
        part = mean.imag if e.odd else mean.real
        weights = series.coefficient(series.omega[..., None] * odd / e.kappa, series.period[..., None])
        return e.gamma * (weights[:, None] * part).sum(-1)

    step = max(1, memory_budget // (16 * num_sets * n * H * 2 ** (k + 1)))
    for first in range(0, series.num, step):
        harmonics = range(first, min(series.num, first + step))
        part = terms(angles, harmonics) if step >= series.num else stateless_again(terms, angles, harmonics)
        result = result + part
    return result.masked_fill(lost[:, None, None], torch.nan).to(x.dtype)


def _by_tuples(x: Tensor, activation: Callable[[Tensor], Tensor], memory_budget: int) -> Tensor:
    """Returns the means for sets of one size, (S, n, k, H) -> (S, n, H)."""
    num_sets, n, k, H = x.shape
    others = _tuples_of_others(n, k).to(x.device)
    step = max(1, memory_budget // (4 * x.element_size() * others.shape[1] * H))

    def means(first: int) -> Tensor:
        centre = torch.arange(first, min(num_sets * n, first + step), device=x.device)
        of_set, i = centre // n, centre % n
        p = x[of_set, i, 0][:, None]
        for j in range(1, k):
            p = p + x[of_set[:, None], others[i, :, j - 1], j]
        return activation(p).mean(1)

    if num_sets * n <= step:
        found = means(0)
    else:
        found = torch.cat([computed_again(means, first) for first in range(0, num_sets * n, step)])
    result: Tensor = found.unflatten(0, (num_sets, n))
    return result


@lru_cache(maxsize=64)
def _tuples_of_others(n: int, k: int) -> Tensor:
    """Returns the (k − 1)-tuples of the other elements for each of n elements, (n, T, k − 1)."""
    tuples = torch.tensor(list(permutations(range(1, n), k - 1)), device="cpu")
    return (torch.arange(n, device="cpu")[:, None, None] + tuples) % n


def _relu_by_sorting(x: Tensor) -> Tensor:
    """Returns the means for pairs of sets of one size, (S, n, 2, H) -> (S, n, H).

    The b above −a are a tail in sorted order.
    """
    n = x.shape[1]
    a, b = (each.mT.contiguous() for each in x.to(widest(x.device)).unbind(2))
    ordered = b.sort(-1).values
    sums = nn.functional.pad(ordered.cumsum(-1), (1, 0))
    below = torch.searchsorted(ordered.detach(), -a.detach(), right=True)
    above = sums[..., -1:] - sums.gather(-1, below)
    total = (n - below) * a + above - (a + b).relu()
    return (total / (n - 1)).mT.to(x.dtype)


def _by_size(p: Tensor, sizes: Sequence[int], mean: Callable[[Tensor], Tensor]) -> Tensor:
    """Applies ``mean`` to the sets of each size, (S, n, k, H) -> (S, n, H), and joins the results as (N, H)."""
    distinct = sorted(set(sizes) - {0})
    if not distinct:
        return p[:, 0]
    if len(distinct) == 1:
        return mean(p.unflatten(0, (-1, distinct[0]))).flatten(0, 1)
    starts = [0, *accumulate(sizes)]
    places = [
        torch.tensor([starts[b] for b, size in enumerate(sizes) if size == n], device="cpu")[:, None]
        + torch.arange(n, device="cpu")
        for n in distinct
    ]
    results = [mean(p[upload(each, p.device)]).flatten(0, 1) for each in places]
    order = torch.cat([each.flatten() for each in places]).argsort()
    return torch.cat(results)[upload(order, p.device)]
