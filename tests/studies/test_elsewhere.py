"""The studies' commands in other encodings, with closed streams and full disks."""

import json
import os
import subprocess
import sys

import pytest

from tests.studies.paper.test_report import cell

COMMAND = [sys.executable, "-m", "studies"]
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "PYTHONCOERCECLOCALE": "0"}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Gives a folder with one small result, whose name is not UTF-8."""
    return written(tmp_path_factory.mktemp("results") / os.fsdecode(b"caf\xe9"))


def written(directory):
    (directory / "cells").mkdir(parents=True)
    (directory / "cells" / "sum-k1-mlp-seed0.json").write_text(json.dumps(cell("sum", "k1-mlp", history=[])))
    return directory


def studies(*arguments, shell=None, **environment):
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


def test_a_report_in_ascii(results):
    code, stdout, stderr = studies("report", results, **ASCII)
    assert (code, stderr) == (0, "") and b"not enough cells" in stdout and stdout.isascii()
    code, _, stderr = studies("report", results / "é", **ASCII)
    assert code == 2 and stderr.count("\n") == 1 and stderr.isascii() and "is not a directory" in stderr


def test_a_folder_whose_name_is_not_utf_8(results):
    code, stdout, stderr = studies("report", results)
    assert (code, stderr) == (0, "") and b"report.html" in stdout
    for name in ("report.md", "report.html"):
        assert "caf\\udce9" in (results / name).read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_run_into_a_folder_whose_name_is_not_utf_8(tmp_path):
    out = tmp_path / os.fsdecode(b"\xff[/b]")
    arguments = ["reproduce", "arithmetic", "--preset", "smoke", "--tasks", "sum", "--models", "k1-linear", "--resume"]
    code, stdout, stderr = studies(*arguments, "--out", out)
    assert (code, stderr) == (0, "") and b"0 of 1 cells" in stdout
    assert (out / "cells" / "sum-k1-linear-seed0.json").is_file()


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&- <&-"])
def test_a_report_with_streams_closed(closed, tmp_path):
    directory = written(tmp_path)
    code, *_ = studies("report", directory, shell=f'"$@" {closed}')
    assert code == 0 and (directory / "report.html").stat().st_size > 1000


def test_an_error_with_standard_output_closed(tmp_path):
    code, _, stderr = studies("report", tmp_path / "none", shell='"$@" >&-')
    assert code == 2 and stderr.count("\n") == 1 and "is not a directory" in stderr


def test_a_reader_that_leaves(results):
    code, stdout, stderr = studies("report", results, shell='"$@" | head -1; exit ${PIPESTATUS[0]}')
    assert code in (0, 1) and stderr == "" and stdout.count(b"\n") == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["--help"], ["report"]])
def test_an_output_that_is_full(arguments, results):
    code, _, stderr = studies(*arguments, *([results] if arguments == ["report"] else []), shell='"$@" >/dev/full')
    assert code == 1 and stderr.startswith("studies: ") and stderr.count("\n") == 1 and "No space left" in stderr
