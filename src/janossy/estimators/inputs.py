"""Checked inputs of fits and predictions: files as streams, and the weights, groups and targets of sets."""

from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np

from janossy.tables.encoder import TableEncoder
from janossy.tables.files import Files, open_files
from janossy.tables.grouping import group_numbers
from janossy.tables.lists import Lists, leaf_names
from janossy.tables.sources import source
from janossy.tables.stream import SetStream
from janossy.tables.targets import as_array, check_weights


def stream_of(
    X: Any,
    columns: Mapping[str, Any],
    y: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    encoder: TableEncoder | None = None,
) -> SetStream | None:
    """Returns the stream X, or a stream of the files that X names; None for anything else.

    ``columns`` are the arguments of ``as_sets`` for columns. With an ``encoder``, files are read without columns that
    training did not have.
    Raises: ValueError if y, sample_weight or groups does not name a column.
    """
    beside = {"y": y, "sample_weight": sample_weight, "groups": groups}
    if isinstance(X, SetStream):
        for name, given in beside.items():
            if given is not None:
                raise ValueError(f"a SetStream names its columns itself, SetStream(paths, {name}=…); got {name}.")
        return X
    listed = X if isinstance(X, list | tuple) and X else [X]
    if not all(isinstance(path, str | PathLike) for path in listed):
        return None
    names = [y] if isinstance(y, str) else y
    if y is not None and not (isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)):
        raise ValueError(f"sets in files expect y as the name of a column, or several; got {type(y).__name__}.")
    for name, given in list(beside.items())[1:]:
        if given is not None and not isinstance(given, str):
            raise ValueError(f"sets in files expect {name} as the name of a column; got {type(given).__name__}.")
    try:
        files = open_files(listed)
        drop = [] if encoder is None else _unknown(files, encoder)
        return SetStream(files, y, sample_weight=sample_weight, groups=groups, drop=drop, **columns)
    except FileNotFoundError as error:
        if isinstance(X, str | PathLike):
            raise
        raise FileNotFoundError(
            f"{error} A list of text names files; sets of words are lists: {[listed[:1]]}."
        ) from None


def _unknown(files: Files, encoder: TableEncoder) -> list[str]:
    """Returns the columns of files that training did not have."""
    known = {code.name for code in (*encoder.elements, *encoder.context)}
    return [each.name for each in files.schema if not known & set(leaf_names(each, known))]


def weights_of(sample_weight: Any, num_sets: int) -> np.ndarray:
    """Returns one weight per set, (B,). Raises: ValueError for another number of weights, or an invalid weight."""
    if sample_weight is None:
        return np.ones(num_sets)
    expected = f"sample_weight expects {num_sets} numbers, one per set; got"
    try:
        weights = np.asarray(as_array(sample_weight), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{expected} other values ({error}). Leave it out for equal weights.") from None
    if weights.shape != (num_sets,):
        raise ValueError(f"{expected} shape {weights.shape}. Leave it out for equal weights.")
    check_weights("sample_weight", weights, lambda i: f"for set {i}")
    return weights


def groups_of(groups: Any, num_sets: int) -> np.ndarray | None:
    """Returns the group number of each set, (B,), or None without groups.

    Raises: ValueError for another number of groups, or for lists.
    """
    if groups is None:
        return None
    column = source(groups, "groups")
    if isinstance(column, Lists) or len(column) != num_sets:
        raise ValueError(f"groups expects one value per set, {num_sets} in all; got {len(column)}, or lists.")
    return group_numbers([column])


def check_like(y: np.ndarray, said: np.ndarray, owner: object) -> None:
    """Raises a ValueError unless there is one target for each number or class that was predicted."""
    if len(y) != len(said) or y.size != said.size:
        raise ValueError(
            f"{type(owner).__name__} expects y of shape {said.shape} in score, as predict returns; got {y.shape}. Give "
            "the targets of fit."
        )


def check_targets_given(y: Any, owner: object) -> None:
    """Raises a ValueError if there are no targets, or only their name."""
    if isinstance(y, str):
        raise ValueError(
            f"{type(owner).__name__} expects y with one target per set; got the name {y!r}. Give the targets; "
            "as_sets(table, y='name') takes them from a table."
        )
    if y is None:
        raise ValueError(
            f"{type(owner).__name__} requires y to be passed, but the target y is None. Give one target per set; "
            "as_sets(table, y='name') takes them from a table."
        )
