"""The commands, run in this process, with tables for them."""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

from janossy.cli import main

WRITERS = {".parquet": parquet.write_table, ".csv": csv.write_csv, ".feather": feather.write_feather}

FIT = (
    "fit",
    "orders.csv",
    "--set-id",
    "order",
    "--target",
    "returned",
    "--drop",
    "total",
    "--strategy",
    "k1",
    "--max-epochs",
    "2",
)
"""The arguments of a fit of orders.csv in a second, without its --out."""


def run(*arguments: object) -> int:
    """Returns the exit code of a command, run in the current folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["janossy", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
    return int(stopped.value.code or 0)


@pytest.fixture
def janossy(monkeypatch, capsys, tmp_path):
    """Gives a function that runs a command in an empty folder, and returns its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: (run(*arguments), *capsys.readouterr())


def write(name: str, columns: dict[str, list] | pa.Table) -> Path:
    """Writes a table of these columns, in the format of the file's ending, and returns its path."""
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    WRITERS[Path(name).suffix](table, name)
    return Path(name)


def orders(num: int = 40, seed: int = 0) -> dict[str, list]:
    """Returns orders of 1 to 4 items. An order is returned if it has the same item twice."""
    rng = np.random.default_rng(seed)
    columns: dict[str, list] = {name: [] for name in ("order", "item", "price", "hour", "returned", "total")}
    for order in range(num):
        items = rng.integers(0, 4, rng.integers(1, 8)).tolist()
        prices = rng.uniform(1, 9, len(items)).round(2).tolist()
        for item, price in zip(items, prices, strict=True):
            values = (order, "abcd"[item], price, order % 24, len(set(items)) < len(items), round(sum(prices), 2))
            for name, value in zip(columns, values, strict=True):
                columns[name].append(value)
    return columns


def changed(columns: dict[str, list], name: str, row: int, value: object) -> dict[str, list]:
    """Returns the columns with one value replaced."""
    return {**columns, name: [*columns[name][:row], value, *columns[name][row + 1 :]]}


if __name__ == "__main__":
    main()
