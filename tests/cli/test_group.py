"""janossy group: the sets of a long table, as a file of one row per set, whatever DuckDB spills."""

import datetime as dt
import lzma
import subprocess
import sys
import uuid
import zipfile
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from janossy.cli.workflow import grouping
from janossy.tables import as_sets
from tests.cli.commands import janossy, write
from tests.tables.forms import array_of

__all__ = ["janossy"]


@settings(max_examples=15)
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=40), st.integers(1, 7), st.integers(1, 9), st.booleans())
def test_the_sets_are_those_of_as_sets(tmp_path_factory, ids, batch, group, pairs):
    """Against the same grouping in memory, with batches and row groups of a few rows, so that sets lie across them."""
    folder = tmp_path_factory.mktemp("group")
    half = len(ids) // 2
    columns = {"id": ids, "x": np.arange(len(ids)) / 2, "word": [f"w{i % 5}" for i in range(len(ids))]}
    columns |= {"y": np.array(ids) * 10.0}
    set_id = ["id", "word"] if pairs else ["id"]
    table = pa.table(columns)
    files = []
    for name, rows in {"a": table.slice(0, half), "b": table.slice(half)}.items():
        if len(rows):
            files.append(str(folder / f"{name}.parquet"))
            parquet.write_table(rows, files[-1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouping, "BATCH", batch)
        patch.setattr(grouping, "GROUP", group)
        num = grouping.group(files, set_id, ["y"], folder / "out.parquet")
    grouped = parquet.read_table(folder / "out.parquet")
    expected, y = as_sets(table, "y", set_id="+".join(set_id))
    listed = [tuple(row[name] for name in set_id) for row in grouped.select(set_id).to_pylist()]
    known = [row if pairs else (row,) for row in expected.ids.tolist()]
    assert num == len(grouped) == len(expected) and listed == sorted(known)
    order = [known.index(row) for row in listed]
    assert grouped["y"].to_pylist() == y[order].tolist()
    for b, place in enumerate(order):
        assert grouped["x"][b].as_py() == expected[place].elements["x"].values.tolist()
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_a_table_that_exceeds_the_memory_is_spilled(janossy):
    rng = np.random.default_rng(0)
    ids = rng.permutation(np.arange(600_000) // 3)
    write("long.parquet", pa.table({"id": ids, "x": rng.normal(size=len(ids)), "z": rng.normal(size=len(ids))}))
    code, out, err = janossy("group", "long.parquet", "--set-id", "id", "--out", "sets.parquet", "--memory", "40MB")
    assert (code, err) == (0, "") and out == "wrote sets.parquet: 200,000 sets\n"
    grouped = parquet.read_table("sets.parquet")
    assert np.array_equal(grouped["id"], np.arange(200_000))
    assert parquet.ParquetFile("sets.parquet").num_row_groups >= 4


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "csv.zst", "csv.xz", "csv.zip", "csv.bz2"])
def test_csv_whose_files_have_one_schema(janossy, ending):
    """Ids 007 and 7 are two, as the first file alone would not say; amounts are numbers in both."""
    for name, ids, amounts in (("a", ["12", "7", "12"], ["1", "2", ""]), ("b", ["007", "7"], ["3.5", "NA"])):
        lines = [f"{each};{x};{x}{code}" for each, x, code in zip(ids, amounts, "uvw", strict=False)]
        packed(f"{name}.{ending}", "\n".join(["# made by hand", "id;x;code", *lines, ""]))
    code, out, err = janossy("group", f"a.{ending}", f"b.{ending}", "--set-id", "id", "--out", "sets.parquet")
    assert (code, err) == (0, "") and "wrote sets.parquet: 3 sets" in out
    assert parquet.read_table("sets.parquet").to_pydict() == {
        "id": ["007", "12", "7"],
        "x": [[3.5], [1.0, None], [2.0, None]],
        "code": [["3.5u"], ["1u", "w"], ["2v", "NAv"]],
    }


def packed(name: str, text: str) -> None:
    """Writes a text file, compressed by the ending of its name."""
    content = text.encode()
    codec = {"gz": "gzip", "zst": "zstd", "bz2": "bz2"}.get(name.rpartition(".")[2])
    if name.endswith(".zip"):
        with zipfile.ZipFile(name, "w") as archive:
            archive.writestr("table.csv", content)
    elif name.endswith(".xz"):
        Path(name).write_bytes(lzma.compress(content))
    elif codec:
        with pa.output_stream(name, compression=codec) as file:
            file.write(content)
    else:
        Path(name).write_bytes(content)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("id,x\n1,2\n1\n", "a.csv, row 2: Expected 2 columns, got 1"),
        ('id,x\n1,2\n1,"b\n', "a.csv, row 2: quotes begin here and do not end."),
        ("id,x\n", "a.csv has columns but no rows."),
        ("id,x\n1,2\n,3\n", "--set-id id expects an id in every row; got none in a.csv, row 2."),
        ("id,x,x\n1,2,3\n", "a.csv: two columns are called 'x'."),
        ("", "a.csv is empty."),
    ],
)
def test_what_is_wrong_in_csv(janossy, text, says):
    Path("a.csv").write_text(text, encoding="utf-8")
    code, _, err = janossy("group", "a.csv", "--set-id", "id", "--out", "sets.parquet")
    assert code == 2 and says in err and err.count("\n") == 1
    assert [path.name for path in Path().iterdir()] == ["a.csv"]


def test_a_column_that_is_constant_in_each_set_is_told(janossy):
    write("a.parquet", {"id": [1, 1, 2], "x": [1, 2, 3], "y": [5, 5, 6]})
    out = janossy("group", "a.parquet", "--set-id", "id", "--out", "sets.parquet")[1]
    assert "one value in each set: y. --set-columns y" in out
    code, _, err = janossy("fit", "sets.parquet", "--set-id", "id", "--target", "y", "--out", "model")
    assert code == 2 and "the target 'y' holds lists" in err and "--set-columns y" in err


def test_the_index_of_a_frame_is_left_out(janossy):
    frame = pd.DataFrame({"id": [1, 1, 2], "x": [1.0, 2.0, 3.0]}, index=[7, 5, 6])
    frame.to_parquet("a.parquet")
    code, out, _ = janossy("group", "a.parquet", "--set-id", "id", "--out", "sets.parquet")
    assert code == 0 and "__index_level_0__ is the index of a pandas frame, and left out." in out
    assert parquet.read_table("sets.parquet").column_names == ["id", "x"]


def test_ids_that_are_not_a_number_are_missing(janossy):
    write("a.parquet", {"id": [1.0, float("nan")], "x": [1, 2]})
    code, _, err = janossy("group", "a.parquet", "--set-id", "id", "--out", "sets.parquet")
    assert code == 2 and "got none in a.parquet, row 2." in err


@pytest.mark.parametrize(
    "ids",
    [
        pa.array([10**18, 10**18 + 1, 10**18], pa.decimal128(19, 0)),
        pa.array([2**63, 2**63 + 1, 2**63], pa.uint64()),
        array_of([uuid.UUID(int=2**100), uuid.UUID(int=2**100 + 1), uuid.UUID(int=2**100)], pa.uuid()),
        pa.array([b"\x00\xff", b"\x00\xfe", b"\x00\xff"], pa.binary(2)),
    ],
    ids=["decimal", "uint64", "uuid", "binary"],
)
def test_ids_of_any_type_are_grouped_and_read_again(janossy, ids):
    write("a.parquet", pa.table({"id": ids, "x": [1.0, 2.0, 3.0]}))
    assert janossy("group", "a.parquet", "--set-id", "id", "--out", "sets.parquet")[0] == 0
    grouped = parquet.read_table("sets.parquet")
    assert sorted(grouped["x"].to_pylist()) == [[1.0, 3.0], [2.0]]
    expected = dict(
        zip(as_sets(pa.table({"id": ids, "x": [1, 2, 3]}), set_id="id").ids, [[1.0, 3.0], [2.0]], strict=True)
    )
    found = as_sets(grouped, set_id="id")
    assert {name: found[b].elements["x"].values.tolist() for b, name in enumerate(found.ids)} == expected


@pytest.mark.parametrize("name", ["X", "ID", "", "janossy_row", "JANOSSY_ROW"])
def test_columns_of_any_name(janossy, name):
    """DuckDB takes x and X for one name, and allows no empty name."""
    write("a.parquet", {"id": [2, 1, 2], "x": [1.0, 2.0, 3.0], name: [6, 5, 4]})
    assert janossy("group", "a.parquet", "--set-id", "id", "--out", "sets.parquet")[0] == 0
    assert parquet.read_table("sets.parquet").to_pydict() == {
        "id": [1, 2],
        "x": [[2.0], [1.0, 3.0]],
        name: [[5], [6, 4]],
    }
    if name:
        assert janossy("group", "a.parquet", "--set-id", name, "--out", "other.parquet")[0] == 0
        assert parquet.read_table("other.parquet")["x"].to_pylist() == [[3.0], [2.0], [1.0]]


def test_nanoseconds_in_csv(janossy):
    Path("a.csv").write_text("id,at\n1,2024-01-31T10:00:00.123456789\n1,2024-01-31 10:00\n", encoding="utf-8")
    assert janossy("group", "a.csv", "--set-id", "id", "--out", "sets.parquet")[0] == 0
    found = parquet.read_table("sets.parquet")["at"].combine_chunks().flatten()
    assert (found[0].value - found[1].value, found.type) == (123456789, pa.timestamp("ns"))
    Path("a.csv").write_text("id,at\n1,2024-01-31\n1,2024-02-31\n", encoding="utf-8")
    code, _, err = janossy("group", "a.csv", "--set-id", "id", "--out", "other.parquet")
    assert code == 2 and "Traceback" not in err
    assert err.startswith("janossy: a.csv: a value does not fit its column's type (")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_durations_stay_durations(janossy, unit):
    """DuckDB makes intervals of them, which Parquet lacks, and which have no nanoseconds."""
    kind = pa.duration(unit)
    times = pa.array([1_500_001, 2, None], kind)
    write("a.parquet", pa.table({"id": [2, 1, 2], "x": times, "in": pa.ListArray.from_arrays([0, 1, 1, 3], times)}))
    assert janossy("group", "a.parquet", "--set-id", "id", "--out", "sets.parquet")[0] == 0
    found = parquet.read_table("sets.parquet")
    assert found["x"].cast(pa.list_(pa.int64())).to_pylist() == [[2], [1_500_001, None]]
    assert found["x"].type == pa.list_(pa.field("element", kind)) and found["in"].type.value_type.value_type == kind
    write("b.parquet", pa.table({"id": pa.array([7, 6, 7], kind), "y": [1, 2, 1]}))
    out = janossy("group", "b.parquet", "--set-id", "id", "--set-columns", "y", "--out", "other.parquet")
    assert out[0] == 0 and parquet.read_table("other.parquet")["id"].cast(pa.int64()).to_pylist() == [6, 7]


def test_structs_keep_the_names_of_their_fields(janossy):
    """DuckDB gives another name to a field without one, and takes b and B for one name."""
    inner = pa.StructArray.from_arrays([[1, 2, 3], list("abc"), [4, 5, None]], ["", "b", "B"])
    inner = pa.StructArray.from_arrays([inner.slice(0, 3)], [""], mask=pa.array([False, True, False]))
    listed = pa.ListArray.from_arrays([0, 2, 2, 3], inner)
    write("a.parquet", pa.table({"id": [2, 1, 2], "s": inner, "in": listed}))
    assert janossy("group", "a.parquet", "--set-id", "id", "--out", "sets.parquet")[0] == 0
    found = parquet.read_table("sets.parquet").to_pydict()
    given = inner.to_pylist()
    assert found["s"] == [[None], [given[0], given[2]]] and given[0] == {"": {"": 1, "b": "a", "B": 4}}
    assert found["in"] == [[[]], [given[:2], given[2:]]]
    vectors = pa.FixedSizeListArray.from_arrays(pa.StructArray.from_arrays([range(6)], [""]), 2)
    write("c.parquet", pa.table({"id": [2, 1, 2], "v": vectors}))
    assert janossy("group", "c.parquet", "--set-id", "id", "--out", "third.parquet")[0] == 0
    found = parquet.read_table("third.parquet")["v"].to_pylist()
    assert found == [[vectors[1].as_py()], [vectors[0].as_py(), vectors[2].as_py()]] and "" in found[0][0][0]
    twice = pa.StructArray.from_arrays([[1, 2], [3, 4]], ["b", "b"])
    write("b.parquet", pa.table({"id": [1, 1], "s": twice}))
    code, _, err = janossy("group", "b.parquet", "--set-id", "id", "--out", "other.parquet")
    assert code == 2 and "b.parquet: column 's' has two fields called 'b'. Rename one." in err


def test_decimals_of_more_than_38_digits(janossy):
    """DuckDB does not have them."""
    kind = pa.decimal256(60, 2)
    amounts = pa.array([Decimal(10) ** 50, None, Decimal("0.25")], kind)
    listed = pa.ListArray.from_arrays([0, 1, 1, 3], amounts)
    write("a.parquet", pa.table({"id": [2, 1, 2], "x": amounts, "in": listed}))
    assert janossy("group", "a.parquet", "--set-id", "id", "--out", "sets.parquet")[0] == 0
    found = parquet.read_table("sets.parquet")
    assert found["x"].type.value_type == kind and found["in"].type.value_type.value_type == kind
    assert found["x"].to_pylist() == [[None], [Decimal(10) ** 50, Decimal("0.25")]]
    assert found["in"].to_pylist() == [[[]], [[Decimal(10) ** 50], [None, Decimal("0.25")]]]
    code, _, err = janossy("group", "a.parquet", "--set-id", "x", "--out", "other.parquet")
    assert code == 2 and "--set-id x expects numbers of at most 38 digits; got Arrow's decimal256(60, 2)" in err


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "+02:00"])
def test_time_zones_stay(janossy, monkeypatch, unit, zone):
    """DuckDB would write that of the machine."""
    monkeypatch.setenv("TZ", "America/New_York")
    kind = pa.timestamp(unit, zone)
    times = pa.array([1_700_000_000_123, 2, None], pa.int64()).cast(kind)
    write("a.parquet", pa.table({"id": [2, 1, 2], "x": times, "in": pa.ListArray.from_arrays([0, 1, 1, 3], times)}))
    assert janossy("group", "a.parquet", "--set-id", "id", "--out", "sets.parquet")[0] == 0
    found = parquet.read_table("sets.parquet")
    assert found["x"].type.value_type == kind and found["in"].type.value_type.value_type == kind
    assert found["x"].cast(pa.list_(pa.int64())).to_pylist() == [[2], [1_700_000_000_123, None]]
    write("b.parquet", pa.table({"id": times[:2], "x": [1, 2]}))
    assert janossy("group", "b.parquet", "--set-id", "id", "--out", "other.parquet")[0] == 0
    assert parquet.read_table("other.parquet")["id"].combine_chunks().equals(times.take(pa.array([1, 0])))


def test_dates_with_and_without_zones_are_text_with_a_line(janossy):
    """In one CSV column, no instant could be told of those without."""
    for name, day in (("a", "2024-01-01T10:00:00Z"), ("b", "2024-01-01T10:00:00")):
        Path(f"{name}.csv").write_text(f"id,at\n1,{day}\n1,{day}\n", encoding="utf-8")
    code, out, _ = janossy("group", "a.csv", "b.csv", "--set-id", "id", "--out", "sets.parquet")
    assert code == 0 and "column 'at' holds dates with a time zone and without one, and is taken as text" in out
    assert parquet.read_table("sets.parquet")["at"].to_pylist()[0][1:3] == [
        "2024-01-01T10:00:00Z",
        "2024-01-01T10:00:00",
    ]
    zoned = pa.table({"id": [1], "at": pa.array([dt.datetime(2024, 1, 1)], pa.timestamp("us", "UTC"))})
    write("c.parquet", zoned)
    code, _, err = janossy("group", "c.parquet", "b.csv", "--set-id", "id", "--out", "other.parquet")
    assert code == 2 and "column 'at' is timestamp[us, tz=UTC] in c.parquet, and timestamp[us] in b.csv" in err


def test_it_loads_no_torch():
    """Torch takes more memory than the sorting needs."""
    code = "import janossy.cli.workflow.grouping, sys; print(sys.modules.keys() & {'duckdb', 'torch', 'sklearn'})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert run.stdout == "{'duckdb'}\n", run.stderr


def test_folders_and_patterns(janossy, tmp_path):
    for year in (2023, 2024):
        (tmp_path / f"all/year={year}").mkdir(parents=True)
        write(f"all/year={year}/a.parquet", {"id": [year, 1], "x": [1.0, float(year)]})
    (tmp_path / "all/_left").mkdir()
    (tmp_path / "all/_left/b.parquet").write_text("no table")
    for number, path in enumerate(("all", "all/*/*.parquet")):
        assert janossy("group", path, "--set-id", "id", "--out", f"{number}.parquet")[0] == 0
        grouped = parquet.read_table(f"{number}.parquet").to_pylist()
        assert grouped[0] == {"id": 1, "x": [2023.0, 2024.0], "year": [2023, 2024]}


@pytest.mark.parametrize(
    ("tables", "arguments", "message"),
    [
        ({"a": {"id": [1], "x": [1]}, "b": {"id": [1], "y": [1]}}, (), "b.parquet has no column 'x', which"),
        ({"a": {"id": [1], "x": [1]}, "b": {"id": [1], "x": ["1"]}}, (), "column 'x' is int64 in"),
        ({"a": {"id": [1, None], "x": [1, 2]}}, (), "got none in a.parquet, row 2."),
        ({"a": {"id": [1, 2], "y": [1, 1]}, "b": {"id": [3, 1], "y": [1, 2]}}, ("--set-columns", "y"),
         "column 'y' expects one value per set; got 1 in a.parquet, row 1 and 2 in b.parquet, row 2, both of set 1."),
        ({"a": {"ix": [1]}}, (), "has no column 'id', which --set-id names. It has ix."),
        ({"a": {"id": [1], "x": [1]}}, ("--set-columns", "id"), "both name 'id'"),
        ({"a": {"id": [[1]], "x": [1]}}, (), "expects a column of numbers, text or dates; got Arrow's list<"),
        ({"a": {"id": pa.nulls(2), "x": [1, 2]}}, (), "got none in a.parquet, row 1."),
        ({"a": {"id": [1], "x": [1]}}, ("--memory", "much"), "DuckDB cannot sort the rows"),
        ({}, (), "there is no file or folder a.parquet"),
        ({"a": {"id": pa.array([], pa.int64())}}, (), "but no rows"),
    ],
    ids=["columns", "types", "no id", "varies", "no such", "twice", "lists", "nulls", "memory", "no file", "no row"],
)  # fmt: skip
def test_what_is_refused(janossy, tmp_path, tables, arguments, message):
    for name, columns in tables.items():
        write(f"{name}.parquet", columns)
    there = sorted(tmp_path.iterdir())
    files = [f"{name}.parquet" for name in tables] or ["a.parquet"]
    code, _, err = janossy("group", *files, "--set-id", "id", "--out", "sets.parquet", *arguments)
    assert code == 2 and message in err and err.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == there
