"""TableEncoder: columns of every kind as numbers for a network, fitted on training sets."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from warnings import warn

import numpy as np
import torch
from torch import Tensor

from janossy.sets import Ragged
from janossy.tables.codes import FORMAT, VERSION, CategoryCodes, Code, Number, columns_from_state
from janossy.tables.columns import Column, Where
from janossy.tables.layout import Layout
from janossy.tables.table import SetTable


@dataclass(frozen=True, eq=False)
class Encoded:
    """The input of a network: numbers of the elements and of the sets themselves, each described by a ``Layout``.

    ``unseen``: by categorical column, the number of values that are new since training, which have code 0. Columns
    without new values are absent.

    Shapes: elements (N, c), context (B, e), float32; e is 0 if the sets have no columns of their own.
    """

    elements: Ragged
    context: Tensor
    unseen: dict[str, int]

    def __len__(self) -> int:
        return len(self.elements)


class TableEncoder:
    """An encoder of columns as numbers, fitted on training sets: categories as codes, numbers standardised.

    - Numbers, booleans and dates (as days): minus the mean of the training elements, divided by their standard
      deviation (population), in float64. A missing value becomes the mean.
    - A column with missing values in training has an indicator beside it, 1 where a value is missing. A column that
      lacks values only later has no indicator, because nothing was learnt about missing values.
    - A column that is constant in training is always 0.
    - Categories have the codes 1, 2, …. A category that is new since training is 0, and is counted.
    - Missing categories are a category of their own if training had any, else 0.
    - Columns of the sets are encoded in the same way; each set counts once.

    Elements of sets of sets have one more column, the last: the number of their inner set within its set, from 0 on.

    The encoding of a set does not depend on the other sets of its table.

    Args:
        standardize: False leaves numbers as they are, except that missing values become the mean.

    Shapes: a ``SetTable`` of B sets of N elements -> elements (N, c), context (B, e), float32. Their columns are
        described by ``element_layout`` and ``context_layout``, and named by ``element_names`` and ``context_names``.
    Raises: ValueError for infinities, and for columns other than those of training. Their order does not matter.

    Example:
        >>> encoder = TableEncoder().fit(as_sets([["a", "b"], ["a"]]))
        >>> encoder.transform(as_sets([["b", "a"]])).elements.values
        tensor([[2.],
                [1.]])
    """

    def __init__(self, standardize: bool = True) -> None:
        self.standardize = standardize
        self.elements: tuple[Code, ...] = ()
        self.context: tuple[Code, ...] = ()
        self.inner = False
        self._warned: set[str] = set()

    def fit(self, sets: SetTable) -> "TableEncoder":
        """Learns the means, standard deviations and categories of these sets."""
        self._warned = set()
        self.elements, self.context = (
            tuple(
                CategoryCodes.fit(column, name) if column.kind == "categorical" else Number.fit(column, name, where)
                for name, column in columns.items()
            )
            for columns, where in ((sets.elements, sets.place), (sets.context, sets.place_of_set))
        )
        self.inner = sets.inner is not None
        return self

    def transform(self, sets: SetTable) -> Encoded:
        """Returns the sets as numbers. Warns about values that are new since training, once per column.

        Raises: ValueError before ``fit``, for other columns or ids than those of training, and for values that do not
            fit.
        """
        if not self.elements:
            raise ValueError("TableEncoder expects fit(sets) before transform(sets); got no fit.")
        if self.inner != (sets.inner is not None):
            expected, got = ("sets of sets, by two ids", "one") if self.inner else ("sets by one id", "two")
            raise ValueError(f"TableEncoder expects {expected}, as in training; got {got}. Pass set_id as in training.")
        unseen: dict[str, int] = {}
        elements = self._encoded(self.elements, sets.elements, sets.num_elements, sets.place, unseen)
        context = self._encoded(self.context, sets.context, len(sets), sets.place_of_set, unseen)
        if sets.inner is not None:
            elements = np.concatenate((elements, sets.inner[:, None].astype(np.float32)), axis=1)
        if new := {name: num for name, num in unseen.items() if name not in self._warned}:
            warn(
                f"values that are new since training in {columns_by_count(new)}: they are encoded as unknown, and so "
                "are missing values, if training had none. Encoded.unseen counts them.",
                stacklevel=2,
            )
        self._warned |= unseen.keys()
        ragged = Ragged(torch.from_numpy(elements), torch.tensor(sets.offsets), sizes=sets.sizes.tolist())
        return Encoded(ragged, torch.from_numpy(context), unseen)

    def far_values(self, sets: SetTable) -> dict[str, np.ndarray]:
        """Returns flags of values far outside those of training, (N,) or (B,), for each column with such numbers.

        A value is far if it lies farther outside the range of training than that range is wide.
        """
        found: dict[str, np.ndarray] = {}
        for codes, columns in ((self.elements, sets.elements), (self.context, sets.context)):
            for code in codes:
                if (
                    isinstance(code, Number)
                    and (far := code.far(columns[code.name].to_kind(code.kind, code.name))).any()
                ):
                    found[code.name] = far
        return found

    def fit_transform(self, sets: SetTable) -> Encoded:
        """Learns from these sets, and returns them as numbers."""
        return self.fit(sets).transform(sets)

    def _encoded(
        self, codes: tuple[Code, ...], columns: Mapping[str, Column], num: int, where: Where, unseen: dict[str, int]
    ) -> np.ndarray:
        check_columns(codes, columns)
        layout = layout_of(codes)
        out = np.empty((num, layout.num_columns), np.float32)
        code_at, number_at = 0, len(layout.vocabularies)
        for code in codes:
            column = columns[code.name]
            if code.kind == "numeric" and column.kind == "date" and not column.missing().all():
                raise ValueError(
                    f"column {code.name!r} expects numbers, as in training; got dates. Convert the column, alike for "
                    "training and prediction."
                )
            column = column.to_kind(code.kind, code.name, where)
            if isinstance(code, CategoryCodes):
                unknown = code.encode(column, out[:, code_at])
                code_at += 1
                if unknown:
                    unseen[code.name] = unknown
            else:
                end = number_at + len(code.names)
                code.encode(column, out[:, number_at:end], where, self.standardize)
                number_at = end
        return out

    @property
    def element_layout(self) -> Layout:
        return replace(layout_of(self.elements), inner=self.inner)

    @property
    def context_layout(self) -> Layout:
        return layout_of(self.context)

    @property
    def element_names(self) -> tuple[str, ...]:
        """The names of the columns of the encoded elements."""
        return names_of(self.elements)

    @property
    def context_names(self) -> tuple[str, ...]:
        """The names of the columns of the encoded context."""
        return names_of(self.context)

    def state(self) -> dict[str, Any]:
        """Returns everything fitted as plain data. JSON keeps every bit of it."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "standardize": self.standardize,
            "elements": [code.state() for code in self.elements],
            "context": [code.state() for code in self.context],
            **({"inner": True} if self.inner else {}),
        }

    @classmethod
    def from_state(cls, state: Any) -> "TableEncoder":
        """Returns the encoder that ``state()`` described.

        Raises: ValueError for data that ``state()`` cannot have written.
        """
        saved, elements, context = columns_from_state(state)
        encoder = cls(saved.standardize)
        encoder.elements, encoder.context, encoder.inner = elements, context, saved.inner
        return encoder


def layout_of(codes: tuple[Code, ...]) -> Layout:
    """Returns the layout of the columns that these codes encode."""
    numbers = [code for code in codes if isinstance(code, Number)]
    return Layout(
        tuple(code.num_codes for code in codes if isinstance(code, CategoryCodes)),
        sum(len(code.names) for code in numbers),
        names_of(codes),
        tuple(scale for code in numbers for scale in (code.scale, *[1.0] * code.missing)),
        tuple(period for code in numbers for period in (code.period, *[0.0] * code.missing)),
        smallest=tuple(smallest for code in numbers for smallest in (code.smallest, *[0.0] * code.missing)),
        ranges=tuple(each for code in numbers for each in ((code.low, code.high), *[(0.0, 0.0)] * code.missing)),
        means=tuple(mean for code in numbers for mean in (code.mean, *[0.0] * code.missing)),
        quantiles=tuple(each for code in numbers for each in (code.quantiles, *[()] * code.missing)),
        values=tuple(each for code in numbers for each in (code.values, *[()] * code.missing)),
    )


def names_of(codes: tuple[Code, ...]) -> tuple[str, ...]:
    """Returns the names of these columns: first those of codes, then those of numbers."""
    numbers = [name for code in codes if isinstance(code, Number) for name in code.names]
    return (*(code.name for code in codes if isinstance(code, CategoryCodes)), *numbers)


def far_columns(encoder: TableEncoder, sets: SetTable) -> str:
    """Returns the columns with values far outside those of training, with their counts, as text; "" for none."""
    counts = {name: int(flags.sum()) for name, flags in encoder.far_values(sets).items()}
    return columns_by_count(counts) if counts else ""


def columns_by_count(counts: Mapping[str, int]) -> str:
    """Returns the names of columns and their counts, the largest first, as text. At most three are named."""
    first = sorted(counts, key=lambda name: -counts[name])[:3]
    named = [f"column {name!r} ({counts[name]:,})" for name in first]
    if more := len(counts) - len(named):
        named.append("another column" if more == 1 else f"{more} other columns")
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"


def check_columns(codes: tuple[Code, ...], columns: Mapping[str, Column]) -> None:
    """Raises a ValueError unless these are the columns of training, in any order."""
    expected = {code.name for code in codes}
    if expected != columns.keys():
        missing, more = (
            ", ".join(sorted(names)[:8]) + (", …" if len(names) > 8 else "") if names else "none"
            for names in (expected - columns.keys(), columns.keys() - expected)
        )
        raise ValueError(
            f"TableEncoder expects the columns of training; got sets that lack these columns: {missing}; and have "
            f"these besides: {more}. Name or drop columns as in training."
        )
