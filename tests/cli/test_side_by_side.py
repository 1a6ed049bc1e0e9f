"""Tables with one row per set and the elements side by side: told of by a fit, and made into lists by janossy group."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from janossy.cli.workflow.record import Recipe
from janossy.cli.workflow.sets_to_fit import sets_to_fit, stream_to_fit
from janossy.cli.workflow.side_by_side import hint
from tests.cli.commands import janossy, write

__all__ = ["janossy"]

HANDS = "hand,rank1,suit1,rank2,suit2,rank3,suit3,pair\n7,10,h,2,s,J,d,no\n3,5,h,5,c,,,yes\n4,,,,,,,no\n"


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ("hand c1 c2 c3 pair", "columns c1 to c3 look like elements side by side: janossy group --wide c makes lists"),
        ("item_0 item_1 item_2", "columns item_0 to item_2 look"),
        ("a1 b1 a2 b2 a3 b3", "a1 to a3, b1 to b3 look like elements side by side: janossy group --wide a --wide b"),
        ("c9 c10 c8 c7 c6 c5 c4 c3 c2 c1", "columns c1 to c10"),
        ("my_item-1 my_item-2 my_item-3", "--wide my_item makes"),
        ("x1 x2 y", ""),
        ("y2019 y2020 y2021", ""),
        ("1 2 3", ""),
    ],
)  # fmt: skip
def test_the_hint(names, says):
    assert says in hint(names.split()) and bool(says) == bool(hint(names.split()))


def test_a_fit_and_inspect_tell_of_elements_side_by_side(janossy):
    rows = [f"{i},{i % 5},{i % 3},{i % 4},{i % 2}" for i in range(40)]
    Path("t.csv").write_text("\n".join(["hand,c1,c2,c3,y", *rows, ""]), encoding="utf-8")
    says = "columns c1 to c3 look like elements side by side: janossy group --wide c makes lists of them."
    code, _, err = janossy("fit", "t.csv", "--target", "y", "--out", "model")
    assert code == 2 and says in err
    arguments = ("--set-id", "hand", "--target", "y", "--strategy", "k1", "--max-epochs", "1", "--out", "model")
    code, out, _ = janossy("fit", "t.csv", *arguments)
    assert code == 0 and says in out
    assert says in " ".join(janossy("inspect", "model")[1].split())
    assert says in janossy("group", "t.csv", "--set-id", "hand", "--out", "sets.parquet")[1]
    assert not any(
        "side by side" in note for note in sets_to_fit([Path("sets.parquet")], Recipe(("hand",), ("y",))).notes
    )
    write("t.parquet", pa.table({"hand": [1, 2], "c1": [1, 2], "c2": [3, 4], "c3": [5, 6], "y": [0, 1]}))
    assert says in stream_to_fit(["t.parquet"], Recipe(("hand",), ("y",))).notes


def test_group_makes_lists_of_them(janossy):
    """Ranks are text in all columns, as one of them holds J. Rows keep their order, and missing cards are left out."""
    Path("t.csv").write_text(HANDS, encoding="utf-8")
    code, out, err = janossy("group", "t.csv", "--wide", "rank,suit", "--set-id", "hand", "--out", "sets.parquet")
    assert (code, err, out) == (0, "", "wrote sets.parquet: 3 sets\n")
    assert parquet.read_table("sets.parquet").to_pydict() == {
        "hand": [7, 3, 4],
        "pair": ["no", "yes", "no"],
        "rank": [["10", "2", "J"], ["5", "5"], []],
        "suit": [["h", "s", "d"], ["h", "c"], []],
    }
    read = sets_to_fit([Path("sets.parquet")], Recipe(("hand",), ("pair",)))
    assert read.sets.sizes.tolist() == [3, 2, 0] and read.targets.tolist() == ["no", "yes", "no"]


@pytest.mark.parametrize("name", ["t.parquet", "t.feather"])
def test_files_with_types(janossy, name):
    columns = {"x_2": [1, None], "x_10": pa.array([0.5, float("nan")], pa.float16()), "x_1": pa.nulls(2), "z": [5, 6]}
    columns |= {"w 2": pa.array(["a", None]).dictionary_encode(), "w 1": ["b", "c"], "w 3": pa.nulls(2)}
    write(name, pa.table(columns))
    assert janossy("group", name, "--wide", "x_", "--wide", "w", "--out", "sets.parquet")[0] == 0
    assert parquet.read_table("sets.parquet").to_pydict() == {
        "z": [5, 6],
        "x_": [[None, 1.0, 0.5], [None]],
        "w": [["b", "a", None], ["c"]],
    }


@pytest.mark.parametrize(
    ("header", "arguments", "says"),
    [
        ("id,c1,c2", (), "expects --set-id COL if rows are elements, or --wide NAME if they are sets; got neither"),
        ("id,c1,d2", ("--wide", "c"), "t.csv: --wide c expects columns such as c1 and c2; got id, c1, d2."),
        ("c_1,c1,c2", ("--wide", "c"), "--wide c expects one column per number; got 'c_1' and 'c1'. Rename one."),
        ("c,c1,c2", ("--wide", "c"), "t.csv: --wide c makes a column 'c', which is there already. Rename it."),
        ("id,c1,c2", ("--wide", "c", "--set-id", "c1"), "--wide names the column 'c1', and another option does so"),
        ("id,c1,c2", ("--wide", "c", "--set-id", "x"), "t.csv has no column 'x', which --set-id names."),
    ],
)  # fmt: skip
def test_what_is_refused(janossy, header, arguments, says):
    Path("t.csv").write_text(f"{header}\n1,2,3\n", encoding="utf-8")
    code, _, err = janossy("group", "t.csv", *arguments, "--out", "sets.parquet")
    assert code == 2 and says in err and err.count("\n") == 1
    assert [path.name for path in Path().iterdir()] == ["t.csv"]


def test_columns_of_several_types_are_refused(janossy):
    write("t.parquet", pa.table({"c1": [1], "c2": ["a"]}))
    code, _, err = janossy("group", "t.parquet", "--wide", "c", "--out", "sets.parquet")
    assert code == 2 and "--wide c expects columns of one type; got int64 in 'c1' and string in 'c2'. Write" in err
