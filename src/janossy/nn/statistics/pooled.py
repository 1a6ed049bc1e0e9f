"""PooledStatistics: each set as one vector of fixed statistics that depend on the set alone."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from janossy.nn.statistics.names import ColumnNames
from janossy.nn.statistics.on_cpu import OnCpu, with_float64
from janossy.nn.statistics.sorted_sets import SortedSets
from janossy.sets import Ragged

MAX_AT_ONCE = 2**22
"""The most numbers of elements, or of statistics, that are computed together."""

MAX_FEATURES = 2**18
"""The most features of a vector of statistics."""

ROUNDING = 1e-6
"""The part of its column's offset below which a number counts as 0, as it differs from 0 by rounding."""


class SetSize(nn.Module):
    """The size of each set, and its logarithm.

    Shapes: B sets -> (B, 2): n and log(1 + n).
    """

    out_features = 2

    def check_columns(self, vocabularies: Sequence[int], num_numbers: int) -> None:
        """Accepts all columns."""

    def forward(self, sets: SortedSets) -> Tensor:
        sizes = sets.sizes.double()
        return torch.stack([sizes, sizes.log1p()], dim=1)

    def names(self, columns: ColumnNames) -> list[str]:
        """Returns the names of the features."""
        return ["size", "log size"]


class ContextColumns(nn.Module):
    """The sets' own columns: codes as one indicator per code, or as they are if there are many; and numbers.

    Args:
        vocabularies: the number of codes of each categorical column.
        num_numbers: the number of columns of numbers.
        max_indicators: the most codes of a column that become indicators. With more, the code is one feature.

    Shapes: B sets with context (B, columns) -> (B, out_features).
    """

    def __init__(self, vocabularies: Sequence[int], *, num_numbers: int, max_indicators: int = 64) -> None:
        super().__init__()
        self.vocabularies, self.num_numbers, self.max_indicators = list(vocabularies), num_numbers, max_indicators
        self.widths = [size if size <= max_indicators else 1 for size in self.vocabularies]
        self.out_features = sum(self.widths) + num_numbers

    def check_columns(self, vocabularies: Sequence[int], num_numbers: int) -> None:
        """Accepts all columns of elements."""

    def forward(self, sets: SortedSets) -> Tensor:
        width = len(self.vocabularies) + self.num_numbers
        if sets.context is None or sets.context.shape[1:] != (width,):
            got = None if sets.context is None else tuple(sets.context.shape)
            raise ValueError(f"ContextColumns expects a context (B, {width}); got {got}. Give context=.")
        parts = [sets.context[:, len(self.vocabularies) :].double()]
        for column, (size, width) in enumerate(zip(self.vocabularies, self.widths, strict=True)):
            codes = sets.context[:, column]
            one_hot = codes.long()[:, None] == torch.arange(size, device=codes.device)
            parts.append(one_hot.double() if width == size else codes[:, None].double())
        return torch.cat(parts, dim=1)

    def names(self, columns: ColumnNames) -> list[str]:
        """Returns the names of the features."""
        found = list(columns.context[len(self.vocabularies) :])
        for column, (size, width) in enumerate(zip(self.vocabularies, self.widths, strict=True)):
            each = [columns.context_label(column, code) for code in range(size)]
            found += each if width == size else [columns.context[column]]
        return found


class PooledStatistics(OnCpu):
    """A vector of statistics of each set: those of its blocks, one after the other.

    Elements are encoded: codes first, then standardised numbers. ``offsets`` are added to the numbers, so that 0 before
    standardisation is 0 again and amounts can be added up. On MPS, which lacks float64, they are computed on the CPU.

    Args:
        blocks: modules that map ``SortedSets`` to (B, their out_features).
        vocabularies: the number of codes of each categorical column of the elements.
        num_numbers: the number of columns of numbers.
        inner: True for sets of sets, whose elements have one more column: the number of their inner set.

    Buffers: ``offsets`` (num_numbers,) float64.

    Shapes: sets.values (N, columns), context (B, e) or None -> (B, out_features) float32.
    Invariance: exact, to the last bit. The result does not depend on the batch either.
    Raises: ValueError for blocks of other columns.

    Example:
        >>> statistics = PooledStatistics([SetSize(), NumberStatistics(2)], vocabularies=(), num_numbers=2)
        >>> statistics(Ragged.from_sets([torch.randn(4, 2), torch.randn(0, 2)])).shape
        torch.Size([2, 18])
    """

    offsets: Tensor

    def __init__(
        self, blocks: Sequence[nn.Module], *, vocabularies: Sequence[int], num_numbers: int, inner: bool = False
    ) -> None:
        super().__init__()
        self.blocks, self.inner = nn.ModuleList(blocks), inner
        self.vocabularies, self.num_numbers = list(vocabularies), num_numbers
        self.num_codes = len(self.vocabularies)
        self.out_features = sum(cast(int, block.out_features) for block in blocks)
        if self.out_features > MAX_FEATURES:
            raise ValueError(f"PooledStatistics expects at most {MAX_FEATURES} features; got {self.out_features}.")
        for block in blocks:
            block.check_columns(self.vocabularies, num_numbers)  # type: ignore[operator]
        self.register_buffer("offsets", torch.zeros(num_numbers, dtype=torch.float64))

    def sorted(self, sets: Ragged, context: Tensor | None = None) -> SortedSets:
        """Returns the sets in the order in which blocks read them, with offsets added to the numbers.

        Raises: ValueError for elements of another number of columns.
        """
        width = self.num_codes + self.num_numbers + self.inner
        if sets.values.dim() != 2 or sets.values.shape[1] != width:
            last = ", and the numbers of inner sets" if self.inner else ""
            raise ValueError(
                f"PooledStatistics expects elements (N, {width}), codes and then numbers{last}; "
                f"got {tuple(sets.values.shape)}. Give as many columns as it was made for."
            )
        found = SortedSets.of(with_float64(sets), self.num_codes, with_float64(context), inner=self.inner)
        numbers = found.numbers + self.offsets
        numbers = numbers.masked_fill(numbers.abs() <= ROUNDING * self.offsets.abs(), 0.0)  # NaN stays
        return replace(found, numbers=numbers)

    @torch.no_grad()
    def forward(self, sets: Ragged, context: Tensor | None = None) -> Tensor:
        found = []
        for some in pieces(sets, self.out_features):
            part = self.sorted(sets[some], None if context is None else context[some])
            found.append(torch.cat([block(part) for block in self.blocks], dim=1).float())
        return torch.cat(found).to(sets.device)

    def names(self, columns: ColumnNames) -> list[str]:
        """Returns the names of the features."""
        return [name for block in self.blocks for name in block.names(columns)]  # type: ignore[operator]

    def config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        given = {"blocks": list(self.blocks), "vocabularies": self.vocabularies, "num_numbers": self.num_numbers}
        return given | {"inner": True} if self.inner else given


def pieces(sets: Ragged, width: int) -> list[slice]:
    """Returns slices of sets that are computed together: at most ``MAX_AT_ONCE`` numbers, or one set."""
    max_elements = max(1, MAX_AT_ONCE // max(1, sets.values.shape[-1]))
    max_sets = max(1, MAX_AT_ONCE // max(1, width))
    found, begin, num = [], 0, 0
    for b, n in enumerate(sets.sizes):
        num += n
        if b > begin and (num > max_elements or b - begin >= max_sets):
            found.append(slice(begin, b))
            begin, num = b, n
    return [*found, slice(begin, len(sets))]
