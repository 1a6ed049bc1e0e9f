"""SetTable: sets with columns of their elements, and columns of their own."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from janossy.tables.columns import Column


@dataclass(frozen=True, eq=False)
class SetTable:
    """B sets of N elements in all: columns of the elements, end to end, and columns of the sets.

    Set b has the elements ``offsets[b]`` to ``offsets[b + 1]`` of each column in ``elements``, and row b of each column
    in ``context``. ``as_sets`` makes these tables. A table counts as one row per set. Its index is a slice, or a list
    or array of ints or bools, as in scikit-learn's splitting. An int gives a table of one set.

    In sets of sets, ``inner`` numbers the inner sets of each set from 0 on. Elements of one inner set have one number.

    Shapes: offsets (B + 1,), int64, from 0 up to N; columns of elements (N,), columns of sets (B,); ids (B,), or None;
        inner (N,), int64, or None. An id of several columns is a tuple.
    Raises: ValueError for columns of other lengths.

    Example:
        >>> table = as_sets([np.ones((3, 2)), np.zeros((0, 2))])
        >>> table.sizes
        array([3, 0])
        >>> table[[1, 1]].shape
        (2,)
    """

    offsets: np.ndarray
    elements: Mapping[str, Column]
    context: Mapping[str, Column]
    ids: np.ndarray | None = None
    inner: np.ndarray | None = None

    def __post_init__(self) -> None:
        for columns, length in ((self.elements, self.num_elements), (self.context, len(self))):
            for name, column in columns.items():
                if len(column) != length:
                    raise ValueError(
                        f"SetTable expects columns of {self.num_elements} elements and of {len(self)} sets, as its "
                        f"offsets say; got {len(column)} values in {name!r}. as_sets makes tables."
                    )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator["SetTable"]:
        return (self[b] for b in range(len(self)))

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        """Raises a TypeError, because sets of different sizes are not a matrix."""
        raise TypeError(
            "SetTable is not a matrix, as its sets differ in size. SetClassifier, SetRegressor and GroupRows take it; "
            "scikit-learn's other estimators need a matrix, such as one row of statistics per set."
        )

    @property
    def shape(self) -> tuple[int]:
        """(B,), the shape by whose first dimension scikit-learn counts and splits."""
        return (len(self),)

    @property
    def sizes(self) -> np.ndarray:
        """The number of elements of each set (B,)."""
        return np.diff(self.offsets)

    @property
    def num_elements(self) -> int:
        """The number N of elements in all sets."""
        return int(self.offsets[-1])

    @property
    def num_inner(self) -> np.ndarray | None:
        """The number of inner sets of each set (B,), or None if elements are not in inner sets."""
        if self.inner is None:
            return None
        found = np.zeros(len(self), np.int64)
        np.maximum.at(found, np.repeat(np.arange(len(self)), self.sizes), self.inner + 1)
        return found

    def place(self, row: int) -> str:
        """Names an element in errors, by its row in the elements' columns."""
        b = int(np.searchsorted(self.offsets, row, side="right")) - 1
        return f"element {row - self.offsets[b]} of {self.place_of_set(b)}"

    def place_of_set(self, b: int) -> str:
        """Names a set in errors."""
        return f"set {b if self.ids is None else set_name(self.ids[b])}"

    def __getitem__(self, key: Any) -> "SetTable":
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:
            key = key[0]  # scikit-learn's splitting asks for sets[chosen, ...]
        sets = chosen(key, len(self))
        if isinstance(sets, slice):
            offsets = self.offsets[sets.start : sets.stop + 1]
            rows: slice | np.ndarray = slice(offsets[0], offsets[-1])
            offsets = offsets - offsets[0]
        else:
            sizes = self.sizes[sets]
            offsets = offsets_of(sizes)
            rows = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][sets] - offsets[:-1], sizes)
        return SetTable(
            offsets,
            {name: column[rows] for name, column in self.elements.items()},
            {name: column[sets] for name, column in self.context.items()},
            None if self.ids is None else self.ids[sets],
            None if self.inner is None else self.inner[rows],
        )

    def __repr__(self) -> str:
        inner = "" if self.num_inner is None else f"{_range(self.num_inner, 'inner set')}, "
        elements = _range(self.sizes, "element")
        lines = [f"SetTable({_range(np.array([len(self)]), 'set')} of {inner}{elements}, {self.offsets[-1]:,} in all"]
        for title, columns in (("elements", self.elements), ("sets", self.context)):
            if columns:
                lines.append(f"  {title}: " + ", ".join(f"{name} {_kind(column)}" for name, column in columns.items()))
        return "\n".join(lines) + ")"


def _range(numbers: np.ndarray, noun: str) -> str:
    low, high = (numbers.min(), numbers.max()) if len(numbers) else (0, 0)
    each = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    return f"{each} {noun}{'s' if high != 1 else ''}"


def set_name(name: Any) -> str:
    """Returns an id as text, for errors."""
    return f"({', '.join(map(str, name))})" if isinstance(name, tuple) else str(name)


def tuples(values: Iterable[tuple[Any, ...]]) -> np.ndarray:
    """Returns tuples as an array of objects."""
    listed = list(values)
    array = np.empty(len(listed), object)
    array[:] = listed
    return array


def offsets_of(sizes: np.ndarray) -> np.ndarray:
    """Returns the offset of each set and the end of the last, (B + 1,)."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def chosen(key: Any, num_sets: int) -> slice | np.ndarray:
    """Returns the sets that a key chooses: a slice of step 1 with both ends, or set numbers.

    Raises: TypeError or IndexError for a key that is not an index of sets.
    """
    if isinstance(key, slice):
        start, stop, step = key.indices(num_sets)
        return slice(start, max(start, stop)) if step == 1 else np.arange(num_sets)[key]
    numbers = np.asarray(key)
    if numbers.size == 0:
        numbers = numbers.astype(np.int64)
    if numbers.ndim > 1 or numbers.dtype.kind not in "iub":
        raise TypeError(
            f"SetTable is indexed by a set number, a slice, or a list or array of set numbers or flags; got {key!r}. "
            "Its columns are in .elements and .context."
        )
    if numbers.dtype.kind == "b" and numbers.shape != (num_sets,):
        raise IndexError(f"a bool index of {num_sets} sets needs one flag per set; got shape {numbers.shape}.")
    try:
        return cast("slice | np.ndarray", np.arange(num_sets)[np.atleast_1d(numbers)])
    except IndexError:
        raise IndexError(
            f"expected set numbers from {-num_sets} to {num_sets - 1}; got {numbers.min()} to {numbers.max()}."
        ) from None


def _kind(column: Column) -> str:
    return f"{column.kind} ({len(column.categories):,})" if column.kind == "categorical" else column.kind
