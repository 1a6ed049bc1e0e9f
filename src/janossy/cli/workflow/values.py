"""Checks of a table's values, which refuse infinity and text among numbers, and the choice of a target's task."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from math import isinf
from shlex import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from janossy.cli.errors import BadArgument
from janossy.cli.workflow.reading import TableRows
from janossy.cli.workflow.record import TaskName
from janossy.cli.workflow.spellings import OTHER_NUMBERS
from janossy.cli.workflow.text_types import TIME, Facts, Spelling, look_of_text
from janossy.tables.arrow import is_text as is_plain_text
from janossy.tables.arrow import one_chunk
from janossy.tables.lists import holds_lists, stored
from janossy.tables.sorted_ids import begins

MAX_CLASSES = 20
"""The most different whole numbers that are taken as classes."""

FLOAT_WHOLE = 2**53
"""The number from which every float64 is whole. From 2**63 on, scikit-learn accepts none as a class."""

NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean, pa.types.is_null)

MOSTLY = 0.9
"""The share of numbers from which a column of text was meant to hold numbers."""


def check_values(
    rows: TableRows,
    numeric: Collection[str],
    anything: Collection[str],
    targets: Collection[str] = (),
    weights: Collection[str] = (),
    of_model: bool = False,
) -> None:
    """Refuses infinity among numbers, and text in a column that is numeric or mostly numbers.

    Args:
        numeric: columns that must hold numbers.
        anything: columns that may hold any value.
        targets: columns for which errors advise another remedy.
        weights: columns that must hold numbers, and that no option makes names of.
        of_model: True if a model determines the numeric columns, so that no option overrules them.

    Raises: BadArgument, naming the file, the column and the row.
    """
    for name, column in zip(rows.table.column_names, rows.table.columns, strict=True):
        for leaf, values, row_of in leaves(name, one_chunk(column)):
            if leaf in anything or name in anything:
                continue
            if pa.types.is_floating(values.type):
                infinite = np.flatnonzero(np.isinf(values.to_numpy(zero_copy_only=False)))
                if len(infinite):
                    raise BadArgument(
                        f"{rows.place(row_of[infinite[0]])}: column {leaf!r} is infinite. Correct it, or empty it."
                    )
            if is_text(values.type):
                option = "--task classification" if name in targets else f"--categorical {leaf}"
                remedy = f"; {option} takes all values as names"
                if of_model:
                    remedy = "; the model was trained on numbers"
                elif name in weights:
                    remedy = ""
                _check_words(rows, leaf, values, row_of, bool({leaf, name} & {*numeric, *weights}), remedy)


def check_numbers(rows: TableRows, targets: Collection[str]) -> None:
    """Refuses several targets that are not all numbers. Raises: BadArgument, naming the column."""
    for name in targets:
        kind = rows.table.schema.field(name).type
        if not any(is_it(kind) for is_it in NUMBERS):
            raise BadArgument(
                f"{rows.files[0]}: several targets must be numbers, and {name!r} holds "
                f"{str(kind).removeprefix('large_')}. --task classification takes several targets as classes."
            )


def is_text(kind: pa.DataType) -> bool:
    """Returns True if a column of this type holds text, plain or as a dictionary."""
    return is_plain_text(kind) or (pa.types.is_dictionary(kind) and is_plain_text(kind.value_type))


def leaves(name: str, values: pa.Array, row_of: np.ndarray | None = None) -> Iterator[tuple[str, pa.Array, np.ndarray]]:
    """Yields the plain columns inside a column of lists or structs: name, values, and the row of each value."""
    row_of = np.arange(len(values)) if row_of is None else row_of
    values = stored(values)
    if isinstance(values, pa.DictionaryArray):
        yield from leaves(name, values.dictionary_decode(), row_of)
    elif holds_lists(values.type):
        parents = pc.list_parent_indices(values).to_numpy(zero_copy_only=False)
        yield from leaves(name, pc.list_flatten(values), row_of[parents])
    elif pa.types.is_struct(values.type):
        for field, part in zip(values.type, values.flatten(), strict=True):
            yield from leaves(field.name, part, row_of)
    else:
        yield name, values, row_of


def _check_words(rows: TableRows, name: str, values: pa.Array, row_of: np.ndarray, numeric: bool, remedy: str) -> None:
    codes = values.dictionary_encode()
    words = codes.dictionary.to_pylist()
    numbers = np.array([_is_number(word) for word in words], bool)
    there = codes.indices.drop_null().to_numpy()
    share = numbers[there].mean() if len(there) else 1.0
    if share == 1 or not (numeric or share >= MOSTLY):
        return
    strange = [word for word, is_number in zip(words, numbers, strict=True) if not is_number]
    if not all(re.match(TIME, word) for word in strange):  # or else times are all there is to name
        numbers |= np.array([bool(re.match(TIME, word)) for word in words], bool)
    places = codes.indices.fill_null(0).to_numpy()
    wrong = int((~numbers[places] & values.is_valid().to_numpy(zero_copy_only=False)).argmax())
    word = words[places[wrong]]
    asked = "is numeric" if numeric else f"holds numbers in {share:.1%} of its rows"
    raise BadArgument(
        f"{rows.place(row_of[wrong])}: column {name!r} {asked}, but here the text {word!r:.60}. "
        f"Correct it, or leave it empty{remedy}{_option(words, strange) or _missing(word)}."
    )


def _option(words: list[str], strange: list[str]) -> str:
    """Returns a hint with the option of CSV files that reads most words that are no numbers as such, or ""."""
    for name, (pattern, option) in OTHER_NUMBERS.items():
        some = words if name == "lists" else strange
        if option.startswith("--") and sum(bool(re.match(pattern, word)) for word in some if word) > len(some) / 2:
            return f"; {option} reads a CSV file of such numbers"
    return ""


def _missing(word: str) -> str:
    """Returns a hint with the option that reads a short word as missing, or ""."""
    return f"; --null-values {quote(word)} takes it as missing" if re.fullmatch(r"[^\d,]{1,20}", word) else ""


def _is_number(word: str) -> bool:
    try:
        return "_" not in word and not isinf(float(word))
    except ValueError:
        return False


@dataclass(frozen=True)
class TakenTarget:
    """The task of a target, with the reason as text."""

    task: TaskName
    reason: str


def taken_as(targets: np.ndarray) -> TakenTarget:
    """Returns the task of a target: classes for text, booleans or few different whole numbers, else numbers.

    Several targets are always numbers.

    Shapes: targets (B,), or (B, t).
    """
    if targets.ndim == 2:
        return TakenTarget("regression", "because there are several targets")
    if isinstance(targets[0], frozenset):
        return TakenTarget("classification", "because it holds lists of labels")
    if targets.dtype.kind in "OUb":
        return TakenTarget(
            "classification", "because it is true or false" if targets.dtype.kind == "b" else "because it is text"
        )
    if targets.dtype.kind == "M":
        return TakenTarget("regression", "because it holds dates")
    different = len(np.unique(targets))
    are_whole = np.array_equal(targets, np.round(targets)) and (np.abs(targets) < FLOAT_WHOLE).all()
    if are_whole and different <= MAX_CLASSES:
        return TakenTarget("classification", f"because it has {different} different whole numbers")
    return TakenTarget("regression", f"because it has {different:,} different numbers")


def _constant(values: np.ndarray, firsts: np.ndarray) -> bool:
    """Returns True for values that are one in each set, whose rows follow each other."""
    return np.array_equal(values, np.repeat(values[firsts], np.diff(np.append(firsts, len(values)))))


def _ascends(values: np.ndarray) -> bool:
    """Returns True if each value exceeds the one before. Differences would leave the range of unsigned types."""
    return bool((values[1:] > values[:-1]).all())


FEWEST_IDS = 20
"""The number of values below which all may differ by chance."""


FEW_IDS = 1000
"""The number of values of text that show if they are ids or amounts."""


def _are_amounts(values: pa.Array) -> bool:
    """Returns True for text that looks like amounts, dates or lists, and not like ids. Digits alone may be ids."""
    facts = Facts()
    facts.add(values.cast(pa.large_string()), Spelling())
    return not facts.all("number") and look_of_text(facts) != ""


def id_like(columns: pa.Table, ids: pa.Table) -> dict[str, str]:
    """Returns columns that only identify rows or sets, with reasons. A model would learn the order of the file."""
    reasons: dict[str, str] = {}
    firsts = begins(ids) if ids.num_columns else np.zeros(0, np.int64)
    for name, column in zip(columns.column_names, columns.columns, strict=True):
        if re.fullmatch(r"Unnamed: \d+(_level_\d+)?", name):
            reasons[name] = "is the index of a pandas frame that was written to CSV"
        elif len(column) < FEWEST_IDS or column.null_count:
            continue
        elif pa.types.is_integer(column.type):
            values = column.to_numpy()
            of_sets = values[firsts]
            if _ascends(values) and (np.diff(values) == 1).all():
                reasons[name] = "counts the rows"
            elif (
                len(firsts) >= FEWEST_IDS
                and _constant(values, firsts)
                and (_ascends(of_sets) or _ascends(of_sets[::-1]))
            ):
                reasons[name] = "counts the sets in the order of the file"
            elif len(np.unique(values)) == len(values) and int(values.max()) - int(values.min()) < 2 * len(values):
                reasons[name] = "numbers the rows, in another order"
            elif re.search(r"(?i)(^|_)id$", name) and len(np.unique(values)) == len(values):
                reasons[name] = "has another value in each row, as ids have"
        elif (
            is_text(column.type)
            and len(column.unify_dictionaries().unique()) == len(column)
            and not _are_amounts(one_chunk(column.slice(0, FEW_IDS)))
        ):
            reasons[name] = "has another value in each row, as ids have"
    return reasons
