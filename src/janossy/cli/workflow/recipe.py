"""The recipe for making sets and targets from the rows of a table, the same for fit and predict."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from janossy.cli.errors import BadArgument
from janossy.cli.workflow.delimited import ANY, Dialect
from janossy.cli.workflow.reading import File, TableRows, read_tables
from janossy.cli.workflow.record import Recipe
from janossy.cli.workflow.text_types import LIST, Role, roles_of
from janossy.cli.workflow.values import check_numbers, check_values, id_like
from janossy.cli.workflow.wording import in_options
from janossy.tables import Column, SetTable, TableEncoder, as_sets
from janossy.tables.arrow import without_halves
from janossy.tables.codes import CategoryCodes
from janossy.tables.grouping import Grouping, group_numbers
from janossy.tables.ids import Ids, all_names, parts_of
from janossy.tables.lists import Lists, holds_lists, leaf_names
from janossy.tables.sources import source
from janossy.tables.targets import checked_weights

if TYPE_CHECKING:
    from janossy.tables import SetStream

TOGETHER = (
    *(("target", "drop"), ("set_columns", "numeric"), ("set_columns", "categorical")),
    *(("target", "numeric"), ("target", "categorical")),
    *(("set_id", "groups"), ("groups", "inner_id"), ("drop", "groups"), ("drop", "weight")),
)
"""Pairs of options that may name the same column."""

OF_COLUMNS = ("set_id", "inner_id", "target", "drop", "weight", "groups", "event")
"""Options that name columns of the table, but not fields within them."""


@dataclass(frozen=True, eq=False)
class Read:
    """The sets of tables, their targets, (B,) or (B, t), if there are any, and their ids as in the tables.

    - With a ``stream``, the sets are those of the first piece.
    - ``labelled``: flags (B,) of sets with a target, if not all predicted sets have one.
    - ``notes``: lines for the user.
    - ``reasons``: the reasons for the types of columns of text.
    - ``weights`` and ``groups`` (B,): the weight of each set in a fit, and its group number.
    """

    sets: SetTable
    targets: np.ndarray | None
    ids: pa.Table
    stream: "SetStream | None" = None
    labelled: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    recipe: Recipe = field(default_factory=Recipe)
    weights: np.ndarray | None = None
    groups: np.ndarray | None = None


def sets_to_fit(
    files: Sequence[File],
    recipe: Recipe,
    task: str | None = None,
    dialect: Dialect = ANY,
    drop_ids: bool = False,
) -> Read:
    """Returns the sets of these tables that have a target, with their targets.

    ``drop_ids`` leaves out columns that only count rows or sets.
    Raises: BadArgument, naming file, column and row, for invalid data.
    """
    check_apart(recipe)
    classes = task == "classification" or any(name in recipe.categorical for name in recipe.target)
    numeric = recipe.numeric if task != "regression" else (*recipe.numeric, *recipe.target)
    roles = roles_of(
        (*all_names(recipe.ids), *recipe.groups), (), recipe.categorical, (*numeric, *recipe.weight), (), False
    )
    targets = {name: "class" if classes else roles.get(name, "target") for name in recipe.targets}
    rows = read_tables(files, {**roles_of((), targets=recipe.targets), **roles, **targets}, dialect)
    if classes:
        rows = _exact_classes(rows, recipe.target)
    known = rows.table.column_names
    recipe = split_ids(recipe, known)
    check_apart(recipe)
    named = {option: names for option, names in asdict(recipe).items() if names and option != "null_values"}
    leaves = [leaf for each in rows.table.schema for leaf in leaf_names(each, _all(named)) if leaf not in known]
    for option, names in named.items():
        for name in names:
            _check_known(name, known if option in OF_COLUMNS else known + leaves, option, files[0])
    if len(recipe.targets) > 1 and not classes:
        check_numbers(rows, recipe.targets)
    anything = (*recipe.categorical, *recipe.drop, *recipe.ids, *(recipe.target if classes else ()))
    check_values(rows, recipe.numeric, (*anything, *recipe.groups), recipe.targets, recipe.weight)
    notes = list(rows.notes)
    used = {*recipe.ids, *recipe.beside, *recipe.drop}
    counting = id_like(
        rows.table.select([name for name in known if name not in used]), rows.table.select(recipe.set_id)
    )
    if counting and drop_ids:
        recipe = replace(recipe, drop=(*recipe.drop, *counting))
        notes.append(f"left out, by --drop-ids: {', '.join(counting)}.")
    else:
        notes += [f"column {name!r} {why}: --drop {name}, or --drop-ids?" for name, why in counting.items()]
    rows, num_skipped = _with_targets(rows, recipe)
    if num_skipped:
        notes.append(f"{num_skipped:,} sets have no target, and are left out.")
    read = _sets(rows, recipe)
    asked = task == "regression" or (not classes and set(recipe.target) <= set(recipe.numeric))
    if asked and read.targets is not None and read.targets.dtype.kind in "OU":
        read = replace(read, targets=_as_numbers(rows, recipe, read.targets))
    reasons = {name: taken.reason for name, taken in rows.taken.items()}
    return replace(read, notes=tuple(notes), reasons=reasons, recipe=recipe)


def split_ids(recipe: Recipe, known: Sequence[str]) -> Recipe:
    """Returns the recipe with the columns of each id, of which run+event has two."""
    each = (recipe.set_id, recipe.inner_id)
    outer, inner = (tuple(part for name in names for part in parts_of(name, known)) for names in each)
    return replace(recipe, set_id=outer, inner_id=inner)


def _all(named: Mapping[str, Sequence[str]]) -> list[str]:
    return [name for names in named.values() for name in names]


def _exact_classes(rows: TableRows, targets: Sequence[str]) -> TableRows:
    """Returns the rows with classes that are decimals or durations as text: as numbers, some could become equal."""
    for name in targets:
        place = rows.table.schema.get_field_index(name)
        if place >= 0 and (
            pa.types.is_decimal(kind := rows.table.schema.field(name).type) or pa.types.is_duration(kind)
        ):
            values = rows.table[name].cast(pa.int64()) if pa.types.is_duration(kind) else rows.table[name]
            rows = replace(rows, table=rows.table.set_column(place, name, values.cast(pa.large_string())))
    return rows


def _as_numbers(rows: TableRows, recipe: Recipe, targets: np.ndarray) -> np.ndarray:
    """Returns the texts of one target as numbers. Raises: BadArgument for a text that is not a number."""
    try:
        return targets.astype(np.float64)
    except ValueError as error:
        raise no_regression(str(rows.files[0]), recipe.target[0], f" ({error})") from None


def no_regression(files: str, target: str, reason: str = "") -> BadArgument:
    """Returns the error for a regression on a target of text."""
    return BadArgument(
        f"{files}: the target {target!r} is text, which a regression cannot predict{reason}. Write numbers alone. Or "
        "leave --task out, for classes."
    )


def _with_targets(rows: TableRows, recipe: Recipe) -> tuple[TableRows, int]:
    """Returns the rows of sets with a target in some row, and the number of sets without one."""
    there = _there(rows.table, recipe.targets)
    if there.all() or not there.any():
        return rows, 0
    if recipe.set_id and not _has_lists(rows.table.drop_columns(list(recipe.targets))):
        group = _grouped(rows, recipe.set_id)
        in_order = np.add.reduceat(there[group.order].astype(np.int64), group.offsets[:-1]) > 0
        of_set = np.empty(len(there), bool)
        of_set[group.order] = np.repeat(in_order, group.sizes)
        num, there = int((~in_order).sum()), of_set
    else:
        num = int((~there).sum())
    return rows.some(np.flatnonzero(there)) if num else rows, num


def _there(table: pa.Table, names: Sequence[str]) -> np.ndarray:
    """Returns flags (N,) of rows in which none of these columns is missing."""
    there = np.ones(len(table), bool)
    for name in names:
        there &= ~pc.is_null(without_halves(table[name]), nan_is_null=True).to_numpy()
    return there


def _grouped(rows: TableRows, set_id: Sequence[str]) -> Grouping:
    """Groups the rows of each set. Raises: BadArgument for a row without an id."""
    columns = {name: source(rows.table[name], name) for name in set_id}
    for name, column in columns.items():
        if isinstance(column, Lists):
            raise BadArgument(f"{rows.files[0]}: --set-id {name} expects numbers or text; got lists.")
    try:
        return Grouping.by({n: c for n, c in columns.items() if not isinstance(c, Lists)}, rows.place)
    except ValueError as error:
        raise BadArgument(in_options(error)) from None


def stream_to_fit(paths: Sequence[File], recipe: Recipe) -> Read:
    """Returns the sets of Parquet files as a stream that is read piece by piece.

    Raises: BadArgument for errors that the first piece shows.
    """
    from janossy.tables import SetStream  # loads pandas, which pyarrow.dataset imports

    check_apart(recipe)
    if recipe.inner_id:
        raise BadArgument(
            f"--stream expects one --set-id, as streams hold no sets of sets; got {', '.join(recipe.ids)}. Leave "
            f"--stream out. If their values together identify a set, write --set-id {'+'.join(recipe.ids)}."
        )
    try:
        stream = SetStream(
            paths,
            recipe.target[0] if len(recipe.targets) == 1 else recipe.targets,
            sample_weight=next(iter(recipe.weight), None),
            groups=next(iter(recipe.groups), None),
            set_id="+".join(recipe.set_id) or None,
            set_columns=recipe.set_columns or None,
            numeric=recipe.numeric,
            categorical=recipe.categorical,
            drop=recipe.drop,
        )
        first = stream.read(0)
    except (TypeError, ValueError, FileNotFoundError) as error:
        raise BadArgument(in_options(error)) from error
    return Read(first.sets, first.targets, pa.table({}), stream, recipe=replace(recipe, set_id=stream.set_id))


def check_apart(recipe: Recipe) -> None:
    """Raises a BadArgument if two options name one column and may not do so."""
    named = {option: names for option, names in asdict(recipe).items() if names and option != "null_values"}
    for pair in combinations(named, 2):
        if pair not in TOGETHER and (twice := set(named[pair[0]]) & set(named[pair[1]])):
            raise BadArgument(f"{_option(pair[0])} and {_option(pair[1])} both name {min(twice)!r}. Leave one out.")


def sets_to_predict(
    files: Sequence[File],
    encoder: TableEncoder,
    recipe: Recipe,
    set_id: tuple[str, ...] = (),
    text_ids: Collection[str] = (),
    dialect: Dialect = ANY,
    classes: bool = False,
) -> Read:
    """Returns the sets of these tables, in the columns of a model's encoder, and the targets of sets that have one.

    ``set_id`` are ids, one per level, that override those of the recipe. Rows with lists need none. Text in files is
    read in the model's types. Text targets are read as classes if ``classes``.
    Raises: BadArgument, naming file, column and row, for invalid data.
    """
    roles = model_roles(encoder)
    ids = replace(recipe, set_id=set_id[:1], inner_id=set_id[1:]) if set_id else recipe
    roles |= roles_of(all_names(ids.ids), text_ids, targets=recipe.targets, classes=classes)
    if recipe.null_values and not dialect.spelling.null_values:
        dialect = replace(dialect, spelling=replace(dialect.spelling, null_values=recipe.null_values))
    rows = read_tables(files, roles, dialect)
    if classes:
        rows = _exact_classes(rows, recipe.targets)
    kinds = {code.name: code.kind for code in (*encoder.elements, *encoder.context)}
    told = tuple(f"column {name!r} " for name in kinds)
    rows = replace(rows, notes=tuple(x for x in rows.notes if x.startswith(told) or not x.startswith("column ")))
    fields = [field for field in rows.table.schema if kinds.keys() & set(leaf_names(field, kinds))]
    found = {name for field in fields for name in leaf_names(field, kinds)}
    known = rows.table.column_names
    for name in kinds:
        if name not in found:
            raise _unknown(name, "the model", known, files[0])
    if not set_id and not set(ids.ids) <= set(known) and _has_lists(rows.table):
        ids = Recipe()
    ids = split_ids(ids, known)
    for name in ids.ids:
        _check_known(name, known, "set_id", files[0])
        if name in kinds and not any(name in leaf_names(field, kinds) for field in fields if field.name != name):
            raise BadArgument(
                f"--set-id expects columns that the model does not read as data; got {name!r}, which it reads. Name "
                "another column, or copy this one under a new name."
            )
    as_numbers = tuple(name for name in recipe.numeric if kinds.get(name) == "numeric")
    has_targets = bool(recipe.target) and all(name in known for name in recipe.targets)
    has_targets = has_targets and bool(_there(rows.table, recipe.targets).any())
    recipe = Recipe(
        ids.set_id,
        recipe.target if has_targets else (),
        tuple(code.name for code in encoder.context),
        tuple(name for name, kind in kinds.items() if kind == "numeric"),
        tuple(name for name, kind in kinds.items() if kind == "categorical"),
        event=recipe.event if has_targets else (),
        inner_id=ids.inner_id,
    )
    names = [*(field.name for field in fields), *recipe.ids, *recipe.targets]
    rows = replace(rows, table=rows.table.select(list(dict.fromkeys(names))))
    check_values(rows, recipe.numeric, (*recipe.categorical, *recipe.ids, *recipe.targets), of_model=True)
    for name, kind in kinds.items():
        if name not in as_numbers:
            _check_of_model(rows, name, kind)
    recipe = replace(recipe, numeric=as_numbers)  # the encoder makes numbers of other columns, but for dates
    if has_targets:
        labelled, num_skipped = _with_targets(rows, recipe)
        if num_skipped:
            without = replace(rows, table=rows.table.drop_columns(list(recipe.targets)))
            read = _sets(without, replace(recipe, target=(), event=()))
            with_target = _sets(labelled, recipe)
            return replace(read, targets=with_target.targets, labelled=_labelled(rows, recipe), notes=rows.notes)
    return replace(_sets(rows, recipe), notes=rows.notes)


def _labelled(rows: TableRows, recipe: Recipe) -> np.ndarray:
    """Returns flags (B,) of sets that have a target."""
    there = _there(rows.table, recipe.targets)
    if not recipe.set_id or _has_lists(rows.table.drop_columns(list(recipe.targets))):
        return there
    group = _grouped(rows, recipe.set_id)
    return np.add.reduceat(there[group.order].astype(np.int64), group.offsets[:-1]) > 0


def model_roles(encoder: TableEncoder) -> dict[str, Role]:
    """Returns the roles in which columns of text files are read, from the columns that a model was trained on."""
    roles: dict[str, Role] = {}
    for code in (*encoder.elements, *encoder.context):
        if isinstance(code, CategoryCodes):
            words = [x for x in code.categories if isinstance(x, str)]
            are_lists = any(re.match(LIST, word) for word in words)
            roles[code.name] = "text" if are_lists else "words" if words else "categorical"
        else:
            roles[code.name] = "numeric" if code.kind == "numeric" else "boolean" if code.kind == "boolean" else "date"
    return roles


def _check_of_model(rows: TableRows, name: str, kind: str) -> None:
    """Raises a BadArgument for a column of another kind than in training. No option overrules that kind."""
    if name not in rows.table.column_names or not rows.table.num_rows:
        return
    values = rows.table[name]
    if values.null_count == len(values) or holds_lists(values.type):
        return
    is_date = pa.types.is_timestamp(values.type) or pa.types.is_date(values.type)
    wrong = is_date if kind == "numeric" else not is_date if kind == "date" else False
    if kind == "boolean":
        wrong = not (
            pa.types.is_boolean(values.type) or pa.types.is_integer(values.type) or values.type == pa.float64()
        )
    if wrong:
        expected = {"numeric": "numbers", "date": "dates, as 2024-01-31", "boolean": "true and false"}[kind]
        first = next(row for row, value in enumerate(values) if value.is_valid)
        raise BadArgument(
            f"{rows.place(first)}: column {name!r} expects {expected}, as in training; got {values[first]}. Convert "
            "the column."
        )


def _sets(rows: TableRows, recipe: Recipe) -> Read:
    table = rows.table.select([name for name in rows.table.column_names if name not in (*recipe.drop, *recipe.beside)])
    has_lists, ids = _has_lists(table), rows.table.select(recipe.set_id)
    if not has_lists and not recipe.set_id:
        raise BadArgument(
            f"{rows.files[0]} has no column of lists: name the column that identifies the set of a row, --set-id COL."
        )
    if not has_lists and set(table.column_names) <= {*recipe.ids, *recipe.set_columns}:
        raise BadArgument(
            f"{rows.files[0]} has no column of the elements: options name all of its columns, "
            f"{', '.join(rows.table.column_names)}."
        )
    labels = next((name for name in recipe.targets if holds_lists(rows.table.schema.field(name).type)), None)
    group = _grouped(rows, recipe.set_id) if recipe.set_id and not has_lists else None
    try:
        sets = as_sets(
            table,
            rows.table.select(recipe.targets) if recipe.target and labels is None else None,
            set_id=Ids(recipe.set_id, recipe.inner_id),
            # If there are lists, all other columns belong to the sets unless options name some.
            set_columns=recipe.set_columns if recipe.set_columns or not has_lists else None,
            numeric=[name for name in recipe.numeric if name not in recipe.targets],
            categorical=[name for name in recipe.categorical if name not in recipe.targets],
            drop=recipe.drop,
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
    except ValueError as error:
        raise BadArgument(in_options(error)) from None
    weights = found["weight"].values if "weight" in found else None
    return weights, group_numbers([found["groups"]]) if "groups" in found else None


def _has_lists(table: pa.Table) -> bool:
    return any(holds_lists(field.type) for field in table.schema)


def _check_known(name: str, known: Sequence[str], option: str, file: File) -> None:
    if name not in known:
        raise _unknown(name, _option(option), known, file)


def _option(name: str) -> str:
    return "--set-id" if name == "inner_id" else f"--{name.replace('_', '-')}"


def _unknown(name: str, owner: str, known: Sequence[str], file: File) -> BadArgument:
    near = get_close_matches(name, known, 1)
    meant = f" Did you mean {near[0]!r}?" if near else ""
    names = ", ".join(known[:20]) + (", …" if len(known) > 20 else "")
    return BadArgument(f"{file} has no column {name!r}, which {owner} names.{meant} It has {names}.")
