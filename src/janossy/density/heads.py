"""The library's heads: normals, categories, angles, and numbers between bounds."""

from collections.abc import Sequence
from math import pi
from typing import ClassVar

import torch
from torch import Tensor
from torch.distributions import (
    AffineTransform,
    Categorical,
    Distribution,
    Independent,
    MixtureSameFamily,
    Normal,
    SigmoidTransform,
    TransformedDistribution,
)
from torch.distributions import VonMises as OneVonMises
from torch.nn.functional import one_hot, softplus

from janossy.density.contract import Head
from janossy.functions.checks import check_widths
from janossy.functions.shown import arguments_shown

MIN_SCALE = 1e-3
"""The smallest standard deviation, so that densities stay bounded on elements that coincide."""

ONE = 0.5413
"""softplus(ONE) = 1, the initial value of standard deviations and concentrations."""


class Normals(Head):
    """A mixture of normals with diagonal covariance, of elements (num_columns,) without bounds.

    Standard deviations are at least 0.001, so scale columns to unit variance. If elements lie on a line or a grid,
    densities grow to the largest values that this bound allows, and are meaningless.


    Shapes: elements (N, num_columns).
    Raises: TypeError or ValueError unless both numbers are integers >= 1.
    """

    expects: ClassVar[str] = "finite numbers"

    def __init__(self, num_columns: int, *, num_components: int = 8) -> None:
        super().__init__((num_columns,), 1, num_columns)
        check_widths(self, num_columns=num_columns, num_components=num_components)
        self.num_components = num_components
        self.num_parameters = num_components * (1 + 2 * num_columns)

    def distribution(self, parameters: Tensor) -> Distribution:
        return _mixture(self, parameters)

    def holds(self, x: Tensor) -> Tensor:
        return x.isfinite().all(-1)

    def initial(self) -> Tensor:
        return _initial(self, torch.randn(self.num_components, *self.event_shape))

    def extra_repr(self) -> str:
        return arguments_shown(self, num_columns=self.event_shape[0])


class Bounded(Head):
    """A mixture of logistic-normals, of elements (num_columns,) strictly between bounds: points in a window.

    In each column, the logit of (x − low) / (high − low) is a mixture of normals.

    Args:
        low, high: one number per column.

    Shapes: elements (N, num_columns).
    Raises: TypeError or ValueError for bounds of different numbers, or low >= high, or num_components < 1.
    """

    remedy: ClassVar[str] = "Widen the bounds, or drop what lies outside the window."
    low: Tensor
    high: Tensor

    def __init__(self, low: Sequence[float], high: Sequence[float], *, num_components: int = 8) -> None:
        expected = (
            f"Bounded expects low < high, as many finite numbers each as there are columns; got low={low!r} and "
            f"high={high!r}. Write Bounded([0.0, 0.0], [1.0, 1.0]) for points in the unit square."
        )
        try:
            bounds = torch.stack([torch.as_tensor(x, dtype=torch.float64) for x in (low, high)])
        except (TypeError, RuntimeError):
            raise ValueError(expected) from None
        if bounds.dim() != 2 or not bounds.numel() or not bounds.isfinite().all() or not (bounds[0] < bounds[1]).all():
            raise ValueError(expected)
        num_columns = len(bounds[0])
        super().__init__((num_columns,), 1, num_columns)
        check_widths(self, num_components=num_components)
        self.num_components = num_components
        self.num_parameters = num_components * (1 + 2 * num_columns)
        self.register_buffer("low", bounds[0].to(torch.get_default_dtype()))
        self.register_buffer("high", bounds[1].to(torch.get_default_dtype()))

    @property
    def expects(self) -> str:  # type: ignore[override]
        return f"numbers strictly between {self.low.tolist()} and {self.high.tolist()}"

    def distribution(self, parameters: Tensor) -> Distribution:
        to_window = [SigmoidTransform(), AffineTransform(self.low, self.high - self.low)]
        return TransformedDistribution(_mixture(self, parameters), to_window, validate_args=False)

    def encode(self, x: Tensor) -> Tensor:
        return 2 * (x - self.low) / (self.high - self.low) - 1

    def holds(self, x: Tensor) -> Tensor:
        return ((x > self.low) & (x < self.high)).all(-1)

    def clip(self, x: Tensor) -> Tensor:
        return x.clamp(self.low.nextafter(self.high), self.high.nextafter(self.low))

    def initial(self) -> Tensor:
        return _initial(self, torch.randn(self.num_components, *self.event_shape))

    def extra_repr(self) -> str:
        return arguments_shown(self, low=self.low.tolist(), high=self.high.tolist())


class VonMises(Head):
    """A mixture of von Mises distributions, independent in each column, of angles (num_columns,) in [−π, π].

    Shapes: elements (N, num_columns), in radians.
    Raises: TypeError or ValueError unless both numbers are integers >= 1.
    """

    expects: ClassVar[str] = "angles in [-pi, pi]"
    remedy: ClassVar[str] = "Wrap them: torch.atan2(x.sin(), x.cos())."

    def __init__(self, num_columns: int = 1, *, num_components: int = 4) -> None:
        super().__init__((num_columns,), 1, 2 * num_columns)
        check_widths(self, num_columns=num_columns, num_components=num_components)
        self.num_components = num_components
        self.num_parameters = num_components * (1 + 2 * num_columns)

    def distribution(self, parameters: Tensor) -> Distribution:
        logits, loc, scale = _parts(self, parameters)
        angles = OneVonMises(loc, softplus(scale) + MIN_SCALE, validate_args=False)
        return _mixed(logits, Independent(angles, 1, validate_args=False))

    def encode(self, x: Tensor) -> Tensor:
        return torch.cat((x.cos(), x.sin()), -1)

    def holds(self, x: Tensor) -> Tensor:
        return (x.abs() <= torch.tensor(pi, dtype=x.dtype)).all(-1)

    def initial(self) -> Tensor:
        return _initial(self, pi * (2 * torch.rand(self.num_components, *self.event_shape) - 1))

    def extra_repr(self) -> str:
        return arguments_shown(self, num_columns=self.event_shape[0])


class Categories(Head):
    """A categorical distribution of ids 0 … num_categories − 1.

    Shapes: elements (N,), int64.
    Raises: TypeError or ValueError unless num_categories is an integer >= 1.
    """

    remedy: ClassVar[str] = "Number the categories from 0, or raise num_categories."
    discrete: ClassVar[bool] = True

    def __init__(self, num_categories: int) -> None:
        super().__init__((), num_categories, num_categories)
        check_widths(self, num_categories=num_categories)

    @property
    def expects(self) -> str:  # type: ignore[override]
        return f"ids from 0 to {self.num_parameters - 1}"

    def distribution(self, parameters: Tensor) -> Distribution:
        return Categorical(logits=parameters, validate_args=False)

    def encode(self, x: Tensor) -> Tensor:
        return one_hot(x, self.num_features)

    def holds(self, x: Tensor) -> Tensor:
        return (x >= 0) & (x < self.num_parameters)

    def extra_repr(self) -> str:
        return arguments_shown(self, num_categories=self.num_parameters)


def _parts(head: Normals | Bounded | VonMises, parameters: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns logits (…, K), and two numbers per column of each component, (…, K, d)."""
    num, columns = head.num_components, head.event_shape
    logits, loc, scale = parameters.split((num, num * columns[0], num * columns[0]), -1)
    return logits, loc.unflatten(-1, (num, *columns)), scale.unflatten(-1, (num, *columns))


def _initial(head: Normals | Bounded | VonMises, loc: Tensor) -> Tensor:
    return torch.cat((torch.zeros(head.num_components), loc.flatten(), torch.full_like(loc, ONE).flatten()))


def _mixture(head: Normals | Bounded, parameters: Tensor) -> MixtureSameFamily:
    logits, loc, scale = _parts(head, parameters)
    normals = Normal(loc, softplus(scale) + MIN_SCALE, validate_args=False)
    return _mixed(logits, Independent(normals, 1, validate_args=False))


def _mixed(logits: Tensor, components: Distribution) -> MixtureSameFamily:
    return MixtureSameFamily(Categorical(logits=logits, validate_args=False), components, validate_args=False)
