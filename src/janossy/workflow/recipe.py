"""Recipe: how the rows of a table become sets and their targets, alike for fit and for predict."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from janossy.estimators import SetTable, TableEncoder, as_sets
from janossy.estimators.lists import holds_lists
from janossy.refusal import BadArgument
from janossy.workflow.reading import Rows, read_tables
from janossy.workflow.values import check_values


@dataclass(frozen=True)
class Recipe:
    """The options of ``janossy fit`` that name columns."""

    set_id: str | None = None
    target: str | None = None
    set_columns: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


def sets_to_fit(files: Sequence[Path], recipe: Recipe) -> tuple[SetTable, np.ndarray]:
    """The sets of these tables, and their targets.

    Raises: BadArgument, naming file, column and row, for what is wrong in them.
    """
    rows = read_tables(files)
    known = [field.name for field in rows.table.schema]
    leaves = [leaf for field in rows.table.schema for leaf in _leaves(field)]
    for option, names in asdict(recipe).items():
        for name in [names] if isinstance(names, str) else names or []:
            _check_known(name, known if isinstance(names, str) else known + leaves, option, files[0])
    check_values(rows, recipe.numeric, (*recipe.categorical, *recipe.drop))
    return _sets(rows, recipe)


def sets_to_predict(
    files: Sequence[Path], encoder: TableEncoder, recipe: Recipe, set_id: str | None = None
) -> tuple[SetTable, np.ndarray | None]:
    """The sets of these tables, of the columns that a model's encoder knows, and their targets, if all rows have one.

    ``set_id`` comes before that of the recipe, which rows of lists may lack.
    Raises: BadArgument, naming file, column and row, for what is wrong in them.
    """
    rows = read_tables(files)
    kinds = {code.name: code.kind for code in (*encoder.elements, *encoder.context)}
    fields = [field for field in rows.table.schema if kinds.keys() & {field.name, *_leaves(field)}]
    found = {name for field in fields for name in (field.name, *_leaves(field))}
    for name in kinds:
        if name not in found:
            raise _unknown(name, "the model", rows.table.column_names, files[0])
    names = [field.name for field in fields]
    known = rows.table.column_names
    if set_id is None and (recipe.set_id in known or not _has_lists(rows.table)):
        set_id = recipe.set_id
    if set_id is not None:
        _check_known(set_id, known, "set_id", files[0])
        names.append(set_id)
    target = recipe.target
    if target is not None and target in known and not rows.table[target].null_count:
        names.append(target)
    recipe = Recipe(
        set_id,
        target if target in names else None,
        tuple(code.name for code in encoder.context),
        tuple(name for name, kind in kinds.items() if kind == "numeric"),
        tuple(name for name, kind in kinds.items() if kind == "categorical"),
    )
    rows = replace(rows, table=rows.table.select(list(dict.fromkeys(names))))
    check_values(rows, recipe.numeric, recipe.categorical)
    return _sets(rows, recipe)


def _sets(rows: Rows, recipe: Recipe) -> tuple[SetTable, Any]:
    has_lists = _has_lists(rows.table)
    if not has_lists and recipe.set_id is None:
        raise BadArgument(
            f"{rows.files[0]} has no column of lists: name the column that tells which rows make a set, --set-id COL."
        )
    settings: dict[str, Any] = {
        "set_id": recipe.set_id,
        # Beside lists, all other columns are of the set unless told otherwise.
        "set_columns": recipe.set_columns if recipe.set_columns or not has_lists else None,
        "numeric": recipe.numeric,
        "categorical": recipe.categorical,
        "drop": recipe.drop,
        "where": rows.place,
    }
    try:
        if recipe.target is None:
            return as_sets(rows.table, **settings), None
        return as_sets(rows.table, recipe.target, **settings)
    except (TypeError, ValueError) as error:
        raise BadArgument(str(error)) from error


def _has_lists(table: pa.Table) -> bool:
    return any(holds_lists(field.type) for field in table.schema)


def _leaves(field: pa.Field) -> Iterator[str]:
    """The names of the columns within a column of lists of structs."""
    kind = field.type
    while holds_lists(kind):
        kind = kind.value_type
    if pa.types.is_struct(kind):
        yield from (inner.name for inner in kind)


def _check_known(name: str, known: Sequence[str], option: str, file: Path) -> None:
    if name not in known:
        raise _unknown(name, f"--{option.replace('_', '-')}", known, file)


def _unknown(name: str, owner: str, known: Sequence[str], file: Path) -> BadArgument:
    near = get_close_matches(name, known, 1)
    meant = f" Did you mean {near[0]!r}?" if near else ""
    names = ", ".join(known[:20]) + (", …" if len(known) > 20 else "")
    return BadArgument(f"{file} has no column {name!r}, which {owner} names.{meant} It has {names}.")
