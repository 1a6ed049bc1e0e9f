"""Sets to predict, from the rows of tables, in the columns and types of a model."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from janossy.cli.errors import BadArgument
from janossy.cli.workflow.delimited import ANY, Dialect
from janossy.cli.workflow.reading import File, TableRows, read_tables, unknown
from janossy.cli.workflow.record import Recipe
from janossy.cli.workflow.sets_of_rows import (
    Read,
    check_ids,
    exact_classes,
    has_all,
    has_lists,
    sets_of,
    split_ids,
    with_targets,
)
from janossy.cli.workflow.spellings import YEAR_LAST
from janossy.cli.workflow.text_types import FLAG, ISO, LIST, MISSING, SEPARATED, YEAR_FIRST, Role, roles_of
from janossy.cli.workflow.values import check_values
from janossy.cli.workflow.zones import zone_notes
from janossy.tables import TableEncoder
from janossy.tables.arrow import is_text
from janossy.tables.codes import CategoryCodes
from janossy.tables.ids import all_names
from janossy.tables.lists import holds_lists, leaf_names, with_known_fields

SPELLED = {"boolean": FLAG, "date": f"{ISO}|{YEAR_FIRST}|{YEAR_LAST}"}
"""The spellings of values as text, by the kind of a model's column."""


def sets_to_predict(
    files: Sequence[File],
    encoder: TableEncoder,
    recipe: Recipe,
    set_id: tuple[str, ...] = (),
    text_ids: Collection[str] = (),
    dialect: Dialect = ANY,
    classes: bool = False,
    kinds_in_fit: Mapping[str, str] | None = None,
) -> Read:
    """Returns the sets of these tables, in the columns of a model's encoder, and the targets of sets that have one.

    ``set_id`` are ids, one per level, that override those of the recipe. Rows with lists need none. Text in files is
    read in the model's types, and by ``kinds_in_fit``. Text targets are read as classes if ``classes``.
    Raises: BadArgument, naming file, column and row, for invalid data.
    """
    roles = model_roles(encoder)
    ids = replace(recipe, set_id=set_id[:1], inner_id=set_id[1:]) if set_id else recipe
    roles |= roles_of(all_names(ids.ids), text_ids, targets=recipe.targets, classes=classes)
    if recipe.null_values and not dialect.spelling.null_values:
        dialect = replace(dialect, spelling=replace(dialect.spelling, null_values=recipe.null_values))
    lists = dialect.spelling.list_separator != ""
    as_in_fit = {
        name: kind
        for name, kind in (kinds_in_fit or {}).items()
        if name in roles and (lists or kind not in SEPARATED.values())
    }
    rows = read_tables(files, roles, dialect, as_in_fit)
    if classes:
        rows = exact_classes(rows, recipe.targets)
    kinds = {code.name: code.kind for code in (*encoder.elements, *encoder.context)}
    told = tuple(f"column {name!r} " for name in kinds)
    notes = (*rows.notes, *zone_notes(rows.table.schema, as_in_fit))
    rows = replace(rows, notes=tuple(x for x in notes if x.startswith(told) or not x.startswith("column ")))
    fields = [field for field in rows.table.schema if kinds.keys() & set(leaf_names(field, kinds))]
    found = {name for field in fields for name in leaf_names(field, kinds)}
    known = rows.table.column_names
    for name in kinds:
        if name not in found:
            raise unknown(name, "the model", known, files[0])
    if not set_id and not set(ids.ids) <= set(known) and has_lists(rows.table):
        ids = Recipe()
    ids = split_ids(ids, known)
    check_ids(rows, ids.ids)
    for name in ids.ids:
        if name in kinds and not any(name in leaf_names(field, kinds) for field in fields if field.name != name):
            raise BadArgument(
                f"--set-id expects columns that the model does not read as data; got {name!r}, which it reads. Name "
                "another column, or copy this one under a new name."
            )
    as_numbers = tuple(name for name in recipe.numeric if kinds.get(name) == "numeric")
    has_targets = bool(recipe.target) and all(name in known for name in recipe.targets)
    has_targets = has_targets and bool(has_all(rows.table, recipe.targets).any())
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
    table = rows.table.select(list(dict.fromkeys(names)))
    for place, field in enumerate(table.schema):
        if holds_lists(field.type) and (kind := with_known_fields(field.type, kinds)) != field.type:
            table = table.set_column(place, field.name, table[place].cast(kind))
    rows = replace(rows, table=table)
    check_values(rows, recipe.numeric, (*recipe.categorical, *recipe.ids, *recipe.targets), of_model=True)
    for name, kind in kinds.items():
        if name not in as_numbers:
            _check_of_model(rows, name, kind)
    recipe = replace(recipe, numeric=as_numbers)  # the encoder makes numbers of other columns, but for dates
    if has_targets:
        of_labelled, labelled = with_targets(rows, recipe)
        if labelled is not None:
            without = replace(rows, table=rows.table.drop_columns(list(recipe.targets)))
            read = sets_of(without, replace(recipe, target=(), event=()))
            with_target = sets_of(of_labelled, recipe)
            return replace(read, targets=with_target.targets, labelled=labelled, notes=rows.notes)
    return replace(sets_of(rows, recipe), notes=rows.notes)


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
        first = _first_wrong(values, kind)
        got = str(values[first])
        if kind in SPELLED and is_text(values.type) and re.match(SPELLED[kind], got):
            got = f"the text {got!r}"
        raise BadArgument(
            f"{rows.place(first)}: column {name!r} expects {expected}, as in training; got {got}. Convert the column."
        )


def _first_wrong(values: pa.ChunkedArray, kind: str) -> int:
    """Returns the first row with text that does not spell this kind, or else the first with any value."""
    wrong = values.is_valid()
    if is_text(values.type) and kind in SPELLED:
        spelled = pc.or_(pc.match_substring_regex(values, SPELLED[kind]), pc.is_in(values, pa.array(MISSING)))
        if pc.any(others := pc.and_(wrong, pc.invert(spelled))).as_py():
            wrong = others
    row: int = pc.index(wrong, True).as_py()
    return row
