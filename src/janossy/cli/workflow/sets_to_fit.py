"""Sets to fit, from the rows of tables, or as a stream of Parquet files, by the options of the command."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import combinations
from shlex import quote

import numpy as np
import pyarrow as pa

from janossy.cli.errors import BadArgument
from janossy.cli.workflow.delimited import ANY, Dialect
from janossy.cli.workflow.reading import File, TableRows, read_tables
from janossy.cli.workflow.record import Recipe
from janossy.cli.workflow.sets_of_rows import (
    Read,
    check_ids,
    check_known,
    exact_classes,
    has_lists,
    option_of,
    sets_of,
    split_ids,
    with_targets,
)
from janossy.cli.workflow.side_by_side import hint
from janossy.cli.workflow.text_types import AMBIGUOUS, TO_NANOSECONDS, roles_of
from janossy.cli.workflow.values import check_numbers, check_values, id_like
from janossy.cli.workflow.wording import in_options
from janossy.cli.workflow.zones import zones_of
from janossy.tables.ids import all_names
from janossy.tables.lists import field_names, leaf_names

TOGETHER = (
    *(("target", "drop"), ("set_columns", "numeric"), ("set_columns", "categorical")),
    *(("target", "numeric"), ("target", "categorical")),
    *(("set_id", "groups"), ("groups", "inner_id"), ("drop", "groups"), ("drop", "weight")),
)
"""Pairs of options that may name the same column."""


OF_COLUMNS = ("set_id", "inner_id", "target", "weight", "groups", "event")
"""Options that name columns of the table, but not fields within them."""


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
    roles = {**roles_of((), targets=recipe.targets), **roles, **targets}
    rows = read_tables(files, roles, dialect, named=(*recipe.set_columns, *recipe.drop))
    if classes:
        rows = exact_classes(rows, recipe.target)
    known = rows.table.column_names
    recipe = replace(split_ids(recipe, known), drop=_with_fields(recipe.drop, known))
    check_apart(recipe)
    named = {option: names for option, names in asdict(recipe).items() if names and option != "null_values"}
    leaves = [leaf for each in rows.table.schema for leaf in leaf_names(each, _all(named)) if leaf not in known]
    fields = {name: None for each in rows.table.schema for name in field_names(each.type) if name not in known}
    for option, names in named.items():
        within = [] if option in OF_COLUMNS else fields if option == "drop" else leaves
        for name in names:
            check_known(name, [*known, *within], option, files[0])
    check_ids(rows, recipe.ids)
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
        notes += [f"column {name!r} {why}: --drop {quote(name)}, or --drop-ids?" for name, why in counting.items()]
    rows, labelled = with_targets(rows, recipe)
    if labelled is not None:
        notes.append(f"left out, as they have no target: {(~labelled).sum():,} of {len(labelled):,} sets.")
    read = sets_of(rows, recipe)
    if not has_lists(rows.table) and read.sets.sizes.max() == 1 and (line := hint(read.sets.elements)):
        notes.append(line)
    asked = task == "regression" or (not classes and set(recipe.target) <= set(recipe.numeric))
    if asked and read.targets is not None and read.targets.dtype.kind in "OU":
        read = replace(read, targets=_as_numbers(rows, recipe, read.targets))
    reasons = {name: taken.reason for name, taken in rows.taken.items()}
    kinds = {name: taken.kind.removesuffix(TO_NANOSECONDS) for name, taken in rows.taken.items()}
    kinds = {name: kind for name, kind in kinds.items() if kind in AMBIGUOUS}
    kinds = zones_of(rows.table.schema) | kinds
    return replace(read, notes=tuple(notes), reasons=reasons, kinds=kinds, recipe=recipe)


def _with_fields(names: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of columns, with the columns of its fields in the place of a struct's name."""
    parts = [[x for x in known if name not in known and x.startswith(f"{name}.")] or [name] for name in names]
    return tuple(part for each in parts for part in each)


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
    line = hint(first.sets.elements) if not stream.of_lists and first.sets.sizes.max() == 1 else ""
    notes = (line,) if line else ()
    return Read(
        first.sets, first.targets, pa.table({}), stream, None, notes, recipe=replace(recipe, set_id=stream.set_id)
    )


def check_apart(recipe: Recipe) -> None:
    """Raises a BadArgument if two options name one column and may not do so."""
    named = {option: names for option, names in asdict(recipe).items() if names and option != "null_values"}
    for pair in combinations(named, 2):
        if pair not in TOGETHER and (twice := set(named[pair[0]]) & set(named[pair[1]])):
            raise BadArgument(f"{option_of(pair[0])} and {option_of(pair[1])} both name {min(twice)!r}. Leave one out.")


def _all(named: Mapping[str, Sequence[str]]) -> list[str]:
    return [name for names in named.values() for name in names]


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
