"""The commands and tables in stores, by their addresses: as with local copies."""

import gzip
import json
from pathlib import Path

import fsspec
import pytest
from pyarrow import csv, parquet

from tests.cli.commands import FIT, janossy, orders, write

__all__ = ["janossy"]

SETTINGS = FIT[2:]


@pytest.fixture(params=[pytest.param("file", marks=pytest.mark.only_all), "memory"])
def store(request, janossy, tmp_path):
    """The address of a folder with orders: as CSV in gzip, damaged, and one set per row."""
    assert write("orders.csv", orders()).exists()
    group = ("--set-id", "order", "--set-columns", "returned", "--out", "sets.parquet")
    assert janossy("group", "orders.csv", *group)[0] == 0
    contents = {
        "orders.csv.gz": gzip.compress(Path("orders.csv").read_bytes()),
        "damaged.csv": b"order,item\n1,2\n3\n",
        "sets.parquet": Path("sets.parquet").read_bytes(),
    }
    address = f"{request.param}://{tmp_path}/store"
    for name, content in contents.items():
        with fsspec.open(f"{address}/{name}", "wb", auto_mkdir=True) as file:
            file.write(content)
    yield address
    if request.param == "memory":
        fsspec.filesystem("memory").rm(f"{tmp_path}/store", recursive=True)


def test_fit_and_predict(store, janossy):
    assert janossy("fit", f"{store}/orders.csv.gz", *SETTINGS, "--out", "m")[0] == 0
    assert json.loads(Path("m/fit.json").read_text())["files"] == [f"{store}/orders.csv.gz"]
    found = []
    for number, place in enumerate((f"{store}/orders.csv.gz", "orders.csv")):
        assert janossy("predict", "m", place, "--out", f"{number}.csv")[0] == 0
        found.append(csv.read_csv(f"{number}.csv"))
    assert found[0].equals(found[1])
    code, _, error = janossy("predict", "m", f"{store}/damaged.csv", "--out", "p.csv")
    assert code == 2 and f"{store}/damaged.csv, row 2: Expected 2 columns, got 1" in error
    code, _, error = janossy("predict", "m", f"{store}/none.csv", "--out", "p.csv")
    assert code == 2 and f"there is no file or folder {store}/none.csv" in error


def test_piece_by_piece(store, janossy):
    """A fit to a stream, and predictions of parts, which a second run finds there."""
    assert janossy("fit", f"{store}/sets.parquet", "--stream", *SETTINGS, "--out", "m")[0] == 0
    for num_before in (0, 1):
        code, out, _ = janossy("predict", "m", f"{store}/sets.parquet", "--out", "parts")
        assert code == 0 and ("1 of them before" in out) == bool(num_before)
    assert parquet.read_table("parts").num_rows == 40


@pytest.mark.parametrize("store", ["file", "memory"], indirect=True)
def test_group(store, janossy):
    group = ("--set-id", "order", "--set-columns", "returned", "--out")
    assert janossy("group", f"{store}/orders.csv.gz", *group, "again.parquet")[0] == 0
    assert parquet.read_table("again.parquet").equals(parquet.read_table("sets.parquet"))
    code, _, error = janossy("group", f"{store}/damaged.csv", *group, "no.parquet")
    assert code == 2 and "damaged.csv, row 2: Expected 2 columns, got 1" in error and "/tmp/janossy" not in error
