"""``spectral`` against the same algorithm in plain torch operations, and against itself at ten times the size.

Forward and backward, float32, one set of n elements, f = TupleMLP with 32 tanh units. The plain side is what one would
write by hand. It evaluates every harmonic of every element at once, in complex64, and combines power sums over set
partitions. If two sizes are compared, the columns are the times at n = 2,000 and n = 20,000: a path linear in n gives
10.
"""

from collections.abc import Iterator
from math import ceil, pi

import torch
from torch import Tensor

from benchmarks.harness import Row, backward
from janossy import Combinations, JanossyPooling, Ragged, Spectral, TupleMLP, Tuples
from janossy.kernels.expansions import EXPANSIONS, margins

D, H = 16, 32


def rows() -> Iterator[Row]:
    """Yields linear time for k = 2, 3, 4, and compiled against plain operations at n = 10,000, k = 3."""
    for orderings in (Tuples(2), Tuples(3), Tuples(4), Combinations(3)):
        small, large = (_pooled(orderings, n, Spectral(enumerate_up_to=0)) for n in (2_000, 20_000))
        kind = "increasing" if orderings.increasing else "injective"
        yield Row(f"n=20,000 over n=2,000, {kind} tuples, k={orderings.k}", small, large, agree=False)
    yield _plain_row(10_000, 1e-4)
    yield _plain_row(10_000, 1e-5)


def _pooled(orderings, n: int, evaluator):
    pooling = JanossyPooling(TupleMLP(orderings.k, D, H), orderings, evaluate=evaluator)
    x = torch.randn(n, D, requires_grad=True)
    sets = Ragged.from_sizes(x, [n])
    return lambda: backward(pooling(sets))


def _plain_row(n: int, tolerance: float) -> Row:
    f = TupleMLP(3, D, H)
    pooling = JanossyPooling(f, Tuples(3), evaluate=Spectral(tolerance))
    x = torch.randn(n, D, requires_grad=True)
    sets = Ragged.from_sizes(x, [n])

    def plain() -> Tensor:
        return backward(_plain_power_sums(f.structure().project(x), tolerance)[None])

    return Row(
        f"B=1 n={n:,} k=3 H={H}, tolerance {tolerance:.0e}, against plain torch operations",
        lambda: backward(pooling(sets)),
        plain,
    )


def _plain_power_sums(p: Tensor, tolerance: float) -> Tensor:
    """Returns the mean of tanh over injective triples, p (n, 3, H) -> (H,)."""
    n = len(p)
    delta, cut = margins(EXPANSIONS["tanh"].family, tolerance)
    period = (p.detach().abs().amax(0).sum(0).max() + delta) / 2
    odd = 2 * torch.arange(ceil(cut * period / pi)) + 1
    omega = odd * pi / (2 * period)
    a, b, c = torch.exp(1j * p[..., None] * omega).unbind(1)  # (n, H, M) each
    A, B, C = a.sum(0), b.sum(0), c.sum(0)
    ab, ac, bc = a * b, a * c, b * c
    triples = A * B * C - ab.sum(0) * C - ac.sum(0) * B - bc.sum(0) * A + 2 * (ab * c).sum(0)
    weights = pi / period / torch.sinh(pi * omega / 2)
    return (weights * triples.imag).sum(-1) / (n * (n - 1) * (n - 2))
