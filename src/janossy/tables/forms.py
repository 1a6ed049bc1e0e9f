"""as_sets: the single entry for data of every form."""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, KeysView, Mapping, Sequence, ValuesView
from dataclasses import replace
from typing import Any, overload

import numpy as np
from torch import Tensor

from janossy.sets import Ragged
from janossy.tables.columns import Column, Kind, Where
from janossy.tables.grouping import Grouping, ids_of, unique_ids
from janossy.tables.ids import Ids, all_names
from janossy.tables.lists import (
    Lists,
    array_columns,
    check_in_step,
    check_new,
    lists_from_python,
    lists_from_ragged,
    to_numpy,
)
from janossy.tables.sources import Source, is_of, list_column, named_columns
from janossy.tables.table import SetTable
from janossy.tables.targets import (
    Targets,
    check_known,
    check_outer,
    taken_by_name,
    targets_of,
    with_targets,
    without_target,
)

Names = str | int | Iterable[str | int]
"""Names of columns. A number is also a name, because pandas and CSV files without a header name columns by number."""


@overload
def as_sets(
    X: Any,
    y: None = None,
    *,
    set_id: Names | Ids | None = None,
    set_columns: Names | None = None,
    numeric: Names = (),
    categorical: Names = (),
    drop: Names = (),
    where: Where = "row {}".format,
) -> SetTable: ...


@overload
def as_sets(
    X: Any,
    y: Any,
    *,
    set_id: Names | Ids | None = None,
    set_columns: Names | None = None,
    numeric: Names = (),
    categorical: Names = (),
    drop: Names = (),
    where: Where = "row {}".format,
) -> tuple[SetTable, np.ndarray]: ...


def as_sets(
    X: Any,
    y: Any = None,
    *,
    set_id: Names | Ids | None = None,
    set_columns: Names | None = None,
    numeric: Names = (),
    categorical: Names = (),
    drop: Names = (),
    where: Where = "row {}".format,
) -> SetTable | tuple[SetTable, np.ndarray]:
    """Returns the sets of X, in whatever form X holds them, and if y is given also one target per set.

    - A list of sets: arrays or tensors (n, d) or (n,), or nested lists. Also a ``Ragged``.
    - A table with columns of lists, one row per set. The lists of a row must have one length. A list of structs gives
      one column per field. All other columns belong to the sets.
    - With ``set_id``, a table without lists, one row per element. Rows with one id are a set. Sets are in the order in
      which their ids first appear, and elements in the order of their rows. Two ids make sets of sets.
    - An array (B, d), or a table without lists: sets of one element.
    - An awkward array, of records or numbers.
    - A ``SetTable``, which is returned itself.

    A table is a pandas or polars frame, any object that exports itself as Arrow, or a dict of columns. DuckDB's
    relations and readers of batches are tables too. A column of structs or dicts becomes one column per field, such as
    "customer.age". Numbers, booleans and dates are not copied if they are contiguous and have no nulls.

    Args:
        y: the targets, in one of these forms. If X has one row per element, the targets must be constant in each set.

            - the name of a column of X, or a list of names
            - values, one per row of X; a pandas Series must have X's index, or an index that counts its rows
            - with ``set_id``, targets by id: a dict, a pandas Series indexed by id, or a table with the column
              ``set_id``. If an id has several columns, it is a tuple. An id that only y has is an empty set.

        set_id: the column that identifies the set of a row. If X has one row per set, the column that names the sets.

            - "run+event": two or more columns whose values together identify the set
            - ["customer", "order"]: sets of sets, the outer id first. Rows with one customer are a set, and those with
              one order too are an inner set of it. There is one target per customer.

        set_columns: the columns of the sets. By default, all columns beside columns of lists. If X has one row per
            element, these columns must be constant in each set.
        numeric, categorical: columns, by name or position, whose kind differs from their dtype, such as codes that are
            numbers, or numbers that are text.
        drop: columns of a table to leave out, or fields of structs in lists. The table need not have them. A column
            that y names is kept.
        where: a function that names a row of a table in errors, by its number; for example a file and the row in it.

    Shapes: B sets -> a ``SetTable`` of length B, and with y an array (B,), or (B, t) for several targets.

    Raises: TypeError or ValueError, naming column and row, for anything but these forms.

    Example:
        >>> long = {"hand": [7, 7, 3], "rank": [1, 13, 5], "suit": ["H", "S", "H"], "won": [1, 1, 0]}
        >>> sets, won = as_sets(long, "won", set_id="hand")
        >>> sets
        SetTable(2 sets of 1 to 2 elements, 3 in all
          elements: rank numeric, suit categorical (2))
        >>> sets.ids, won
        (array([7, 3]), array([1, 0]))
    """
    if hasattr(X, "toarray"):  # before Mapping: scipy has a sparse matrix that is a dict
        raise TypeError(f"as_sets expects dense elements; got a sparse {type(X).__name__}. Call its toarray().")
    if type(X).__name__.endswith("GroupBy"):
        raise TypeError(
            f"as_sets expects a table; got its groups, a {type(X).__name__}. Give the table itself: as_sets(table, "
            "set_id='name')."
        )
    if isinstance(X, Iterator | KeysView | ValuesView | deque) and not hasattr(X, "__arrow_c_stream__"):
        X = list(X)
    if is_of("pandas", X) and str(getattr(X, "dtype", "")) == "object":  # a Series or an index of lists or arrays
        X = X.tolist()
    kinds = _kinds(numeric, categorical)
    if behind := [name for name in names_of(drop) if isinstance(name, int) and name < 0]:
        raise ValueError(f"drop expects names of columns; got the position {behind[0]}. Name the column.")
    dropped, of_y = ({str(name) for name in names} for names in (names_of(drop), _names_in(y)))
    given = set_id if isinstance(set_id, Ids) else [str(name) for name in names_of(set_id)]
    columns = None
    if not isinstance(X, SetTable):
        named = [str(name) for each in (y, set_columns, numeric, categorical) for name in _names_in(each)]
        columns = named_columns(X, all_names(given), dropped - of_y, named)
    ids = Ids.of(given, columns or ())
    if columns is None:
        if (given or set_columns is not None) and not isinstance(X, SetTable):
            raise TypeError(
                f"set_id and set_columns expect X to be a table with names of columns; got {type(X).__name__}. "
                "Leave them out, or give a frame, an Arrow table or a dict of columns."
            )
        sets = X if isinstance(X, SetTable) else _of_arrays(X, dropped)
        if ids.inner and sets.inner is None:
            raise ValueError(
                f"set_id={given} expects rows of a table, whose second id names inner sets; got a SetTable of sets by "
                "one id. Give both ids where it is made."
            )
        kinds = by_name(kinds, sets.elements, sets.context)
        targets, by_element = None if y is None else targets_of(y, ids.outer, X, len(sets)), False
    else:
        targets = None
        kinds = by_name(kinds, columns)
        if y is not None and columns:
            num_rows = len(next(iter(columns.values())))
            targets = taken_by_name(y, columns, num_rows) or targets_of(y, ids.outer, X, num_rows)
            for name in dropped & of_y:  # words in y may be data, and not names
                columns.pop(name, None)
        by_element = bool(ids.outer) and not any(isinstance(column, Lists) for column in columns.values())
        sets, targets = _of_table(columns, targets, ids, set_columns, kinds, where)
    if len(sets) == 0:
        raise ValueError("as_sets expects one set or more; got none: Found array with 0 sample(s).")
    sets = _overruled(sets, kinds)
    if targets is None:
        return sets
    check_outer(targets, ids.outer, ids.inner)
    return with_targets(sets, targets, by_element, where)


def _of_arrays(X: Any, drop: Collection[str]) -> SetTable:
    """Returns the sets of X that is not a table: a Ragged, a list of sets, a column of lists or an array."""
    if isinstance(X, Tensor) and X.is_nested:
        X = Ragged.from_nested(X)
    if isinstance(X, Ragged):
        return _of_lists({"x": lists_from_ragged(X, "x")})
    if isinstance(X, list | tuple):
        return _of_lists({"x": lists_from_python(X, "x", drop)} if X else {"x": Lists(np.zeros(1, np.int64), {})})
    if isinstance(X, Tensor):
        X = to_numpy(X)
    elif not isinstance(X, np.ndarray):
        lists = list_column(X, drop)
        if lists is not None:
            return _of_lists({"x": lists})
        if not hasattr(X, "__array__"):
            raise TypeError(
                "as_sets expects a list of arrays, a Ragged, a table (pandas, polars, Arrow, a dict of columns), an "
                f"awkward array or an array (B, d); got {type(X).__name__}. Convert it (collect() a LazyFrame)."
            )
        X = np.asarray(X)
    if X.ndim == 1 and X.dtype.kind == "O":
        return _of_arrays(X.tolist(), drop)
    if X.ndim < 2:
        raise ValueError(
            f"as_sets expects an array (B, d), each row a set of one element; got shape {X.shape}. Reshape your data: "
            "X.reshape(-1, 1) has one column; a list of arrays has sets of any size."
        )
    if X.ndim > 2:
        raise ValueError(
            f"as_sets expects an array (B, d), each row a set of one element; got shape {X.shape}, maybe padded. "
            "Pass Ragged.from_padded(x, mask); without a mask, all elements are real."
        )
    return SetTable(np.arange(len(X) + 1), array_columns(X, "x"), {})


def _of_table(
    columns: dict[str, Source],
    targets: Targets | None,
    set_id: Ids,
    set_columns: Names | None,
    kinds: Mapping[str | int, Kind],
    where: Where,
) -> tuple[SetTable, Targets | None]:
    """Returns the sets of a table and their targets, one per set."""
    if not columns:
        raise ValueError("as_sets expects a table of one column or more; got 0 feature(s).")
    ids, inner_ids = (_taken(names, columns) for names in (set_id.outer, set_id.inner))
    lists = {name: column for name, column in columns.items() if isinstance(column, Lists)}
    plain = {
        name: column.to_kind(kinds.get(name, column.kind), name, where)
        for name, column in columns.items()
        if isinstance(column, Column)
    }
    names = list(plain) if lists and set_columns is None else [str(name) for name in names_of(set_columns)]
    for name in names:
        check_known(name, plain, "set_columns")
    context = {name: plain[name] for name in names}
    elements = {name: column for name, column in plain.items() if name not in context}
    if lists:
        if inner_ids:
            raise ValueError(
                f"set_id expects one id for a table with lists, whose rows are sets; got {', '.join(set_id)}. Give "
                "sets of sets as one row per element, without lists."
            )
        sets = _of_lists(lists, context, where)
        return (replace(sets, ids=unique_ids(ids, where)) if ids else sets), targets
    if not elements:
        raise ValueError("as_sets expects a column of the elements; got columns of the sets only. Shorten set_columns.")
    if not ids:
        num_rows = len(next(iter(elements.values())))
        return SetTable(np.arange(num_rows + 1), elements, context), targets
    group = Grouping.by(ids, where)
    if targets is not None and targets.ids is None:
        targets.check_length(int(group.offsets[-1]), "row")
        for column in targets.columns.values():
            if column.missing().any():
                row = int(column.missing().argmax())
                raise without_target(ids_of([each[[row]] for each in ids.values()])[0], where(row))
        values = {name: _of_set(group, column, name, set_id, where) for name, column in targets.columns.items()}
        targets = Targets(values, targets.flat)
    sets = SetTable(
        group.offsets,
        {name: column[group.order] for name, column in elements.items()},
        {name: _of_set(group, column, name, set_id, where) for name, column in context.items()},
        group.ids,
        group.inner_numbers(inner_ids, where) if inner_ids else None,
    )
    return sets, targets


def _taken(names: Sequence[str], columns: dict[str, Source]) -> dict[str, Column]:
    """Returns the columns of an id, and takes them out of the table."""
    taken: dict[str, Column] = {}
    for name in names:
        check_known(name, columns, "set_id")
        column = columns.pop(name)
        if isinstance(column, Lists):
            raise TypeError(f"set_id={name!r} expects a column of numbers or text; got lists.")
        taken[name] = column
    return taken


def _of_set(group: Grouping, column: Column, name: str, set_id: Ids, where: Where) -> Column:
    """Returns the single value per set of a column. Raises: ValueError if it is not constant in each set."""
    try:
        return group.one_a_set(column, name, where)
    except ValueError as error:
        if not set_id.inner:
            raise
        raise ValueError(
            f"{error} Rows with one {'+'.join(set_id.outer)} are a set. A column of the inner sets is read with the "
            f"elements. If all ids together identify a set, write set_id={'+'.join(set_id)!r}."
        ) from None


def _of_lists(
    lists: dict[str, Lists], context: dict[str, Column] | None = None, where: Where = "row {}".format
) -> SetTable:
    offsets = check_in_step(lists, where)
    elements: dict[str, Column] = {}
    for column in lists.values():
        for name, values in column.columns.items():
            check_new(name, elements | (context or {}))
            elements[name] = values
    return SetTable(offsets, elements, context or {})


def _kinds(numeric: Names, categorical: Names) -> dict[str | int, Kind]:
    kinds: dict[str | int, Kind] = dict.fromkeys(names_of(numeric), "numeric")
    for name in names_of(categorical):
        if name in kinds:
            raise ValueError(f"numeric and categorical expect different columns; got {name!r} in both. Drop one.")
        kinds[name] = "categorical"
    return kinds


def by_name(kinds: Mapping[str | int, Kind], *known: Mapping[str, Any]) -> dict[str | int, Kind]:
    """Returns the kinds, with a number as a name if a column has that name. Other numbers are positions."""
    return {str(key) if any(str(key) in columns for columns in known) else key: kind for key, kind in kinds.items()}


def _overruled(sets: SetTable, kinds: Mapping[str | int, Kind]) -> SetTable:
    """Returns the sets with these kinds for their columns. A number is the position of a column of the elements."""
    elements, context, places = dict(sets.elements), dict(sets.context), list(sets.elements)
    for key, kind in kinds.items():
        name = places[key] if isinstance(key, int) and -len(places) <= key < len(places) else str(key)
        check_known(name, elements | context, kind)
        if name in elements:
            elements[name] = elements[name].to_kind(kind, name, sets.place)
        else:
            context[name] = context[name].to_kind(kind, name, sets.place_of_set)
    return replace(sets, elements=elements, context=context) if kinds else sets


def _names_in(x: Any) -> list[Any]:
    """Returns the names in an argument that may also hold values."""
    return (
        [x]
        if isinstance(x, str | int | np.integer)
        else [each for each in x if isinstance(each, str | int | np.integer)]
        if isinstance(x, list | tuple)
        else []
    )


def names_of(names: Names | None) -> list[str | int]:
    """Returns one or several names as a list. Numbers of any library become int.

    Raises: TypeError for a name that is neither text nor a whole number.
    """
    listed = [] if names is None else [names] if isinstance(names, str | int | np.integer) else list(names)
    for name in listed:
        if not isinstance(name, str | int | np.integer) or isinstance(name, bool):
            raise TypeError(f"names of columns expect text, or whole numbers; got {name!r}.")
    return [name if isinstance(name, str) else int(name) for name in listed]
