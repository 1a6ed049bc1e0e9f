"""ColumnEmbedding: rows of a table as vectors, with one embedding per column of categories."""

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from math import inf, isfinite
from numbers import Real
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from janossy.checks import check_integer
from janossy.functions.checks import check_flags, check_widths
from janossy.functions.shown import arguments_shown
from janossy.sets.transfer import constant, widest

MAX_FEATURES = 50
"""The greatest width that ``embedding_width`` chooses."""


SAME = 0.25
"""The part of the least distance of two values within which a number counts as one of them."""


def embedding_width(num_codes: int) -> int:
    """Returns the width of an embedding of ``num_codes`` codes: fastai's rule 1.6·n^0.56, at most 50."""
    return cast(int, min(MAX_FEATURES, max(1, round(1.6 * num_codes**0.56))))


class ColumnEmbedding(nn.Module):
    """Rows of a table as vectors: each column of codes is embedded, and numbers stay as they are.

    A row holds one code per categorical column, a whole number in floating point, then its numbers. The code 0 stands
    for a category that is not known from training. Its embedding starts as zero, the others as N(0, 1).

    Args:
        vocabularies: the number of codes of each categorical column, 0 included.
        num_numbers: the number of columns of numbers.
        embedding_features: the width of each embedding; None for a width that grows with the vocabulary.
        scaled: True to multiply each column of numbers by a learned factor, which starts as 1.
        amounts: columns of numbers that span orders of magnitude, as (column, mean, scale, unit). Columns count from
            the first number. x = number · scale + mean undoes the standardisation. Each amount adds two features
            behind all others. One is asinh(x / unit), about a logarithm, divided by that of a typical x. The other is
            1 if x is 0, else 0.
        quantiles: columns of skewed numbers, as (column, quantiles at equidistant levels). Each adds the level of the
            number among the quantiles, linear in between, with mean 0 and variance 1.
        by_category: True to add one feature per column of numbers. It is the number scaled and shifted by learned
            amounts of the row's categories, which start as 1 and 0.
        coded: columns of numbers that may be codes, as (column, ascending values). Each adds an embedding of its
            values; the embedding of other numbers starts as zero.
        num_unread: the number of further columns behind these, such as the number of an inner set. They are not read.
        limits: columns of numbers with limits, as (column, low, high). Numbers beyond are taken as the limit.

    Shapes: (N, num_columns) -> (N, out_features), the embeddings and the numbers; ``places`` says where each column's
        are.
    Raises:
        TypeError: for sizes that are not integers, or rows that are not a tensor.
        ValueError: for sizes below 1 (below 0 for num_numbers), no columns, by_category without categories, or rows of
            another shape.
        IndexError: for a code that is not in its vocabulary.

    Example:
        >>> embed = ColumnEmbedding([5, 14], num_numbers=1)  # suits and ranks of cards, and a number
        >>> embed(torch.tensor([[4.0, 12.0, 0.5], [1.0, 13.0, -0.5]])).shape
        torch.Size([2, 12])
    """

    def __init__(
        self,
        vocabularies: Sequence[int],
        *,
        num_numbers: int,
        embedding_features: int | None = None,
        scaled: bool = False,
        amounts: Sequence[Sequence[float]] = (),
        quantiles: Sequence[tuple[int, Sequence[float]]] = (),
        by_category: bool = False,
        coded: Sequence[tuple[int, Sequence[float]]] = (),
        num_unread: int = 0,
        limits: Sequence[tuple[int, float, float]] = (),
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if isinstance(vocabularies, str) or not isinstance(vocabularies, Sequence):
            raise TypeError(f"ColumnEmbedding expects vocabularies as a list of integers; got {vocabularies!r}.")
        if vocabularies:
            check_widths(self, several="vocabularies", vocabularies=vocabularies)
        if embedding_features is not None:
            check_widths(self, embedding_features=embedding_features)
        if num_numbers != 0 or isinstance(num_numbers, bool) or not vocabularies:
            check_widths(self, num_numbers=num_numbers)
        check_flags(self, scaled=scaled, by_category=by_category)
        if by_category and not vocabularies:
            raise ValueError(
                "ColumnEmbedding expects a column of categories for by_category=True; got vocabularies=[]. Drop "
                "by_category."
            )
        check_integer("ColumnEmbedding", "num_unread", num_unread, 0)
        self.vocabularies = tuple(map(int, vocabularies))
        self.num_numbers, self.num_unread = num_numbers, num_unread
        self.embedding_features = embedding_features
        widths = [embedding_features or embedding_width(num_codes) for num_codes in self.vocabularies]
        self.embeddings = nn.ModuleList(map(nn.Embedding, self.vocabularies, widths))
        self.amounts: list[tuple[int, float, float, float]] = _checked_numbers(
            amounts, num_numbers, "amounts", "mean, scale >= 0, unit > 0", _are_amounts
        )
        self.quantiles = _checked_columns(quantiles, num_numbers, "quantiles")
        self.affine = (
            nn.ModuleList(nn.Embedding(num_codes, 2 * num_numbers) for num_codes in self.vocabularies)
            if by_category
            else None
        )
        self.coded = _checked_columns(coded, num_numbers, "coded")
        self.limits: list[tuple[int, float, float]] = _checked_numbers(
            limits, num_numbers, "limits", "low, high >= low", _are_limits
        )
        widths_of_values = [embedding_features or embedding_width(1 + len(values)) for _, values in self.coded]
        self.of_values = nn.ModuleList(
            nn.Embedding(1 + len(values), width)
            for (_, values), width in zip(self.coded, widths_of_values, strict=True)
        )
        self.scales = nn.Parameter(torch.empty(num_numbers)) if scaled else None
        self.reset_parameters()
        self.num_columns = len(self.vocabularies) + num_numbers + num_unread
        ends = list(accumulate([*widths, *[1] * num_numbers], initial=0))
        self.places = [list(range(a, b)) for a, b in pairwise(ends)]
        """The features that each column becomes."""
        self.out_features = ends[-1] + 2 * len(self.amounts) + len(self.quantiles) + by_category * num_numbers
        self.out_features += sum(widths_of_values)
        self.to(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draws the embeddings anew; those of code 0 are set to zero."""
        for embedding in (*self.embeddings, *self.of_values):
            assert isinstance(embedding, nn.Embedding)
            embedding.reset_parameters()
            nn.init.zeros_(embedding.weight.detach()[0])
        if self.scales is not None:
            nn.init.ones_(self.scales)
        for each in self.affine or ():
            assert isinstance(each, nn.Embedding)
            nn.init.zeros_(each.weight)

    def forward(self, x: Tensor) -> Tensor:
        self._check(x)
        codes, numbers, _ = x.split((len(self.vocabularies), self.num_numbers, self.num_unread), dim=1)
        if self.limits:
            low, high = constant(numbers.device, _ends, self.num_numbers, tuple(self.limits)).to(numbers.dtype)
            numbers = numbers.clamp(low, high)
        columns = codes.long().unbind(1)
        embedded = [embed(column) for embed, column in zip(self.embeddings, columns, strict=True)]
        more = [self._logarithms(numbers)] if self.amounts else []
        more += [_level(numbers[:, column], knots) for column, knots in self.quantiles]
        if self.affine is not None:
            changes = [change(column) for change, column in zip(self.affine, columns, strict=True)]
            factors, shifts = torch.stack(changes).sum(0).chunk(2, 1)
            more.append(numbers * (1 + factors) + shifts)
        for embed, (column, values) in zip(self.of_values, self.coded, strict=True):
            more.append(embed(_codes(numbers[:, column], values)))
        numbers = numbers if self.scales is None else numbers * self.scales
        return torch.cat([*embedded, numbers, *more], dim=1)

    def _logarithms(self, numbers: Tensor) -> Tensor:
        """Returns two features per amount, (N, 2 · amounts): its logarithm, and 1 if it is 0."""
        columns, means, scales, units = zip(*self.amounts, strict=True)
        wide = widest(numbers.device)
        mean, scale, unit = (numbers.new_tensor(each, dtype=wide) for each in (means, scales, units))
        x = numbers[:, list(columns)].to(wide) * scale + mean
        typical = torch.asinh((mean.abs() + scale) / unit)
        return torch.cat([torch.asinh(x / unit) / typical, (x.abs() < unit / 2).to(wide)], dim=1).to(numbers.dtype)

    def _check(self, x: Any) -> None:
        expected = f"this ColumnEmbedding expects rows (N, {self.num_columns}), codes and then numbers"
        if not isinstance(x, Tensor):
            raise TypeError(f"{expected}, as a tensor; got {type(x).__name__}. torch.as_tensor makes one.")
        if x.dim() != 2 or x.shape[1] != self.num_columns:
            raise ValueError(f"{expected}; got {tuple(x.shape)}. Give as many columns as it was made for.")

    def config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            "vocabularies": self.vocabularies,
            "num_numbers": self.num_numbers,
            "embedding_features": self.embedding_features,
            "scaled": self.scales is not None,
            "amounts": self.amounts,
            "quantiles": self.quantiles,
            "by_category": self.affine is not None,
            "coded": self.coded,
            "num_unread": self.num_unread,
            "limits": self.limits,
        }

    def extra_repr(self) -> str:
        return arguments_shown(self, scaled=self.scales is not None, by_category=self.affine is not None)


def _level(numbers: Tensor, knots: Sequence[float]) -> Tensor:
    """Returns the standardised level of numbers (N,) among quantiles, (N, 1); among equal quantiles the upper."""
    wide = widest(numbers.device)
    x, ends = numbers.to(wide)[:, None], numbers.new_tensor(knots, dtype=wide)
    low, width = ends[:-1], ends.diff()
    inside = ((x - low) / width.where(width > 0, 1)).clamp(0, 1)
    level = torch.where(width > 0, inside, (x >= low).to(wide)).mean(1, keepdim=True)
    return ((level - 0.5) * 12**0.5).to(numbers.dtype)


def _codes(numbers: Tensor, values: Sequence[float]) -> Tensor:
    """Returns 1 + the position of each number (N,) among the values, or 0 if it is another."""
    wide = widest(numbers.device)
    x, known = numbers.to(wide).contiguous(), numbers.new_tensor(values, dtype=wide)
    middles = (known[1:] + known[:-1]) / 2
    places = torch.bucketize(x, middles)
    is_known = (x - known[places]).abs() <= SAME * known.diff().min()
    return (1 + places) * is_known


def _ends(num_numbers: int, limits: Sequence[tuple[int, float, float]]) -> np.ndarray:
    """Returns the low and the high limit of every column of numbers, (2, num_numbers)."""
    ends = np.full((2, num_numbers), [[-inf], [inf]], np.float32)
    for column, *both in limits:
        ends[:, column] = both
    return ends


def _are_amounts(rest: Sequence[float]) -> bool:
    return len(rest) == 3 and rest[1] >= 0 and rest[2] > 0


def _are_limits(rest: Sequence[float]) -> bool:
    return len(rest) == 2 and rest[0] <= rest[1]


def _checked_numbers(
    given: Any, num_numbers: int, name: str, form: str, are_right: Callable[[Sequence[float]], bool]
) -> list[Any]:
    """Returns each tuple of a column and further numbers. Raises: ValueError for other values."""
    checked = []
    for each in given if isinstance(given, Sequence) else (given,):
        column, *rest = each if isinstance(each, Sequence) else (each,)
        are_numbers = all(isinstance(x, Real) and isfinite(x) for x in rest)
        if not isinstance(column, int) or not 0 <= column < num_numbers or not are_numbers or not are_right(rest):
            raise ValueError(
                f"ColumnEmbedding expects {name} as a list of (column < {num_numbers}, {form}); got {given!r}."
            )
        checked.append((column, *map(float, rest)))
    return checked


def _checked_columns(given: Any, num_numbers: int, name: str) -> list[tuple[int, list[float]]]:
    """Returns each column with its ascending numbers. Raises: ValueError for other values."""
    checked = []
    for each in given if isinstance(given, Sequence) else (given,):
        column, knots = each if isinstance(each, Sequence) and len(each) == 2 else (None, None)
        fits = isinstance(knots, Sequence) and all(isinstance(x, Real) and isfinite(x) for x in knots)
        if (
            not isinstance(column, int)
            or not 0 <= column < num_numbers
            or not fits
            or knots is None
            or list(knots) != sorted(knots)
            or len(knots) < 2
            or knots[0] == knots[-1]
            or (name == "coded" and len(set(knots)) < len(knots))
        ):
            raise ValueError(
                f"ColumnEmbedding expects {name} as a list of (column < {num_numbers}, ascending numbers); got "
                f"{given!r}."
            )
        checked.append((column, list(map(float, knots))))
    return checked
