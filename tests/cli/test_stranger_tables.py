"""Tables as strangers write them, whose values would be misread without a word."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from janossy.cli.errors import BadArgument
from janossy.cli.workflow.delimited import Dialect
from janossy.cli.workflow.grouping import group
from janossy.cli.workflow.record import Recipe
from janossy.cli.workflow.sets_to_fit import sets_to_fit
from janossy.cli.workflow.sets_to_predict import sets_to_predict
from janossy.cli.workflow.text_types import Spelling
from janossy.tables import TableEncoder


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
