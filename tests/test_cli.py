"""The command line, as a user runs it."""

import signal
import subprocess
import sys
import time

import pytest

from janossy.cli import main
from janossy.paper.results import read_cells

COMMAND = [sys.executable, "-c", "from janossy.cli import main; main()"]


def janossy(*arguments, **options):
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=240, **options)


@pytest.mark.slow
def test_smoke_preset_runs_everything_and_resumes_nothing(tmp_path):
    arguments = ("reproduce", "arithmetic", "--preset", "smoke", "--out", tmp_path / "out")
    result = janossy(*arguments)
    assert result.returncode == 0, result.stderr
    cells, damaged = read_cells(tmp_path / "out")
    assert len(cells) == 50 and damaged == []
    for name in ("report.md", "report.html"):
        assert (tmp_path / "out" / name).stat().st_size > 1000
    assert list((tmp_path / "out").glob("*.png"))
    again = janossy(*arguments)
    assert again.returncode == 2 and "--resume" in again.stderr
    resumed = janossy(*arguments, "--resume")
    assert resumed.returncode == 0 and "50 of 50 cells are finished" in resumed.stdout.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["reproduce", "arithmetic", "--tasks", "sum,product"], "--tasks expects some of sum, range"),
        (["reproduce", "arithmetic", "--models", ""], "--models expects some of k1-linear"),
        (["reproduce", "arithmetic", "--preset", "quickest"], "smoke"),
        (["reproduce", "arithmetic", "--protocol", "mine"], "released"),
        (["reproduce", "arithmetic", "--epochs", "0"], "--epochs"),
        (["reproduce", "arithmetic", "--seeds", "many"], "--seeds"),
        (["reproduce", "arithmetic", "--workers", "0"], "--workers"),
        (["reproduce", "arithmetic", "--no-such"], "--no-such"),
        (["reproduce", "algebra"], "algebra"),
        (["report", "no/such/directory"], "not a directory"),
        (["predict"], "predict"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_arguments_give_one_line_and_exit_2(arguments, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["janossy", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    stderr = capsys.readouterr().err
    assert stopped.value.code == 2
    assert stderr.count("\n") == 1 and stderr.startswith("janossy: ") and says in stderr
    assert list(tmp_path.iterdir()) == []


def test_a_report_on_nothing_gives_one_line(tmp_path):
    result = janossy("report", tmp_path)
    assert result.returncode == 2 and result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_cannot_be_written_gives_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    result = janossy("reproduce", "arithmetic", "--preset", "smoke", "--out", tmp_path / "file" / "out")
    assert result.returncode == 1 and result.stderr.count("\n") == 1 and "file" in result.stderr


def test_version_and_help():
    assert janossy("--version").stdout.startswith("janossy ")
    assert "reproduce" in janossy("--help").stdout


def test_ctrl_c_keeps_finished_cells_and_resume_goes_on(tmp_path):
    out = tmp_path / "out"
    arguments = ["reproduce", "arithmetic", "--preset", "smoke", "--tasks", "sum", "--models", "k1-linear,k2-linear"]
    arguments += ["--seeds", "4", "--workers", "1", "--out", str(out)]
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A background job ignores Ctrl-C, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 120
    while not list(out.glob("cells/*.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Stopped." in stdout and "Traceback" not in stdout + stderr
    kept, damaged = read_cells(out)
    assert 1 <= len(kept) < 8 and damaged == []
    finished = {(c["model"], c["seed"]): c["finished"] for c in kept}
    assert janossy(*arguments, "--resume").returncode == 0
    cells, _ = read_cells(out)
    assert len(cells) == 8
    assert finished.items() <= {(c["model"], c["seed"]): c["finished"] for c in cells}.items()
