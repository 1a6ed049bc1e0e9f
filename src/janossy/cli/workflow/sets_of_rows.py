"""Sets, targets, weights and groups of the rows of tables, by a recipe: what fit and predict share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from janossy.cli.errors import BadArgument
from janossy.cli.workflow.reading import File, TableRows, unknown
from janossy.cli.workflow.record import Recipe
from janossy.cli.workflow.side_by_side import hint
from janossy.cli.workflow.wording import in_options
from janossy.tables import Column, SetTable, as_sets
from janossy.tables.arrow import without_halves
from janossy.tables.columns import from_arrow
from janossy.tables.grouping import Grouping, group_numbers
from janossy.tables.ids import Ids, parts_of
from janossy.tables.lists import Lists, holds_lists, storage_type
from janossy.tables.sorted_ids import check_types
from janossy.tables.sources import source
from janossy.tables.targets import checked_weights

if TYPE_CHECKING:
    from janossy.tables import SetStream


@dataclass(frozen=True, eq=False)
class Read:
    """The sets of tables, their targets, (B,) or (B, t), if there are any, and their ids as in the tables.

    - With a ``stream``, the sets are those of the first piece.
    - ``labelled``: flags (B,) of sets with a target, if not all predicted sets have one.
    - ``notes``: lines for the user.
    - ``reasons``: the reasons for the types of columns of text. ``kinds``: those types, as far as ``AMBIGUOUS``,
      and if dates have a time zone.
    - ``weights`` and ``groups`` (B,): the weight of each set in a fit, and its group number.
    """

    sets: SetTable
    targets: np.ndarray | None
    ids: pa.Table
    stream: "SetStream | None" = None
    labelled: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    recipe: Recipe = field(default_factory=Recipe)
    weights: np.ndarray | None = None
    groups: np.ndarray | None = None


def sets_of(rows: TableRows, recipe: Recipe) -> Read:
    """Returns the sets of these rows. Raises: BadArgument, naming file, column and row, for invalid data."""
    table = rows.table.select([name for name in rows.table.column_names if name not in (*recipe.drop, *recipe.beside)])
    lists, ids = has_lists(table), rows.table.select(recipe.set_id)
    if not lists and not recipe.set_id:
        of_files = "If each file is a set, add a column with the file's name to it." if len(rows.files) > 1 else ""
        raise BadArgument(
            f"{rows.files[0]} has no column of lists: name the column that identifies the set of a row, --set-id COL. "
            f"{hint(table.column_names) or of_files}"
        )
    if not lists and set(table.column_names) <= {*recipe.ids, *recipe.set_columns}:
        raise BadArgument(
            f"{rows.files[0]} has no column of the elements: options name all of its columns, "
            f"{', '.join(rows.table.column_names)}."
        )
    for name in table.column_names:
        if holds_lists(table.schema.field(name).type) and table[name].null_count:
            row = pc.index(pc.is_null(table[name]), True).as_py()
            raise BadArgument(
                f"{rows.place(row)}: column {name!r} expects a list; got none. Write [] for a set without elements, or "
                "leave the row out."
            )
    labels = next((name for name in recipe.targets if holds_lists(rows.table.schema.field(name).type)), None)
    group = grouped(rows, recipe.set_id) if recipe.set_id and not lists else None
    try:
        sets = as_sets(
            table,
            rows.table.select(recipe.targets) if recipe.target and labels is None else None,
            set_id=Ids(recipe.set_id, recipe.inner_id),
            # If there are lists, all other columns belong to the sets unless options name some.
            set_columns=recipe.set_columns if recipe.set_columns or not lists else None,
            numeric=[name for name in recipe.numeric if name not in recipe.targets],
            categorical=[name for name in recipe.categorical if name not in recipe.targets],
            drop=set(recipe.drop).difference(rows.table.column_names),  # fields of structs
            where=rows.place,
        )
    except (TypeError, ValueError) as error:
        raise BadArgument(in_options(error)) from error
    if group is not None:  # in the order in which ids first appear, as in ``sets``
        ids = ids.take(pa.array(np.arange(len(ids))[group.order][group.offsets[:-1]]))
    sets, targets = sets if isinstance(sets, tuple) else (sets, None)
    if labels is not None:
        targets = _labels(rows, recipe, labels, group)
    weights, groups = _weights_and_groups(rows, recipe, group)
    return Read(sets, targets, ids, weights=weights, groups=groups)


def _labels(rows: TableRows, recipe: Recipe, name: str, group: Grouping | None) -> np.ndarray:
    """Returns the labels of each set, frozensets (B,), from a target of lists.

    Raises: BadArgument for lists that janossy group made from a column of the sets. BadArgument for labels that differ
        within a set, or if there is another target.
    """
    if len(recipe.targets) > 1:
        raise BadArgument(f"{rows.files[0]}: the target {name!r} holds lists of labels, and must be the only target.")
    if pa.types.is_nested(kind := storage_type(rows.table[name].type).value_type):
        raise BadArgument(
            f"{rows.files[0]}: the target {name!r} expects one value per set, or a list of labels that are numbers or "
            f"text; got lists of Arrow's {kind}. Name another column."
        )
    lists = rows.table[name].to_pylist()
    if all(each is None or len(set(each)) <= 1 for each in lists) and max(len(each or ()) for each in lists) > 1:
        raise BadArgument(
            f"{rows.files[0]}: the target {name!r} holds lists of one value each, and expects one value per set. If "
            f"janossy group has made them, give it --set-columns {name}."
        )
    labels = np.empty(len(lists), object)
    labels[:] = [frozenset(each or ()) for each in lists]
    if any(label is None for each in labels for label in each):
        raise BadArgument(f"{rows.files[0]}: the target {name!r} has a missing label in a list. Correct it.")
    if group is None:
        return labels
    order = np.arange(len(labels))[group.order]
    first: np.ndarray = labels[order[group.offsets[:-1]]]
    wrong = np.flatnonzero(labels[order] != np.repeat(first, group.sizes))
    if len(wrong):
        raise BadArgument(f"{rows.place(int(order[wrong[0]]))}: the target {name!r} differs within a set.")
    return first


def _weights_and_groups(
    rows: TableRows, recipe: Recipe, group: Grouping | None
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Returns the weight and the group number of each set, (B,), or None for those that no option names."""
    found: dict[str, Column] = {}
    try:
        for option, names in {"weight": recipe.weight, "groups": recipe.groups}.items():
            for name in names:
                column = source(rows.table[name], name)
                if isinstance(column, Lists):
                    raise BadArgument(f"{rows.files[0]}: --{option} {name} expects one value per set; got lists.")
                if (missing := column.missing()).any():
                    place = rows.place(int(missing.argmax()))
                    raise BadArgument(f"{place}: --{option} {name} expects a value for every set; got none.")
                if option == "weight":
                    column = Column("numeric", checked_weights(column, rows.place))
                found[option] = column if group is None else group.one_a_set(column, name, rows.place)
    except (TypeError, ValueError) as error:
        raise BadArgument(in_options(error)) from None
    weights = found["weight"].values if "weight" in found else None
    return weights, group_numbers([found["groups"]]) if "groups" in found else None


def with_targets(rows: TableRows, recipe: Recipe) -> tuple[TableRows, np.ndarray | None]:
    """Returns the rows of sets with a target in some row, and flags (B,) of these sets.

    The flags are None, and the rows are all, if every set has a target, or none has.
    """
    there = has_all(rows.table, recipe.targets)
    if there.all() or not there.any():
        return rows, None
    if not recipe.set_id or has_lists(rows.table.drop_columns(list(recipe.targets))):
        return rows.some(np.flatnonzero(there)), there
    group = grouped(rows, recipe.set_id)
    of_sets = np.add.reduceat(there[group.order].astype(np.int64), group.offsets[:-1]) > 0
    if of_sets.all():
        return rows, None
    of_rows = np.empty(len(there), bool)
    of_rows[group.order] = np.repeat(of_sets, group.sizes)
    return rows.some(np.flatnonzero(of_rows)), of_sets


def has_all(table: pa.Table, names: Sequence[str]) -> np.ndarray:
    """Returns flags (N,) of rows in which none of these columns is missing."""
    there = np.ones(len(table), bool)
    for name in names:
        there &= ~pc.is_null(without_halves(table[name]), nan_is_null=True).to_numpy()
    return there


def grouped(rows: TableRows, set_id: Sequence[str]) -> Grouping:
    """Groups the rows of each set. Raises: BadArgument for a row without an id."""
    try:
        return Grouping.by({name: from_arrow(rows.table[name], name) for name in set_id}, rows.place)
    except ValueError as error:
        raise BadArgument(in_options(error)) from None


def has_lists(table: pa.Table) -> bool:
    """Returns True if some column holds lists."""
    return any(holds_lists(field.type) for field in table.schema)


def exact_classes(rows: TableRows, targets: Sequence[str]) -> TableRows:
    """Returns the rows with classes that are decimals or durations as text: as numbers, some could become equal."""
    for name in targets:
        place = rows.table.schema.get_field_index(name)
        if place >= 0 and (
            pa.types.is_decimal(kind := rows.table.schema.field(name).type) or pa.types.is_duration(kind)
        ):
            values = rows.table[name].cast(pa.int64()) if pa.types.is_duration(kind) else rows.table[name]
            rows = replace(rows, table=rows.table.set_column(place, name, values.cast(pa.large_string())))
    return rows


def split_ids(recipe: Recipe, known: Sequence[str]) -> Recipe:
    """Returns the recipe with the columns of each id, of which run+event has two."""
    each = (recipe.set_id, recipe.inner_id)
    outer, inner = (tuple(part for name in names for part in parts_of(name, known)) for names in each)
    return replace(recipe, set_id=outer, inner_id=inner)


def check_ids(rows: TableRows, ids: Sequence[str]) -> None:
    """Raises a BadArgument if a column of ids is not in the table, or holds lists or structs."""
    for name in ids:
        check_known(name, rows.table.column_names, "set_id", rows.files[0])
    try:
        check_types(rows.table.schema, ids)
    except ValueError as error:
        raise BadArgument(in_options(error)) from None


def check_known(name: str, known: Sequence[str], option: str, file: File) -> None:
    """Raises a BadArgument if an option names a column that the file lacks."""
    if name not in known:
        raise unknown(name, option_of(option), known, file)


def option_of(name: str) -> str:
    """Returns the option of the command that fills a field of the recipe."""
    return "--set-id" if name == "inner_id" else f"--{name.replace('_', '-')}"
