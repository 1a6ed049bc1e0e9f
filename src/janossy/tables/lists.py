"""Columns of lists, one list per set: the elements of all sets end to end, with the offsets of the sets."""

import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, KeysView, Sequence, ValuesView
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from janossy.sets import Ragged
from janossy.tables.arrow import UUIDS, list_type, one_chunk
from janossy.tables.columns import FLOAT_WHOLE, Column, Where, from_arrow, from_numpy
from janossy.tables.table import offsets_of

LIST_TYPES = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)


@dataclass(frozen=True, eq=False)
class Lists:
    """The columns (N,) of the elements of B lists, with the offset of each list, (B + 1,)."""

    offsets: np.ndarray
    columns: dict[str, Column]

    def __len__(self) -> int:
        return len(self.offsets) - 1


def null_list(name: str, row: int) -> ValueError:
    """Returns the error for a null in a column of lists."""
    return ValueError(
        f"column {name!r} expects a list in every row; got null in row {row}. "
        "A set without elements is an empty list; drop the row if there is no set."
    )


def holds_lists(kind: pa.DataType) -> bool:
    """Returns True if a column of this type holds a list in each row."""
    kind = storage_type(kind)
    return any(is_it(kind) for is_it in LIST_TYPES)


def storage_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type itself, or the type that stores an extension type. UUIDs keep theirs.

    Arrow's tensors become lists within lists of their shape.
    """
    if not isinstance(kind, pa.BaseExtensionType) or kind.extension_name == UUIDS:
        return kind
    stored = kind.storage_type
    if isinstance(kind, pa.FixedShapeTensorType) and len(kind.shape) > 1:
        stored = kind.value_type
        for size in reversed(kind.shape):
            stored = pa.list_(stored, size)
    return storage_type(stored)


def stored(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Returns the values in their ``storage_type``.

    Raises: ValueError for a tensor whose dimensions are stored in another order.
    """
    kind = values.type
    if storage_type(kind) is kind:
        return values
    values = one_chunk(values)
    inner = values.storage
    if isinstance(kind, pa.FixedShapeTensorType) and len(kind.shape) > 1:
        if kind.permutation is not None and list(kind.permutation) != sorted(kind.permutation):
            raise ValueError(f"tensors expect their dimensions in order; got the permutation {kind.permutation}.")
        flat, rows = inner.flatten(), len(inner)
        if inner.null_count:
            raise null_list("x", int(inner.is_null().to_numpy(zero_copy_only=False).argmax()))
        for size in reversed(kind.shape):
            flat = pa.FixedSizeListArray.from_arrays(flat, size)
        inner = flat.slice(0, rows)
    return stored(inner)


def lists_from_arrow(values: pa.Array | pa.ChunkedArray, name: str, drop: Collection[str] = ()) -> Lists:
    """Returns the elements of a column of lists: one column for plain values, one per field for structs.

    Fields named in ``drop`` are left out, at any depth.
    Raises: ValueError for a null in place of a list; TypeError for lists within lists.
    """
    values = one_chunk(stored(values))
    if values.null_count:
        raise null_list(name, int(values.is_null().to_numpy(zero_copy_only=False).argmax()))
    kind = values.type
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        offsets, elements = offsets_of(values.sizes.to_numpy()), values.flatten()
    elif pa.types.is_fixed_size_list(kind):
        offsets, elements = np.arange(len(values) + 1) * kind.list_size, values.flatten()
    else:
        offsets = values.offsets.to_numpy().astype(np.int64, copy=False)
        elements = values.values.slice(offsets[0], offsets[-1] - offsets[0])
        offsets = offsets - offsets[0] if offsets[0] else offsets
    columns = _element_columns(elements, name, drop)
    if drop and not columns:
        raise ValueError(f"drop expects to leave a field of column {name!r}; it names all. Drop the column itself.")
    return Lists(offsets, columns)


def _element_columns(elements: pa.Array, name: str, drop: Collection[str]) -> dict[str, Column]:
    elements = stored(elements)
    kind = elements.type
    if pa.types.is_struct(kind):
        columns: dict[str, Column] = {}
        for field, values in zip(kind, elements.flatten(), strict=True):
            kept = {} if field.name in drop else _element_columns(values, field.name, drop)
            for key, column in kept.items():
                check_new(key, columns)
                columns[key] = column
        return columns
    if holds_lists(kind) and not elements.null_count:
        if not pa.types.is_fixed_size_list(kind):
            elements = _fixed_width(elements, name)
        width = elements.type.list_size
        inner = from_arrow(_innermost(elements.flatten(), name), name)
        return {f"{name}{j}": inner[j::width] for j in range(width)}
    return {name: from_arrow(_innermost(elements, name), name)}


def _fixed_width(elements: pa.Array, name: str) -> pa.Array:
    """Returns lists within lists, all of one length, as vectors.

    Raises: TypeError for lists of several lengths.
    """
    widths = pc.list_value_length(elements).unique().to_pylist()
    if len(widths) > 1:
        raise TypeError(
            f"column {name!r} expects lists of numbers, text or structs, one list per set; got lists within them, "
            f"{elements.type}, of several lengths, such as {widths[0]} and {widths[1]}. Flatten them, drop them, or "
            "give sets of sets as one row per element, with two ids."
        )
    values = elements.flatten()
    return pa.FixedSizeListArray.from_arrays(values, widths[0] if widths else 1)


def leaf_names(field: pa.Field, known: Collection[str] = ()) -> list[str]:
    """Returns the names of the columns that one column of a table gives to the sets or to their elements.

    ``known``: names in which to find the columns of vectors whose type does not say their width.
    """
    kind = storage_type(field.type)
    return _leaf_names(field.name, kind.value_type, known) if holds_lists(kind) else [field.name]


def _leaf_names(name: str, kind: pa.DataType, known: Collection[str]) -> list[str]:
    kind = storage_type(kind)
    if pa.types.is_struct(kind):
        return [leaf for field in kind for leaf in _leaf_names(field.name, field.type, known)]
    if pa.types.is_fixed_size_list(kind):
        return [f"{name}{j}" for j in range(kind.list_size)]
    if holds_lists(kind):
        return [each for each in known if re.fullmatch(re.escape(name) + r"\d+", each)]
    return [name]


def field_names(kind: pa.DataType) -> list[str]:
    """Returns the names of the fields of structs in a type, at any depth."""
    kind = storage_type(kind)
    if holds_lists(kind):
        return field_names(kind.value_type)
    if pa.types.is_struct(kind):
        return [name for field in kind for name in (field.name, *field_names(field.type))]
    return []


def with_known_fields(kind: pa.DataType, known: Collection[str]) -> pa.DataType:
    """Returns the type of a column of lists without the fields of structs that give none of the ``known`` columns."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return list_type(kind, with_known_fields(kind.value_type, known))
    if pa.types.is_struct(kind):
        fields = [field for field in kind if not set(known).isdisjoint(_leaf_names(field.name, field.type, known))]
        return pa.struct([field.with_type(with_known_fields(field.type, known)) for field in fields])
    return kind


def _innermost(elements: pa.Array, name: str) -> pa.Array:
    if holds_lists(elements.type):
        raise TypeError(
            f"column {name!r} expects lists of numbers, text or structs, one list per set; got lists within them, "
            f"{elements.type}. Flatten them, drop them, or make each inner value a separate column."
        )
    return elements


def lists_from_ragged(sets: Ragged, name: str) -> Lists:
    """Returns the columns of sets of elements (N,) or (N, d). They share the memory of the sets."""
    if sets.values.dim() > 2:
        raise ValueError(
            f"as_sets expects a Ragged of elements (N,) or (N, d); got features {tuple(sets.values.shape[1:])}. "
            "Flatten them: sets.with_values(sets.values.flatten(1))."
        )
    return Lists(to_numpy(sets.offsets), array_columns(to_numpy(sets.values), name))


def lists_from_python(sets: Sequence[Any], name: str, drop: Collection[str] = ()) -> Lists:
    """Returns the elements of a list of sets: arrays or tensors (n,) or (n, d), or nested lists.

    Keys of dicts that are named in ``drop`` are left out, at any depth.
    Raises: TypeError or ValueError for an entry that is not a set, or differs in shape or kind from the others.
    """
    sets = [_listed(x) for x in sets]
    arrays = [_array(x, b) for b, x in enumerate(sets)]
    parts = [x for x in arrays if x is not None]
    if len(parts) < len(sets):
        try:
            return lists_from_arrow(pa.array(sets, from_pandas=True), name, drop)
        except (ValueError, TypeError, OverflowError, pa.ArrowException) as error:
            raise TypeError(
                "a list of sets expects elements of one kind in each set: numbers, vectors of one length, text, or "
                f"dicts of columns; got others. Arrow says: {str(error).splitlines()[0]}"
            ) from error
    like = next((x for x in parts if x.shape != (0,)), parts[0])
    parts = [x if x.shape != (0,) else np.zeros((0, *like.shape[1:]), like.dtype) for x in parts]
    for b, x in enumerate(parts):
        if x.ndim not in (1, 2) or x.shape[1:] != like.shape[1:]:
            d = "d" if like.ndim != 2 else like.shape[1]
            raise ValueError(
                f"a list of sets expects arrays (n, {d}), or (n,), alike in all sets, and got one of shape {x.shape} "
                f"as set {b}. Give every set the same columns; an empty one has shape (0, {d})."
            )
        if (x.dtype.kind in "biuf") != (like.dtype.kind in "biuf") or (x.dtype.kind == "V" and x.dtype != like.dtype):
            raise TypeError(
                f"a list of sets expects elements of one kind, {like.dtype} as in the first; got {x.dtype} in set {b}. "
                "Convert it."
            )
    offsets = offsets_of(np.array([len(x) for x in parts]))
    return Lists(offsets, array_columns(_together(parts), name))


def _together(parts: list[np.ndarray]) -> np.ndarray:
    """Returns all elements. They are objects if their common dtype is a float that does not hold them."""
    if len(parts) == 1:
        return parts[0]
    masked = any(isinstance(x, np.ma.MaskedArray) for x in parts)
    concatenate: Callable[[list[np.ndarray]], np.ndarray] = np.ma.concatenate if masked else np.concatenate
    values = concatenate(parts)
    integers = [x for x in parts if x.dtype.kind in "iu" and x.size]
    if values.dtype.kind == "f" and any(x.max() > FLOAT_WHOLE or x.min() < -FLOAT_WHOLE for x in integers):
        return concatenate([x.astype(object) for x in parts])
    return values


def _listed(x: Any) -> Any:
    """Returns awkward arrays, and Python's sets, counters, ranges, generators and their like, as lists."""
    if isinstance(x, Counter):
        if any(not isinstance(num, int) or num < 0 for num in x.values()):
            raise ValueError(f"a Counter expects counts that are whole numbers >= 0; got {dict(x)!r:.60}.")
        x = list(x.elements())
    elif isinstance(x, set | frozenset):
        x = list(x)
    elif type(x).__module__.partition(".")[0] == "awkward":
        return x.to_list()
    else:
        return list(x) if isinstance(x, range | deque | Iterator | KeysView | ValuesView) else x
    try:
        return sorted(x)  # the iteration order of a set of words differs between runs
    except TypeError:
        return sorted(x, key=repr)


def array_columns(values: np.ndarray, name: str) -> dict[str, Column]:
    """Returns the columns of an array: (N,), (N, d), or (N,) with named fields. They are views of the array."""
    if values.dtype.names is not None:
        return {field: from_numpy(values[field], field) for field in values.dtype.names}
    if values.ndim == 1:
        return {name: from_numpy(values, name)}
    if values.shape[1] == 0:
        raise ValueError(
            f"the elements have 0 feature(s) (shape={values.shape}) while a minimum of 1 is required. Give a column."
        )
    return {f"{name}{j}": from_numpy(values[:, j], f"{name}{j}") for j in range(values.shape[1])}


def check_in_step(lists: dict[str, Lists], where: Where) -> np.ndarray:
    """Returns the offsets that all of these columns of lists must share.

    Raises: ValueError, naming two columns and the row, if the offsets differ.
    """
    for (a, one), (b, other) in pairwise(lists.items()):
        if not np.array_equal(one.offsets, other.offsets):
            sizes = np.diff(one.offsets), np.diff(other.offsets)
            row = int((sizes[0] != sizes[1]).argmax())
            raise ValueError(
                f"columns {a!r} and {b!r} expect lists of one length in each row, as they describe the same elements; "
                f"got {sizes[0][row]} and {sizes[1][row]} in {where(row)}. Correct it, or leave one column out."
            )
    return next(iter(lists.values())).offsets


def check_new(name: str, known: Any) -> None:
    """Raises a ValueError if there is a column of this name already."""
    if name in known:
        raise ValueError(f"expected different names for all columns; got two called {name!r}. Rename one.")


def _array(x: Any, b: int) -> np.ndarray | None:
    """Returns a set as an array, or None for a list of anything but numbers, which Arrow reads."""
    if isinstance(x, list | tuple):
        try:
            array = np.asarray(x) if len(x) else np.zeros(0)
        except ValueError:
            return None
        if array.dtype.kind == "f" and (np.abs(array) >= FLOAT_WHOLE).any():
            return None if any(isinstance(each, int) for each in np.array(x, object).ravel()) else array
        return array if array.dtype.kind in "biufmM" else None
    if isinstance(x, Tensor):
        x = to_numpy(x)
    if hasattr(x, "dims") and hasattr(x, "__array__"):  # an array of xarray
        x = np.asarray(x)
    if not isinstance(x, np.ndarray) or x.ndim == 0:
        raise TypeError(
            f"a list of sets expects each set as an array (n, d), a tensor or a nested list; got {type(x).__name__} "
            f"as set {b}. Join tables, one per set, into one table with set_id=; pass a dict of counts as a Counter."
        )
    return x


def to_numpy(x: Tensor) -> np.ndarray:
    """Returns a tensor as numpy. It shares memory if it is on the host and numpy has its dtype."""
    x = x.detach().cpu()
    return (x.float() if x.dtype == torch.bfloat16 else x).numpy()
