"""Contracts of densities: a family of distributions of one element, and a density of sequences."""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.distributions import Distribution


class Head(nn.Module):
    """A family of distributions of one element by ``torch.distributions``, with parameters from a reader.

    A subclass gives ``distribution``, and ``encode`` and ``holds`` if necessary. A head has no weights.

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
    """A description of the elements that the head takes, for errors."""
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
        """Returns the reader's inputs (…, num_features) for elements (…, *event_shape)."""
        return x

    def holds(self, x: Tensor) -> Tensor:
        """Returns True for elements (N, *event_shape) that have a density, (N,)."""
        of_zeros = self.distribution(torch.zeros(self.num_parameters, dtype=torch.float64, device=x.device))
        finite = x.isfinite().flatten(1).all(1)
        return finite if of_zeros.support is None else finite & of_zeros.support.check(x)

    def clip(self, x: Tensor) -> Tensor:
        """Returns drawn elements, moved inside the support if rounding put them on its edge."""
        return x

    def initial(self) -> Tensor:
        """Returns the parameters (num_parameters,) around which training starts."""
        return torch.zeros(self.num_parameters)


class SequenceDensity(nn.Module):
    """log q(x_1 … x_L), and the distribution of the next element.

    Subclass it for a density that is the same for all orders. Other densities are ``Autoregressive``.

    Shapes: rows (T, L, *event_shape), L >= 1 -> (T, 1).
    """

    symmetric: ClassVar[bool] = True
    """True if q is the same for all orders of a row, so that one order is exact."""
    head: Head
    """The head, which defines the elements and their support."""

    def forward(self, rows: Tensor) -> Tensor:
        raise NotImplementedError

    def next(self, prefix: Tensor) -> Distribution:
        """Returns the distribution of the element after prefixes (T, t, *event_shape), of batch shape (T,)."""
        raise NotImplementedError
