"""janossy group: the sets of a long table, as a file of one row a set, whatever DuckDB spills."""

import re
import subprocess
import sys

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from janossy.cli.workflow import grouping
from janossy.tables import as_sets
from tests.cli.commands import janossy, write

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
    expected, y = as_sets(table, "y", set_id=set_id)
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


def test_csv_is_refused_with_a_way_that_works(janossy):
    write("rows.csv", {"id": [1, 1, 2], "x": [1.5, 2.5, 3.5]})
    code, _, err = janossy("group", "rows.csv", "--set-id", "id", "--out", "sets.parquet")
    assert code == 2 and err.count("\n") == 1 and "rows.csv is CSV, whose types are a guess" in err
    (words,) = re.findall(r'duckdb.sql\("(.*)"\)', err)
    duckdb.sql(words)
    assert janossy("group", "rows.parquet", "--set-id", "id", "--out", "sets.parquet")[0] == 0
    assert parquet.read_table("sets.parquet").to_pydict() == {"id": [1, 2], "x": [[1.5, 2.5], [3.5]]}


def test_it_loads_no_torch():
    """Which takes more memory than the sorting needs."""
    told = "import janossy.cli.workflow.grouping, sys; print(sys.modules.keys() & {'duckdb', 'torch', 'sklearn'})"
    run = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, timeout=100)
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
         "column 'y' expects one value a set; got 1 in a.parquet, row 1 and 2 in b.parquet, row 2, both of set 1."),
        ({"a": {"ix": [1]}}, (), "has no column 'id'; it has ix."),
        ({"a": {"id": [1], "x": [1]}}, ("--set-columns", "id"), "both name 'id'"),
        ({"a": {"id": [1], "x": [1]}}, ("--memory", "much"), "DuckDB cannot sort the rows"),
        ({}, (), "there is no file or folder a.parquet"),
        ({"a": {"id": pa.array([], pa.int64())}}, (), "and no row"),
    ],
    ids=["columns", "types", "no id", "not constant", "no such", "twice", "memory", "no file", "no row"],
)  # fmt: skip
def test_what_is_refused(janossy, tmp_path, tables, arguments, message):
    for name, columns in tables.items():
        write(f"{name}.parquet", columns)
    there = sorted(tmp_path.iterdir())
    files = [f"{name}.parquet" for name in tables] or ["a.parquet"]
    code, _, err = janossy("group", *files, "--set-id", "id", "--out", "sets.parquet", *arguments)
    assert code == 2 and message in err and err.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == there
