"""CSV and JSON lines as strangers write them: types by a rule, by options, by the model; what is not read is said."""

import datetime as dt
import gzip
import io
import json
import lzma
import re
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import ipc, parquet

from janossy.cli.errors import BadArgument
from janossy.cli.workflow.delimited import Dialect
from janossy.cli.workflow.describing import describe
from janossy.cli.workflow.reading import read_tables
from janossy.cli.workflow.record import Recipe
from janossy.cli.workflow.sets_of_rows import Read
from janossy.cli.workflow.sets_to_fit import sets_to_fit
from janossy.cli.workflow.sets_to_predict import sets_to_predict
from janossy.cli.workflow.text_types import MARKS, Spelling, roles_of
from janossy.cli.workflow.values import id_like
from janossy.tables import TableEncoder, as_sets
from tests.cli.commands import FIT, janossy, orders, write
from tests.tables.forms import values_of

__all__ = ["janossy"]


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def text_file(name: str, *lines: str, encoding: str = "utf-8") -> Path:
    Path(name).write_bytes("".join(f"{line}\n" for line in lines).encode(encoding))
    return Path(name)


def read(*columns: str, spelling: Spelling | None = None, **options) -> Read:
    """Returns the sets of a CSV file with a set per row and these further columns, each of a name and values."""
    rows = zip(*(column.split() for column in columns), strict=True)
    separator = ";"
    text_file("t.csv", *(separator.join(["id" if n == 0 else str(n), *row]) for n, row in enumerate(rows)))
    task = options.pop("task", None)
    return sets_to_fit([Path("t.csv")], Recipe(("id",), **options), task, Dialect(spelling or Spelling()))


def taken(values: str, **options) -> list:
    """Returns the kind and values of a column, of so many sets."""
    column = read(f"x {values}", f"z {values}", **options).sets.elements["x"]
    return [column.kind, values_of(column)]


# Codes


def test_codes_are_text_until_all_of_them_say_number():
    categorical = {"categorical": ("x",)}
    assert taken("007 7 7", **categorical) == ["categorical", ["007", "7", "7"]]
    assert taken("1 2 2", **categorical) == ["categorical", [1, 2, 2]]  # as in Parquet
    long = "12345678901234567890 12345678901234567891"
    assert taken(long, **categorical) == taken(long) == ["categorical", long.split()]
    assert taken("NA DE FR", **categorical) == taken("NA DE FR") == ["categorical", ["NA", "DE", "FR"]]
    assert taken("1 NA 2", **categorical) == ["categorical", ["1", "NA", "2"]]
    assert taken("1.0 1 2", **categorical) == ["categorical", ["1.0", "1", "2"]]
    assert taken("007 08 7") == ["categorical", ["007", "08", "7"]]
    assert taken("007 08 7", numeric=("x",)) == ["numeric", [7, 8, 7]]
    assert "digits with zeros in front" in read("x 007 08", "z 1 2").reasons["x"]


@pytest.mark.parametrize(
    ("values", "task", "expected"),
    [
        ("01 1 2", None, ["01", "1", "2"]),
        ("01 1 2", "classification", ["01", "1", "2"]),
        ("01 1 2", "regression", [1.0, 1.0, 2.0]),
        ("NA DE NA", None, ["NA", "DE", "NA"]),
        ("12345678901234567890 12345678901234567891", None, ["12345678901234567890", "12345678901234567891"]),
        ("1 2 3", None, [1, 2, 3]),
        ("1.5 2 3", "classification", ["1.5", "2", "3"]),
        ("true false", None, [True, False]),
    ],
)
def test_targets(values, task, expected):
    assert read(f"x {values}", f"y {values}", target=("y",), task=task).targets.tolist() == expected


def test_a_target_of_text_that_is_numbers_has_a_way_out():
    parquet.write_table(pa.table({"id": [1, 2], "x": [1.0, 2.0], "y": ["1.5", "2.5"]}), "t.parquet")
    for recipe, task in ((Recipe(("id",), ("y",)), "regression"), (Recipe(("id",), ("y",), numeric=("y",)), None)):
        found = sets_to_fit([Path("t.parquet")], recipe, task)
        assert found.targets.tolist() == [1.5, 2.5]
    found = sets_to_fit([Path("t.parquet")], Recipe(("id",), ("y",), categorical=("y",)))
    assert found.targets.tolist() == ["1.5", "2.5"]
    parquet.write_table(pa.table({"id": [1, 2], "x": [1.0, 2.0], "y": ["1.5", "much"]}), "t.parquet")
    with pytest.raises(BadArgument, match="the target 'y' is text, which a regression cannot predict"):
        sets_to_fit([Path("t.parquet")], Recipe(("id",), ("y",)), "regression")


OTHER_WAYS = {
    "separators of thousands": "273 1,530 16,865",
    "decimal commas": "1,5 12 3",
    "per cent": "12% 0 7%",
    "currencies": "-$5.00 USD_5 ₹7",
    "apostrophes": "1'234 22'345",
    "signs or units": "5_kg 7.5_kg 8",
    "signs or units, as accountants write": "(5) 7 −3",
    "dates in words": "31_Jan_2024 1_Feb_2024",
    "years of two digits": "31/01/24 01/02/24",
    "lists": "1_2_3 4_5",
    "lists, of words": "milk,tea tea,eggs",
}
"""Values as people write them, with _ for a space, and the beginning of what is said of them."""


@pytest.mark.parametrize("said", OTHER_WAYS)
def test_other_ways_of_writing_are_said(said):
    values = [value.replace("_", " ") for value in OTHER_WAYS[said].split(" ")]
    text_file("t.csv", "id;x", *(f"{n};{value}" for n, value in enumerate(values)))
    found = sets_to_fit([Path("t.csv")], Recipe(("id",)), None, Dialect(delimiter=";"))
    assert found.sets.elements["x"].kind == "categorical"
    assert any(said.split(",")[0] in note for note in found.notes), found.notes
    codes = text_file(
        "c.csv", "id;x", *(f"{n};{value}" for n, value in enumerate(["A1", "b-2", "two words", "10.192.45.6"]))
    )
    assert not sets_to_fit([codes], Recipe(("id",)), None, Dialect(delimiter=";")).notes


@pytest.mark.parametrize("rows", ["lists", "elements"])
def test_dates_where_training_had_numbers(rows):
    """Refused, unless --numeric named the column in the fit."""
    days = [dt.date(2024, 1, 31), dt.date(2024, 2, 1)]
    columns = {"x": [days]} if rows == "lists" else {"id": [1, 1], "x": days}
    recipe = Recipe(() if rows == "lists" else ("id",))
    parquet.write_table(pa.table(columns), "t.parquet")
    encoder = TableEncoder().fit(as_sets({"x": [[1.0, 2.0]]}))
    with pytest.raises((BadArgument, ValueError), match="'x' expects numbers, as in training; got"):
        encoder.transform(sets_to_predict([Path("t.parquet")], encoder, recipe).sets)
    found = sets_to_predict([Path("t.parquet")], encoder, replace(recipe, numeric=("x",)))
    assert values_of(found.sets.elements["x"]) == [19753, 19754]


def test_text_in_files_with_types_is_said():
    columns = {"numbers": ["0.5", "1.5"], "dates": ["2024-01-31", "2024-02-01"], "lists": ["[1, 2]", "[3]"]}
    quiet = {"codes": ["007", "7"], "words": ["tea", "NA"]}
    parquet.write_table(pa.table({"id": [1, 2]} | columns | quiet), "t.parquet")
    found = sets_to_fit([Path("t.parquet")], Recipe(("id",)))
    assert [note.split("'")[1] for note in found.notes] == list(columns)
    assert not sets_to_predict([Path("t.parquet")], TableEncoder().fit(found.sets), Recipe(("id",))).notes


# The model's types


def encoder_of(**columns: str) -> TableEncoder:
    sets = read(*(f"{name} {values}" for name, values in columns.items())).sets
    return TableEncoder().fit(sets)


def codes(encoder: TableEncoder, **columns: str) -> list[float]:
    rows = zip(*([name, *values.split()] for name, values in columns.items()), strict=True)
    text_file("new.csv", *(";".join(["id" if n == 0 else str(n), *row]) for n, row in enumerate(rows)))
    found = sets_to_predict([Path("new.csv")], encoder, Recipe(("id",)))
    return encoder.transform(found.sets).elements.values[:, 0].tolist()


@pytest.mark.filterwarnings("ignore:column 'c' holds values")
def test_the_type_of_a_column_belongs_to_the_model():
    encoder = encoder_of(c="A1 007 42 NA", x="1 2 3 4")
    assert encoder.state()["elements"][0]["categories"] == ["007", "42", "A1", "NA"]
    assert codes(encoder, c="007 42", x="1 2") == [1, 2]
    assert codes(encoder, c="7 42 NA", x="1 2 3") == [0, 2, 4]
    numbers = TableEncoder().fit(read("c 1 2 3", "x 1 2 3", categorical=("c",)).sets)
    assert codes(numbers, c="2 x 03", x="1 2 3") == [2, 0, 0]
    amounts = encoder_of(x="1.5 2.5 3.5", c="a b c")
    assert np.isfinite(codes(amounts, x="007 NA 1", c="a b c")).all()


def test_what_the_model_s_types_refuse_has_no_option_that_predict_lacks():
    for wrong, says in (
        ("a b", "row 1: column 'x' is numeric, but here the text 'a'. Correct it, or leave it empty; the model was"),
        ("0,5 1,5", "the model was trained on numbers; --decimal , reads a CSV file of such numbers."),
        ("2024-01-01 2024-01-02", "column 'x' is numeric, but here the text '2024-01-01'"),
    ):
        with pytest.raises(BadArgument, match=re.escape(says)) as refused:
            codes(encoder_of(x="1.5 2.5", c="a b"), x=wrong, c="a b")
        assert "--categorical" not in str(refused.value) and "--numeric" not in str(refused.value)
    with pytest.raises(BadArgument, match=r"new.csv, row 1: column 'd' expects dates.*got"):
        codes(encoder_of(d="2024-01-01 2024-01-02", c="a b"), d="1 2", c="a b")
    with pytest.raises(
        BadArgument, match=r"new.csv, row 1: column 'b' expects true and false, as in training; got maybe"
    ):
        codes(encoder_of(b="true false", c="a b"), b="maybe false", c="a b")
    assert codes(encoder_of(b="true false", c="a b"), b="1 0", c="a b")
    days = pa.table({"id": [1], "x": pa.array([0], pa.timestamp("s")), "c": ["a"]})
    parquet.write_table(days, "days.parquet")
    with pytest.raises(BadArgument, match=r"days.parquet, row 1: column 'x' expects numbers, as in training; got 1970"):
        sets_to_predict([Path("days.parquet")], encoder_of(x="1.5 2.5", c="a b"), Recipe(("id",)))


def test_several_files_have_one_schema():
    files = [text_file("a.csv", "id,code,x", "1,7,1", "2,8,2"), text_file("b.csv", "x,code,id", "2.5,B7,3")]
    sets = sets_to_fit(files, Recipe(("id",))).sets
    assert values_of(sets.elements["code"]) == ["7", "8", "B7"] and values_of(sets.elements["x"]) == [1, 2, 2.5]
    parquet.write_table(pa.table({"id": [4], "code": ["9"], "x": [3.5]}), "c.parquet")
    sets = sets_to_fit([files[0], Path("c.parquet")], Recipe(("id",))).sets
    assert values_of(sets.elements["code"]) == ["7", "8", "9"] and sets.ids.tolist() == [1, 2, 4]
    parquet.write_table(pa.table({"id": [4], "code": [9], "x": [3.5]}), "c.parquet")
    with pytest.raises(BadArgument, match="column 'code' is"):
        sets_to_fit([files[1], Path("c.parquet")], Recipe(("id",)))


# Numbers, dates and lists of other conventions


def test_numbers_of_other_conventions():
    german = Spelling(decimal=",", thousands=".")
    assert taken("0,5 1.234,5 -2", spelling=german) == ["numeric", [0.5, 1234.5, -2]]
    assert taken("1,234 12,345,678 5", spelling=Spelling(thousands=",")) == ["numeric", [1234, 12345678, 5]]
    assert taken("12,34 5 6", spelling=Spelling(thousands=","))[0] == "categorical"  # no groups of three
    assert taken("1 -999 3", spelling=Spelling(null_values=("-999",))) == ["numeric", [1, None, 3]]
    for values, says in (
        ("0,5 1,5 2,25", "looks like decimal commas, and is taken as text: --decimal , would read it"),
        ("1.234,5 2.345,6 9.999", "decimal commas"),
        ("$5 €6 7%", "looks like per cent or currencies"),
        ("01/02/2024 03/04/2024", "looks like dates whose day and month cannot be told apart"),
        ("1|2 3|4 5|6", "looks like lists, and is taken as text: --list-separator"),
        ("DE NA FR", "holds words or marks such as NA, ? or - (1), taken as values"),
        ("5EUR 6EUR 7.5EUR", "looks like per cent or currencies"),
        ("1.5k 2k 3M", "looks like numbers with signs or units beside them"),
        ("Jan-2024 Feb-2024 Sept-2023", "looks like dates in words"),
    ):
        found = read(f"x {values}", f"z {values}")
        assert found.sets.elements["x"].kind == "categorical", values
        assert any(says in note and "'x'" in note for note in found.notes), (values, found.notes)


@pytest.mark.parametrize("is_typed", [False, True])
@pytest.mark.parametrize(
    "values",
    ["0,5 1,5 2,25", "1.234,5 2.345,6", "$5 €6 7%", "1|2 3|4 5|6", "03/04/2024 04/05/2024", "Jan-2024 Feb-2024"],
)
def test_text_that_looks_like_numbers_has_one_note_whose_options_apply(values, is_typed):
    read(f"x {values}", f"z {values}")
    file = Path("t.csv")
    if is_typed:
        file = Path("t.parquet")
        parquet.write_table(pa.Table.from_pandas(pd.read_csv("t.csv", sep=";", dtype={"x": str, "z": str})), file)
    found = sets_to_fit([file], Recipe(("id",)))
    assert [note for note in found.notes if "'x'" in note and "looks like" in note]
    assert [each.hint for each in describe(found.sets, found.reasons) if each.name == "x"] == [""]
    assert not is_typed or not any("--" in note for note in found.notes if "looks like" in note)


@pytest.mark.parametrize(
    "dates",
    [
        "2024-01-31 2024-02-01",
        "01/31/2024 02/01/2024",
        "31/01/2024 01/02/2024",
        "31.1.2024 1.2.2024",
        "2024/01/31 2024/2/1",
        "2024-01-31 2024-2-1",
    ],
)
def test_dates_of_common_forms(dates):
    kind, values = taken(dates)
    assert kind == "date" and [str(day)[:10] for day in values] == ["2024-01-31", "2024-02-01"]


@pytest.mark.parametrize("mark", MARKS)
def test_marks_of_missing_values_among_numbers_are_missing_with_a_note(mark):
    found = read(f"x 1 {mark} 2.5", f"c a {mark} b")
    assert values_of(found.sets.elements["x"]) == [1, None, 2.5]
    assert values_of(found.sets.elements["c"]) == ["a", mark, "b"]
    assert "column 'x' holds ? or - or -- or . (1), taken as missing." in found.notes


def test_blank_cells_among_numbers_are_missing():
    file = text_file("t.csv", "id,x,y", "1,1,3", "2,  ,4", "3,2,5")
    assert values_of(sets_to_fit([file], Recipe(("id",))).sets.elements["x"]) == [1, None, 2]


@given(st.lists(st.sampled_from(["red", "dark red", "7", "NA", "?", "2024-01-31", ""]), min_size=1, max_size=5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_white_space_around_values_changes_nothing(values):
    def column(pad: str) -> pa.Array:
        rows = [f"{number},{pad}{value}{pad},{pad}a{pad}" for number, value in enumerate(values)]
        rows_read = read_tables([text_file("t.csv", "id,x,z", *rows)])
        assert ("white space" in " ".join(rows_read.notes)) == bool(pad)
        return rows_read.table["x"].combine_chunks()

    assert column(" ").equals(column(""))


def test_white_space_around_codes_null_values_and_ids():
    spaced = text_file("spaced.csv", "id, x", " 7, 01", " 8, nil")
    plain = text_file("plain.csv", "id,x", "7,01", "8,nil")
    roles = roles_of(("id",), categorical=("x",))
    dialect = Dialect(Spelling(null_values=("nil",)))
    assert read_tables([spaced], roles, dialect).table.equals(read_tables([plain], roles, dialect).table)


def test_times_and_zones():
    text_file("t.csv", "id;x;at", "1;2024-01-31 9:30;9:30", "2;2024-01-31T10:00:05;10:00:05")
    sets = sets_to_fit([Path("t.csv")], Recipe(("id",))).sets
    assert str(sets.elements["x"].values[0])[:16] == "2024-01-31T09:30"
    assert values_of(sets.elements["at"]) == [34200, 36005]
    assert taken("2024-01-31T10:00:00Z 2024-01-31T12:00:00+02:00")[1][0] == taken("2024-01-31T10:00:00Z")[1][0]
    found = read("x 2024-02-30 2024-01-01", "z 1 2")
    assert found.sets.elements["x"].kind == "categorical"
    assert any("looks like dates and times, and not all can be read" in note for note in found.notes)


def test_lists_in_cells():
    text_file("t.csv", "name;x;w;y", 'a;[1, 2, 3];"[""u"", ""v"", ""u""]";1', "b;[];[];0", "c;[4];['it''s'];0")
    sets = sets_to_fit([Path("t.csv")], Recipe(("name",), ("y",))).sets
    assert sets.sizes.tolist() == [3, 0, 1] and values_of(sets.elements["x"]) == [1, 2, 3, 4]
    text_file("t.csv", "name;x;w;y", 'a;(1, 2, 3);{"u","v","u"};1', "b;(4, 5);{};0", "c;(6, );{'it''s'};0")
    with pytest.raises(BadArgument, match="expect lists of one length in each row"):
        sets_to_fit([Path("t.csv")], Recipe(("name",), ("y",)))
    sets = sets_to_fit([Path("t.csv")], Recipe(("name",), ("y",), drop=("x",))).sets
    assert sets.sizes.tolist() == [3, 0, 1] and values_of(sets.elements["w"]) == ["u", "v", "u", "its"]
    text_file("t.csv", "name,x,w,y", "a,1;2;3,u;v;w,1", "b,,,0", "c,4,x,0")
    read_by = Dialect(Spelling(list_separator=";"))
    sets = sets_to_fit([Path("t.csv")], Recipe(("name",), ("y",)), dialect=read_by).sets
    assert sets.sizes.tolist() == [3, 0, 1] and values_of(sets.elements["x"]) == [1, 2, 3, 4]
    assert values_of(sets.elements["w"]) == ["u", "v", "w", "x"]


@pytest.mark.parametrize(
    ("cells", "options", "spelling", "expected"),
    [
        (["007|012", "7"], {}, {}, ["007", "012", "7"]),  # as codes outside of lists
        (["007|012", "7"], {"categorical": ("x",)}, {}, ["007", "012", "7"]),
        (["9007199254740993|9007199254740992", "1"], {}, {}, [9007199254740993, 9007199254740992, 1]),
        (["1,5|2,25", "3"], {}, {"decimal": ","}, [1.5, 2.25, 3]),
        (["1.000|2", "3"], {}, {"thousands": ".", "decimal": ","}, [1000, 2, 3]),
        (["1|NA", "3"], {}, {}, [1, None, 3]),
        (["a|2", "3"], {}, {}, ["a", "2", "3"]),
    ],
)
def test_parts_of_lists_are_read_as_cells_are(cells, options, spelling, expected):
    text_file("t.csv", "name;x", *(f"n{i};{cell}" for i, cell in enumerate(cells)))
    read_by = Dialect(Spelling(list_separator="|", **spelling), ";")
    found = sets_to_fit([Path("t.csv")], Recipe(("name",), **options), dialect=read_by).sets.elements["x"]
    assert [None if x != x else x for x in values_of(found)] == expected


def test_lists_of_several_files_and_of_the_model_have_one_type():
    recipe, read_by = Recipe(("name",)), Dialect(Spelling(list_separator="|"))
    text_file("a.csv", "name,x", "n,1|2")
    text_file("b.csv", "name,x", "m,u|2")
    both = sets_to_fit([Path("a.csv"), Path("b.csv")], recipe, dialect=read_by).sets
    assert values_of(both.elements["x"]) == ["1", "2", "u", "2"]
    found = sets_to_predict([Path("a.csv")], TableEncoder().fit(both), recipe, dialect=read_by).sets
    assert values_of(found.elements["x"]) == ["1", "2"]


@pytest.mark.parametrize("options", [{}, {"categorical": ("x",)}])
@pytest.mark.parametrize(
    ("rows", "separator"),
    [(['a;[1, 2];["u","v"];0:30', "b;[];[];1:00", "c;[2];['u'];23:59"], ""), (["a;1|2;u|v;0:30", "b;;;1:00"], "|")],
    ids=["brackets", "separator"],
)
def test_predict_reads_lists_and_times_as_fit_does(rows, separator, options):
    text_file("t.csv", "name;x;w;at", *rows)
    recipe, dialect = Recipe(("name",), set_columns=("at",), **options), Dialect(Spelling(list_separator=separator))
    fitted = sets_to_fit([Path("t.csv")], recipe, dialect=dialect).sets
    assert fitted.sizes.tolist()[:2] == [2, 0] and fitted.context["at"].kind == "numeric"
    found = sets_to_predict([Path("t.csv")], TableEncoder().fit(fitted), recipe, dialect=dialect).sets
    for name in ("x", "w"):
        assert values_of(found.elements[name]) == values_of(fitted.elements[name])
    assert values_of(found.context["at"]) == values_of(fitted.context["at"])


def test_lists_of_one_entry_each_are_lists_as_in_the_fit(janossy):
    """Else a column of single entries beside one of lists would belong to the sets, or rows would be elements."""
    text_file("t.csv", "name,x,w,y", *(f"n{i},{i}|2,u|v,{i % 2}" for i in range(20)))
    options = ("--list-separator", "|")
    fit = ("fit", "t.csv", "--target", "y", "--drop", "name", "--strategy", "linear", *options, "--out", "model")
    assert janossy(*fit)[0] == 0
    for rows in (["n,1|2,u|v", "m,3,v"], ["n,1,u", "n,,", "n,2,v"], ["n,,", "n,,"]):
        text_file("new.csv", "name,x,w", *rows)
        code, out, err = janossy("predict", "model", "new.csv", *options, "--out", "p.csv")
        assert code == 0 and f"{len(rows)} sets" in out, err
        Path("p.csv").unlink()


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_codes_beyond_64_bits_in_lists_keep_their_digits(ending):
    """They are text in all files and for the model, as outside of lists. Beside fractions they are numbers."""

    def table(name: str, *lists: str) -> Path:
        rows = [f'{i};"{x}"' if ending == "csv" else f'{{"id": {i}, "x": {x}}}' for i, x in enumerate(lists)]
        return text_file(f"{name}.{ending}", *(["id;x"] if ending == "csv" else []), *rows)

    code = 2**63
    files = [table("a", f"[{code}, {code + 1}]", "[]", "[7]")]
    files += [table("b", "[7]")] if ending == "csv" else []
    fitted = sets_to_fit(files, Recipe(("id",)) if len(files) == 1 else Recipe(drop=("id",))).sets
    assert values_of(fitted.elements["x"])[:3] == [str(code), str(code + 1), "7"]
    if ending == "csv":
        found = sets_to_predict([table("c", "[7, 8]")], TableEncoder().fit(fitted), Recipe()).sets
        assert values_of(found.elements["x"]) == ["7", "8"]
    amounts = sets_to_fit([table("d", f"[{code}, 1.5]", "[]", "[7]")], Recipe(("id",))).sets.elements["x"]
    assert amounts.kind == "numeric" and values_of(amounts) == [code, 1.5, 7]


def test_text_in_brackets_is_no_list_if_training_had_such_text():
    table = pa.table({"id": [1, 2], "x": ["[a]", "[b]"]})
    encoder = TableEncoder().fit(as_sets(table, set_id="id"))
    text_file("t.csv", "id;x", "1;[a]", "2;[b]")
    found = sets_to_predict([Path("t.csv")], encoder, Recipe(("id",))).sets
    assert values_of(found.elements["x"]) == ["[a]", "[b]"]


@pytest.mark.parametrize("zone", ["", "Z"])
@pytest.mark.parametrize("day", ["2024-01-31", "2024/1/31", "31/01/2024", "01/31/2024"])
def test_nanoseconds_of_dates(day, zone):
    """They are kept. Zeros, which pandas writes, need no nanoseconds."""
    zone = zone if "-" in day else ""
    digits = (".123456789", ".123456788", ".1", "")
    text_file("t.csv", "id,x", *(f"{i},{day}T10:00:00{each}{zone}" for i, each in enumerate(digits)))
    found = sets_to_fit([Path("t.csv")], Recipe(("id",)))
    times = found.sets.elements["x"]
    expected = np.array(["2024-01-31T10:00:00"], "datetime64[ns]") + np.array([123456789, 123456788, 10**8, 0])
    assert times.kind == "date" and np.array_equal(times.values, expected) and not found.notes
    text_file("t.csv", "id,x", f"1,{day}T10:00:00.123456000{zone}")
    times = sets_to_fit([Path("t.csv")], Recipe(("id",))).sets.elements["x"].values
    assert times.dtype == "datetime64[us]" and times[0] == np.datetime64("2024-01-31T10:00:00.123456")


def test_the_order_of_day_and_month_belongs_to_the_model(janossy):
    rows = [f"n{i},{i % 3},{i + 1}/02/2024,{i % 2}" for i in range(20)]
    text_file("t.csv", "name,x,at,y", *rows)
    fit = ("fit", "t.csv", "--set-id", "name", "--target", "y", "--strategy", "linear", "--out", "model")
    assert janossy(*fit)[0] == 0
    text_file("iso.csv", "name,x,at", "n,1,2024-02-01", "m,2,2024-02-03")
    text_file("day.csv", "name,x,at", "n,1,01/02/2024", "m,2,03/02/2024")  # by itself it could be the 2nd of January
    for name in ("iso", "day"):
        assert janossy("predict", "model", f"{name}.csv", "--out", f"{name}-p.csv")[0] == 0
    assert Path("iso-p.csv").read_text() == Path("day-p.csv").read_text()
    text_file("day.csv", "name,x,at", "n,1,01/02/2024", "m,2,01/31/2024")
    code, _, err = janossy("predict", "model", "day.csv", "--out", "p.csv")
    says = "day.csv, row 2: column 'at' expects dates with the day first, as in training; got 01/31/2024."
    assert code == 2 and says in err


# Files of other makers


def test_separators_comments_and_marks():
    for lines in (
        ["# made by hand", "", "id;a,b;c", "1;2,5;x", "2;3,5;y"],
        ["sep=;", "id;a,b;c", "1;2,5;x", "2;3,5;y"],
        ["#id;a,b;c", "1;2,5;x", "2;3,5;y"],
        ["# three; words; here", "id;a,b;c", "1;2,5;x", "2;3,5;y"],
    ):
        text_file("t.csv", *lines)
        rows = read_tables([Path("t.csv")], roles_of(("id",)), Dialect(Spelling(decimal=",")))
        assert rows.table.to_pydict() == {"id": [1, 2], "a,b": [2.5, 3.5], "c": ["x", "y"]}, lines
    text_file("t.csv", "id:x", "1:2")
    assert read_tables([Path("t.csv")], {}, Dialect(delimiter=":")).table.column_names == ["id", "x"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1", "cp1252"])
def test_encodings(encoding):
    text_file("t.csv", "id,naïve", "1,café", "2,ü", encoding=encoding)
    dialect = Dialect(encoding=None if encoding.startswith("utf") else encoding)
    assert read_tables([Path("t.csv")], {}, dialect).table["naïve"].to_pylist() == ["café", "ü"]


def test_line_ends_long_cells_and_quotes():
    Path("t.csv").write_bytes(b'id,x\r\n1,"a\nb"\n\r\n2,"say ""c"""\r3,' + b"z" * 3_000_000 + b"\n")
    table = read_tables([Path("t.csv")], roles_of(("id",))).table
    assert table["id"].to_pylist() == [1, 2, 3]
    assert table["x"].to_pylist() == ["a\nb", 'say "c"', "z" * 3_000_000]


def test_files_are_known_by_their_content():
    table = pa.table({"id": [1, 2], "x": [1.5, 2.5]})
    parquet.write_table(table, "parquet.csv")
    with ipc.new_file("arrow.csv", table.schema) as writer:
        writer.write_table(table)
    text = "id,x\n1,1.5\n2,2.5\n"
    Path("gz.csv").write_bytes(gzip.compress(text.encode()))
    Path("t.csv.xz").write_bytes(lzma.compress(text.encode()))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("folder/inner.csv", text)
        archive.writestr("__MACOSX/folder/._inner.csv", "of the archiver")
    for name in ("t.csv.zip", "t.zip"):
        Path(name).write_bytes(packed.getvalue())
    Path("t.gz").write_bytes(gzip.compress(text.encode()))
    Path("t.txt").write_text(text)
    for name in ("parquet.csv", "arrow.csv", "gz.csv", "t.csv.xz", "t.csv.zip", "t.zip", "t.gz", "t.txt"):
        assert read_tables([Path(name)]).table.to_pydict() == table.to_pydict(), name
    with zipfile.ZipFile("t.csv.zip", "w") as archive:
        archive.writestr("a.csv", text)
        archive.writestr("b.csv", text)
    with pytest.raises(BadArgument, match="expects one file in the archive; got 2"):
        read_tables([Path("t.csv.zip")])


def test_json_lines():
    rows = [{"id": 12345678901234567890, "x": [1, 2.5], "c": "007"}, {"id": 2, "x": [], "c": None}, {"id": 3, "x": [4]}]
    text_file("t.jsonl", *map(json.dumps, rows))
    table = read_tables([Path("t.jsonl")]).table
    assert table["id"].to_pylist() == ["12345678901234567890", "2", "3"]
    assert table["x"].to_pylist() == [[1, 2.5], [], [4]] and table["c"].to_pylist() == ["007", None, None]
    Path("t.ndjson.gz").write_bytes(gzip.compress(Path("t.jsonl").read_bytes()))
    assert read_tables([Path("t.ndjson.gz")]).table == table
    text_file("t.jsonl", '{"id": 9007199254740993}', '{"id": 9007199254740992}', '{"id": 0.5}')
    assert [str(x) for x in read_tables([Path("t.jsonl")]).table["id"].to_pylist()] == [
        "9007199254740993.0",
        "9007199254740992.0",
        "0.5",
    ]
    rows = [{"id": 1, **{f"c{i}": i for i in range(9)}}, {"d": 1, "id": 2}]
    text_file("t.jsonl", *map(json.dumps, rows))
    assert read_tables([Path("t.jsonl")]).table.column_names == ["id", *(f"c{i}" for i in range(9)), "d"]
    for one, other in (("true", "1"), ("1", '"a30"'), ("[1]", '["2"]')):
        text_file("t.jsonl", f'{{"x": {one}}}', f'{{"x": {other}}}')
        with pytest.raises(BadArgument, match=r"t[.]jsonl: the column 'x' expects values of one kind; got several \("):
            read_tables([Path("t.jsonl")])
    text_file("t.jsonl", '{"a": 1}', '{"a": ')
    with pytest.raises(BadArgument, match=r"t[.]jsonl, line 2: "):
        read_tables([Path("t.jsonl")])


def test_damaged_offsets_are_refused_and_files_not_mapped():
    text = pa.array(["one", "two", "three"])
    table = pa.table({"id": [1, 2, 3], "c": text})
    with ipc.new_file("t.arrow", table.schema) as writer:
        writer.write_table(table)
    content = Path("t.arrow").read_bytes()
    offsets = text.buffers()[1].to_pybytes()[:16]
    wrong = offsets[:8] + (2**30).to_bytes(4, "little") + offsets[12:]
    assert content.count(offsets) == 1
    Path("t.arrow").write_bytes(content.replace(offsets, wrong))
    with pytest.raises(BadArgument, match=r"t[.]arrow cannot be read: it is damaged"):
        read_tables([Path("t.arrow")])
    Path("t.arrow").write_bytes(content)
    rows = read_tables([Path("t.arrow")])
    Path("t.arrow").write_bytes(bytes(len(content)))
    assert rows.table["c"].to_pylist() == ["one", "two", "three"]


# What only tells rows apart


def test_columns_that_count_are_told_and_left_out_by_an_option():
    num = 24
    frame = pd.DataFrame(
        {
            "id": np.repeat(np.arange(num), 2),
            "x": np.arange(2 * num) % 5,
            "nth": np.arange(2 * num) + 7,
            "of_set": np.repeat(np.arange(num) + 100, 2),
            "key": [f"k{n * 37 % 48}" for n in range(2 * num)],
            "shuffled": [n * 37 % 48 for n in range(2 * num)],
            "down": np.repeat(1000 - 3 * np.arange(num), 2),
        }
    )
    frame.to_csv("t.csv", index=False)
    found = sets_to_fit([Path("t.csv")], Recipe(("id",)))
    for name, why in (
        ("nth", "counts the rows"),
        ("of_set", "counts the sets"),
        ("key", "has another value in each row"),
        ("shuffled", "numbers the rows, in another order"),
        ("down", "counts the sets"),
    ):
        assert any(f"column '{name}' {why}" in note and "--drop-ids" in note for note in found.notes), name
    assert not any("'x'" in note for note in found.notes)
    found = sets_to_fit([Path("t.csv")], Recipe(("id",)), drop_ids=True)
    assert list(found.sets.elements) == ["x"] and found.recipe.drop == ("nth", "of_set", "key", "shuffled", "down")
    frame.rename(columns={"x": "Unnamed: 0"}).to_csv("u.csv", index=False)
    assert any("'Unnamed: 0' is the index" in note for note in sets_to_fit([Path("u.csv")], Recipe(("id",))).notes)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint64, np.int8])
def test_a_column_without_order_does_not_count(dtype):
    """Differences of these values leave the range of their type."""
    num = 30
    of_set = (np.arange(num) * 37 % 101).astype(dtype)
    ids = pa.table({"id": np.repeat(np.arange(num), 20)})
    cycle = np.arange(20 * num).astype(dtype) if dtype != np.uint64 else np.tile(np.arange(20, dtype=dtype), num)
    assert id_like(pa.table({"of_set": np.repeat(of_set, 20), "cycle": cycle}), ids) == {}
    down = np.repeat(np.arange(num)[::-1], 20).astype(dtype)
    assert id_like(pa.table({"down": down}), ids) == {"down": "counts the sets in the order of the file"}


def test_the_index_of_a_frame_is_left_out(janossy):
    frame = pd.DataFrame(orders()).sort_values("returned", kind="stable")
    frame.to_parquet("orders.parquet")
    code, out, _ = janossy("fit", "orders.parquet", *FIT[2:], "--out", "model")
    assert code == 0 and "orders.parquet: __index_level_0__ is the index of a pandas frame, and left out." in out
    assert "__index_level_0__" not in json.loads(Path("model/fit.json").read_text(encoding="utf-8"))["recipe"]["drop"]
    assert janossy("predict", "model", "orders.parquet", "--out", "p.csv")[0] == 0


@pytest.mark.parametrize("name", ["c", None])
@pytest.mark.parametrize("option", ["target", "drop", "set_columns", "numeric", "weight", "groups"])
def test_an_option_may_name_the_index_of_a_frame(option, name):
    columns = {"id": [1, 1, 2, 2], "x": [1.0, 2.0, 3.0, 4.0], "y": [0, 0, 1, 1]}
    frame = pd.DataFrame(columns, index=pd.Index([5.0, 5.0, 6.0, 6.0], name=name))
    frame.to_parquet("t.parquet")
    column = name or "__index_level_0__"
    recipe = replace(Recipe(("id",), ("y",)), **{option: (column,)})
    read = sets_to_fit([Path("t.parquet")], recipe)
    assert not any("index" in note for note in read.notes)
    assert (column in read.sets.elements, column in read.sets.context) == (option == "numeric", option == "set_columns")
    if option == "target":
        assert read.targets.tolist() == [5, 6]
    if option in ("numeric", "set_columns"):
        found = sets_to_predict([Path("t.parquet")], TableEncoder().fit(read.sets), read.recipe)
        assert list(found.sets.elements) == list(read.sets.elements)
        assert list(found.sets.context) == list(read.sets.context)


# Sets without a target


def test_sets_without_a_target_are_left_out_of_a_fit_and_of_a_score(janossy):
    columns = orders()
    without = [value if order % 4 else None for order, value in zip(columns["order"], columns["returned"], strict=True)]
    write("orders.csv", {**columns, "returned": without})
    code, out, _ = janossy(*FIT, "--out", "model")
    assert code == 0 and "left out, as they have no target: 10 of 40 sets." in out
    code, out, _ = janossy("predict", "model", "orders.csv", "--out", "p.parquet")
    assert code == 0 and "of the 30 sets of 40 that have a target" in out
    assert parquet.read_table("p.parquet").num_rows == 40
    one = [None if row == 0 else value for row, value in enumerate(columns["returned"])]
    if columns["order"][1] == columns["order"][0]:
        write("one.csv", {**columns, "returned": one})
        code, _, err = janossy("fit", "one.csv", *FIT[2:], "--out", "another")
        assert code == 2 and "--target expects a target for every set; got none for set 0, in one.csv, row 1." in err


def test_nan_is_no_class():
    found = read("x 1 2 3 4", "y 1 2 NaN 1", target=("y",), task="classification")
    assert found.targets.tolist() == [1, 2, 1]


# The commands


def test_options_of_csv_files_and_names_with_commas(janossy):
    columns = orders()
    columns["price"] = [f"{price:.2f}".replace(".", ",") for price in columns["price"]]
    columns["a,b"] = columns.pop("hour")
    pd.DataFrame(columns).to_csv("orders.csv", index=False, sep=";", encoding="latin-1")
    options = ("--decimal", ",", "--delimiter", ";", "--encoding", "latin-1", "--null-values", "-1")
    code, out, err = janossy(*FIT, *options, "--drop", '"a,b"', "--out", "model")
    assert (code, err) == (0, "") and re.search(r"price +element +numeric", out)
    assert json.loads(Path("model/fit.json").read_text(encoding="utf-8"))["recipe"]["null_values"] == ["-1"]
    assert janossy("predict", "model", "orders.csv", "--decimal", ",", "--out", "p.csv")[0] == 0
    code, _, err = janossy("predict", "model", "orders.csv", "--out", "q.csv")
    assert code == 2 and "--decimal , reads a CSV file of such numbers" in err
    pd.DataFrame(columns).to_parquet("orders.parquet")
    for option, value in (("--decimal", ","), ("--list-separator", ";"), ("--encoding", "latin-1"), ("--sheet", "a")):
        code, _, err = janossy("predict", "model", "orders.parquet", option, value, "--out", "q.csv")
        assert code == 2 and f"{option} is for" in err and "orders.parquet" in err and not Path("q.csv").exists()
    code, _, err = janossy("predict", "model", "orders.csv", "--sheet", "a", "--out", "q.csv")
    assert code == 2 and "--sheet is for Excel workbooks; got orders.csv" in err
    code, _, err = janossy("group", "orders.csv", "--set-id", "order", "--sheet", "a", "--out", "q.parquet")
    assert code == 2 and "--sheet is for Excel workbooks; got orders.csv" in err
    empty = {**columns, "price": [None] * len(columns["price"])}
    pd.DataFrame(empty).to_csv("empty.csv", index=False, sep=";", encoding="latin-1")
    code, out, _ = janossy("predict", "model", "empty.csv", "--encoding", "latin-1", "--out", "e.csv")
    assert code == 0 and "column 'price' is empty in these tables: predictions are made without it." in out
    for option, value in (("--decimal", "x"), ("--thousands", "."), ("--delimiter", "ab"), ("--encoding", "martian")):
        code, _, err = janossy(*FIT, option, value, "--out", "other")
        assert code == 2 and f"{option} expects" in err


def test_the_page_says_what_each_column_was_taken_for(janossy):
    columns = orders()
    columns["code"] = [f"{order:03}" for order in columns["order"]]
    write("orders.csv", columns)
    code, out, _ = janossy(*FIT, "--out", "model")
    assert code == 0 and "column 'code' is digits with zeros in front" in out
    page = Path("model/report.html").read_text(encoding="utf-8")
    assert "digits with zeros in front, or more than a number holds" in page


def test_a_folder_with_an_equals_sign_adds_no_column():
    Path("rate=0.1").mkdir()
    for name in ("t.csv", "rate=0.1/t.csv"):
        text_file(name, "id,x", "1,2.5", "2,3.5")
        assert read_tables([Path(name)], {}).table.column_names == ["id", "x"]


@pytest.mark.parametrize("kind", ["category", "string"])
def test_text_stored_as_a_dictionary_is_told_from_ids(kind):
    names = [f"n{i}" for i in range(30)]
    frame = pd.DataFrame({"order": range(30), "name": names, "item": ["a", "b", "c"] * 10}).astype({"name": kind})
    frame["item"] = frame["item"].astype(kind)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    assert list(id_like(table.select(["name", "item"]), table.select(["order"]))) == ["name"]


@pytest.mark.parametrize("name", ["data[1].csv", "data?.csv", "d*/t.csv", "[x]/t.csv.gz"])
def test_marks_in_a_path_are_no_wildcards(name):
    for other in ("data1.csv", "dx/t.csv", "x/t.csv"):
        Path(other).parent.mkdir(exist_ok=True)
        text_file(other, "id,x", "1,9.5", "2,9.5")
    Path(name).parent.mkdir(exist_ok=True)
    text = b"id,x\n1,2.5\n2,3.5\n"
    Path(name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    assert read_tables([Path(name)], {}).table["x"].to_pylist() == [2.5, 3.5]


@pytest.mark.parametrize("name", ["t.jsonl", "t.ndjson.gz"])
@pytest.mark.parametrize("option", ["--list-separator", "--delimiter"])
def test_options_of_text_are_refused_for_json_lines(janossy, option, name):
    text_file(name, '{"id": 1, "x": 2, "y": 0}', '{"id": 2, "x": -999, "y": 1}')
    code, _, stderr = janossy("fit", name, "--set-id", "id", "--target", "y", "--out", "m", option, ";")
    assert code == 2 and f"{option} is for files whose values are text; got {name}" in stderr
