"""Errors of tables and options: one line each, with file, column and row, and nothing is written."""

import gzip
import lzma
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import ipc, parquet

from janossy.cli.arguments import seconds
from janossy.cli.errors import BadArgument
from janossy.cli.fit import STRATEGIES as OF_OPTIONS
from janossy.estimators.candidates import NAMES
from tests.cli.commands import changed, janossy, orders, write

__all__ = ["janossy"]

OPTIONS = ("--set-id", "order", "--target", "returned", "--out", "model")
GOOD = orders()


def cut(name: str) -> None:
    """Cuts a file in half."""
    content = Path(name).read_bytes()
    Path(name).write_bytes(content[: len(content) // 2])


def flip(name: str) -> None:
    """Changes a byte in the middle of a file."""
    content = bytearray(Path(name).read_bytes())
    content[len(content) // 2] ^= 255
    Path(name).write_bytes(content)


def archived(name: str) -> None:
    write("t.csv", GOOD)
    with ZipFile(name, "w", ZIP_DEFLATED) as archive:
        archive.write("t.csv")


def locked(name: str) -> None:
    """Sets the flag of a password in both headers of an archive."""
    content = bytearray(Path(name).read_bytes())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    Path(name).write_bytes(content)


def compressed(name: str) -> None:
    write("t.csv", GOOD)
    Path(name).write_bytes(gzip.compress(Path("t.csv").read_bytes()))


def write_text(name: str, text: str) -> None:
    Path(name).write_text(text, encoding="utf-8")


def stream(name: str) -> None:
    table = pa.table(GOOD)
    with pa.OSFile(name, "wb") as file, ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=10)


def lists(prices: list, items: list) -> dict[str, list]:
    return {"price": prices, "item": items, "returned": [True, False]}


DAMAGED = "cannot be read: it is damaged, cut short, or no"

TABLES = {
    "no such file": ([], ["t.csv"], "there is no file t.csv"),
    "a folder": ([lambda: Path("t.csv").mkdir()], ["t.csv"], "t.csv is not a file"),
    "another kind": ([lambda: write_text("t.hdf5", "x")], ["t.hdf5"], "t.hdf5: expected a file in .parquet"),
    "empty": ([lambda: write_text("t.csv", "")], ["t.csv"], "t.csv is empty."),
    "no rows": ([lambda: write_text("t.csv", "order,returned\n")], ["t.csv"], "t.csv has columns but no rows."),
    "cut Parquet": (
        [lambda: write("t.parquet", GOOD), lambda: cut("t.parquet")],
        ["t.parquet"],
        "t.parquet cannot be read: it is damaged, cut short, or no .parquet file",
    ),
    "cut Feather": (
        [lambda: write("t.feather", GOOD), lambda: cut("t.feather")],
        ["t.feather"],
        "t.feather cannot be read: it is damaged",
    ),
    "cut stream": ([lambda: stream("t.arrow"), lambda: cut("t.arrow")], ["t.arrow"], "t.arrow cannot be read"),
    "CSV cut in a row": (
        [lambda: write_text("t.csv", "order,item,returned\n1,a,0\n1,b,0\n2,c")],
        ["t.csv"],
        "t.csv, row 3: Expected 3 columns, got 2. Correct it; at the end, the file may be cut short.",
    ),
    "CSV cut in quotes": (
        [lambda: write_text("t.csv", 'order,item,returned\n1,a,0\n2,"b')],
        ["t.csv"],
        "t.csv, row 2: quotes begin here and do not end. Correct it; the file may be cut short.",
    ),
    "CSV whose quotes do not end, in the last column": (
        [lambda: write_text("t.csv", 'order,item,returned\n1,a,0\n\n1,"b\nc",0\n2,c,"1\n2,d,1\n')],
        ["t.csv"],
        "t.csv, row 3: quotes begin here and do not end.",
    ),
    "only a header's end": ([lambda: write_text("t.csv", "\r\n\n")], ["t.csv"], "t.csv is empty."),
    "UTF-16 without its mark": (
        [lambda: Path("t.csv").write_text("order,x\n1,2\n", "utf-16-le")],
        ["t.csv"],
        "t.csv is not text in UTF-8. Convert it, or name its --encoding.",
    ),
    "a header in Latin-1": (
        [lambda: Path("t.csv").write_bytes(b"order,caf\xe9,returned\n1,a,0\n")],
        ["t.csv"],
        "t.csv: its header is not in UTF-8. Name its --encoding, such as cp1252.",
    ),
    "another separator than the header's": (
        [lambda: write_text("t.csv", "order,item,returned\n1;a;0\n1;b;1\n")],
        ["t.csv"],
        "t.csv, row 1: Expected 3 columns, got 1 between ','.",
    ),
    "a frame's index out of order": (
        [lambda: write_text("t.csv", ",order,item,returned\n1,1,a,0\n0,2,b,1\n")],
        ["t.csv"],
        "t.csv: column 1 has no name. Give it one, or, if it is the index of a frame, write the file without it.",
    ),
    "cut gzip": (
        [lambda: compressed("t.csv.gz"), lambda: cut("t.csv.gz")],
        ["t.csv.gz"],
        "t.csv.gz cannot be read: it is damaged, cut short, or no .gz file (Truncated compressed stream).",
    ),
    "damaged gzip": (
        [lambda: compressed("t.csv.gz"), lambda: flip("t.csv.gz")],
        ["t.csv.gz"],
        "t.csv.gz cannot be read: it is damaged, cut short, or no .gz file (zlib inflate failed",
    ),
    "a cut archive": ([lambda: archived("t.zip"), lambda: cut("t.zip")], ["t.zip"], f"t.zip {DAMAGED} .zip file"),
    "a damaged archive": ([lambda: archived("t.zip"), lambda: flip("t.zip")], ["t.zip"], f"t.zip {DAMAGED} .zip file"),
    "a password": (
        [lambda: archived("t.zip"), lambda: locked("t.zip")],
        ["t.zip"],
        f"t.zip {DAMAGED} .zip file (File ",
    ),
    "a damaged xz": (
        [lambda: Path("t.xz").write_bytes(lzma.compress(b"1,2\n" * 999)), lambda: flip("t.xz")],
        ["t.xz"],
        f"t.xz {DAMAGED} .xz file (Corrupt input data",
    ),
    "no gzip": ([lambda: write_text("t.csv.gz", "a,b\n1,2\n")], ["t.csv.gz"], "t.csv.gz cannot be read: it is damaged"),
    "an empty gzip": ([lambda: Path("t.csv.gz").write_bytes(gzip.compress(b""))], ["t.csv.gz"], "t.csv.gz is empty."),
    "Parquet in gzip": ([lambda: compressed("t.parquet.gz")], ["t.parquet.gz"], "t.parquet.gz: expected a file in"),
    "only ids and targets": (
        [lambda: write("t.parquet", {"order": GOOD["order"], "returned": GOOD["returned"]})],
        ["t.parquet"],
        "t.parquet has no column of the elements: options name all of its columns, order, returned.",
    ),
    "a null id in CSV": (
        [lambda: write_text("t.csv", "order,item,returned\n1,a,0\nNA,b,1\n,c,1\n")],
        ["t.csv"],
        "--set-id order expects an id in every row; got none in t.csv, row 3.",
    ),
    "no element in any list": (
        [lambda: write("t.parquet", {"price": [[]] * 20, "returned": [True, False] * 10})],
        ["t.parquet"],
        "t.parquet: all sets are empty.",
    ),
    "words among the numbers of a target": (
        [lambda: write("t.csv", {"order": list(range(20)), "x": [1.0] * 20, "returned": [*"12" * 9, "3", "4+"]})],
        ["t.csv"],
        "t.csv, row 20: column 'returned' holds numbers in 95.0% of its rows, but here the text '4+'. Correct it, or "
        "leave it empty; --task classification takes all values as names.",
    ),
    "not UTF-8": (
        [lambda: Path("t.csv").write_bytes(b"order,item,returned\n1,caf\xe9,0\n")],
        ["t.csv"],
        "t.csv, row 1: column 'item' is not in UTF-8. Name the file's encoding, such as --encoding cp1252 (Windows) or "
        "mac-roman.",
    ),
    "two of one name": (
        [lambda: write_text("t.csv", "order,item,item,returned\n1,a,b,0\n")],
        ["t.csv"],
        "t.csv: two columns are called 'item'.",
    ),
    "two of one name in Parquet": (
        [lambda: parquet.write_table(pa.Table.from_arrays([pa.array([1])] * 2, names=["x", "x"]), "t.parquet")],
        ["t.parquet"],
        "t.parquet: two columns are called 'x'.",
    ),
    "other columns": (
        [lambda: write("a.csv", GOOD), lambda: write("b.csv", {k: v for k, v in GOOD.items() if k != "price"})],
        ["a.csv", "b.csv"],
        "b.csv has no column 'price', which a.csv has.",
    ),
    "other types": (
        [lambda: write("a.parquet", GOOD), lambda: write("b.parquet", {**GOOD, "price": ["x"] * len(GOOD["price"])})],
        ["a.parquet", "b.parquet"],
        "b.parquet: column 'price' is string, and in a.parquet double.",
    ),
    "the same twice": ([lambda: write("t.csv", GOOD)], ["t.csv", "./t.csv"], "different files; got t.csv, t.csv"),
    "no set id": (
        [lambda: write("t.parquet", changed(GOOD, "order", 6, None))],
        ["t.parquet"],
        "--set-id order expects an id in every row; got none in t.parquet, row 7.",
    ),
    "no target": (
        [lambda: write("a.parquet", GOOD), lambda: write("b.parquet", changed(GOOD, "returned", 5, None))],
        ["a.parquet", "b.parquet"],
        f"--target expects a target for every set; got none for set {GOOD['order'][5]}, in b.parquet, row 6.",
    ),
    "target differs": (
        [lambda: write("t.csv", changed(changed(GOOD, "order", 1, 0), "returned", 1, not GOOD["returned"][0]))],
        ["t.csv"],
        f"column 'returned' expects one value per set; got {GOOD['returned'][0]} in t.csv, row 1 and "
        f"{not GOOD['returned'][0]} in t.csv, row 2, both of set 0.",
    ),
    "infinity": (
        [lambda: write("a.csv", GOOD), lambda: write("b.csv", changed(GOOD, "price", 9, float("inf")))],
        ["a.csv", "b.csv"],
        "b.csv, row 10: column 'price' is infinite.",
    ),
    "text among numbers": (
        [lambda: write("t.csv", changed({**GOOD, "price": list(map(str, GOOD["price"]))}, "price", 11, "12O"))],
        ["t.csv"],
        "t.csv, row 12: column 'price' holds numbers in",
    ),
    "ids that are structs": (
        [lambda: write("t.parquet", {**GOOD, "order": [{"a": x} for x in GOOD["order"]]})],
        ["t.parquet"],
        "t.parquet has no column 'order', which --set-id names. Did you mean 'order.a'?",
    ),
    "ids that are arrays": (
        [lambda: write("t.parquet", lists([[1.0], [2.0, 3.0]], [["a"], ["b", "c"]]) | {"order": [[1], [2]]})],
        ["t.parquet"],
        "--set-id order expects a column of numbers, text or dates; got Arrow's list<element: int64>.",
    ),
    "ids that are all missing": (
        [lambda: write("t.parquet", {**GOOD, "order": pa.nulls(len(GOOD["order"]))})],
        ["t.parquet"],
        "--set-id order expects an id in every row; got none in t.parquet, row 1.",
    ),
    "a target of lists of structs": (
        [lambda: write("t.parquet", lists([[1.0], [2.0]], [["a"], ["b"]]) | {"returned": [[{"a": 1}], []]})],
        ["t.parquet"],
        "t.parquet: the target 'returned' expects one value per set, or a list of labels that are numbers or text; got "
        "lists of Arrow's struct<a: int64>.",
    ),
    "lists out of step": (
        [lambda: write("t.parquet", lists([[1.0], [2.0, 3.0]], [["a"], ["b"]]))],
        ["t.parquet"],
        "got 2 and 1 in t.parquet, row 2.",
    ),
    "infinity in a list": (
        [lambda: write("t.parquet", lists([[1.0], [2.0, -float("inf")]], [["a"], ["b", "c"]]))],
        ["t.parquet"],
        "t.parquet, row 2: column 'price' is infinite.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLES)
def test_what_is_wrong_in_a_table(case, janossy):
    written, files, says = TABLES[case]
    for step in written:
        step()
    options = OPTIONS[2:] if "list" in case else OPTIONS
    refused(janossy("fit", *files, *options), says)


def given(*options: str) -> list[str]:
    """Returns the OPTIONS that are not given anew, and these."""
    pairs = zip(OPTIONS[::2], OPTIONS[1::2], strict=True)
    return [*(each for pair in pairs if pair[0] not in options for each in pair), *options]


def refused(run: tuple[int, str, str], says: str) -> None:
    """Checks that a command ended with exit code 2 and one line."""
    code, _, stderr = run
    assert says in stderr and stderr.count("\n") == 1 and stderr.startswith("janossy: ") and code == 2, stderr
    assert not Path("model").exists() and not list(Path().glob(".model*"))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--set-id", "ordr"), "t.csv has no column 'ordr', which --set-id names. Did you mean 'order'? It has order,"),
        (("--target", "sold"), "t.csv has no column 'sold', which --target names."),
        (("--numeric", "price,cost"), "t.csv has no column 'cost', which --numeric names."),
        (("--drop", "cost"), "no column 'cost', which --drop names"),
        (("--numeric", "item"), "t.csv, row 1: column 'item' is numeric, but here the text"),
        (("--target", "order"), "--set-id and --target both name 'order'. Leave one out."),
        (("--set-id", "order+item", "--drop", "item"), "--set-id and --drop both name 'item'."),
        (("--set-id", "order", "--set-id", "item", "--drop", "item"), "--drop and --set-id both name 'item'."),
        (
            ("--target", "total", "--target", "item"),
            "t.csv: several targets must be numbers, and 'item' holds string. --task classification takes several",
        ),
        (("--target", "total", "--target", "hour", "--ordinal"), "--ordinal expects one --target"),
        (("--target", "total", "--loss", "cox"), "--loss cox and --event COL go together"),
        (("--target", "total", "--target", "hour", "--event", "x"), "--event expects one --target, a time; got total"),
        (("--target", "total", "--target", "price"), "column 'price' expects one value per set; got"),
        (("--target", "total", "--target", "sold"), "t.csv has no column 'sold', which --target names."),
        (("--numeric", "price", "--categorical", "price"), "--numeric and --categorical both name 'price'"),
        (("--set-columns", "price"), "column 'price' expects one value per set; got"),
        (
            ("--set-columns", "item,price,hour,total"),
            "t.csv has no column of the elements: options name all of its columns, order,",
        ),
        (("--target", "item"), "column 'item' expects one value per set"),
        (("--validation", "50"), "50 folds of validation need 50 sets or more; got 40."),
        (("--validation", "1"), "--validation expects a part of the sets such as 0.2"),
        (("--validation", "half"), "--validation expects a part"),
        (("--strategy", "k2,k9"), "--strategy expects auto, or some of linear"),
        (("--strategy", "auto,k1"), "--strategy expects auto"),
        (("--time-budget", "soon"), "--time-budget expects a time such as 90s, 10m or 1h30m; got 'soon'"),
        (("--time-budget", "0"), "--time-budget expects a time"),
        (("--task", "regression", "--balanced"), "--balanced applies to classes"),
        (
            ("--target", "total", "--balanced"),
            "--balanced applies to classes, and the target 'total' is taken as numbers",
        ),
        (("--task", "ranking"), "classification"),
        (("--device", "abacus"), "--device"),
        (("--out", "t.csv"), "t.csv exists. Give another --out"),
        (("--out", "t.csv/model"), "t.csv is a file"),
        (("--out", "model.zip"), "--out is a folder"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_is_wrong_in_options(options, says, janossy):
    write("t.csv", GOOD)
    refused(janossy("fit", "t.csv", *given(*options)), says)
    assert Path("t.csv").stat().st_size > 0


def test_one_class_only(janossy):
    write("t.csv", {**GOOD, "returned": [False] * len(GOOD["order"])})
    refused(janossy("fit", "t.csv", *OPTIONS), "t.csv: the target 'returned' has one value only, False.")


def test_text_cannot_be_regressed(janossy):
    write("t.csv", {**GOOD, "returned": ["no" if returned else "yes" for returned in GOOD["returned"]]})
    refused(janossy("fit", "t.csv", *OPTIONS, "--task", "regression"), "the target 'returned' is text")


def test_fewer_sets_than_folds(janossy):
    write("t.csv", orders(3))
    refused(janossy("fit", "t.csv", *OPTIONS), "5 folds of validation need 5 sets or more; got 3.")


def test_rows_without_lists_need_a_set_id(janossy):
    write("t.csv", GOOD)
    refused(janossy("fit", "t.csv", *OPTIONS[2:]), "t.csv has no column of lists: name the column that identifies")


def test_an_infinite_target(janossy):
    write("t.parquet", {**GOOD, "total": [float("inf")] * len(GOOD["order"])})
    refused(janossy("fit", "t.parquet", *given("--target", "total")), "t.parquet, row 1: column 'total' is infinite")


def test_an_enormous_target(janossy):
    write("t.csv", {**GOOD, "total": [1e300 * total for total in GOOD["total"]]})
    says = f"t.csv: the target 'total' has values as large as {1e300 * max(GOOD['total']):.3g}. Divide them."
    refused(janossy("fit", "t.csv", *given("--target", "total", "--drop", "returned")), says)
    few = [1e300 if total > np.median(GOOD["total"]) else -1e300 for total in GOOD["total"]]  # and no classes
    write("t.csv", {**GOOD, "total": few})
    says = "t.csv: the target 'total' has values as large as 1e+300. Divide them."
    refused(janossy("fit", "t.csv", *given("--target", "total", "--drop", "returned")), says)


def test_the_command_line_knows_the_strategies():
    assert set(OF_OPTIONS) == set(NAMES)


@pytest.mark.parametrize(("text", "expected"), [("90", 90), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("0.5h", 1800)])
def test_times(text, expected):
    assert seconds("--time-budget", text) == expected
    for wrong in (f"{text}x", f"-{text}", f"{text} {text}"):
        with pytest.raises(BadArgument, match="--time-budget expects a time"):
            seconds("--time-budget", wrong)
