"""What a density of sequences is, which ``ExchangeableDensity`` averages over orders."""

from typing import ClassVar

from torch import Tensor, nn
from torch.distributions import Distribution

from janossy.density.head import Head


class SequenceDensity(nn.Module):
    """log q(x_1 … x_L), and the distribution of what comes next.

    Whoever writes one that is the same for all orders subclasses it; one that is not is an ``Autoregressive``.

    Shapes: rows (T, L, *event_shape), L >= 1 -> (T, 1).
    """

    symmetric: ClassVar[bool] = True
    """Whether q is the same for all orders of a row, so that one order is exact."""
    head: Head
    """What elements are, and where they have a density."""

    def forward(self, rows: Tensor) -> Tensor:
        raise NotImplementedError

    def next(self, prefix: Tensor) -> Distribution:
        """The distribution of what follows prefixes (T, t, *event_shape), t >= 0, of batch shape (T,)."""
        raise NotImplementedError
