"""A k-ary model on all examples at once: its loss and derivatives, with f evaluated once per distinct tuple."""

from collections.abc import Callable
from math import prod

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag, pad

from janossy import JanossyNetwork, Ragged, TupleMLP
from janossy.evaluate.rows.incidence import LANES, Incidence, distinct_tuples
from studies.paper.arithmetic.scoring import Examples

ROWS = 4096
"""The number of rows that are computed at a time, so that they stay in the cache."""

ONE, MINUS_ONE = torch.ones(()), -torch.ones(())

Losses = Callable[[Tensor], tuple[Tensor, Tensor]]
"""A function of errors (B,) that returns the loss of each, and its derivative."""


class AllAtOnce:
    """The outputs y(x) = ρ(Σ_t f(h(x_t))) of all examples, as a function of one vector of all weights of f and ρ.

    f is a ``TupleMLP`` with one hidden layer of tanh. ρ is linear, or an MLP with one hidden layer of tanh. h is a
    frozen embedding.

    Derivatives are derived by hand. A linear ρ is applied before the sum, where it leaves one number per tuple. An MLP
    is applied to a few thousand examples at a time.
    """

    def __init__(self, network: JanossyNetwork, examples: Examples) -> None:
        """Prepares a network over increasing tuples. Examples are integers (N, n), each row ascending, and targets."""
        f, (x, targets) = network.pooling.f, examples
        assert isinstance(f, TupleMLP) and f.activation == "tanh" and len(f.hidden) == 1 and f.output is None
        self.k, self.width = f.k, len(f.get_parameter("hidden.0.bias"))
        self.table = network.h.get_parameter("weight").detach()
        self.shapes = [weight.shape for part in (f, network.rho) for weight in part.parameters()]
        self.is_linear = len(self.shapes) == 4
        rows, lists = distinct_tuples(Ragged.from_padded(x), f.k, increasing=True, num_values=len(self.table))
        self.tuples = rows.buckets[0].local[:, 0]
        self.lists = Incidence(lists.rows, lists.starts, None, lists.num_rows)
        self.targets = targets if lists.owners is None else targets[lists.owners]
        self.num, self.num_tuples = len(x), len(lists.rows) // len(x)
        self.scale = 1 / self.num_tuples if network.pooling.reduce == "mean" else 1.0
        if self.is_linear:
            ends, ones = np.arange(self.num + 1, dtype=np.int32) * self.num_tuples, np.ones(len(lists.rows), np.float32)
            self.counts = scipy.sparse.csr_matrix((ones, lists.rows.numpy(), ends), (self.num, lists.num_rows))
            self.transposed = self.counts.T.tocsr()

    def loss_and_gradient(self, weights: Tensor, losses: Losses) -> tuple[float, Tensor]:
        """Returns the mean loss, and its derivative by the weights (P,), float64."""
        w, b, *of_rho = self._split(weights)
        values = self._values(w, b)
        loss, of_values, gradients = (self._linear if self.is_linear else self._mlp)(values, of_rho, losses)
        projections = torch.zeros(self.k, len(self.table), values.shape[1])
        bias = torch.zeros(values.shape[1])
        for part, t, slope in zip(self.tuples.split(ROWS), values.split(ROWS), of_values.split(ROWS), strict=True):
            slope.mul_(torch.addcmul(ONE, t, t, value=-1))
            bias += slope.sum(0)
            for j in range(self.k):
                projections[j].index_add_(0, part[:, j], slope)
        of_w = torch.einsum("jvh,vd->hjd", projections[..., : self.width], self.table)
        every = (of_w, bias[: self.width], *gradients)
        return loss, torch.cat([each.reshape(-1) for each in every]).double()

    def jacobian(self, weights: Tensor, some: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the derivatives of m examples' outputs by all weights, (m, P), and their errors (m,)."""
        w, b, *of_rho = self._split(weights)
        values = self._values(w, b)[:, : self.width]
        rows = self.lists.rows.view(self.num, -1)[some].long()
        of_tuples = values[rows]  # (m, T, H)
        pooled = of_tuples.sum(1) * self.scale
        if self.is_linear:
            (v, a), ones = of_rho, torch.ones(len(some), 1)
            outputs, of_pooled, columns = pooled @ v[0] + a, v.expand(len(some), -1), [pooled, ones]
        else:
            r, c, v, a = of_rho
            t = torch.tanh(pooled @ r.T + c)
            of_hidden = (1 - t * t) * v
            outputs, of_pooled = t @ v[0] + a, of_hidden @ r
            columns = [of_hidden[:, :, None] * pooled[:, None], of_hidden, t, torch.ones(len(some), 1)]
        slopes = (1 - of_tuples.square()) * (self.scale * of_pooled)[:, None]
        elements = self.table[self.tuples[rows]].flatten(2)  # (m, T, k d)
        of_f = [slopes.transpose(1, 2) @ elements, slopes.sum(1)]
        return torch.cat([each.reshape(len(some), -1) for each in (*of_f, *columns)], 1), outputs - self.targets[some]

    def _split(self, weights: Tensor) -> list[Tensor]:
        parts = weights.float().split([prod(shape) for shape in self.shapes])
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def _values(self, w: Tensor, b: Tensor) -> Tensor:
        """Returns f of each distinct tuple, (D, H), padded with zeros to whole vector lanes."""
        projections = torch.einsum("hjd,vd->jvh", w.view(self.width, self.k, -1), self.table)
        projections[0] += b
        projections = pad(2 * projections, (0, -self.width % LANES))
        values = torch.empty(len(self.tuples), projections.shape[2])
        for part, out in zip(self.tuples.split(ROWS), values.split(ROWS), strict=True):
            torch.index_select(projections[0], 0, part[:, 0], out=out)
            for j in range(1, self.k):
                out += projections[j].index_select(0, part[:, j])
            _tanh_of_half_(out)
        return values

    def _linear(self, values: Tensor, of_rho: list[Tensor], losses: Losses) -> tuple[float, Tensor, list[Tensor]]:
        v, a = of_rho
        v = pad(v[0], (0, values.shape[1] - self.width))
        outputs = torch.from_numpy(self.counts @ (values @ v).numpy()) * self.scale + a
        loss, slopes = losses(outputs - self.targets)
        of_sums = torch.from_numpy(self.transposed @ slopes.numpy()) * (self.scale / self.num)
        gradients = [(of_sums @ values)[: self.width], slopes.mean()[None]]
        return loss.double().mean().item(), of_sums[:, None] * v, gradients

    def _mlp(self, values: Tensor, of_rho: list[Tensor], losses: Losses) -> tuple[float, Tensor, list[Tensor]]:
        r, c, v, a = of_rho
        r = pad(r, (0, values.shape[1] - self.width)) * self.scale
        twice_r, twice_c, v_r = 2 * r.T, 2 * c, v.T * r
        of_r, of_c, of_v, of_a, total = torch.zeros_like(r), torch.zeros_like(c), torch.zeros_like(c), 0.0, 0.0
        of_pooled = torch.empty(self.num, values.shape[1])
        for first in range(0, self.num, ROWS):
            rows = self.lists.rows[first * self.num_tuples : (first + ROWS) * self.num_tuples]
            pooled = embedding_bag(rows.view(-1, self.num_tuples), values, mode="sum")
            t = _tanh_of_half_(torch.addmm(twice_c, pooled, twice_r))
            loss, slopes = losses(torch.addmv(a, t, v[0]) - self.targets[first : first + ROWS])
            total += loss.double().sum().item()
            of_v.addmv_(t.T, slopes)
            of_a += slopes.sum().item()
            d = torch.addcmul(ONE, t, t, value=-1, out=t)
            of_c.addmv_(d.T, slopes)
            of_r.addmm_(d.T, pooled.mul_(slopes[:, None]))
            torch.mm(d, v_r, out=of_pooled[first : first + ROWS]).mul_(slopes[:, None])
        of_r *= v.T * self.scale
        gradients = [of_r[:, : self.width], of_c * v[0], of_v, torch.tensor([of_a])]
        of_values = self.lists.transposed.sums(of_pooled).div_(self.num)
        return total / self.num, of_values, [gradient / self.num for gradient in gradients]


def _tanh_of_half_(x: Tensor) -> Tensor:
    """Computes tanh(x / 2) in place as 2 σ(x) - 1, within 1e-7: torch's σ is nine times as fast as its tanh."""
    return torch.add(MINUS_ONE, x.sigmoid_(), alpha=2, out=x)
