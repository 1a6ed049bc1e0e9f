"""The command line where it is not at home: other encodings, streams that are closed, packages that are not there."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import typer

from janossy.cli.app import app
from janossy.estimators import SetClassifier, save

COMMAND = [sys.executable, "-m", "janossy"]
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "PYTHONCOERCECLOCALE": "0"}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Gives a small model, in a folder whose name is not UTF-8."""
    random = np.random.default_rng(0)
    sets = [random.normal(size=(n, 1)) for n in random.integers(1, 4, 40)]
    fitted = SetClassifier("k1", max_epochs=1, validation=0.2, random_state=0).fit(sets, [len(x) > 1 for x in sets])
    return save(fitted, tmp_path_factory.mktemp("models") / os.fsdecode(b"caf\xe9"))


def janossy(*arguments, shell=None, **environment):
    """Returns the exit code, stdout and stderr; ``shell`` is a line in which "$@" is the command."""
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
    code, stdout, stderr = janossy("fit", "--help", **ASCII)
    assert (code, stderr) == (0, "") and b"--target" in stdout and stdout.isascii()

    def check(command, context=None):  # typer writes UTF-8 into such a terminal, so that every help is ASCII itself
        context = typer.Context(command, parent=context, info_name=command.name)
        assert command.get_help(context).isascii(), command.name
        for each in getattr(command, "commands", {}).values():
            check(each, context)

    check(typer.main.get_command(app))


def test_an_error_with_standard_output_closed(tmp_path):
    code, _, stderr = janossy("inspect", tmp_path / "none", shell='"$@" >&-')
    assert code == 2 and stderr.count("\n") == 1 and "none" in stderr


def test_a_reader_that_leaves(model):
    code, stdout, stderr = janossy("inspect", model, shell='"$@" | head -1; exit ${PIPESTATUS[0]}')
    assert code in (0, 1) and stderr == "" and stdout.count(b"\n") == 1
    code, _, stderr = janossy("--version", shell='"$@" | true; exit ${PIPESTATUS[0]}')
    assert code == 1 and stderr == ""


def test_a_model_whose_name_is_not_utf_8(model):
    code, stdout, stderr = janossy("inspect", model, **ASCII)
    assert (code, stderr) == (0, "") and stdout.isascii() and b"k1" in stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["--version"], ["inspect"]])
def test_an_output_that_is_full(arguments, model):
    code, _, stderr = janossy(*arguments, *([model] if arguments == ["inspect"] else []), shell='"$@" >/dev/full')
    assert code == 1 and stderr.startswith("janossy: ") and stderr.count("\n") == 1 and "No space left" in stderr


BLOCKED = """
import json, os, sys
from janossy.cli import main

class Absent:
    def __init__(self, module):
        self.module = module

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == self.module:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

import torch  # once for all of them
for module, arguments in json.loads(sys.argv[1]):
    if os.fork() == 0:
        sys.meta_path.insert(0, Absent(module))
        sys.argv[1:] = arguments
        main()
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""
FIT = ("fit", "table.csv", "--set-id", "id", "--target", "y", "--out", "model")
GROUP = ("group", "table.csv", "--set-id", "id", "--out", "sets.parquet")
BY_RAY = ("predict", ".", "table.csv", "--engine", "ray", "--out", "parts")
LACKING = [("cli", "duckdb", GROUP), ("estimators", "sklearn", FIT)]
MORE = [("cli", module, FIT) for module in ("typer", "rich", "jinja2", "matplotlib", "duckdb")]
MORE += [("estimators", module, FIT) for module in ("pyarrow", "safetensors", "msgspec")]
MORE += [("ray", "ray", BY_RAY)]


@pytest.mark.parametrize("lacking", [LACKING, pytest.param(MORE, marks=pytest.mark.only_all)], ids=["some", "more"])
def test_without_an_extra_one_line_names_it(lacking, tmp_path):
    (tmp_path / "table.csv").write_text("id,x,y\n1,2,3\n")
    told = json.dumps([(module, arguments) for _, module, arguments in lacking])
    run = subprocess.run(
        [sys.executable, "-c", BLOCKED, told], cwd=tmp_path, capture_output=True, text=True, timeout=240
    )
    assert run.returncode == 0 and run.stdout == "1\n" * len(lacking), run.stderr
    assert run.stderr.splitlines() == [
        f"janossy: {'the command line' if extra == 'cli' else 'this command'} needs the extra {extra}: "
        f"pip install 'janossy[{extra}]' (No module named {module!r})"
        for extra, module, _ in lacking
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]
