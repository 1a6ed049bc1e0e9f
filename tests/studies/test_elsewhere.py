"""The command line where it is not at home: other encodings, streams that are closed, packages that are not there."""

import json
import os
import subprocess
import sys

import pytest
import typer

from janossy.cli.app import app
from tests.studies.paper.test_report import cell

COMMAND = [sys.executable, "-c", "from janossy.cli import main; main()"]
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "PYTHONCOERCECLOCALE": "0"}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A folder with one small result, whose name is not UTF-8."""
    return written(tmp_path_factory.mktemp("results") / os.fsdecode(b"caf\xe9"))


def written(directory):
    (directory / "cells").mkdir(parents=True)
    (directory / "cells" / "sum-k1-mlp-seed0.json").write_text(json.dumps(cell("sum", "k1-mlp", history=[])))
    return directory


def janossy(*arguments, shell=None, **environment):
    """The exit code, stdout and stderr; ``shell`` is a line in which "$@" is the command."""
    command = [*COMMAND, *map(str, arguments)]
    run = subprocess.run(
        ["bash", "-c", shell, "bash", *command] if shell else command,
        capture_output=True,
        timeout=240,
        env=os.environ | environment,
    )
    stderr = run.stderr.decode()
    assert "Traceback" not in stderr and "Exception ignored" not in stderr, stderr
    return run.returncode, run.stdout, stderr


def test_help_in_ascii():
    code, stdout, stderr = janossy("reproduce", "graphs", "--help", **ASCII)
    assert (code, stderr) == (0, "") and b"--dataset" in stdout and stdout.isascii()

    def check(command, context=None):  # typer writes UTF-8 into such a terminal, so that every help is ASCII itself
        context = typer.Context(command, parent=context, info_name=command.name)
        assert command.get_help(context).isascii(), command.name
        for each in getattr(command, "commands", {}).values():
            check(each, context)

    check(typer.main.get_command(app))


def test_a_report_in_ascii(results):
    code, stdout, stderr = janossy("report", results, **ASCII)
    assert (code, stderr) == (0, "") and b"not enough cells" in stdout and stdout.isascii()
    code, _, stderr = janossy("report", results / "é", **ASCII)
    assert code == 2 and stderr.count("\n") == 1 and stderr.isascii() and "is not a directory" in stderr


def test_a_folder_whose_name_is_not_utf_8(results):
    code, stdout, stderr = janossy("report", results)
    assert (code, stderr) == (0, "") and b"report.html" in stdout
    for name in ("report.md", "report.html"):
        assert "caf\\udce9" in (results / name).read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_run_into_a_folder_whose_name_is_not_utf_8(tmp_path):
    out = tmp_path / os.fsdecode(b"\xff[/b]")
    arguments = ["reproduce", "arithmetic", "--preset", "smoke", "--tasks", "sum", "--models", "k1-linear", "--resume"]
    code, stdout, stderr = janossy(*arguments, "--out", out)
    assert (code, stderr) == (0, "") and b"0 of 1 cells" in stdout
    assert (out / "cells" / "sum-k1-linear-seed0.json").is_file()


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&- <&-"])
def test_a_report_with_streams_closed(closed, tmp_path):
    directory = written(tmp_path)
    code, *_ = janossy("report", directory, shell=f'"$@" {closed}')
    assert code == 0 and (directory / "report.html").stat().st_size > 1000


def test_an_error_with_standard_output_closed(tmp_path):
    code, _, stderr = janossy("report", tmp_path / "none", shell='"$@" >&-')
    assert code == 2 and stderr.count("\n") == 1 and "is not a directory" in stderr


def test_a_reader_that_leaves(results):
    code, stdout, stderr = janossy("report", results, shell='"$@" | head -1; exit ${PIPESTATUS[0]}')
    assert code in (0, 1) and stderr == "" and stdout.count(b"\n") == 1
    code, _, stderr = janossy("--version", shell='"$@" | true; exit ${PIPESTATUS[0]}')
    assert code == 1 and stderr == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["--version"], ["report"]])
def test_an_output_that_is_full(arguments, results):
    code, _, stderr = janossy(*arguments, *([results] if arguments == ["report"] else []), shell='"$@" >/dev/full')
    assert code == 1 and stderr.startswith("janossy: ") and stderr.count("\n") == 1 and "No space left" in stderr


BLOCKED = """
import os, sys
from janossy.cli import main

class Absent:
    def __init__(self, module):
        self.module = module

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == self.module:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

import torch  # once for all of them
for module in sys.argv.pop(1).split(","):
    if os.fork() == 0:
        sys.meta_path.insert(0, Absent(module))
        main()
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


@pytest.mark.parametrize(
    ("who", "extra", "modules"),
    [
        ("the command line", "cli", ["typer", "rich", "jinja2", "matplotlib"]),
        ("this command", "estimators", ["pyarrow", "sklearn", "skorch", "safetensors"]),
        ("this command", "group", ["duckdb"]),
        ("this command", "ray", ["ray"]),
    ],
    ids=["cli", "estimators", "group", "ray"],
)
def test_without_an_extra_one_line_names_it(who, extra, modules, results, tmp_path):
    (tmp_path / "table.csv").write_text("id,x,y\n1,2,3\n")
    fit = ["fit", tmp_path / "table.csv", "--set-id", "id", "--target", "y", "--out", tmp_path / "model"]
    grouped = ["group", tmp_path / "table.csv", "--set-id", "id", "--out", tmp_path / "sets.parquet"]
    predicted = ["predict", results, tmp_path / "table.csv", "--engine", "ray", "--out", tmp_path / "parts"]
    arguments = {"cli": ["report", results], "estimators": fit, "group": grouped, "ray": predicted}[extra]
    command = [sys.executable, "-c", BLOCKED, ",".join(modules), *arguments]
    run = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert run.returncode == 0 and run.stdout == "1\n" * len(modules), run.stderr
    assert run.stderr.splitlines() == [
        f"janossy: {who} needs the extra {extra}: pip install 'janossy[{extra}]' (No module named {module!r})"
        for module in modules
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]
