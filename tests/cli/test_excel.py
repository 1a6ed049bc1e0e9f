"""Workbooks of Excel: as the CSV file of the same cells; what is damaged, too large or not there is one line."""

import datetime as dt
import random
import re
import sys
import zipfile
from pathlib import Path

import pytest
from pyarrow import parquet

from janossy.cli.errors import BadArgument
from janossy.cli.workflow import excel
from janossy.cli.workflow.reading import read_tables
from janossy.cli.workflow.record import Recipe
from janossy.cli.workflow.sets_to_fit import sets_to_fit
from janossy.cli.workflow.sets_to_predict import sets_to_predict
from janossy.tables import TableEncoder
from tests.cli.commands import janossy

__all__ = ["janossy"]

openpyxl = pytest.importorskip("openpyxl", reason="the extra excel is not installed")

DAY = dt.datetime(2024, 1, 31)
CELLS = {
    "whole": lambda rng: rng.randint(-5, 5),
    "number": lambda rng: rng.choice([0.5, -2.25, 1e-7]),
    "either": lambda rng: rng.choice([7, 7.5]),
    "flag": lambda rng: rng.random() < 0.5,
    "date": lambda rng: DAY + dt.timedelta(days=rng.randint(0, 60)),
    "moment": lambda rng: DAY + dt.timedelta(hours=rng.randint(0, 600)),
    "code": lambda rng: rng.choice(["007", "7", "A1"]),
    "word": lambda rng: rng.choice(["tea", "NA", "a,b", 'a "b"']),
    "digits": lambda rng: rng.choice(["12", "3.5"]),
    "mixed": lambda rng: rng.choice(["007", 7, 7.5, True]),
    "list": lambda rng: rng.choice(["[1, 2]", "[3]"]),
    "long": lambda rng: rng.choice([10**25, 10**25 + 1]),
}
"""Columns of a sheet, and how a cell of each is drawn."""


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def workbook(name: str, *rows: list, sheet: str = "first", before: int = 0) -> Path:
    """A workbook of one sheet of these rows, or of ``before`` others and that one."""
    book = openpyxl.Workbook()
    for number in range(before):
        other = book.create_sheet(f"other {number}")
        other.append(["nothing"])
        other.append([number])
    page = book.create_sheet(sheet)
    for row in rows:
        page.append(row)
    book.remove(book.worksheets[0])
    book.save(name)
    return Path(name)


def csv_file(name: str, *rows: list) -> Path:
    cells = [["" if cell is None else excel.spelt(cell) for cell in row] for row in rows]
    quoted = [",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in cells]
    Path(name).write_text("\n".join(quoted) + "\n", encoding="utf-8")
    return Path(name)


@pytest.mark.parametrize("seed", range(4))
def test_a_workbook_is_the_csv_file_of_its_cells(seed):
    rng = random.Random(seed)
    rows = [list(CELLS)]
    rows += [[None if rng.random() < 0.2 else draw(rng) for draw in CELLS.values()] for _ in range(20)]
    roles = {"whole": "id", "code": "categorical", "mixed": "text"} if seed % 2 else {}
    found, expected = (
        read_tables([file], roles).table for file in (workbook("t.xlsx", *rows), csv_file("t.csv", *rows))
    )
    for name in CELLS:
        if name != "long":  # of which a workbook has what floats hold
            assert found[name].to_pylist() == expected[name].to_pylist(), name
            assert found.schema.field(name).type == expected.schema.field(name).type, name


def test_cells_without_a_value():
    """Errors of formulas, empty texts and the null values of the options; rows without a cell do not count."""
    file = workbook("t.xlsx", [None, None], ["x", "s"], [1, "a"], [None, None], ["#N/A", ""], [2, "-"])
    found = excel.read_sheet(file, None, ("-",))
    assert found.to_pydict() == {"x": [1, None, 2], "s": ["a", None, None]}
    file = workbook("n.xlsx", ["x", "y"], [-999, 0.5], [1, -999.0], [2, -0.25])
    assert excel.read_sheet(file, None, ("-999", "0.5")).to_pydict() == {"x": [None, 1, 2], "y": [None, None, -0.25]}


def test_several_workbooks_have_one_type():
    one, other = workbook("a.xlsx", ["x"], [7], [8]), workbook("b.xlsx", ["x"], ["007"], [7])
    assert read_tables([one, other]).table["x"].to_pylist() == ["7", "8", "007", "7"]


def test_the_type_of_a_column_is_the_models():
    """A model of codes, and a new workbook whose codes all are numbers."""
    rows = [["s", "c", "y"], [1, "A1", 0], [1, 7, 0], [2, "007", 1], [3, 7, 1]]
    recipe = Recipe(("s",), ("y",))
    sets = sets_to_fit([workbook("a.xlsx", *rows)], recipe).sets
    encoder = TableEncoder().fit(sets)
    new = sets_to_predict([workbook("b.xlsx", ["s", "c"], [5, 7], [5, 7])], encoder, recipe).sets
    codes = encoder.transform(sets).elements.values[:, 0]
    assert encoder.transform(new).elements.values[:, 0].tolist() == [codes[1].item()] * 2


def test_the_commands_read_workbooks(janossy):
    rows = [["order", "item", "returned"]]
    rows += [[order, f"item {(order * k) % 3}", order % 2 == 0] for order in range(20) for k in (1, 2)]
    workbook("items.xlsx", *rows, sheet="the items", before=1)
    Path("items.csv").write_bytes(Path("items.xlsx").read_bytes())  # by content, whatever its name
    of_sheet = ("--sheet", "the items")
    fit = ("--set-id", "order", "--target", "returned", "--strategy", "k1", "--max-epochs", 1, "--out", "m")
    assert janossy("fit", "items.csv", *of_sheet, *fit)[0] == 0
    assert janossy("predict", "m", "items.xlsx", *of_sheet, "--out", "p.csv")[0] == 0
    group = ("--set-id", "order", "--set-columns", "returned", "--out", "sets.parquet")
    assert janossy("group", "items.xlsx", *of_sheet, *group)[0] == 0
    assert parquet.read_table("sets.parquet").num_rows == 20
    code, _, error = janossy("predict", "m", "items.xlsx", "--out", "q.csv")
    assert code == 2 and "has no column 'item'" in error


def test_what_cannot_be_read_is_one_line():
    file = workbook("t.xlsx", ["x", None], [1, 2])
    cases = {"has no sheet 'b'; it has 'first'": (file, "b"), "column 2 has no name": (file, None)}
    cases["is empty"] = (workbook("e.xlsx"), None)
    cases["two columns are called 'x'"] = (workbook("two.xlsx", ["x", "x"], [1, 2]), None)
    for message, (of, sheet) in cases.items():
        with pytest.raises(BadArgument, match=message):
            excel.read_sheet(of, sheet)
    Path("old.xls").write_bytes(b"\xd0\xcf\x11\xe0")
    with pytest.raises(BadArgument, match=r"Save it as \.xlsx or CSV"):
        read_tables([Path("old.xls")])
    content = bytearray(file.read_bytes())
    rng = random.Random(0)
    for trial in range(60):
        damaged = bytearray(content[: rng.randrange(len(content))] if trial % 2 else content)
        for _ in range(1 - trial % 2):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        Path("d.xlsx").write_bytes(bytes(damaged))
        try:
            read_tables([Path("d.xlsx")])
        except BadArgument as error:
            assert "d.xlsx" in error.message


def test_another_sheet_and_a_title_are_named():
    notes = openpyxl.Workbook()
    notes.active.title = "Notes"
    notes.active.append(["written by me"])
    rows = notes.create_sheet("Orders")
    for row in (["Sales report"], [], ["order", "x"], [1, 2]):
        rows.append(row)
    notes.save("w.xlsx")
    says = "w.xlsx: the sheet 'Notes' has no rows below the names of its columns. --sheet names another of 'Orders'."
    with pytest.raises(BadArgument, match=re.escape(says)):
        excel.read_sheet(Path("w.xlsx"), None)
    says = "w.xlsx: column 2 has no name in the first row that has a cell, which begins with 'Sales report'."
    with pytest.raises(BadArgument, match=re.escape(says)):
        excel.read_sheet(Path("w.xlsx"), "Orders")


def test_a_small_file_that_unpacks_to_much_is_refused(monkeypatch):
    with zipfile.ZipFile("bomb.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", "<a/>" * 2**18)
    monkeypatch.setattr(excel, "FROM", 2**18)
    with pytest.raises(BadArgument, match=r"bomb\.xlsx unpacks to 1 MiB"):
        read_tables([Path("bomb.xlsx")])


def test_without_openpyxl_it_is_named(janossy, monkeypatch):
    workbook("t.xlsx", ["s", "x"], [1, 2])
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    code, _, error = janossy("group", "t.xlsx", "--set-id", "s", "--out", "sets.parquet")
    assert code == 1 and "pip install 'janossy[excel]'" in error
