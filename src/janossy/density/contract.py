"""Contracts of densities: a family of distributions of one element, and a density of sequences."""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.distributions import Distribution


class Head(nn.Module):
    """A family of distributions of one element by ``torch.distributions``, from numbers that a reader gives.

    A subclass gives ``distribution``; if need be, ``encode`` and ``holds``. A head has no weights of its own.

    Shapes: an element is (*event_shape); parameters (…, num_parameters).

    Example:
        >>> class Laplace(Head):
        ...     expects = "finite numbers (N, 1)"
        ...
        ...     def __init__(self):
        ...         super().__init__(event_shape=(1,), num_parameters=2, num_features=1)
        ...
        ...     def distribution(self, parameters):
        ...         loc, log_scale = parameters.unsqueeze(-2).unbind(-1)
        ...         laplace = torch.distributions.Laplace(loc, log_scale.exp())
        ...         return torch.distributions.Independent(laplace, 1)
        >>> Laplace().distribution(torch.zeros(5, 2)).log_prob(torch.zeros(5, 1)).shape
        torch.Size([5])
    """

    expects: ClassVar[str]
    """The elements that it takes, for errors."""
    remedy: ClassVar[str] = "Choose another head, or transform the elements."
    discrete: ClassVar[bool] = False
    """True if elements are ids, int64."""

    def __init__(self, event_shape: tuple[int, ...], num_parameters: int, num_features: int) -> None:
        super().__init__()
        self.event_shape = event_shape
        self.num_parameters = num_parameters
        self.num_features = num_features

    def distribution(self, parameters: Tensor) -> Distribution:
        """Returns the distribution of batch shape (…) and event shape ``event_shape``, from (…, num_parameters)."""
        raise NotImplementedError

    def encode(self, x: Tensor) -> Tensor:
        """Elements (…, *event_shape) as what a reader reads, (…, num_features)."""
        return x

    def holds(self, x: Tensor) -> Tensor:
        """Returns True for elements (N, *event_shape) that have a density, (N,)."""
        of_zeros = self.distribution(torch.zeros(self.num_parameters, dtype=torch.float64, device=x.device))
        finite = x.isfinite().flatten(1).all(1)
        return finite if of_zeros.support is None else finite & of_zeros.support.check(x)

    def clip(self, x: Tensor) -> Tensor:
        """Elements that were drawn, moved off the edge of the support where rounding put them there."""
        return x

    def initial(self) -> Tensor:
        """The parameters (num_parameters,) that training starts around."""
        return torch.zeros(self.num_parameters)


class SequenceDensity(nn.Module):
    """log q(x_1 … x_L), and the distribution of what comes next.

    Whoever writes one that is the same for all orders subclasses it; one that is not is an ``Autoregressive``.

    Shapes: rows (T, L, *event_shape), L >= 1 -> (T, 1).
    """

    symmetric: ClassVar[bool] = True
    """True if q is the same for all orders of a row, so that one order is exact."""
    head: Head
    """The head says what elements are, and where they have a density."""

    def forward(self, rows: Tensor) -> Tensor:
        raise NotImplementedError

    def next(self, prefix: Tensor) -> Distribution:
        """The distribution of what follows prefixes (T, t, *event_shape), t >= 0, of batch shape (T,)."""
        raise NotImplementedError
