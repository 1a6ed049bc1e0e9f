"""JSON lines to predict: columns in the types that the model was trained with, as those of CSV files."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from janossy.cli.errors import BadArgument
from janossy.cli.workflow.record import Recipe
from janossy.cli.workflow.sets_of_rows import Read
from janossy.cli.workflow.sets_to_fit import sets_to_fit
from janossy.cli.workflow.sets_to_predict import sets_to_predict
from janossy.tables import TableEncoder
from tests.cli.commands import janossy
from tests.tables.forms import values_of

__all__ = ["janossy"]


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def json_lines(name: str, **columns: list) -> Path:
    """Writes a file of JSON lines with these columns, and returns its path."""
    rows = (dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return Path(name)


def fitted(cells: str) -> Read:
    """Returns the sets of a CSV file with these values in the column x, and a set per row."""
    rows = "".join(f"{i};{cell}\n" for i, cell in enumerate(cells.split()))
    Path("t.csv").write_text(f"id;x\n{rows}", encoding="utf-8")
    return sets_to_fit([Path("t.csv")], Recipe(("id",)))


def read_again(read: Read, *files: Path) -> Read:
    encoder = TableEncoder().fit(read.sets)
    found = sets_to_predict(list(files), encoder, read.recipe, kinds_in_fit=read.kinds)
    encoder.transform(found.sets)
    return found


@pytest.mark.parametrize(
    ("cells", "given"),
    [
        ("2024-01-31 2024-02-01", ["2024-01-31", "2024-02-01"]),
        ("31/01/2024 01/02/2024", ["31/01/2024", "1/2/2024"]),
        ("01/31/2024 02/01/2024", ["1/31/2024", "02/01/2024"]),
        ("2024-01-31T10:00Z 2024-02-01T11:00Z", ["2024-01-31T12:00+02:00", "2024-02-01 11:00Z"]),
        ("9:30 10:00", ["09:30", "10:00:00"]),
        ("1.5 2", ["1.5", 2]),
        ("1.5 NA", ["1.5", "?"]),
        ("true false", ["True", "false"]),
        ("7 B7", [7, "B7"]),
        ("7 12 B7", [7, 12]),
    ],
)
def test_a_column_has_the_type_of_training(cells, given):
    def values(read: Read) -> list:
        column = read.sets.elements["x"]
        return [column.kind, *(None if x != x else x for x in values_of(column)[:2])]

    files = [json_lines(f"{i}.jsonl", id=[i], x=[value]) for i, value in enumerate(given)]
    assert values(read_again(fitted(cells), *files)) == values(fitted(cells))
    one = json_lines("t.jsonl", id=[0, 1], x=given)
    assert values(read_again(fitted(cells), one)) == values(fitted(cells))


def test_dates_in_lists_have_the_type_of_training():
    days = np.array(["2024-01-31", "2024-02-01", "2024-03-05"], "datetime64[us]")
    read = fitted("2024-01-31 2024-02-01 2024-03-05")
    with pytest.raises(ValueError, match="column 'x' expects values of kind date; got categorical"):
        read_again(read, json_lines("a.jsonl", x=[["maybe"]]))
    lists = json_lines("b.jsonl", x=[["2024-01-31", "2024-02-01"], [], ["2024-03-05"]])
    found = read_again(read, lists).sets
    assert found.sizes.tolist() == [2, 0, 1] and np.array_equal(found.elements["x"].values, days)
    structs = json_lines("c.jsonl", a=[[{"x": "2024-01-31"}, {"x": "2024-02-01"}], [], [{"x": "2024-03-05"}]])
    found = read_again(read, structs).sets
    assert found.sizes.tolist() == [2, 0, 1] and np.array_equal(found.elements["x"].values, days)


def test_a_date_that_contradicts_training_is_refused():
    with pytest.raises(BadArgument, match=r"b.jsonl, row 1: column 'x' expects dates with the day first, as in train"):
        read_again(fitted("31/01/2024 01/02/2024"), json_lines("b.jsonl", id=[1], x=["01/31/2024"]))


def test_ids_of_several_files_are_text_if_some_are():
    read = fitted("1 2 3")
    files = [json_lines("a.jsonl", id=[7, 8], x=[1, 2]), json_lines("b.jsonl", id=["7b", "007"], x=[1, 2])]
    assert read_again(read, *files).ids["id"].to_pylist() == ["7", "8", "7b", "007"]
    assert read_again(read, *files[:1]).ids["id"].to_pylist() == [7, 8]
    assert read_again(read, json_lines("c.jsonl", id=["7", "8"], x=[1, 2])).ids["id"].to_pylist() == ["7", "8"]


def test_text_stays_as_it_is():
    """A model of JSON lines knows white space and empty text as values."""
    given = json_lines("t.jsonl", id=[1, 2, 3], x=[" a", "", "NA"])
    read = sets_to_fit([given], Recipe(("id",)))
    assert values_of(read.sets.elements["x"]) == [" a", "", "NA"]
    assert values_of(read_again(read, given).sets.elements["x"]) == [" a", "", "NA"]


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_fields_that_training_did_not_have_are_ignored(ending):
    """In lists of structs, and in structs within them, as columns are."""
    items = [[{"kind": "a", "at": {"x": 1.5}}], [], [{"kind": "b", "at": {"x": 2.5}}, {"kind": "a", "at": {"x": 0.5}}]]
    more = [[{"new": 1, **item, "at": {**item["at"], "y": [2]}} for item in each] for each in items]
    read = sets_to_fit([json_lines("t.jsonl", items=items)], Recipe())
    file = json_lines("more.jsonl", items=more, other=[1, 2, 3])
    if ending == "parquet":
        pq.write_table(pa.table({"items": more, "other": [1, 2, 3]}), file := Path("more.parquet"))
    again, expected = read_again(read, file).sets, read_again(read, Path("t.jsonl")).sets
    assert again.sizes.tolist() == expected.sizes.tolist() == [1, 0, 2] and again.elements.keys() == {"kind", "x"}
    assert all(values_of(again.elements[name]) == values_of(expected.elements[name]) for name in ("kind", "x"))


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "stream"])
def test_fields_can_be_dropped(janossy, kind):
    """Among them lists within lists, which no model reads."""
    items = [[{"x": j, "shelf": i, "at": {"tags": ["a"] * j}} for j in range(i % 4)] for i in range(40)]
    columns = {"items": items, "y": [i % 4 for i in range(40)]}
    file = json_lines("t.jsonl", **columns)
    if kind != "jsonl":
        pq.write_table(pa.table(columns), file := Path("t.parquet"))
    fit = ("fit", file, "--target", "y", "--strategy", "k1", "--max-epochs", "1", *["--stream"] * (kind == "stream"))
    code, _, error = janossy(*fit, "--out", "model")
    assert code == 2 and "column 'tags' expects lists of numbers" in error and "drop them" in " ".join(error.split())
    code, _, error = janossy(*fit, "--out", "model", "--drop", "tag")
    assert code == 2 and (kind == "stream" or "Did you mean 'tags'?" in error)
    code, out, _ = janossy(*fit, "--out", "model", "--drop", "tags,shelf")
    assert code == 0 and "x       element" in out and "tags" not in out and "shelf" not in out
    assert janossy("predict", "model", file, "--out", "p.csv")[0] == 0


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_classes_that_are_text_are_compared_with_numbers(janossy, ending):
    """The other file has no class by which the target would be text."""
    rows = "".join(f"{i},{i % 3},{'12B'[i % 3]}\n" for i in range(30))
    Path("t.csv").write_text(f"id,x,y\n{rows}", encoding="utf-8")
    fit = ("fit", "t.csv", "--set-id", "id", "--target", "y", "--strategy", "linear", "--max-epochs", "2")
    assert janossy(*fit, "--out", "model")[0] == 0
    json_lines("new.jsonl", id=[1, 2], x=[0, 1], y=[1, 2])
    Path("new.csv").write_text("id,x,y\n1,0,1\n2,1,2\n", encoding="utf-8")
    code, out, _ = janossy("predict", "model", f"new.{ending}", "--out", "p.csv")
    assert code == 0 and "compared with the column 'y': accuracy 1.0000" in out
