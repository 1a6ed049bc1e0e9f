"""The command line, as a user runs it."""

import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import pytest

from studies.__main__ import main
from studies.paper import studies
from studies.paper.arithmetic.study import ARITHMETIC
from studies.paper.graphs.study import GRAPHS
from studies.runs.results import cell_path, write_json
from studies.runs.study import Study
from tests.studies.paper.graph_files import copied, unplug

COMMAND = [sys.executable, "-m", "studies"]


def command(*arguments, **options):
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=240, **options)


def here(monkeypatch, capsys, *arguments) -> tuple[int, str, str]:
    """Returns the exit code, stdout and stderr, without a process of its own."""
    monkeypatch.setattr(sys, "argv", ["studies", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        main()
    return stopped.value.code or 0, *capsys.readouterr()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("some", "num_trials"),
    [
        pytest.param((), 50, marks=pytest.mark.only_all),
        (("--tasks", "unique_sum", "--models", "k1-linear,k3-mlp,gru-linear"), 3),
        (("--tasks", "sum", "--models", "k2-linear", "--seeds", "3", "--stack", "2"), 3),
    ],
)
def test_smoke_preset_runs_everything_and_resumes_nothing(some, num_trials, tmp_path, monkeypatch, capsys):
    arguments = ("reproduce", "arithmetic", "--preset", "smoke", *some, "--out", tmp_path / "out")
    result = command(*arguments)
    assert result.returncode == 0, result.stderr
    cells, skipped = ARITHMETIC.read(tmp_path / "out")
    assert len(cells) == num_trials and skipped == []
    for name in ("report.md", "report.html"):
        assert (tmp_path / "out" / name).stat().st_size > 1000
    assert list((tmp_path / "out").glob("*.png"))
    code, _, stderr = here(monkeypatch, capsys, *arguments)
    assert code == 2 and "--resume" in stderr
    code, stdout, _ = here(monkeypatch, capsys, *arguments, "--resume")
    assert code == 0 and f"{num_trials} of {num_trials} cells are finished" in stdout.replace("\n", " ")


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
        (["reproduce", "arithmetic", "--stack", "0"], "--stack"),
        (["reproduce", "arithmetic", "--no-such"], "--no-such"),
        (["reproduce", "graphs", "--rows", "lstm-0-3"], "--rows: a row is mean, gcn, max, k2 or k3"),
        (["reproduce", "graphs", "--rows", "mean,lstm"], "got 'lstm'"),
        (["reproduce", "graphs", "--rows", ""], "--rows: a row is"),
        (["reproduce", "graphs", "--dataset", "citeseer"], "--dataset expects some of cora, pubmed, ppi, ppi-go"),
        (["reproduce", "graphs", "--preset", "slow"], "quick"),
        (["reproduce", "graphs", "--seeds", "0"], "--seeds"),
        (["reproduce", "graphs", "--workers", "0"], "--workers"),
        (["reproduce", "algebra"], "algebra"),
        (["report", "no/such/directory"], "not a directory"),
        (["foretell"], "foretell"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_arguments_give_one_line_and_exit_2(arguments, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code, _, stderr = here(monkeypatch, capsys, *arguments)
    assert code == 2
    assert stderr.count("\n") == 1 and stderr.startswith("studies: ") and says in stderr
    assert list(tmp_path.iterdir()) == []


def test_a_report_on_nothing_gives_one_line(tmp_path, monkeypatch, capsys):
    code, _, stderr = here(monkeypatch, capsys, "report", tmp_path)
    assert code == 2 and stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_graphs_smoke_preset_runs_and_resumes_nothing(tmp_path, monkeypatch, capsys):
    unplug(monkeypatch)
    out, data = tmp_path / "out", copied("cora", tmp_path / "data")
    arguments = ("reproduce", "graphs", "--preset", "smoke", "--rows", "lstm-3-3,mean", "--workers", "1")
    arguments += ("--data", data, "--out", out)
    code, stdout, stderr = here(monkeypatch, capsys, *arguments)
    assert code == 0, stderr
    assert "0 of 2 cells are finished" in stdout.replace("\n", " ")
    cells, skipped = GRAPHS.read(out)
    assert {(c["dataset"], c["row"], c["seed"]) for c in cells} == {("cora", "lstm-3-3", 0), ("cora", "mean", 0)}
    assert skipped == [] and all(c["config"]["preset"] == "smoke" for c in cells)
    for name in ("report.md", "report.html"):
        assert (out / name).stat().st_size > 1000 and f"{name}" in stdout
    written = {path: path.stat().st_mtime_ns for path in out.glob("cells/*")}
    code, _, stderr = here(monkeypatch, capsys, *arguments)
    assert code == 2 and "--resume" in stderr and stderr.count("\n") == 1
    code, stdout, stderr = here(monkeypatch, capsys, *arguments, "--resume")
    assert code == 0 and "2 of 2 cells are finished" in stdout.replace("\n", " "), stderr
    code, _, stderr = here(monkeypatch, capsys, *arguments[:2], "--rows", "mean", *arguments[6:], "--resume")
    assert code == 2 and "preset='smoke' there, 'quick' asked for" in stderr and stderr.count("\n") == 1
    code, _, stderr = here(monkeypatch, capsys, "reproduce", "arithmetic", "--out", out, "--resume")
    assert code == 2 and "another experiment" in stderr and stderr.count("\n") == 1
    assert {path: path.stat().st_mtime_ns for path in out.glob("cells/*")} == written


@pytest.mark.parametrize("dataset", ["cora", "pubmed", "ppi", "ppi-go"])
def test_graphs_without_data_give_one_line(dataset, tmp_path, monkeypatch, capsys):
    unplug(monkeypatch)
    arguments = ("reproduce", "graphs", "--dataset", dataset, "--data", tmp_path / "data", "--out", tmp_path / "out")
    code, _, stderr = here(monkeypatch, capsys, *arguments)
    assert code == 1 and stderr.count("\n") == 1 and stderr.startswith("studies: ")
    assert str(tmp_path / "data") in stderr and not (tmp_path / "out").exists()


def test_damaged_graphs_give_one_line(tmp_path, monkeypatch, capsys):
    unplug(monkeypatch)
    file = tmp_path / "ppi" / "ppi.npz"
    file.parent.mkdir()
    file.write_text("no archive")
    code, _, stderr = here(monkeypatch, capsys, "reproduce", "graphs", "--dataset", "ppi-go", "--data", tmp_path)
    assert code == 1 and stderr.count("\n") == 1 and stderr.startswith(f"studies: {file} is damaged or incomplete")


def test_an_output_that_cannot_be_written_gives_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    result = command("reproduce", "arithmetic", "--preset", "smoke", "--out", tmp_path / "file" / "out")
    assert result.returncode == 1 and result.stderr.count("\n") == 1 and "file" in result.stderr


def test_help_names_the_commands(monkeypatch, capsys):
    assert "reproduce" in here(monkeypatch, capsys, "--help")[1]


def test_ctrl_c_keeps_finished_cells_and_resume_goes_on(tmp_path):
    out = tmp_path / "out"
    arguments = ["reproduce", "arithmetic", "--preset", "smoke", "--tasks", "sum", "--models", "k1-linear,lstm-mlp"]
    arguments += ["--seeds", "4", "--workers", "1", "--stack", "1", "--out", str(out)]
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
    kept, skipped = ARITHMETIC.read(out)
    assert 1 <= len(kept) < 8 and skipped == []
    finished = {(c["model"], c["seed"]): c["finished"] for c in kept}
    assert command(*arguments, "--resume").returncode == 0
    cells, _ = ARITHMETIC.read(out)
    assert len(cells) == 8
    assert finished.items() <= {(c["model"], c["seed"]): c["finished"] for c in cells}.items()


def test_a_third_study_is_one_record(tmp_path, monkeypatch, capsys):
    @dataclass
    class Tosses:
        coin: str
        hand: str
        seed: int
        heads: float

    def write_report(directory, results, skipped):
        (directory / "report.md").write_text("\n".join([f"{len(results)} tosses", *skipped]))
        return [directory / "report.md"]

    def show(console, results):
        console.print(f"{sum(result['heads'] for result in results):g} heads")

    coins = Study("coins", ("coin", "hand", "seed"), Tosses, show, write_report)
    monkeypatch.setattr(studies, "STUDIES", (*studies.STUDIES, coins))
    for seed, heads in enumerate((3, 4.5, "five")):
        result = {"coin": "cent", "hand": "left", "seed": seed, "heads": heads}
        write_json(cell_path(tmp_path, "cent", "left", seed), result)
    code, stdout, stderr = here(monkeypatch, capsys, "report", tmp_path)
    assert (code, stderr) == (0, "") and "7.5 heads" in stdout and "report.md" in stdout
    damage = "cells/cent-left-seed2.json is left out: heads expects a number; got 'five'"
    assert damage in stdout and (tmp_path / "report.md").read_text() == f"2 tosses\n{damage}"
    code, _, stderr = here(monkeypatch, capsys, "reproduce", "arithmetic", "--out", tmp_path, "--resume")
    assert code == 2 and "another experiment" in stderr
