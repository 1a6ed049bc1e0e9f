"""Damaged result files: each is named with a reason, and what stands beside it counts as if it were not there."""

import json
import os
import re
import sys
from copy import deepcopy
from io import StringIO
from itertools import count
from math import inf, nan
from pathlib import Path

import pytest
from rich.console import Console

from studies.__main__ import main
from studies.paper.arithmetic.study import ARITHMETIC
from studies.paper.graphs.study import GRAPHS
from studies.runs.results import cell_path, set_aside, write_json
from studies.runs.run import unfinished
from tests.studies.paper import test_graphs_report, test_report

RESULTS = Path(__file__).parents[3] / "docs" / "results"
STUDIES = {"arithmetic": ARITHMETIC, "graphs": GRAPHS}


def good(study, seed=0):
    """Returns a sound result with every entry that one may have."""
    if study is ARITHMETIC:
        return test_report.cell("range", "gru-mlp", seed)
    result = test_graphs_report.result("ppi-go", "lstm-3-3", seed, 0.4)
    return result | {"loss_curve": [0.3] * 20, "tuned_curve": [0.5] * 20}


def put(*path):
    """Returns a function that sets another value at a place of a result."""
    *keys, last, value = path

    def change(result):
        place = result
        for key in keys:
            place = place[key]
        place[last] = value
        return result

    return change


def without(*path):
    *keys, last = path

    def change(result):
        place = result
        for key in keys:
            place = place[key]
        del place[last]
        return result

    return change


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


# Changes of a result that make it none.
OF_BOTH = {
    **{f"no {key}": without(key) for key in ("seed", "config", "scores", "curve", "seconds", "versions")},
    **{f"seed {value!r}": put("seed", value) for value in (-1, 0.5, "0", None, True, [0], 2**63, 10**400, nan)},
    **{f"config {value!r}": put("config", value) for value in (None, [], "quick", 3)},
    **{f"scores {value!r}": put("scores", value) for value in (None, 0.5, "0.5")},
    **{f"curve {value!r}": put("curve", value) for value in (None, 0.5, "0.5", {}, [None], ["0.5"])},
    **{f"seconds {value!r}": put("seconds", value) for value in (None, "31", [31], True, -1, nan, inf, 1e308)},
    **{f"versions {value!r}": put("versions", value) for value in (None, [], "0.1.0")},
    **{f"preset {value!r}": put("config", "preset", value) for value in (None, 3, "slow; rm", ["quick"])},
    **{f"parameters {value!r}": put("num_trainable_parameters", value) for value in (None, "31", 0, 31.5)},
    "no preset": without("config", "preset"),
    "finished 3": put("finished", 3),
    "deep versions": put("versions", "deep", nested(20)),
    "deep config": put("config", "deep", nested(500)),
}
OF_ARITHMETIC = {
    **{f"no {key}": without(key) for key in ("task", "model", "history")},
    **{f"task {value!r}": put("task", value) for value in ("product", "", None, 3, ["sum"], {"sum": 1})},
    **{f"model {value!r}": put("model", value) for value in ("k4-linear", "gru", None, ["gru-mlp"])},
    **{f"accuracy {value!r}": put("scores", 0, "accuracy", value) for value in (7, -0.5, "1", [1], True, inf, 10**400)},
    **{f"rmse {value!r}": put("scores", 1, "rmse", value) for value in (-1.0, -inf, "1", {}, False)},
    **{f"mae {value!r}": put("curve", 3, "mae", value) for value in (-0.1, "0")},
    **{f"permutations {value!r}": put("curve", 3, "num_permutations", value) for value in (None, 0, "3", 1.5)},
    **{f"of score {value!r}": put("scores", 0, "num_permutations", value) for value in (0, "1", [1])},
    **{f"epoch {value!r}": put("history", 0, "epoch", value) for value in (None, "1", 0, -3)},
    **{f"history {value!r}": put("history", value) for value in (None, {}, [[]], ["accuracy"])},
    **{f"num_test {value!r}": put("config", "num_test", value) for value in (0, None, "500", 10**400)},
    **{f"epochs {value!r}": put("config", "epochs", value) for value in (None, "3", [3])},
    **{f"rates {value!r}": put("config", "learning_rates", value) for value in (0.01, None, ["0.01"], {})},
    **{f"betas {value!r}": put("config", "betas", value) for value in ([0.9], [0.9, 0.9, 0.9], [0.9, None])},
    "no accuracy": without("scores", 0, "accuracy"),
    "no rmse": without("history", 2, "rmse"),
    "standardise 1": put("config", "standardise", 1),
    "a config of graphs": put("config", test_graphs_report.result("cora", "mean", 0, 0.5)["config"]),
}
OF_GRAPHS = {
    **{f"no {key}": without(key) for key in ("dataset", "row", "losses")},
    **{f"dataset {value!r}": put("dataset", value) for value in ("citeseer", None, 3, ["cora"])},
    **{f"row {value!r}": put("row", value) for value in ("lstm", "../cora", "lstm-3-3\n", None, {"mean": 1})},
    **{f"test {value!r}": put("scores", "test", value) for value in (None, "0.5", 7, -0.1, nan, inf, True, [0.5])},
    **{f"at 4 {value!r}": put("curve", 4, value) for value in (None, "0.5", 7, -0.1, nan, inf, [0.5], 10**400)},
    **{f"tuned {value!r}": put("tuned_curve", value) for value in (None, [], [2], 0.5)},
    **{f"loss {value!r}": put("loss_curve", value) for value in (None, [], [nan], [-1], [1e308])},
    **{f"losses {value!r}": put("losses", value) for value in (None, {}, ["0.5"], [[0.5]])},
    **{f"speed {value!r}": put("vertices_per_second", value) for value in (None, "fast", -1, nan, inf)},
    **{f"k_1 {value!r}": put("config", "k_1", value) for value in ("3", 3.5, [3], True)},
    "no test": without("scores", "test"),
    "no curve": put("curve", []),
    "a config of arithmetic": put("config", test_report.cell("sum", "k1-mlp")["config"]),
}
CHANGES = {"arithmetic": OF_BOTH | OF_ARITHMETIC, "graphs": OF_BOTH | OF_GRAPHS}


def a_link(path):
    path.symlink_to(path.parent / "nowhere")


def a_folder(path):
    path.mkdir()
    (path / "within").write_text("")


# What else may stand where a result should.
FILES = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.with_suffix(".sound").read_bytes()[:200]),
    "NUL": lambda path: path.write_bytes(b"\0" * 100),
    "not UTF-8": lambda path: path.write_bytes(path.with_suffix(".sound").read_bytes().replace(b"quick", b"qu\xffck")),
    "UTF-16": lambda path: path.write_text("{}", encoding="utf-16"),
    "a list": lambda path: path.write_text("[]"),
    "a string": lambda path: path.write_text('"scores"'),
    "null": lambda path: path.write_text("null"),
    "a number": lambda path: path.write_text("1e999"),
    "5000 digits": lambda path: path.write_text("1" * 5000),
    "100,000 brackets": lambda path: path.write_text("[" * 100_000 + "]" * 100_000),
    "100,000 objects": lambda path: path.write_text('{"a":' * 100_000 + "1" + "}" * 100_000),
    "a folder": a_folder,
    "a link to nowhere": a_link,
    "a pipe": os.mkfifo,
}


def damage_all(study, directory, first=1):
    """Returns every kind of damage, each in the file of a seed of its own; their paths."""
    paths = []
    for seed, change in zip(count(first), CHANGES[study.name].values(), strict=False):
        result = good(study, seed)
        path = cell_path(directory, *study.place(result))
        write_json(path, change(deepcopy(result)))
        paths.append(path)
    for seed, make in zip(count(first + len(paths)), FILES.values(), strict=False):
        result = good(study, seed)
        path = cell_path(directory, *study.place(result))
        write_json(path.with_suffix(".sound"), result | {"config": result["config"] | {"preset": "quick"}})
        make(path)
        paths.append(path)
    for name in ("copy.json", "a copy (2).json", "line\nbreak.json", os.fsdecode(b"\xff.json"), ".hidden.json"):
        path = directory / "cells" / name
        write_json(path, good(study))
        paths.append(path)
    return paths


def command(monkeypatch, capsys, *arguments):
    """Returns the exit code, stdout and stderr of the command line, whose exceptions are ours."""
    monkeypatch.setattr(sys, "argv", ["studies", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        main()
    return stopped.value.code or 0, *capsys.readouterr()


@pytest.mark.parametrize("name", STUDIES)
def test_each_kind_of_damage_leaves_its_file_out(name, tmp_path):
    study = STUDIES[name]
    assert len(CHANGES[name]) + len(FILES) >= 60
    write_json(cell_path(tmp_path, *study.place(good(study))), good(study))
    paths = damage_all(study, tmp_path)
    results, skipped = study.read(tmp_path)
    assert results == [json.loads(json.dumps(good(study)))]
    assert {each.path for each in skipped} == set(paths)
    for each in skipped:
        assert str(each).isprintable() and len(str(each)) < 300, each
        assert " is left out: " in str(each) and each.reason.strip() == each.reason != ""


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (put("scores", 0, "accuracy", 7), "scores[0].accuracy expects 0 to 1; got 7"),
        (put("scores", 0, "accuracy", "high"), "scores[0].accuracy expects a number or null; got 'high'"),
        (put("scores", None), "scores expects a list; got None"),
        (put("seed", -1), "seed expects 0 or more; got -1"),
        (put("task", "product"), "task expects one of sum, range, unique_sum, unique_count, variance; got 'product'"),
        (without("config", "epochs"), "config lacks epochs"),
        (put("seed", 2), "it holds the result of range-gru-mlp-seed2.json, and is not counted"),
    ],
)
def test_the_reason_says_what_was_expected_and_what_came(change, says, tmp_path):
    write_json(cell_path(tmp_path, "range", "gru-mlp", 0), change(good(ARITHMETIC)))
    _, (skipped,) = ARITHMETIC.read(tmp_path)
    assert str(skipped) == f"cells/range-gru-mlp-seed0.json is left out: {says}"


@pytest.mark.parametrize("name", STUDIES)
def test_a_report_beside_damage_is_that_of_the_sound_results(name, tmp_path, monkeypatch, capsys):
    study = STUDIES[name]
    monkeypatch.chdir(tmp_path)
    for seed in (0, 900):
        write_json(cell_path(Path("out"), *study.place(good(study, seed))), good(study, seed))
    code, before, stderr = command(monkeypatch, capsys, "report", "out")
    assert (code, stderr) == (0, "")
    pages = [Path("out", page).read_text("utf-8") for page in ("report.md", "report.html")]
    paths = damage_all(study, Path("out"))
    there = {path: path.lstat().st_mtime_ns for path in Path("out/cells").iterdir()}
    code, after, stderr = command(monkeypatch, capsys, "report", "out")
    assert (code, stderr) == (0, "")
    _, skipped = study.read(Path("out"))
    assert len(skipped) == len(paths)
    for each in skipped:
        assert str(each) in after.splitlines()
    assert after.splitlines()[len(paths) :] == before.splitlines()
    for page, old in zip(("report.md", "report.html"), pages, strict=True):
        new = Path("out", page).read_text("utf-8")
        lines = re.findall(r"^(?:- |<li>)cells/.*\n", new, re.M)
        assert len(lines) == len(paths)
        assert re.sub(r"^(?:- |<li>)cells/.*\n", "", new, flags=re.M) == old
    assert {path: path.lstat().st_mtime_ns for path in Path("out/cells").iterdir()} == there


@pytest.mark.parametrize("name", STUDIES)
def test_nothing_but_damage_is_one_line(name, tmp_path, monkeypatch, capsys):
    paths = damage_all(STUDIES[name], tmp_path)
    code, stdout, stderr = command(monkeypatch, capsys, "report", tmp_path)
    if name == "graphs":  # copies alone count as nothing either
        assert not STUDIES[name].read(tmp_path)[0]
    assert code == 2 and stderr.count("\n") == 1 and "holds no finished cell" in stderr
    assert stdout.count(" is left out: ") == len(paths)
    assert list(tmp_path.iterdir()) == [tmp_path / "cells"]


VALUES = ["text", "", [1], [], {}, True, None, -1, 0, 7, 0.5, 10**400, nan, inf, -inf, 1e308, 2**62, nested(3)]


def places(value, path=()):
    """Yields every place within a value."""
    children = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from places(child, (*path, key))


@pytest.mark.parametrize("name", STUDIES)
def test_whatever_is_read_can_be_shown(name, tmp_path, monkeypatch, capsys):
    """Every value at every place: the file is left out, or the report with it is written."""
    study = STUDIES[name]
    seeds = count()
    (tmp_path / "cells").mkdir()
    for path in places(good(study)):
        # Graphs whose settings differ stand in columns of their own: few of these.
        for value in VALUES[-5:] if path[0] == "config" else VALUES:
            result = good(study, next(seeds))
            file = cell_path(tmp_path, *study.place(result))
            file.write_text(json.dumps(put(*path, value)(deepcopy(result))), encoding="utf-8")
    results, skipped = study.read(tmp_path)
    assert len(results) > 50 and len(skipped) > 300
    code, stdout, stderr = command(monkeypatch, capsys, "report", tmp_path)
    assert (code, stderr) == (0, "")
    assert stdout.count(" is left out: ") == len(skipped)


@pytest.mark.parametrize("name", STUDIES)
def test_resuming_sets_all_aside_however_often(name, tmp_path):
    study, console = STUDIES[name], Console(width=80, record=True, file=StringIO())
    sound = cell_path(tmp_path, *study.place(good(study)))
    write_json(sound, good(study))
    for _ in range(2):
        paths = damage_all(study, tmp_path)
        assert unfinished([], study, [], tmp_path, console) == []
        assert [*(tmp_path / "cells").glob("*.json")] == [sound]
    assert console.export_text().count("; set aside as ") == 2 * len(paths)
    assert len([*(tmp_path / "cells").glob("*.damaged")]) == 2 * len(paths)


def test_setting_aside_finds_a_free_name(tmp_path):
    path = tmp_path / "sum-k1-linear-seed0.json"
    for make in (a_folder, a_folder, a_link, FILES["empty"], a_folder):
        make(path)
        set_aside(path)
    names = sorted(each.name for each in tmp_path.iterdir())
    assert names == [
        "sum-k1-linear-seed0.2.damaged",
        "sum-k1-linear-seed0.3.damaged",
        "sum-k1-linear-seed0.4.damaged",
        "sum-k1-linear-seed0.5.damaged",
        "sum-k1-linear-seed0.damaged",
    ]


@pytest.mark.parametrize(("folder", "study"), [("arithmetic-quick", ARITHMETIC), ("graphs", GRAPHS)])
def test_the_committed_results_all_read(folder, study):
    results, skipped = study.read(RESULTS / folder)
    assert skipped == [] and len(results) == len(list((RESULTS / folder / "cells").iterdir())) >= 50
