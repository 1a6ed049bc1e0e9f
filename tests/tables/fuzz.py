"""Random tables against an oracle of plain Python, through every entry: which rows are a set, which values a category.

``python -m tests.tables.fuzz --tables 100000 --seed 0`` checks that many tables, and prints the seeds of differences.
``--minutes 8`` ends it before. A table goes through Arrow's entry and some others, chosen at random. The end reports
the number of tables per entry.
"""

import argparse
import contextlib
import csv
import datetime as dt
import random
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Any
from unittest import mock
from uuid import UUID

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
from pyarrow import ipc, parquet

from janossy.batch import SetPredictor
from janossy.cli.errors import BadArgument
from janossy.cli.workflow import grouping
from janossy.cli.workflow.record import Recipe
from janossy.cli.workflow.sets_to_fit import sets_to_fit
from janossy.cli.workflow.sets_to_predict import sets_to_predict
from janossy.tables import SetStream, SetTable, TableEncoder, as_sets
from janossy.tables.arrow import without_views
from tests.tables.forms import array_of

NEAR = 2**53
"""The number around which float64 begins to confuse whole numbers."""


def _integers(rng: random.Random, low: int, high: int) -> int:
    return rng.choice([rng.randint(-3, 3), rng.choice([NEAR, 10**18, 2**62]) + rng.randint(-2, 2), high, low])


def _within(low: int, high: int) -> Any:
    return lambda rng: min(max(_integers(rng, low, high), low), high)


def _decimal(digits: int, scale: int) -> Any:
    return lambda rng: Decimal(rng.choice([rng.randint(-3, 3), 10 ** (digits - 1) + rng.randint(-2, 2)])).scaleb(-scale)


def _moment(unit: int) -> Any:
    def draw(rng: random.Random) -> int:
        return (rng.randint(0, 2) * 86_400 + 1_700_000_000) * unit + rng.randint(0, 1) * (unit > 1)

    return draw


TYPES: dict[str, tuple[pa.DataType, Any]] = {
    "int8": (pa.int8(), _within(-128, 127)),
    "int32": (pa.int32(), _within(-(2**31), 2**31 - 1)),
    "int64": (pa.int64(), _within(-(2**63), 2**63 - 1)),
    "uint64": (pa.uint64(), _within(0, 2**64 - 1)),
    "decimal128": (pa.decimal128(38, 0), _decimal(30, 0)),
    "decimal128, two places": (pa.decimal128(20, 2), _decimal(20, 2)),
    "decimal256": (pa.decimal256(60, 3), _decimal(50, 3)),
    "float16": (pa.float16(), lambda rng: float(rng.choice([0.0, -0.0, 1.5, -2.0]))),
    "float32": (pa.float32(), lambda rng: rng.choice([0.0, -0.0, 1.5, 0.25, 2.0**60])),
    "float64": (pa.float64(), lambda rng: rng.choice([0.0, -0.0, 0.1, 1e300, 5e-324, float(NEAR)])),
    "string": (
        pa.string(),
        lambda rng: rng.choice(["", "NA", "007", "7", "7.0", "é", "null", "a,b", '"', "1e3", "1000"]),
    ),
    "large_string": (pa.large_string(), lambda rng: rng.choice(["0", "00", "-0", "x", "nan", "None", "true"])),
    "string_view": (pa.string_view(), lambda rng: rng.choice(["a", "a much longer text than a view holds", "7"])),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), lambda rng: rng.choice(["1", "01", "b", "NA"])),
    "binary": (pa.binary(), lambda rng: rng.choice([b"a", b"\xff", b"\\xff", b"\xff\xfe", b""])),
    "fixed binary": (pa.binary(2), lambda rng: rng.choice([b"ab", b"\xff\x00", b"\x00\xff", b"\\x"])),
    "uuid": (pa.uuid(), lambda rng: UUID(int=rng.choice([0, 1, 2**127, 2**127 + 1]))),
    "bool": (pa.bool_(), lambda rng: rng.random() < 0.5),
    "date32": (pa.date32(), lambda rng: dt.date(2024, 1, rng.randint(1, 4))),
    "timestamp[s]": (pa.timestamp("s"), _moment(1)),
    "timestamp[us]": (pa.timestamp("us"), _moment(10**6)),
    "timestamp[ns]": (pa.timestamp("ns"), _moment(10**9)),
    "timestamp[us, UTC]": (pa.timestamp("us", "UTC"), _moment(10**6)),
    "time64": (pa.time64("us"), lambda rng: rng.choice([0, 1, 86_399_999_999])),
    "duration": (pa.duration("ns"), lambda rng: rng.choice([0, 1, 10**18, 10**18 + 1])),
}
"""Arrow types, with functions that sample a value of each, such as some conversion would confuse."""

NOT_SORTED = ("bool",)
OF_CSV = ("int8", "int64", "decimal128", "string", "large_string", "bool", "uuid")


def column(rng: random.Random, name: str, num: int, nulls: float) -> pa.Array:
    kind, draw = TYPES[name]
    pool = [draw(rng) for _ in range(rng.randint(1, 6))]
    absent = (None, float("nan")) if pa.types.is_floating(kind) else (None,)
    values = [rng.choice(absent) if rng.random() < nulls else rng.choice(pool) for _ in range(num)]
    return array_of(values, kind)


def key(value: Any) -> Any:
    """Returns a Python value that is equal for equal values of one column; None for a missing value."""
    return None if value is None or value != value else value


def keys(values: pa.Array) -> list[Any]:
    """Returns the values as Python objects, or as whole numbers if Python would round them."""
    kind = values.type
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time(kind):
        return values.cast(pa.int64()).to_pylist()
    return [key(x) for x in values.to_pylist()]


def grouped(ids: list[list[Any]]) -> dict[tuple, list[int]]:
    """Returns the rows of each set by id, in the order in which ids first appear."""
    sets: dict[tuple, list[int]] = {}
    for row, names in enumerate(zip(*ids, strict=True)):
        sets.setdefault(names, []).append(row)
    return sets


def same_partition(codes: list[Any], values: list[Any], what: str) -> None:
    """Checks that codes are equal exactly where values are."""
    pairs = set(zip(codes, values, strict=True))
    assert len(pairs) == len(set(codes)) == len(set(values)), (what, sorted(map(str, pairs)))


def rows_of(sets: SetTable) -> list[list[int]]:
    """Returns the rows of each set."""
    rows = sets.elements["row"].values.astype(int).tolist()
    return [rows[a:b] for a, b in pairwise(sets.offsets)]


def check_sets(sets: SetTable, expected: dict[tuple, list[int]], values: list[Any], door: str, ordered: bool) -> None:
    """Checks that the sets have these rows, and one category per value."""
    found, wanted = rows_of(sets), list(expected.values())
    if not ordered:
        found, wanted = sorted(found), sorted(wanted)
    assert found == wanted, (door, found, wanted)
    if sets.ids is not None:
        listed = sets.ids.tolist() if sets.ids.dtype != "datetime64[ns]" else list(sets.ids)
        assert len(set(listed)) == len(expected), (door, listed)
    code = sets.elements["code"].to_kind("categorical", "code")
    rows = sets.elements["row"].values.astype(int)
    same_partition(code.values.tolist(), [values[row] for row in rows], f"{door}: categories")
    assert code.missing().tolist() == [values[row] is None for row in rows], door
    with warnings.catch_warnings(action="ignore"):
        encoded = TableEncoder().fit_transform(SetTable(sets.offsets, {"code": code}, {}))
    same_partition(encoded.elements.values[:, 0].tolist(), [values[row] for row in rows], f"{door}: codes")


def frames(table: pa.Table) -> dict[str, Callable[[], Any]]:
    """Returns the table in the forms that can hold its types, made on demand."""
    half = len(table) // 2
    found: dict[str, Callable[[], Any]] = {
        "Arrow": lambda: table,
        "chunks": lambda: pa.concat_tables([table[:half], table[half:]]),
        "pandas, as Arrow": lambda: table.to_pandas(types_mapper=pd.ArrowDtype),
        "dict": lambda: {name: table[name] for name in table.column_names},
    }
    if not any(pa.types.is_duration(f.type) or isinstance(f.type, pa.BaseExtensionType) for f in table.schema):
        found["lists"] = lambda: {name: table[name].to_pylist() for name in table.column_names}
        if not any(pa.types.is_float16(f.type) or pa.types.is_decimal256(f.type) for f in table.schema):
            found["pandas"] = lambda: table.to_pandas(date_as_object=False)
            found["polars"] = lambda: pl.from_arrow(table)
    return found


class Doors:
    """The entries that a table goes through, all or each with a probability, and the number of tables through each."""

    def __init__(self, rng: random.Random, counts: Counter[str], every: bool) -> None:
        self.rng, self.counts, self.every = rng, counts, every

    def through(self, door: str, probability: float) -> bool:
        """Returns True if the table goes through an entry, and counts it."""
        chosen = self.every or self.rng.random() < probability
        self.counts[door] += chosen
        return chosen


def check(seed: int, folder: Path, counts: Counter[str] | None = None, every: bool = True) -> None:
    """Checks one random table through every entry, or through some. ``counts`` counts the entries."""
    rng = random.Random(seed)
    doors = Doors(random.Random(seed), Counter() if counts is None else counts, every)
    num = rng.randint(1, 12)
    names = [f"id{j}" for j in range(rng.choice([1, 1, 2]))]
    drawn = OF_CSV if rng.random() < 0.2 else tuple(TYPES)
    kinds = [rng.choice(drawn) for _ in names]
    of_code = rng.choice(drawn)
    columns = {name: column(rng, kind, num, 0.0) for name, kind in zip(names, kinds, strict=True)}
    columns["code"] = column(rng, of_code, num, rng.choice([0.0, 0.3]))
    columns["row"] = pa.array(range(num))
    table = pa.table(columns)
    ids, values = [keys(columns[name]) for name in names], keys(columns["code"])
    expected = grouped(ids)
    if doors.through("missing ids", 0.05):
        check_missing_ids(rng, table, names, folder)
    if doors.through("targets", 0.2):
        check_targets(rng, table, names, expected, folder)
    for door, frame in frames(table).items():
        if door == "pandas" and (of_code.startswith(("int", "uint")) and columns["code"].null_count):
            continue  # pandas has turned these into floats
        if not doors.through(door, 1.0 if door == "Arrow" else 0.15):
            continue
        sets = as_sets(frame(), set_id="+".join(names), categorical=["code"] if rng.random() < 0.5 else ())
        check_sets(sets, expected, values, door, True)
    if doors.through("lists of rows", 0.2):
        check_lists(rng, table, values)
    check_files(rng, doors, table, names, kinds, expected, values, folder)
    if of_code in OF_CSV and all(kind in OF_CSV for kind in kinds) and doors.through("CSV", 0.3):
        check_csv(rng, table, names, folder)


def check_missing_ids(rng: random.Random, table: pa.Table, names: list[str], folder: Path) -> None:
    """A row without an id is an error at every door, and never a set of its own."""
    rows = list(range(len(table)))
    rows[rng.randrange(len(table))] = None  # type: ignore[call-overload]
    place = rng.randrange(len(names))
    ids = without_views(table.select([names[place]])).take(pa.array(rows, pa.int64()))[0]
    lacking = table.set_column(place, names[place], ids)
    file = folder / "lacking.arrow"
    with ipc.new_file(str(file), lacking.schema) as writer:
        writer.write_table(lacking)
    doors: list[Callable[[], Any]] = [
        lambda: as_sets(lacking, set_id="+".join(names)),
        lambda: sets_to_fit([file], Recipe(set_id=tuple(names))),
    ]
    if not any(mark in str(table.schema) for mark in ("halffloat", "decimal256", "duration")):
        doors.append(lambda: grouping.group([str(file)], names, [], folder / "never.parquet"))
    for door in doors:
        try:
            door()
        except (ValueError, BadArgument):
            continue
        raise AssertionError(f"a missing id was taken: {lacking}")


def check_lists(rng: random.Random, table: pa.Table, values: list[Any]) -> None:
    """Checks tables with one row per set, with lists."""
    cuts = sorted({0, len(table), *(rng.randint(0, len(table)) for _ in range(2))})
    offsets = pa.array(cuts, pa.int32())
    lists = pa.table(
        {name: pa.ListArray.from_arrays(offsets, table[name].combine_chunks()) for name in ("code", "row")}
    )
    expected = {(b,): list(range(a, z)) for b, (a, z) in enumerate(pairwise(cuts))}
    check_sets(as_sets(lists), expected, values, "lists", True)


def check_files(
    rng: random.Random,
    doors: Doors,
    table: pa.Table,
    names: list[str],
    kinds: list[str],
    expected: dict[tuple, list[int]],
    values: list[Any],
    folder: Path,
) -> None:
    """Checks Parquet and Arrow files: by ``fit``, by ``group`` and its output, and by a stream."""
    by_fit, by_group = doors.through("fit", 0.15), doors.through("group, stream", 0.15)
    if not by_fit and not by_group:
        return
    if (
        rng.random() < 0.5
        and not any(kind in ("float16", "duration") for kind in kinds)
        and "float16" not in str(table.schema)
    ):
        file = folder / "rows.parquet"
        parquet.write_table(table, file, row_group_size=rng.randint(1, 5))
    else:
        file = folder / "rows.arrow"
        with ipc.new_file(str(file), table.schema) as writer:
            writer.write_table(table)
    if by_fit:
        recipe = Recipe(set_id=tuple(names), categorical=("code",))
        sets = sets_to_fit([file], recipe).sets
        check_sets(sets, expected, values, "fit", True)
        if "halffloat" not in str(table.schema):
            check_predictions(rng, table, names, values, folder)
    if not by_group:
        return
    if any("float16" in str(field.type) or "halffloat" in str(field.type) for field in table.schema):
        return  # DuckDB has no such type
    if any(pa.types.is_decimal256(field.type) or pa.types.is_duration(field.type) for field in table.schema):
        return  # DuckDB's numbers have 38 digits, and its durations microseconds
    out = folder / "sets.parquet"
    out.unlink(missing_ok=True)
    grouping.group([str(file)], names, [], out)
    check_sets(as_sets(parquet.read_table(out), set_id="+".join(names)), expected, values, "group", False)
    stream = SetStream(out, set_id="+".join(names))
    for i in range(len(stream.pieces)):
        check_sets(stream.read(i, ids=True).sets, expected, values, "stream", False)


def check_predictions(rng: random.Random, table: pa.Table, names: list[str], values: list[Any], folder: Path) -> None:
    """A model of some rows, asked for all: known values have the codes of training, and new ones are unknown."""
    learnt = sorted(rng.sample(range(len(table)), rng.randint(1, len(table))))
    with warnings.catch_warnings(action="ignore"):
        sets = as_sets(without_views(table).take(pa.array(learnt)), set_id="+".join(names), categorical="code")
        encoder = TableEncoder().fit(sets)
        codes = dict(zip(learnt_keys(sets, values), coded(encoder, sets), strict=True))
        file = folder / "new.arrow"
        with ipc.new_file(str(file), table.schema) as writer:
            writer.write_table(table)
        found = {"predict": sets_to_predict([file], encoder, Recipe(set_id=tuple(names))).sets}
        offsets = pa.array([0, *range(1, len(table) + 1)], pa.int32())
        lists = {name: pa.ListArray.from_arrays(offsets, table[name].combine_chunks()) for name in ("code", "row")}
        model = Model(encoder)
        with (
            mock.patch("janossy.batch.predictor.load_once", return_value=model),
            mock.patch("janossy.batch.predictor.digest", return_value=""),
            mock.patch("janossy.batch.predictor.prediction_schema", return_value=pa.schema([])),
            mock.patch("janossy.batch.predictor.predictions", side_effect=model.predictions),
        ):
            SetPredictor("model")(pa.table(lists))
        assert model.asked is not None
        found["SetPredictor"] = model.asked
        for door, new in found.items():
            there = zip(learnt_keys(new, values), coded(encoder, new), strict=True)
            for value, code in there:
                assert code == codes.get(value, 0.0) and (code != 0 or value not in codes), (door, value, code, codes)


@dataclass
class Model:
    """An encoder where a model is expected, and the sets that were to be predicted with it."""

    encoder: TableEncoder
    columns: Mapping[str, Any] = field(default_factory=dict)
    asked: SetTable | None = None

    def predictions(self, _: "Model", sets: SetTable, *__: Any) -> pa.Table:
        self.asked = sets
        return pa.table({})


def learnt_keys(sets: SetTable, values: list[Any]) -> list[Any]:
    return [values[int(row)] for row in sets.elements["row"].values]


def coded(encoder: TableEncoder, sets: SetTable) -> list[float]:
    place = encoder.element_names.index("code")
    found: list[float] = encoder.transform(sets).elements.values[:, place].tolist()
    return found


def check_targets(
    rng: random.Random, table: pa.Table, names: list[str], expected: dict[tuple, list[int]], folder: Path
) -> None:
    """One class for each value of a target that is constant in each set, by name and by a file."""
    of_target = rng.choice(list(TYPES))
    of_set = column(rng, of_target, len(expected), 0.0)
    place = {row: b for b, rows in enumerate(expected.values()) for row in rows}
    of_row = without_views(pa.table({"target": of_set})).take(pa.array([place[row] for row in range(len(table))]))
    whole = table.append_column("target", of_row["target"])
    values = keys(of_set)
    with warnings.catch_warnings(action="ignore"):
        if of_target not in ROUNDED:
            same_partition(as_sets(whole, "target", set_id="+".join(names))[1].tolist(), values, "as_sets: targets")
        file = folder / "targets.arrow"
        with ipc.new_file(str(file), whole.schema) as writer:
            writer.write_table(whole)
        recipe = Recipe(set_id=tuple(names), target=("target",), categorical=("code",))
        read = sets_to_fit([file], recipe, "classification")
        assert read.targets is not None
        same_partition(read.targets.tolist(), values, "fit: targets")


ROUNDED = ("decimal128", "decimal128, two places", "decimal256", "duration")
"""Types whose values are floats as targets of ``as_sets``, which warns where that takes two for one."""


def check_csv(rng: random.Random, table: pa.Table, names: list[str], folder: Path) -> None:
    """Checks CSV in two files: equal spellings are one id and one category, and nothing else is."""
    texts = {name: ["" if x is None else str(x) for x in table[name].to_pylist()] for name in table.column_names}
    if any(text == "" for name in names for text in texts[name]):
        return
    cut = rng.randint(0, len(table) - 1)
    files = []
    for number, (begin, end) in enumerate(((0, cut), (cut, len(table)))):
        if begin < end:
            files.append(folder / f"{number}.csv")
            with files[-1].open("w", newline="", encoding="utf-8") as out:
                writer = csv.writer(out, delimiter=rng.choice(",;\t|"))
                writer.writerow(texts)
                writer.writerows(zip(*(column[begin:end] for column in texts.values()), strict=True))
    values = [text or None for text in texts["code"]]
    if all(value is None for value in values):
        return
    expected = grouped([texts[name] for name in names])
    recipe = Recipe(set_id=tuple(names), categorical=("code",))
    sets = sets_to_fit(files, recipe).sets
    check_sets(sets, expected, values, "CSV", True)
    encoder = TableEncoder().fit(sets)
    codes = dict(
        zip(sets.elements["row"].values.tolist(), encoder.transform(sets).elements.values[:, 0].tolist(), strict=True)
    )
    for file, (begin, end) in zip(files, [(0, cut), (cut, len(table))][-len(files) :], strict=True):
        found = sets_to_predict([file], encoder, Recipe(set_id=tuple(names))).sets
        again = encoder.transform(found).elements.values[:, 0].tolist()
        rows = found.elements["row"].values.tolist()
        assert [codes[row] for row in rows] == again, ("CSV by the model's types", file, begin, end)


@contextlib.contextmanager
def one_database() -> Iterator[None]:
    """Gives all tables one database of DuckDB, because opening another takes longer than the rest of a table."""
    opened = duckdb.connect
    with opened(config={"threads": 1}) as database:
        duckdb.connect = database.cursor
        try:
            yield
        finally:
            duckdb.connect = opened


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    asked = parser.parse_args()
    counts: Counter[str] = Counter()
    num, end = 0, monotonic() + 60 * asked.minutes
    with tempfile.TemporaryDirectory() as name, one_database():
        for seed in range(asked.seed, asked.seed + asked.tables):
            if monotonic() > end:
                break
            num += 1
            try:
                check(seed, Path(name), counts, every=False)
            except Exception as error:
                print(f"seed {seed}: {type(error).__name__}: {str(error)[:400]}", file=sys.stderr)
                raise
    doors = ", ".join(f"{number:,} {door}" for door, number in counts.items())
    print(f"{num:,} tables from seed {asked.seed}, no difference: {doors}")


if __name__ == "__main__":
    main()
