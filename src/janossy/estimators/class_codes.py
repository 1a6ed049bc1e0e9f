"""Targets in any form as classes and their codes."""

import warnings
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from math import isnan
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor

from janossy.estimators.class_targets import ClassTargets
from janossy.estimators.classical.many_classes import without_many_classes
from janossy.tables.category import category_of
from janossy.tables.sources import is_of
from janossy.tables.targets import as_array, check_no_dates, check_none_missing, columns_in_frame

FEW = 20
"""The most sets whose classes may all differ without a warning, as in scikit-learn."""

COLLECTIONS = (list, tuple, np.ndarray, AbstractSet)
"""The types of several labels of one set."""

NULLABLE = ("b", "i", "u")
"""The kinds of pandas' nullable columns that scikit-learn makes floats, which have no True and fewer digits."""

EXPECTED = "SetClassifier expects two classes or more in y"


def classes_of(y: Any) -> tuple[ClassTargets, np.ndarray, Tensor]:
    """Returns the classes of targets in any form; the targets, (B,) or (B, t); and their codes, int64.

    Raises: ValueError for one class only, missing targets, or lists that may be columns or labels.
    """
    y = as_array(y)
    if columns_in_frame(y) is not None:
        y = table_of(y)
    y = y.to_pylist() if hasattr(y, "to_pylist") else y
    if (labels := _labels_of(y)) is not None:
        known = _sorted({label for each in labels for label in each})
        if len(known) < 2:
            raise ValueError(f"SetClassifier expects two labels or more in y; got {known.tolist()}.")
        places = {label: place for place, label in enumerate(known.tolist())}
        codes = np.zeros((len(labels), len(known)), np.int64)
        for row, each in enumerate(labels):
            codes[row, [places[label] for label in each]] = 1
        return ClassTargets("labels", [known]), codes, torch.from_numpy(codes)
    if getattr(y, "ndim", 1) == 2 and not y.shape[1]:
        raise ValueError("SetClassifier expects y with a column of classes or more; got none. Is y the right table?")
    table: Any = np.asarray(y) if getattr(y, "ndim", 1) == 2 or _are_flags(y) else None
    if table is not None and table.shape[1] != 1:
        found = [_coded(column, f", column {j}") for j, column in enumerate(columns_of(table))]
        codes = np.stack([each for _, each in found], 1)
        return ClassTargets("columns", [classes for classes, _ in found]), table, torch.from_numpy(codes)
    if getattr(getattr(y, "dtype", None), "kind", "") in NULLABLE and not isinstance(y.dtype, np.dtype):
        y = np.asarray(y, dtype=object)
    y = plain_classes(column_or_1d(of_one_type(y), warn=True))
    classes, codes = _coded(y)
    return ClassTargets("one", [classes]), y, torch.from_numpy(codes)


def table_of(y: Any) -> np.ndarray:
    """Returns classes in several columns, an array or a frame of any library, as an array (B, t)."""
    if (frame := columns_in_frame(y)) is None:
        return np.asarray(y)
    check_no_dates(y, True)
    return np.array([np.asarray(each).astype(object) for each in frame]).T


def columns_of(table: np.ndarray) -> list[np.ndarray]:
    """Returns the columns of classes (B, t). Raises: ValueError for a missing class."""
    columns = [np.array(plain_classes(column).tolist()) if table.dtype == object else column for column in table.T]
    for column in columns:
        check_none_missing(column)
    return columns


def collections_of(y: Any) -> Any:
    """Returns the collections of labels in y. Raises: ValueError for anything else."""
    given = y.to_pylist() if hasattr(y, "to_pylist") else y
    found = given if getattr(given, "ndim", 1) == 1 else [given]
    if wrong := [each for each in found if not isinstance(each, COLLECTIONS) or getattr(each, "ndim", 1) != 1]:
        got = type(wrong[0]).__name__
        raise ValueError(
            f"SetClassifier expects a collection of labels for each set in score; got {got}. Give the labels of fit."
        )
    return given


def check_order(y: Any, classes: np.ndarray) -> None:
    """Raises a ValueError if y holds categories of pandas, polars or Arrow in another order than their classes."""
    if is_of("pandas", y) and getattr(y, "ndim", 1) == 2:
        y = y.iloc[:, 0]
    kind: Any = y.type if isinstance(y, pa.Array | pa.ChunkedArray) else getattr(y, "dtype", None)
    if isinstance(y, pa.Array | pa.ChunkedArray) and pa.types.is_dictionary(kind) and kind.ordered:
        order = y.unify_dictionaries().chunk(0).dictionary if isinstance(y, pa.ChunkedArray) else y.dictionary
    elif getattr(kind, "ordered", False) or type(kind).__name__ == "Enum":
        order = kind.categories
    else:
        return
    known = set(classes.tolist())
    ascending = [each for each in (order.to_pylist() if hasattr(order, "to_pylist") else list(order)) if each in known]
    if ascending != [each for each in classes.tolist() if each in ascending]:  # a file may hold a part of them
        raise ValueError(
            f"ordinal=True expects classes that ascend when they are sorted; got categories in the order "
            f"{ascending[:20]}. Give their codes as y."
        )


def of_one_type(y: Any) -> Any:
    """Returns lists of text and other values as objects, of which NumPy would make text. Other targets stay."""
    is_list = isinstance(y, list | tuple) and not all(isinstance(x, str) for x in y)
    if is_list and not any(isinstance(x, Sequence) and not isinstance(x, str | bytes) for x in y):
        return np.array(y, object) if np.asarray(y).dtype.kind in "US" else y
    return y


def plain_classes(y: np.ndarray) -> np.ndarray:
    """Returns classes (B,) that are UUIDs, bytes, decimals or whole numbers beyond 64 bits as numbers or text.

    Raises: TypeError or ValueError for classes of several types, or a missing class.
    """
    if y.ndim != 1 or y.dtype.kind not in "OS" or all(isinstance(x, str) for x in y):
        return y
    check_no_dates(y, True)
    check_none_missing(y)
    found = [category_of(x) for x in y.tolist()]
    if any(isinstance(x, str) or (isinstance(x, int) and not -(2**63) <= x < 2**63) for x in found):
        return np.array([str(x) for x in found])
    return np.array(found)


def _labels_of(y: Any) -> list[list[Any]] | None:
    """Returns the labels of each set if y holds collections of labels, or None for anything else.

    Raises: ValueError if lists of one length may be rows of columns.
    """
    if isinstance(y, np.ndarray) and y.dtype != object:
        return None
    if getattr(y, "ndim", 1) == 2:
        return None
    values = y.tolist() if hasattr(y, "tolist") else list(y) if isinstance(y, Sequence) else None
    if not values or not all(isinstance(each, COLLECTIONS) for each in values):
        return None
    if _are_flags(values):
        return None
    labels = [list(each) for each in values]
    if len({len(each) for each in labels}) == 1 and not all(isinstance(each, AbstractSet) for each in values):
        raise ValueError(
            "y of lists of one length may be columns or labels; got such lists. Give an array (B, t) of columns, or a "
            "Python set of labels for each set."
        )
    return labels


def _are_flags(y: Any) -> bool:
    """Returns True for a sequence of lists of one length that hold only 0 and 1."""
    if not isinstance(y, list | tuple) or not all(isinstance(each, list | tuple) for each in y):
        return False
    return len({len(each) for each in y}) == 1 and all(
        isinstance(flag, bool | int | np.integer) and flag in (0, 1) for each in y for flag in each
    )


def _coded(y: np.ndarray, where: str = "") -> tuple[np.ndarray, np.ndarray]:
    """Returns the classes of one column, ascending, and its codes (B,)."""
    check_no_dates(y, True)
    check_none_missing(y)
    with without_many_classes():
        check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"{EXPECTED}{where}; got one class, {classes[0]!r}. Is y the right column?")
    if classes.dtype.kind in "iuf" and len(y) > FEW and len(classes) > len(y) / 2:
        warnings.warn(
            f"SetClassifier expects sets that share classes; got {len(classes)} different numbers in y{where} for "
            f"{len(y)} sets. SetRegressor takes amounts.",
            stacklevel=4,
        )
    return classes, codes.astype(np.int64)


def _sorted(labels: set[Any]) -> np.ndarray:
    """Returns labels as an array, ascending.

    Raises: ValueError for labels that cannot be compared, for dates, and for a missing label.
    """
    check_no_dates(np.array([*labels, None], object), True)  # None keeps labels that are tuples in one dimension
    if missing := [label for label in labels if isinstance(label, float) and isnan(label)]:
        raise ValueError(f"y expects labels that are text or numbers; got {missing[0]}. Leave it out.")
    try:
        return np.array(sorted(labels))
    except TypeError:
        kinds = sorted({type(label).__name__ for label in labels})
        raise ValueError(f"y expects labels of one type; got {', '.join(kinds)}. Convert them to text.") from None
