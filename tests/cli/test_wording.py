"""Errors of the library in the commands' words: every message in the source, and some of them through a command."""

import ast
import re
from pathlib import Path

import pytest

import janossy as package
from janossy.cli.workflow.wording import in_options
from tests.cli.commands import FIT, changed, janossy, orders, write  # noqa: F401

OF_PYTHON = re.compile(
    r"\b(Set(Classifier|Regressor|Stream|Predictor|Table)|as_sets|TableEncoder|Ragged)\b"
    r"|(?<![\w/.])[a-z]+(_[a-z]+)+\b(?!\()|\b\w+="
)
"""Words that no command has: classes, arguments, and what is set to what."""

WITHOUT_COMMAND = (
    *("> 0, or None; got", "requires y to be passed", "a SetStream names its columns itself", "accelerate launch"),
    *("save expects a SetClassifier", "build_network expects", "expects amounts among", "TableEncoder.from_state"),
    *("expects reduce as one or several of", "class_weight expects", "takes them from a table"),
    *("expects categories among", "expects scheme among", "got a SetTable of sets by one id", "got its groups"),
    *("expected an array (B, d)", "expected a list of arrays", "expected a Ragged", "while a minimum of 1"),
    *(
        "SetTable is ",
        "SetTable expects",
        "on_dask expects",
        "expected a pyarrow.Table",
        "for several columns of classes",
        "expects a network whose orderings take a seed",
        "expects a network in which only the pooling draws",
    ),
)
"""Parts of errors that no command raises: of forms that no file has, of calls that a command does not make."""


def messages():
    """Yields the messages of errors and warnings in the source; 3 in the place of what they are filled with."""
    for room in ("estimators", "tables", "batch"):
        for file in sorted((Path(package.__file__).parent / room).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                called = getattr(node, "func", None)
                name = getattr(called, "id", getattr(called, "attr", ""))
                if name in ("ValueError", "TypeError", "FloatingPointError", "NothingTrained", "warn") and node.args:
                    yield f"{file.name}, line {node.lineno}", literal(node.args[0])


def literal(node: ast.AST) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(literal, node.values))
    return "3" if isinstance(node, ast.FormattedValue) else ""


def test_no_message_has_words_of_python():
    found = [(place, in_options(text)) for place, text in messages()]
    left = [(place, text) for place, text in found if OF_PYTHON.search(text)]
    assert [each for each in left if not any(part in each[1] for part in WITHOUT_COMMAND)] == []
    assert len(found) > 150 and all(any(part in text for _, text in left) for part in WITHOUT_COMMAND)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("set_id='order' expects an id in every row.", "--set-id order expects an id in every row."),
        (
            "groups expects two groups. Leave groups out to split sets.",
            "--groups expects two groups. Leave --groups out",
        ),
        ("its part of time_budget=0.5 was over.", "its part of --time-budget 0.5 was over."),
        ("class_weight='balanced' and ordinal=True", "--balanced and --ordinal"),
        # the user's own words
        ("column 'set_id' is text in /data/set_id/t.csv", "column 'set_id' is text in /data/set_id/t.csv"),
        ("t.csv has no column 'a'; it has set_id, y, loss.", "t.csv has no column 'a'; it has set_id, y, loss."),
    ],
)
def test_arguments_are_options_and_names_stay(message, expected):
    assert in_options(message).startswith(expected)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--target", "total", "--loss", "gamma"), "--loss gamma expects numbers above 0 in --target; got"),
        (
            ("--target", "total", "--loss", "huber", "--strategy", "linear"),
            "--loss huber expects networks in --strategy, as 'linear' minimises squared errors.",
        ),
        (
            ("--target", "returned", "--ordinal", "--strategy", "trees"),
            "--ordinal expects networks in --strategy",
        ),
        (("--target", "returned", "--weight", "none"), "janossy: expected two sets or more whose weight is not zero"),
        (("--target", "returned", "--groups", "none"), "--groups expects two groups or more"),
        (("--target", "total", "--task", "classification"), "the target 'total' holds numbers such as"),
    ],
)
def test_what_a_fit_refuses(janossy, options, says):  # noqa: F811
    rows = orders()
    rows["none"] = [0.0] * len(rows["order"])
    if "gamma" in options:
        rows["total"] = [-x for x in rows["total"]]
    write("orders.parquet", {name: rows[name] for name in ("order", "item", "price", "returned", "total", "none")})
    code, _, stderr = janossy("fit", "orders.parquet", "--set-id", "order", "--drop", "", *options, "--out", "model")
    assert code == 2 and says in stderr and not OF_PYTHON.search(stderr), stderr


def test_a_warning(janossy):  # noqa: F811
    write("orders.csv", changed(orders(), "price", 0, 3.0))
    code, stdout, _ = janossy(*FIT, "--max-epochs", "200000", "--time-budget", "2s", "--out", "model")
    assert code == 0 and "part of --time-budget 2.0 was over. The best weights so far predict" in stdout
