"""Tables as strangers write them, whose values would be misread without a word."""

import gzip
import json
import tarfile
import zipfile
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from janossy.cli.errors import BadArgument
from janossy.cli.workflow.delimited import Dialect
from janossy.cli.workflow.describing import describe
from janossy.cli.workflow.grouping import group
from janossy.cli.workflow.null_values import without_words
from janossy.cli.workflow.reading import read_tables
from janossy.cli.workflow.record import Recipe
from janossy.cli.workflow.sets_to_fit import sets_to_fit
from janossy.cli.workflow.sets_to_predict import sets_to_predict
from janossy.cli.workflow.text_types import Spelling
from janossy.tables import TableEncoder
from tests.cli.commands import WRITERS, janossy
from tests.tables.forms import values_of

__all__ = ["janossy"]


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def notes(values: str, spelling: Spelling | None = None) -> str:
    """Returns what a fit says of a column of these values."""
    rows = "".join(f"{i};{value.replace('_', ' ')}\n" for i, value in enumerate(values.split()))
    Path("t.csv").write_text(f"id;x\n{rows}", encoding="utf-8")
    return " ".join(sets_to_fit([Path("t.csv")], Recipe(("id",)), None, Dialect(spelling or Spelling(), ";")).notes)


GERMAN, ENGLISH = "539 1.627 1.459 12 2.100", "539 1,627 1,459 12 2,100"


@pytest.mark.parametrize(
    ("values", "decimal", "thousands", "mark"),
    [
        (GERMAN, ".", "", "."),
        (GERMAN, ",", "", "."),
        (ENGLISH, ",", "", ","),
        (GERMAN, ",", ".", ""),
        ("539 1.627 1.45 12 2.100 3.200", ".", "", ""),
        ("0.539 1.627 0.012 2.100 3.200 4", ".", "", ""),
        ("5.390 1.627 1.459 1.200 2.100", ".", "", ""),
        ("1.539 1.627 4.459 1200 2.100", ".", "", ""),
    ],
)
def test_separators_of_thousands_that_look_like_decimals_are_told(values, decimal, thousands, mark):
    said = notes(values, Spelling(decimal=decimal, thousands=thousands))
    assert ("three digits behind" in said) == bool(mark)
    if mark:
        assert f"three digits behind each {mark!r}" in said and f"--thousands {mark}" in said


def test_dates_of_several_formats_are_told():
    said = notes("2023-01-01 02/01/2023 04_Jan_2023 2023-01-05 06/01/2023 07_Jan_2023")
    assert "column 'x' looks like dates of several formats, and is taken as text" in said
    assert "dates of several" not in notes("2023-01-01 red 04_Jan_2023 2023-01-05 06/01/2023 07_Jan_2023")


def test_ids_that_floats_do_not_hold_are_told():
    """Two of them may be one float, as in a frame with a missing id, or in a workbook."""
    parquet.write_table(pa.table({"id": [2.0**60, 2.0**60, 3.0], "x": [1.0, 2.0, 3.0]}), "t.parquet")
    read = sets_to_fit([Path("t.parquet")], Recipe(("id",)))
    said = "--set-id id has floats such as 1152921504606846976, each of which may stand for several ids"
    assert said in " ".join(read.notes)
    found = sets_to_predict([Path("t.parquet")], TableEncoder().fit(read.sets), read.recipe)
    assert said in " ".join(found.notes)
    remarks: list[str] = []
    group(["t.parquet"], ["id"], [], Path("sets.parquet"), tell=remarks.append)
    assert any(said in each for each in remarks)
    parquet.write_table(pa.table({"id": [1.5, 2.0, 2.0**53], "x": [1.0, 2.0, 3.0]}), "u.parquet")
    group(["u.parquet"], ["id"], [], Path("others.parquet"), tell=remarks.append)
    assert len(remarks) == 1
    assert not any("--set-id" in note for note in sets_to_fit([Path("u.parquet")], Recipe(("id",))).notes)


def test_a_missing_list_is_named_by_its_row_of_the_file():
    Path("t.jsonl").write_text('{"x": [1]}\n{"x": null}\n{}\n', encoding="utf-8")
    with pytest.raises(BadArgument, match=r"t.jsonl, row 2: column 'x' expects a list; got none. Write \[\] for a set"):
        sets_to_fit([Path("t.jsonl")], Recipe())


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
@pytest.mark.parametrize(
    ("known", "values", "row", "wrong"),
    [
        ("true false true", "true NA 2 false", 3, "2"),
        ("true false true", "TRUE false yes no", 3, "yes"),
        ("2024-01-01 2024-01-02", "2024-01-03 ? soon 2024-01-04", 3, "soon"),
        ("1/31/2024 1/30/2024", "1/31/2024 2024 1/30/2024", 2, "2024"),
    ],
)
def test_the_value_that_is_wrong_is_named(ending, known, values, row, wrong):
    Path("t.csv").write_text("id,x\n" + "".join(f"1,{x}\n" for x in known.split()), encoding="utf-8")
    read = sets_to_fit([Path("t.csv")], Recipe(("id",)))
    lines = {
        "csv": "id,x\n" + "".join(f"1,{x}\n" for x in values.split()),
        "jsonl": "".join(f'{{"id": 1, "x": "{x}"}}\n' for x in values.split()),
    }
    Path(f"new.{ending}").write_text(lines[ending], encoding="utf-8")
    with pytest.raises(BadArgument, match=rf"new.{ending}, row {row}: column 'x' expects .*; got {wrong}\. Convert"):
        sets_to_predict([Path(f"new.{ending}")], TableEncoder().fit(read.sets), read.recipe, kinds_in_fit=read.kinds)


ZONED, PLAIN, DAYS = "2024-01-31T08:30:00+02:00", "2024-01-31T08:30:00", "2024-01-31"


@pytest.mark.parametrize("ending", ["csv", "parquet", "lists.parquet", "structs.parquet"])
@pytest.mark.parametrize(
    ("known", "new", "told"),
    [
        (ZONED, PLAIN, "column 'x' holds dates without a time zone, and had one in training: taken as UTC."),
        (PLAIN, ZONED, "column 'x' holds dates with a time zone, and had none in training: taken in UTC."),
        (DAYS, ZONED, "column 'x' holds dates with a time zone, and had none in training: taken in UTC."),
        (ZONED, ZONED, ""),
        (PLAIN, DAYS, ""),
    ],
)
def test_dates_that_lose_or_gain_a_time_zone_are_told(ending, known, new, told):
    files = {}
    for name, text in (("known", known), ("new", new)):
        files[name] = Path(f"{name}.{ending}")
        if ending == "csv":
            files[name].write_text(f"id,x\n1,{text}\n1,{text}\n2,\n", encoding="utf-8")
        else:
            dates = pa.array([datetime.fromisoformat(text)] * 2 + [None])
            lists = pa.array([[x for x in [each.as_py()] if x] for each in dates], pa.list_(dates.type))
            structs = pa.array([[{"x": each.as_py()}] for each in dates], pa.list_(pa.struct({"x": dates.type})))
            columns = {"parquet": {"id": [1, 1, 2], "x": dates}, "lists.parquet": {"x": lists}}
            parquet.write_table(pa.table(columns.get(ending, {"rows": structs})), files[name])
    read = sets_to_fit([files["known"]], Recipe(("id",) if "." not in ending else ()))
    found = sets_to_predict([files["new"]], TableEncoder().fit(read.sets), read.recipe, kinds_in_fit=read.kinds)
    assert [note for note in found.notes if "zone" in note] == [told] * bool(told)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ("20240131 20240229 19991231 ", True),
        ("20240131 20240229", False),
        ("20240131 20230229 19991231", False),
        ("20240131 20241301 19991231", False),
        ("20240131 20240200 19991231", False),
        ("18991231 20240229 19991231", False),
        ("20240131.5 20240229 19991231", False),
    ],
)
def test_dates_as_whole_numbers_are_told(values, told):
    Path("t.csv").write_text("id,x\n" + "".join(f"{i},{x}\n" for i, x in enumerate(values.split())), encoding="utf-8")
    (column,) = describe(sets_to_fit([Path("t.csv")], Recipe(("id",))).sets)
    assert ("dates as whole numbers" in column.hint) == told


@pytest.mark.parametrize("name", ["t.parquet", "t.jsonl", "t.feather"])
def test_null_values_in_files_with_types(name):
    """Numbers and words, in columns of several types, also within lists and structs."""
    columns = {"id": [1, 2, 3], "x": [1, -999, 3], "z": [0.5, 1.5, -999.0], "w": ["a", "none", "-999"]}
    table = pa.table(columns)
    if name == "t.jsonl":
        rows = [json.dumps(row) + "\n" for row in table.to_pylist()]
        Path(name).write_text("".join(rows).replace("0.5", '"none"'), encoding="utf-8")
    else:
        columns |= {"d": table["w"].combine_chunks().dictionary_encode(), "f": pa.array([1, -999, 2], pa.float16())}
        columns |= {
            "n": pa.array([Decimal(1), Decimal(-999), None], pa.decimal128(9, 2)),
            "u": pa.array([1, 2, 3], pa.uint8()),
        }
        WRITERS[Path(name).suffix](pa.table(columns), name)
    found = read_tables([Path(name)], None, Dialect(Spelling(null_values=("-999", "none")))).table.to_pydict()
    expected = {"id": [1, 2, 3], "x": [1, None, 3], "z": [0.5, 1.5, None], "w": ["a", None, None]}
    if name == "t.jsonl":
        expected["z"][0] = None
    else:
        expected |= {"d": ["a", None, None], "f": [1, None, 2], "n": [Decimal(1), None, None], "u": [1, 2, 3]}
    assert found == expected


@pytest.mark.parametrize("name", ["t.jsonl", "t.json", "t.json.gz"])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_list_of_objects_is_read_as_lines_are(name, indent, janossy):
    rows = [{"id": i // 2, "x": 2**60 + i, "s": {"a": i}} for i in range(6)]
    content = f"\n {json.dumps(rows, indent=indent)}\n".encode()
    Path(name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    table = read_tables([Path(name)]).table
    assert table.to_pylist() == [{"id": row["id"], "x": row["x"], "s.a": row["s"]["a"]} for row in rows]
    code, _, _ = janossy("group", name, "--set-id", "id", "--out", "sets.parquet")
    assert code == 0 and parquet.read_table("sets.parquet")["x"].to_pylist()[0] == [2**60, 2**60 + 1]


@pytest.mark.parametrize("ending", ["csv", "xlsx"])
def test_the_index_of_a_frame_is_left_out(ending, janossy):
    """The column has no name, and its whole numbers rise. Options may name it as pandas does."""
    frame = pd.DataFrame({"id": np.arange(40) // 2, "x": np.arange(40) % 3})

    def written(frame: pd.DataFrame) -> Path:
        file = Path(f"t.{ending}")
        frame.to_csv(file) if ending == "csv" else frame.to_excel(file)
        return file

    for rows in (slice(3, None, 2), slice(None)):
        read = sets_to_fit([written(frame[rows])], Recipe(("id",)))
        assert list(read.sets.elements) == ["x"]
        assert f"t.{ending}: Unnamed: 0 is the index of a pandas frame, and left out." in read.notes
    found = sets_to_fit([written(frame)], Recipe(("Unnamed: 0",)))
    assert len(found.sets) == 40 and list(found.sets.elements) == ["id", "x"]
    code, out, _ = janossy("group", f"t.{ending}", "--set-id", "id", "--out", "sets.parquet")
    assert code == 0 and "left out" in out and parquet.read_schema("sets.parquet").names == ["id", "x"]
    for index in (frame.index[::-1], frame.index // 2, frame.index * 0.5, [f"r{i}" for i in frame.index]):
        with pytest.raises(BadArgument, match="column 1 has no name"):
            read_tables([written(frame.set_index(pd.Index(index)))])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('[\n{"x": 1},\n{"x": 2},]', "line 3: Illegal trailing comma|line 3: Expecting value"),
        ('[{"x": 1}, 5]', "entry 2: expected an object, such as"),
        ('{"x": 1}\n[5]', "line 2: expected an object, such as"),
        ('{\n"x": 1\n}', "line 1: expected one object per line, or a list of objects; got an object over several"),
        ('{"x": {"0": 1, "1": 2}, "y": {"0": 3, "1": 4}}', "got one object of columns, as pandas writes it"),
        ("[]", "t.json is empty"),
    ],
)
def test_other_json_is_told(content, says):
    Path("t.json").write_text(content, encoding="utf-8")
    with pytest.raises(BadArgument, match=says):
        read_tables([Path("t.json")])


def test_json_in_a_folder_is_no_table(janossy):
    """It may describe the tables there, as in data sets of Hugging Face."""
    Path("folder").mkdir()
    parquet.write_table(pa.table({"id": [1, 1, 2], "x": [1.0, 2.0, 3.0]}), "folder/t.parquet")
    Path("folder/dataset_info.json").write_text('{"rows": 3}', encoding="utf-8")
    assert janossy("group", "folder", "--set-id", "id", "--out", "sets.parquet")[0] == 0


def test_null_values_in_vectors():
    values = pa.array([[1, -999], None, [-999, 2]], pa.list_(pa.int64(), 2)).slice(1)
    found = without_words(values, ["-999"])
    assert found.to_pylist() == [None, [None, 2]] and found.type == values.type


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list])
def test_null_values_in_lists(kind):
    inner = pa.struct([("x", pa.int64()), ("w", pa.string())])
    rows = [[{"x": 1, "w": "-999"}], [], [{"x": -999, "w": "a"}, {"x": -99, "w": "a"}, None], None]
    values = without_words(pa.array(rows, kind(inner)).slice(1), ["-999"])
    assert values.to_pylist() == [[], [{"x": None, "w": "a"}, {"x": -99, "w": "a"}, None], None]
    assert values.type == kind(inner) or str(values.type).replace("element", "item") == str(kind(inner))


def test_group_takes_null_values_in_files_with_types():
    parquet.write_table(pa.table({"id": [1, 1, 2], "x1": [1, -999, 3], "x2": [4, 5, -999]}), "t.parquet")
    dialect = Dialect(Spelling(null_values=("-999",)))
    group(["t.parquet"], ["id"], [], Path("sets.parquet"), dialect=dialect)
    assert parquet.read_table("sets.parquet")["x1"].to_pylist() == [[1, None], [3]]
    group(["t.parquet"], [], [], Path("wide.parquet"), dialect=dialect, wide=["x"])
    assert parquet.read_table("wide.parquet")["x"].to_pylist() == [[1, 4], [5], [3]]


def hint_of(values: str, name: str = "x") -> str:
    """Returns the hint on a column of the elements."""
    Path("t.csv").write_text(f"id,{name}\n" + "".join(f"{i},{x}\n" for i, x in enumerate(values.split())), "utf-8")
    (column,) = describe(sets_to_fit([Path("t.csv")], Recipe(("id",))).sets)
    return column.hint


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ("-999 1.5 2 -999 7 -999", "-999"),
        ("9999 1 2.5 9999 7 9999 9999", "9999"),
        ("-99 1.5 2 -99 9999 -99 9999 9999", "-99,9999"),
        ("-999 1.5 2 -999 7 3", ""),
        ("-999 -1100 2 -999 7 -999", ""),
        ("-999 500 2 -999 1400 -999", ""),
        ("-1 1 2 -1 7 -1", ""),
        ("-999 1 1 -999 1 -999", ""),
        ("-999 -999 -999", ""),
    ],
)
def test_numbers_that_stand_for_missing_values_are_told(values, told):
    expected = f"{told.replace(',', ' and ')} for missing values, taken as amounts: --null-values {told}?"
    assert hint_of(values) == expected if told else "--null-values" not in hint_of(values)


def test_columns_with_one_hint_share_a_line(janossy):
    rows = "".join(f"{i},{i % 7},{i % 3},{i % 5},{j % 4},{i * j}\n" for i in range(40) for j in range(4))
    Path("t.csv").write_text("id,a b,c,y,d,x\n" + rows, encoding="utf-8")
    fit = ("fit", "t.csv", "--set-id", "id", "--target", "y", "--strategy", "k1", "--max-epochs", 1, "--out", "model")
    code, stdout, _ = janossy(*fit)
    assert code == 0 and "\n  a b, c seem to hold one value in each set: --set-columns 'a b,c'?\n" in stdout
    assert "  d seems to hold few different whole numbers, tried as amounts and as codes: --categorical d?" in stdout


def test_targets_that_stand_for_missing_values_are_told(janossy):
    rows = "".join(f"{i},{i % 7},{-999 if i % 5 == 0 else i / 3}\n" for i in range(40))
    Path("t.csv").write_text("id,x,y\n" + rows, encoding="utf-8")
    fit = ("fit", "t.csv", "--set-id", "id", "--target", "y", "--strategy", "k1", "--max-epochs", 1, "--out", "model")
    code, stdout, _ = janossy(*fit)
    assert code == 0 and "y seems to hold -999 for missing values, taken as amounts: --null-values -999?" in stdout


@pytest.mark.parametrize(
    ("name", "values", "told"),
    [
        ("order_date", "45321 45322.5 46000", True),
        ("x", "45321 45322.5 46000", False),
        ("order_date", "45321 45322.5", False),
        ("time", "45321 5 46000", False),
        ("Daylight", "45321 45322 99000", False),
    ],
)
def test_day_numbers_of_excel_are_told(name, values, told):
    expected = "dates as day numbers of Excel, taken as amounts: write 45321 as 2024-01-30"
    assert (hint_of(values, name) == expected) == told


TITLED = ["Sales report\nid,x,y\n", "Sales, 2023\nid,x,y\n", "Sales,,\nid,x,y\n", "\nSales report\n\nid,x,y\n"]


@pytest.mark.parametrize("header", TITLED)
def test_a_title_above_the_header_is_named(header):
    Path("t.csv").write_text(header + "1,2,3\n1,3,3\n2,5,4\n", encoding="utf-8")
    told = rf"If line {1 + header.index('Sales')}, 'Sales.*', is a title, delete it, or begin it with #\."
    with pytest.raises(BadArgument, match=told):
        read_tables([Path("t.csv")])


@pytest.mark.parametrize("text", ["id,x\n1,2\n1,3,a\n", ",x\na,2\n"])
def test_other_headers_are_no_titles(text):
    Path("t.csv").write_text(text, encoding="utf-8")
    with pytest.raises(BadArgument, match=r"^((?!title).)*$"):
        read_tables([Path("t.csv")])


def test_a_title_over_columns_of_another_separator_is_named():
    Path("t.csv").write_text("Report\nid;x;y\n1;2;3\n", encoding="utf-8")
    with pytest.raises(BadArgument, match=r"'id'.* It has Report\. If this is a title, delete its line"):
        sets_to_fit([Path("t.csv")], Recipe(("id",)))


def test_a_row_of_totals_is_told():
    Path("t.csv").write_text("id,x\n1,2\n1,3\n2,5\nGrand total,10\n", encoding="utf-8")
    said = "--set-id id ends with 'Grand total', which may be a row of totals: delete it."
    read = sets_to_fit([Path("t.csv")], Recipe(("id",)))
    assert said in read.notes
    assert said in sets_to_predict([Path("t.csv")], TableEncoder().fit(read.sets), read.recipe, text_ids=["id"]).notes
    remarks: list[str] = []
    group(["t.csv"], ["id"], [], Path("sets.parquet"), tell=remarks.append)
    assert said in remarks


@pytest.mark.parametrize("name", ["t.jsonl", "t.parquet"])
def test_structs_outside_of_lists_are_columns_of_their_fields(name):
    """Lists in them too. A field of several rows may be missing with its struct."""
    rows = [
        {"y": i % 2, "s": None if i == 3 else {"a": i, "in": {"b": f"0{i % 2}"}}, "basket": {"x": [1.5] * (i % 3)}}
        for i in range(6)
    ]

    def sets_in(name, recipe):
        if name == "t.jsonl":
            Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        else:
            parquet.write_table(pa.Table.from_pylist(rows), name)
        return sets_to_fit([Path(name)], recipe)

    read = sets_in(name, Recipe(target=("y",)))
    assert read.sets.sizes.tolist() == [0, 1, 2, 0, 1, 2] and list(read.sets.elements) == ["basket.x"]
    columns = {of: (each.kind, values_of(each)) for of, each in read.sets.context.items()}
    assert columns["s.a"] == ("numeric", [0, 1, 2, None, 4, 5]), columns
    assert columns["s.in.b"] == ("categorical", ["00", "01", "00", None, "00", "01"]), columns
    found = sets_to_predict([Path(name)], TableEncoder().fit(read.sets), read.recipe)
    assert values_of(found.sets.context["s.a"]) == columns["s.a"][1]
    assert list(sets_in(name, Recipe(target=("y",), drop=("s.in",))).sets.context) == ["s.a"]
    assert not sets_in(name, Recipe(target=("y",), drop=("s",))).sets.context
    long = [{"id": i // 2, **row["basket"], "s": row["s"]} for i, row in enumerate(rows)]
    rows = [{name: x for name, x in row.items() if name != "x"} for row in long]
    assert list(sets_in(name, Recipe(("id",))).sets.elements) == ["s.a", "s.in.b"]


def test_amounts_in_text_are_no_ids():
    rows = "".join(f'{i // 3},"{i + 1},2{i:02}.50 EUR",r{i}\n' for i in range(30))
    Path("t.csv").write_text("id,amount,code\n" + rows, encoding="utf-8")
    read = sets_to_fit([Path("t.csv")], Recipe(("id",)), drop_ids=True)
    assert list(read.sets.elements) == ["amount"] and "per cent or currencies" in " ".join(read.notes)


def _archive(name: str, content: bytes) -> None:
    with zipfile.ZipFile("t.zip", "w") as archive:
        archive.writestr(name, content)


def test_archives_of_other_files_are_named():
    parquet.write_table(pa.table({"x": [1]}), "t.parquet")
    with tarfile.open("t.tar.gz", "w:gz") as archive:
        archive.add("t.parquet")
    with pytest.raises(BadArgument, match=r"t.tar.gz: expected a compressed CSV file; got a tar archive. Unpack it"):
        read_tables([Path("t.tar.gz")])
    _archive("t.parquet", Path("t.parquet").read_bytes())
    with pytest.raises(BadArgument, match=r"t.zip: expected a compressed CSV file; got a Parquet file. Unpack it"):
        read_tables([Path("t.zip")])
    _archive("t.jsonl", b'{"x": 1, "y": 2}\n{"x": 3, "y": 2}\n')
    with pytest.raises(BadArgument, match=r"t.zip: expected a CSV file; got JSON. Call it .json if each line is an"):
        read_tables([Path("t.zip")])


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ("P1D PT2H P1DT12H", "looks like numbers with signs or units beside them"),
        ("1_days_02:00:00 0_days_00:30:00", "looks like numbers with signs or units beside them"),
        ("1h_30m 12h_5m", "looks like numbers with signs or units beside them"),
        ("2024-01 2023-12", "looks like dates in words, without days"),
        ("2024Q1 2023-Q4", "looks like dates in words, without days"),
        ("1/2024 12/2023", "looks like dates in words, without days"),
        (
            '{"a":_1} {"a":_2}',
            "looks like objects of JSON, and is taken as text: columns of their fields would be read",
        ),
        ("1.5 2 unknown", "holds numbers (67 %) and other text, and is taken as text: --null-values reads words"),
        ("5.00- 12- 7", "looks like numbers with signs or units beside them"),
        ("P12 P7 PTD", ""),
        ("1a 2b 3", ""),
        ("9 10 J", ""),
        ("0001 0002 001d", ""),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_text_that_looks_like_something_else_is_told(values, said, ending):
    if ending == "csv":
        assert notes(values).startswith(f"column 'x' {said}" if said else "")
        assert said or not notes(values)
        return
    rows = [json.dumps({"id": i, "x": x.replace("_", " ")}) + "\n" for i, x in enumerate(values.split())]
    Path("t.jsonl").write_text("".join(rows), encoding="utf-8")
    told = " ".join(sets_to_fit([Path("t.jsonl")], Recipe(("id",))).notes)
    assert (f"column 'x' {said}" in told) if said else not told


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("ID,Y", "Did you mean 'ID'? It has ID, Y."),
        ("id^y", "If this is a title, delete its line; else --delimiter names what stands between columns."),
    ],
)
def test_a_column_that_is_written_otherwise_is_named(header, said):
    Path("t.csv").write_text(header + "\n" + header.replace("id", "1") + "\n", encoding="utf-8")
    with pytest.raises(BadArgument) as error:
        sets_to_fit([Path("t.csv")], Recipe(("id",)))
    assert str(error.value).endswith(said)


def test_options_in_hints_are_quoted_where_names_have_spaces():
    rows = "".join(f"{i // 3},{i // 3},{i},{i}\n" for i in range(60))
    Path("t.csv").write_text("id,a set,my row,Unnamed: 0\n" + rows, encoding="utf-8")
    read = sets_to_fit([Path("t.csv")], Recipe(("id",)))
    said = " ".join(read.notes)
    for option in ("--drop 'a set'", "--drop 'my row'", "--drop 'Unnamed: 0'"):
        assert option in said


def test_remedies_for_tables_of_other_layouts():
    Path("elements.csv").write_text("id,x\n1,2\n", encoding="utf-8")
    Path("targets.csv").write_text("id,y\n1,2\n", encoding="utf-8")
    Path("more.csv").write_text("id,x\n3,2\n", encoding="utf-8")
    with pytest.raises(BadArgument, match=r"the same columns\. If they have the same ids, join them into one table\.$"):
        read_tables([Path("elements.csv"), Path("targets.csv")])
    with pytest.raises(BadArgument, match=r"If each file is a set, add a column with the file's name to it\.$"):
        sets_to_fit([Path("elements.csv"), Path("more.csv")], Recipe())
    parquet.write_table(
        pa.table({"id": [1], "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))}), "m.parquet"
    )
    with pytest.raises(
        BadArgument, match=r"column 'm' expects one value per row; got a map\. Write its fields as columns"
    ):
        sets_to_fit([Path("m.parquet")], Recipe(("id",)))


@pytest.mark.parametrize("name", ["t.txt", "t.tab", "t.gz", "t.txt.gz"])
def test_group_takes_the_text_files_that_fit_takes(name):
    """A folder may hold other files of such names, which are left out."""
    text = b"id\tx\n1\t2\n1\t3\n2\t5\n"
    Path("all").mkdir()
    Path("all", name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    Path("all/t.csv").write_text("id,x\n7,8\n", encoding="utf-8")
    assert group([f"all/{name}"], ["id"], [], Path("sets.parquet")) == 2
    assert group(["all"], ["id"], [], Path("others.parquet")) == 1


@pytest.mark.parametrize("times", ["39:30 12:45 9:05", "24:00 12:45 9:05", "12:75 12:45 9:05"])
def test_durations_that_look_like_times_are_text(times):
    """``group`` reads text by patterns alone, and ended in an error."""
    said = "column 'x' looks like numbers with signs or units beside them, and is taken as text"
    assert notes(times).startswith(said)
    remarks: list[str] = []
    group(["t.csv"], ["id"], [], Path("sets.parquet"), dialect=Dialect(delimiter=";"), tell=remarks.append)
    assert remarks[0].startswith(said)
    assert parquet.read_table("sets.parquet")["x"].to_pylist() == [[x] for x in times.split()]


def test_group_tells_of_words_among_numbers_and_of_names_of_another_case():
    Path("t.csv").write_text("ID,x\n" + "1,2\n" * 20 + "1,unknown\n", encoding="utf-8")
    remarks: list[str] = []
    group(["t.csv"], ["ID"], [], Path("sets.parquet"), tell=remarks.append)
    assert remarks[0].startswith("column 'x' holds numbers (95 %) and other text, and is taken as text: --null-values")
    with pytest.raises(BadArgument, match=r"no column 'id', which --set-id names\. Did you mean 'ID'"):
        group(["t.csv"], ["id"], [], Path("others.parquet"))


def test_ids_that_are_written_in_two_ways_are_told():
    Path("t.csv").write_text("id,x\n6,1\n6.0,2\n7,3\n", encoding="utf-8")
    said = "column 'id' holds whole numbers and decimals, taken as text: 6 and 6.0 are two ids."
    assert said in sets_to_fit([Path("t.csv")], Recipe(("id",))).notes
    Path("t.csv").write_text("id,x\n6.0,1\n6.0,2\n7.0,3\n", encoding="utf-8")
    assert not sets_to_fit([Path("t.csv")], Recipe(("id",))).notes


@pytest.mark.parametrize("word", ["<NA>", "NaT", "\\N", "#DIV/0!", "#VALUE!", "(null)"])
def test_words_of_programs_for_missing_values(word):
    """Numbers and dates beside them were names."""
    for values in ("1 2.5 3", "2024-01-01 2024-01-02"):
        notes(f"{values} {word}")
        column = sets_to_fit([Path("t.csv")], Recipe(("id",)), None, Dialect(delimiter=";")).sets.elements["x"]
        assert column.kind in ("numeric", "date") and column.missing().tolist() == [False] * (len(column) - 1) + [True]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("[1. 2.5\n 3. ]", [1.0, 2.5, 3.0]),
        ("[1 2 30]", [1, 2, 30]),
        ("[1, nan, 2.5]", [1.0, None, 2.5]),
        ("[1 2 ... 8 9]", None),
        ("[a b]", None),
    ],
)
def test_lists_as_numpy_and_python_print_them(cell, expected):
    Path("t.csv").write_text(f'id,x\n1,"{cell}"\n2,[]\n', encoding="utf-8")
    column = sets_to_fit([Path("t.csv")], Recipe(("id",))).sets.elements["x"]
    found = [None if missing else x for x, missing in zip(column.values.tolist(), column.missing(), strict=True)]
    assert (found == expected) if expected else column.kind == "categorical"


def test_names_that_differ_by_case_are_told(janossy):
    rows = "".join(f"{i},{('US', 'us', 'FR')[i % 3]},{('Yes', 'yes', 'no')[i % 3]}\n" for i in range(30))
    Path("t.csv").write_text("id,x,y\n" + rows, encoding="utf-8")
    fit = ("fit", "t.csv", "--set-id", "id", "--target", "y", "--strategy", "k1", "--max-epochs", 1, "--out", "model")
    code, stdout, _ = janossy(*fit)
    assert code == 0 and "x seems to hold one name in several cases, taken as different: US and us" in stdout
    assert "y seems to hold one name in several cases, taken as different: Yes and yes" in stdout
    assert not hint_of("a A b aa AB")


@pytest.mark.parametrize("last", ["9999-12-31", "2024-12-31", "2024-12-31T10:00:00.123456789"])
def test_dates_that_stand_for_missing_values_are_told(last):
    said = "dates of the year 9999 for missing values: empty them, or name them as in --null-values 9999-12-31"
    assert (hint_of(f"2024-01-01 2024-01-02 {last}") == said) == (last == "9999-12-31")
