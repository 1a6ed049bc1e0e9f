"""Recipe: how the rows of a table become sets and their targets, alike for fit and for predict."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa

from janossy.cli.errors import BadArgument
from janossy.cli.workflow.reading import Rows, read_tables
from janossy.cli.workflow.record import Recipe
from janossy.cli.workflow.values import check_numbers, check_values
from janossy.tables import SetStream, SetTable, TableEncoder, as_sets
from janossy.tables.lists import holds_lists, leaf_names

TOGETHER = (("target", "drop"), ("set_columns", "numeric"), ("set_columns", "categorical"))
"""Options that may name the same column."""


@dataclass(frozen=True, eq=False)
class Read:
    """Sets of tables, their targets, (B,) or (B, t), if there are any, and their ids as the tables have them.

    Of a ``stream`` these are the first piece.
    """

    sets: SetTable
    targets: np.ndarray | None
    ids: pa.Table
    stream: SetStream | None = None


def sets_to_fit(files: Sequence[Path], recipe: Recipe, classes: bool = False) -> Read:
    """The sets of these tables, and their targets. ``classes``: these may be any text.

    Raises: BadArgument, naming file, column and row, for what is wrong in them.
    """
    named = {option: names for option, names in asdict(recipe).items() if names}
    check_apart(recipe)
    rows = read_tables(files, recipe.set_id)
    known = rows.table.column_names
    leaves = [leaf for field in rows.table.schema for leaf in leaf_names(field)]
    for option, names in named.items():
        for name in names:
            _check_known(name, known if option in ("set_id", "target", "drop") else known + leaves, option, files[0])
    if len(recipe.target) > 1:
        check_numbers(rows, recipe.target)
    anything = (*recipe.categorical, *recipe.drop, *recipe.set_id, *(recipe.target if classes else ()))
    check_values(rows, recipe.numeric, anything, recipe.target)
    return _sets(rows, recipe)


def stream_to_fit(paths: Sequence[Path], recipe: Recipe) -> Read:
    """The sets of Parquet files that are read piece by piece.

    Raises: BadArgument for what is wrong in them, as far as the first piece says.
    """
    check_apart(recipe)
    try:
        stream = SetStream(
            paths,
            recipe.target[0] if len(recipe.target) == 1 else recipe.target,
            set_id=recipe.set_id,
            set_columns=recipe.set_columns or None,
            numeric=recipe.numeric,
            categorical=recipe.categorical,
            drop=recipe.drop,
        )
        first = stream.read(0)
    except (TypeError, ValueError, FileNotFoundError) as error:
        raise BadArgument(str(error)) from error
    return Read(first.sets, first.targets, pa.table({}), stream)


def check_apart(recipe: Recipe) -> None:
    """Raise a BadArgument for a column that two options name which may not both."""
    named = {option: names for option, names in asdict(recipe).items() if names}
    for pair in combinations(named, 2):
        if pair not in TOGETHER and (twice := set(named[pair[0]]) & set(named[pair[1]])):
            raise BadArgument(f"{_option(pair[0])} and {_option(pair[1])} both name {min(twice)!r}. Leave one out.")


def sets_to_predict(
    files: Sequence[Path],
    encoder: TableEncoder,
    recipe: Recipe,
    set_id: tuple[str, ...] = (),
    text_ids: Collection[str] = (),
) -> Read:
    """The sets of these tables, of the columns that a model's encoder knows, and their targets, if all rows have them.

    ``set_id`` comes before that of the recipe, which rows of lists may lack.
    Raises: BadArgument, naming file, column and row, for what is wrong in them.
    """
    rows = read_tables(files, set_id or recipe.set_id, text_ids)
    kinds = {code.name: code.kind for code in (*encoder.elements, *encoder.context)}
    fields = [field for field in rows.table.schema if kinds.keys() & set(leaf_names(field))]
    found = {name for field in fields for name in leaf_names(field)}
    known = rows.table.column_names
    for name in kinds:
        if name not in found:
            raise _unknown(name, "the model", known, files[0])
    if not set_id and (set(recipe.set_id) <= set(known) or not _has_lists(rows.table)):
        set_id = recipe.set_id
    for name in set_id:
        _check_known(name, known, "set_id", files[0])
    told = all(name in known and not rows.table[name].null_count for name in recipe.target)
    recipe = Recipe(
        set_id,
        recipe.target if told else (),
        tuple(code.name for code in encoder.context),
        tuple(name for name, kind in kinds.items() if kind == "numeric"),
        tuple(name for name, kind in kinds.items() if kind == "categorical"),
    )
    names = [*(field.name for field in fields), *recipe.set_id, *recipe.target]
    rows = replace(rows, table=rows.table.select(list(dict.fromkeys(names))))
    check_values(rows, recipe.numeric, (*recipe.categorical, *recipe.set_id, *recipe.target))
    return _sets(rows, recipe)


def _sets(rows: Rows, recipe: Recipe) -> Read:
    table = rows.table.select([name for name in rows.table.column_names if name not in (*recipe.drop, *recipe.target)])
    has_lists, ids = _has_lists(table), rows.table.select(recipe.set_id)
    if not has_lists and not recipe.set_id:
        raise BadArgument(
            f"{rows.files[0]} has no column of lists: name the column that tells which rows make a set, --set-id COL."
        )
    if not has_lists and set(table.column_names) <= {*recipe.set_id, *recipe.set_columns}:
        raise BadArgument(
            f"{rows.files[0]} has no column of the elements: options name all that it has, "
            f"{', '.join(rows.table.column_names)}."
        )
    try:
        sets = as_sets(
            table,
            rows.table.select(recipe.target) if recipe.target else None,
            set_id=recipe.set_id,
            # Beside lists, all other columns are of the set unless told otherwise.
            set_columns=recipe.set_columns if recipe.set_columns or not has_lists else None,
            numeric=recipe.numeric,
            categorical=recipe.categorical,
            drop=recipe.drop,
            where=rows.place,
        )
    except (TypeError, ValueError) as error:
        raise BadArgument(str(error)) from error
    if recipe.set_id and not has_lists:  # in the order in which they appear first, as sets are
        ids = ids.unify_dictionaries().group_by(list(recipe.set_id), use_threads=False).aggregate([])
    sets, targets = sets if isinstance(sets, tuple) else (sets, None)
    return Read(sets, targets, ids)


def _has_lists(table: pa.Table) -> bool:
    return any(holds_lists(field.type) for field in table.schema)


def _check_known(name: str, known: Sequence[str], option: str, file: Path) -> None:
    if name not in known:
        raise _unknown(name, _option(option), known, file)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _unknown(name: str, owner: str, known: Sequence[str], file: Path) -> BadArgument:
    near = get_close_matches(name, known, 1)
    meant = f" Did you mean {near[0]!r}?" if near else ""
    names = ", ".join(known[:20]) + (", …" if len(known) > 20 else "")
    return BadArgument(f"{file} has no column {name!r}, which {owner} names.{meant} It has {names}.")
