"""TupleFeatures: hand-made interactions of a row's elements, which an MLP reads beside the elements."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import comb, inf
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor, nn

from janossy.functions.checks import check_rows, check_widths
from janossy.functions.shown import arguments_shown


class TupleFeatures(nn.Module):
    """f(x_1 … x_k) = differences, products, equalities and distances of each pair x_i, x_j, i < j.

    A perceptron hardly learns these from two elements side by side. ``FeaturedMLP`` reads them beside the elements.
    Each argument names columns of an element:

    Args:
        differences: u_c·(x_i − x_j)_c.
        absolute_differences: |u_c·(x_i − x_j)_c|.
        products: (x_i)_c·(x_j)_c.
        equal: groups of columns. A group's feature is 1 if x_i and x_j agree in all its columns, else 0. A group is a
            column of codes, or the columns that a category was embedded in.
        distances: groups of columns. A group's feature is the Euclidean distance √Σ_c u_c²(x_i − x_j)_c².
        units: the factors u_c of differences, 1 by default, such as the standard deviation that a column was divided
            by.
        periods: the periods p of columns that are angles, in units of u_c·x_c. A difference is wrapped into
            (−p/2, p/2]. With the period 2π of an azimuth φ, and distances=[(η, φ)], the feature is ΔR.

    Shapes: (T, k, in_features) -> (T, out_features): the features of each of the k(k − 1)/2 pairs in turn.
    Raises:
        TypeError: for sizes or columns that are not integers, or units and periods that are not numbers.
        ValueError: for sizes below 1, columns that an element does not have, or units and periods that are not
            positive. For rows that are not (T, k, in_features) in floating point.

    Example:
        >>> ring = TupleFeatures(2, in_features=1, differences=[0], periods={0: 12})
        >>> ring(torch.tensor([[[11.0], [1.0]]]))  # eleven and one o'clock
        tensor([[-2.]])
    """

    def __init__(
        self,
        k: int,
        in_features: int,
        *,
        differences: Sequence[int] = (),
        absolute_differences: Sequence[int] = (),
        products: Sequence[int] = (),
        equal: Sequence[Sequence[int]] = (),
        distances: Sequence[Sequence[int]] = (),
        units: Mapping[int, float] | None = None,
        periods: Mapping[int, float] | None = None,
    ) -> None:
        super().__init__()
        check_widths(self, k=k, in_features=in_features)
        self.k = k
        self.in_features = in_features
        self.differences = self._columns("differences", differences)
        self.absolute_differences = self._columns("absolute_differences", absolute_differences)
        self.products = self._columns("products", products)
        self.equal = self._groups("equal", equal)
        self.distances = self._groups("distances", distances)
        self.units = self._numbers("units", units)
        self.periods = self._numbers("periods", periods)
        of_differences = (self.differences, self.absolute_differences, *self.distances)
        self._wanted = sorted({column for columns in of_differences for column in columns})
        """The columns whose differences are needed."""
        each = sum(map(len, (self.differences, self.absolute_differences, self.products, self.equal, self.distances)))
        self.out_features = comb(k, 2) * each
        in_groups = sum(map(len, (*self.equal, *self.distances)))
        self.numbers_kept = 4 * comb(k, 2) * (len(self._wanted) + each + in_groups)
        """An upper estimate of the numbers kept per row for backward."""

    def forward(self, x: Tensor) -> Tensor:
        check_rows(self, x)
        if not x.is_floating_point():
            raise ValueError(
                f"this TupleFeatures expects elements in floating point; got {x.dtype}. Convert them with .to()."
            )
        pairs = [self._of_pair(x[:, i], x[:, j]) for i, j in combinations(range(self.k), 2)]
        return torch.cat([x.new_zeros(len(x), 0), *(feature for pair in pairs for feature in pair)], dim=1)

    def _of_pair(self, a: Tensor, b: Tensor) -> list[Tensor]:
        """Returns the features of elements (T, d) and (T, d), as tensors of some columns each."""
        difference = (a[:, self._wanted] - b[:, self._wanted]) * self._factors(a)
        if self.periods:
            difference = self._wrapped(difference)
        place = {column: i for i, column in enumerate(self._wanted)}

        def of(columns: tuple[int, ...]) -> Tensor:
            return difference[:, [place[column] for column in columns]]

        equal = [(a[:, group] == b[:, group]).all(1, keepdim=True).to(a.dtype) for group in self.equal]
        distances = [torch.linalg.vector_norm(of(group), dim=1, keepdim=True) for group in self.distances]
        return [
            of(self.differences),
            of(self.absolute_differences).abs(),
            a[:, self.products] * b[:, self.products],
            *equal,
            *distances,
        ]

    def _factors(self, like: Tensor) -> Tensor:
        return like.new_tensor([self.units.get(column, 1.0) for column in self._wanted])

    def _wrapped(self, difference: Tensor) -> Tensor:
        """Subtracts a whole number of periods; columns without a period stay as they are."""
        periods = difference.new_tensor([self.periods.get(column, inf) for column in self._wanted])
        turns = torch.ceil(difference / periods - 0.5)
        return difference - torch.where(periods.isinf(), 0, turns * periods)

    def _columns(self, name: str, columns: Any) -> tuple[int, ...]:
        expected = f"TupleFeatures expects {name} as a list of columns 0 … {self.in_features - 1}"
        if isinstance(columns, str) or not isinstance(columns, Sequence) or not all(map(_is_whole, columns)):
            raise TypeError(f"{expected}; got {columns!r}.")
        if not all(0 <= column < self.in_features for column in columns):
            raise ValueError(f"{expected}, those of an element; got {columns!r}. Count them from 0.")
        return tuple(map(int, columns))

    def _groups(self, name: str, groups: Any) -> tuple[tuple[int, ...], ...]:
        if isinstance(groups, str) or not isinstance(groups, Sequence):
            raise TypeError(f"TupleFeatures expects {name} as a list of lists of columns; got {groups!r}.")
        return tuple(self._columns(f"each of {name}", group) for group in groups)

    def _numbers(self, name: str, numbers: Any) -> dict[int, float]:
        expected = f"TupleFeatures expects {name} as a dict of positive numbers, one per column"
        if numbers is None:
            return {}
        if not isinstance(numbers, Mapping):
            raise TypeError(f"{expected}; got {numbers!r}.")
        columns = self._columns(f"the keys of {name}", list(numbers))
        for number in numbers.values():
            if not isinstance(number, Real) or isinstance(number, bool):
                raise TypeError(f"{expected}; got {numbers!r}.")
            if not 0 < float(number) < inf:
                raise ValueError(f"{expected}; got {numbers!r}.")
        return dict(zip(columns, map(float, numbers.values()), strict=True))

    def extra_repr(self) -> str:
        return arguments_shown(self)


def _is_whole(column: Any) -> bool:
    return isinstance(column, Integral) and not isinstance(column, bool)
