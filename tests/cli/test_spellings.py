"""Lines on text in spellings that are not read, and the options that read it."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from janossy.cli.errors import BadArgument
from janossy.cli.workflow.delimited import Dialect
from janossy.cli.workflow.describing import describe
from janossy.cli.workflow.reading import read_tables
from janossy.cli.workflow.record import Recipe
from janossy.cli.workflow.sets_to_fit import sets_to_fit
from janossy.cli.workflow.sets_to_predict import sets_to_predict
from janossy.cli.workflow.text_types import Spelling
from janossy.tables import TableEncoder


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(values: str, name: str = "t.csv") -> Path:
    """Writes a table with these values in x. Each _ is a space."""
    rows = "".join(f"{i};{value.replace('_', ' ')}\n" for i, value in enumerate(values.split(" ")))
    Path(name).write_text(f"id;x\n{rows}", encoding="utf-8")
    return Path(name)


def fitted(values: str, **spelling: str):
    """Returns what a fit reads of these values."""
    return sets_to_fit([write(values)], Recipe(("id",)), None, Dialect(Spelling(**spelling), ";"))


GERMAN, FRENCH, NARROW = "1.234,50 99,50 5,25 12 1.500", "1_234,50 99,50 5,25 12", "1\u202f234,5 1\u00a0234,5 99,5"


@pytest.mark.parametrize(
    ("values", "said", "option"),
    [
        (GERMAN, "separators of thousands and decimal commas", {"thousands": ".", "decimal": ","}),
        (FRENCH, "spaces between thousands and decimal commas", {"thousands": " ", "decimal": ","}),
        (NARROW, "spaces between thousands and decimal commas", {"thousands": " ", "decimal": ","}),
        ("1_234 567 1_234.5", "spaces between thousands", {"thousands": " "}),
        ("1\u00a0234 567 1\u202f234.5", "spaces between thousands", {"thousands": " "}),
        ("1'234 567 1’234.5", "apostrophes between thousands", {"thousands": "'"}),
    ],
)
def test_the_options_of_a_hint_read_the_numbers(values, said, option):
    found = " ".join(fitted(values).notes)
    assert f"looks like {said}, and is taken as text: --" in found
    assert all(
        f"--{name} {mark}" in found.replace("'", "").replace('"', "") or mark == "'" for name, mark in option.items()
    )
    column = fitted(values, **option).sets.elements["x"]
    assert column.kind == "numeric" and max(column.values.tolist()) in (1234.5, 1500)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ("12* 13 14† 7 15**", "numbers with signs or units"),
        ("12[1] 13 14[a] 7", "numbers with signs or units"),
        ("1st 2nd 3rd 14th", "numbers with signs or units"),
        ("'5' '7.5' '12'", "numbers with signs or units"),
        ('="005" ="7"', "numbers with signs or units"),
        ("5'11\" 6'2\"", "numbers with signs or units"),
        ("USD5 EUR_7 8_GBP", "per cent or currencies"),
        ("Sep_03 Mar_13 October_24", "dates in words"),
        ("14-Nov 22-Nov 3-Dec", "dates in words"),
        ("Jan-24 Feb-24", "dates in words"),
        ("Q1_2024 Q2-2024", "dates in words"),
        ("11:37:15__3_Sep_2020 08:05:03__13_Sep_2020", "dates in words"),
        ("Wed_Jan_31_10:00:00_+0000_2024 Thu_Feb_1_10:00:00_2024", "dates in words"),
        ("2024年1月5日 2024年11月15日", "dates in words"),
        ("2024-01-31T10 2024-01-31T11", "dates in words"),
        ("5 7 ** 8 ** 12 9", "%) and other text, and is taken as text: --null-values"),
        ("5 7 na 8 na 12 9", "%) and other text, and is taken as text: --null-values"),
        ("5 unknown unknown", "%) and other text, and is taken as text: --null-values"),
        ("0.5 ** ** **", "%) and other text, and is taken as text: --null-values"),
        ("WBV_123 ABC_321", ""),
        ("CSE_101 MAT_201", ""),
        ("1.234 abc 5.678 def", "%) and other text, and is taken as text: --null-values"),
        ("10 J Q 9 K", ""),
        ("Mark-1 Mark-2 Decor_12", ""),
        ("+ ++ +++", ""),
        ("007 ** 013", ""),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_text_that_is_not_read_is_told(values, said, ending):
    if ending == "csv":
        found = fitted(values).notes
    else:
        texts = (
            values.replace("_", " ").split(" ") if "_" not in values else [x.replace("_", " ") for x in values.split()]
        )
        parquet.write_table(pa.table({"id": range(len(texts)), "x": texts}), "t.parquet")
        found = sets_to_fit([Path("t.parquet")], Recipe(("id",))).notes
    assert said in " ".join(found) and (said or not found)


def test_numbers_of_another_convention_among_many_have_their_option():
    with pytest.raises(
        BadArgument, match=r"row 12: .* the text '1,234'\. .*; --thousands , .* reads a CSV file of such"
    ):
        fitted("5 6 7 8 9 10 11 12 13 14 15 1,234")
    with pytest.raises(
        BadArgument, match=r"'high,low'\. Correct it, or leave it empty; --categorical x takes all [^;]*$"
    ):
        fitted("5 6 7 8 9 10 11 12 13 14 15 high,low")


def refused(training: str, values: str) -> str:
    """Returns the error for these values, where a model was trained on others."""
    read = fitted(training)
    with pytest.raises(BadArgument) as error:
        sets_to_predict(
            [write(values, "new.csv")], TableEncoder().fit(read.sets), read.recipe, dialect=Dialect(delimiter=";")
        )
    return str(error.value)


def test_the_value_that_is_no_time_is_named():
    assert "new.csv, row 3: column 'x' is numeric, but here the text '24:30'" in refused(
        "10:30 9:05", "9:05 10:00 24:30"
    )
    assert "row 2: column 'x' is numeric, but here the text '10:30'" in refused("1 2", "3 10:30")


@pytest.mark.parametrize(("training", "value"), [("true false", "true"), ("2024-01-01 2024-01-02", "2024-01-02")])
def test_text_that_spells_the_kind_is_called_text(training, value):
    read = fitted(training)
    parquet.write_table(pa.table({"id": [1], "x": [value]}), "new.parquet")
    with pytest.raises(BadArgument, match=f"as in training; got the text '{value}'. Convert the column"):
        sets_to_predict([Path("new.parquet")], TableEncoder().fit(read.sets), read.recipe)


@pytest.mark.parametrize("last", ["Source: the bureau", "Note: 2024 is not complete", "* preliminary", "Notes", "† a"])
def test_a_footnote_in_the_last_row_is_told(last):
    Path("t.csv").write_text(f"id,x\na,1\nb,2\n{last},\n", encoding="utf-8")
    said = f"--set-id id ends with {last!r}, which may be a footnote: delete it."
    assert said in sets_to_fit([Path("t.csv")], Recipe(("id",))).notes


def test_other_last_rows_are_no_footnotes():
    Path("t.csv").write_text("id,x\na,1\nb,2\nnotebook-1,3\n", encoding="utf-8")
    assert not sets_to_fit([Path("t.csv")], Recipe(("id",))).notes


def test_a_missing_header_is_told():
    Path("t.csv").write_text("a,0.5,0.5\nb,0.25,1\n", encoding="utf-8")
    said = r" If line 1 is a row and no header, write one above it\.$"
    with pytest.raises(BadArgument, match=r"two columns are called '0\.5'\. Rename one\." + said):
        read_tables([Path("t.csv")])
    Path("t.csv").write_text("a,0.5,3\nb,0.25,1\n", encoding="utf-8")
    with pytest.raises(BadArgument, match=r"no column 'id', .* It has a, 0\.5, 3\." + said):
        sets_to_fit([Path("t.csv")], Recipe(("id",)))
    Path("t.csv").write_text("a,2023,2024\nb,0.25,1\n", encoding="utf-8")
    with pytest.raises(BadArgument, match=r"It has a, 2023, 2024\.$"):
        sets_to_fit([Path("t.csv")], Recipe(("id",)))


def test_the_encoding_of_quotes_of_windows_is_hinted():
    """In Latin-1, they are control characters, without an error."""
    Path("t.csv").write_bytes("id,x\n1,“so”\n".encode("cp1252"))
    with pytest.raises(BadArgument, match=r"such as --encoding cp1252 \(Windows\) or mac-roman\."):
        read_tables([Path("t.csv")])


def test_codes_with_and_without_a_point_are_the_same():
    """Pandas writes whole numbers as 1.0 if some are missing."""
    for training, values in (("1.0 2.0  3.0", "1 2 3"), ("1 2 3", "1.0 3.0")):
        recipe = Recipe(("id",), categorical=("x",))
        read = sets_to_fit([write(training)], recipe, None, Dialect(delimiter=";"))
        encoder = TableEncoder().fit(read.sets)
        found = sets_to_predict([write(values, "new.csv")], encoder, read.recipe, dialect=Dialect(delimiter=";"))
        assert encoder.transform(found.sets).unseen == {}


def hints(names: int, sets: int) -> dict[str, str]:
    """Returns the hints for a column with one of so many names in each set of two rows, and the options."""
    rows = "".join(f"{i},name{i % names},{j}\n" for i in range(sets) for j in range(2))
    Path("t.csv").write_text("id,name,x\n" + rows, encoding="utf-8")
    return {
        each.hint: each.option for each in describe(sets_to_fit([Path("t.csv")], Recipe(("id",))).sets) if each.hint
    }


def test_a_name_of_the_set_is_no_column_of_the_sets():
    assert hints(30, 30) == {"another value in each set, as ids do": "--drop"}
    assert hints(29, 30) == hints(5, 5) == {"one value in each set": "--set-columns"}


@pytest.mark.parametrize("values", ["true false 1 0", "TRUE FALSE 1 NA"])
def test_truth_values_in_two_spellings_are_told(values):
    said = "column 'x' holds true and false, and numbers, and is taken as text: write all alike."
    assert fitted(values).notes == (said,)
    assert "true and false" not in " ".join(fitted("true false maybe").notes)


def test_ids_with_and_without_zeros_are_told():
    """Excel leaves out the zeros in one file."""
    Path("a.csv").write_text("id,x\n1,2\n2,2\n", encoding="utf-8")
    Path("b.csv").write_text("id,x\n01,3\n02,3\n10,3\n", encoding="utf-8")
    said = "column 'id' holds ids with and without zeros in front, taken as text: 1 and 01 are two ids."
    assert said in read_tables([Path("a.csv"), Path("b.csv")], {"id": "id"}).notes
    assert not read_tables([Path("b.csv")], {"id": "id"}).notes


@pytest.mark.parametrize(("word", "option"), [("**", "'**'"), ("n.a.", "n.a."), ("not known", "'not known'")])
def test_the_error_on_a_word_among_numbers_names_the_option_for_missing_values(word, option):
    with pytest.raises(BadArgument) as error:
        fitted("1 2 3 4 5 6 7 8 9 10 11 " + word.replace(" ", "_"))
    assert str(error.value).endswith(f"takes all values as names; --null-values {option} takes it as missing.")
    assert f"; --null-values {option} takes it as missing." in refused("1 2", word.replace(" ", "_"))
