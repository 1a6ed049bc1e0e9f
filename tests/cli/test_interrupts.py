"""Ctrl-C ends a fit with the best so far, or with nothing; a second ends it at once. Nothing is half-written."""

import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from janossy.cli.workflow import fitting
from janossy.cli.workflow.delimited import CsvFile
from janossy.cli.workflow.display import FitDisplay
from janossy.cli.workflow.grouping import group
from janossy.estimators import SetClassifier
from janossy.estimators.interrupts import Interrupts
from janossy.estimators.training import Training
from tests.cli.commands import FIT, janossy, orders, run, write

__all__ = ["janossy"]

PLACES = {
    "reading": ("janossy.cli.workflow.fitting", "sets_to_fit"),
    "estimates of cost": ("janossy.estimators.trainer", "seconds_an_epoch"),
    "the first batch": (Training, "step"),
    "between candidates": (FitDisplay, "_tried"),
    "calibration": ("janossy.estimators.classifier", "temperature"),
    "judging": ("janossy.cli.workflow.fitting", "evaluate"),
    "saving": ("janossy.cli.workflow.fitting", "save"),
    "report": ("janossy.cli.workflow.report", "report"),
}
COMMAND = "from janossy.cli import main; main()"
QUICK = ("--strategy", "k1,max", "--validation", "0.3")
WHOLE = ["fit.json", "model.json", "model.safetensors", "report.html"]


@pytest.mark.parametrize(
    ("place", "times", "written"),
    [
        ("reading", 1, []),
        ("the first batch", 1, WHOLE),
        ("between candidates", 2, []),
        ("saving", 2, []),
        ("report", 1, WHOLE),
        *(
            pytest.param(*case, marks=pytest.mark.only_all)
            for case in (
                ("estimates of cost", 1, []),
                ("the first batch", 2, []),
                ("between candidates", 1, WHOLE),
                ("calibration", 1, WHOLE),
                ("calibration", 2, []),
                ("judging", 2, []),
                ("report", 2, WHOLE[:3]),
            )
        ),
    ],
)
def test_ctrl_c(place, times, written, janossy, monkeypatch):
    owner, name = PLACES[place]
    with monkeypatch.context() as patch:
        owner = __import__(owner, fromlist=["name"]) if isinstance(owner, str) else owner
        real, count = getattr(owner, name), [0]

        def interrupted(*arguments, **settings):
            while count[0] < times:
                count[0] += 1
                signal.raise_signal(signal.SIGINT)
            return real(*arguments, **settings)

        patch.setattr(owner, name, interrupted)
        write("orders.csv", orders())
        code, stdout, stderr = janossy(*FIT, *QUICK, "--out", "model")
    assert (code, stderr) == (130, "") and count == [times]
    assert sorted(path.name for path in Path().iterdir()) == [*(["model"] if written else []), "orders.csv"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not written:
        return
    assert sorted(path.name for path in Path("model").iterdir()) == written
    assert run("predict", "model", "orders.csv", "--out", "out.csv") == 0
    if times == 1:
        assert "this is the best so far" in stdout
        page = Path("model/report.html").read_text(encoding="utf-8")
        assert place == "report" or "by Ctrl-C, with the best so far" in page
        assert ("max" in stdout) == (place not in ("between candidates", "the first batch"))
        assert "max" in stdout or "more time changes nothing" not in stdout


@pytest.fixture
def default_sigterm():
    """Resets SIGTERM to that of a new process, because Ray leaves a handler of its own after another test."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("default_sigterm")
@pytest.mark.parametrize(
    ("place", "written"),
    [pytest.param("reading", [], marks=pytest.mark.only_all), ("the first batch", WHOLE), ("calibration", WHOLE)],
)
def test_sigterm_ends_a_fit_as_ctrl_c_does(place, written, janossy, monkeypatch):
    """With the best so far, what batch systems expect as exit code, and nothing half-written."""
    owner, name = PLACES[place]
    owner = __import__(owner, fromlist=["name"]) if isinstance(owner, str) else owner
    real, count = getattr(owner, name), [0]

    def ended(*arguments, **settings):
        count[0] += 1
        if count[0] == 1:
            signal.raise_signal(signal.SIGTERM)
        return real(*arguments, **settings)

    monkeypatch.setattr(owner, name, ended)
    write("orders.csv", orders())
    code, _, stderr = janossy(*FIT, *QUICK, "--out", "model")
    assert (code, stderr) == (143, "") and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert sorted(path.name for path in Path().iterdir()) == [*(["model"] if written else []), "orders.csv"]
    if written:
        assert sorted(path.name for path in Path("model").iterdir()) == written
        assert "by SIGTERM, with the best so far" in Path("model/report.html").read_text(encoding="utf-8")


@pytest.mark.only_all  # test_ctrl_c and test_sigterm_ends_a_fit_as_ctrl_c_does raise signals at each stage of a fit
def test_a_signal_at_any_moment_leaves_a_whole_model_or_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("orders.csv", orders())
    endless = ("--strategy", "k1,max", "--max-epochs", "100000", "--time-budget", "20s")
    command = [sys.executable, "-c", COMMAND, *FIT, *endless, "--out", "model"]
    random = np.random.default_rng(0)
    for _ in range(20):
        number = [signal.SIGINT, signal.SIGTERM][int(random.integers(2))]
        started = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        time.sleep(random.uniform(0.5, 9.0))
        started.send_signal(number)
        code = started.wait(60)
        left = sorted(path.name for path in Path().iterdir())
        assert code in (128 + number, -number)  # before our own handlers are there, the system's end it
        assert left in (["orders.csv"], ["model", "orders.csv"])
        if left != ["orders.csv"]:
            assert code == 128 + number and sorted(path.name for path in Path("model").iterdir()) == WHOLE
            shutil.rmtree("model")


INTERRUPTED_AS_IT_LOADS = """
import signal, sys
from janossy.cli import main

class Interrupting:
    def __init__(self, module):
        self.module = module

    def find_spec(self, name, path=None, target=None):
        if name == self.module:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupting("janossy.cli.workflow." + sys.argv.pop(1)))
main()
"""


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("fitting", (*FIT, "--out", "model")),
        *(
            pytest.param(*case, marks=pytest.mark.only_all)
            for case in (
                ("grouping", ("group", "orders.csv", "--set-id", "order", "--out", "sets.parquet")),
                ("inspecting", ("inspect", "model")),
                ("predicting", ("predict", "model", "orders.csv", "--out", "out.csv")),
                ("predicting_parts", ("predict", "model", "orders.csv", "--out", "out")),
            )
        ),
    ],
)
def test_ctrl_c_while_modules_load_is_left_to_the_system(module, command, tmp_path):
    """A KeyboardInterrupt there would abort some of torch's."""
    (tmp_path / "orders.csv").write_text("order,item,returned\n1,a,0\n")
    if "fit" not in command:
        (tmp_path / "model").mkdir()
        (tmp_path / "model/model.json").write_text("{}")
    before = sorted(tmp_path.iterdir())
    program = [sys.executable, "-c", INTERRUPTED_AS_IT_LOADS, module, *command]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")
    assert sorted(tmp_path.iterdir()) == before


def test_what_is_told_may_interrupt(janossy, monkeypatch):
    """A user's own progress function may do so: in training, and after a candidate."""
    write("orders.csv", orders())
    show = FitDisplay.__call__
    for after in (False, True):

        def interrupted(self, progress, after=after):
            show(self, progress)
            if progress.epoch.number == 1 + after and (progress.trial is not None) == after:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(FitDisplay, "__call__", interrupted)
            code, stdout, stderr = janossy(*FIT, *QUICK, "--out", f"model{after}")
        assert (code, stderr) == (130, "") and "this is the best so far" in stdout
        assert run("predict", f"model{after}", "orders.csv", "--out", f"{after}.csv") == 0


def test_an_interrupt_before_anything_was_trained_leaves_nothing(janossy, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    write("orders.csv", orders())
    monkeypatch.setattr(SetClassifier, "fit", interrupted)
    code, _, stderr = janossy(*FIT, "--out", "model")
    assert (code, stderr) == (130, "") and [path.name for path in Path().iterdir()] == ["orders.csv"]


@pytest.mark.parametrize("name", ["read", "group"])
def test_a_signal_while_duckdb_reads_is_a_keyboard_interrupt(name, tmp_path, request):
    """DuckDB and Arrow turn some into errors of their own: 36 of 229 did before they were turned back."""
    file, out = tmp_path / "orders.csv", tmp_path / "sets.parquet"
    file.write_text("order,item\n" + "".join(f"{row // 3},{row % 7}\n" for row in range(600)))

    def read():
        with CsvFile(file) as opened:
            opened.table()

    def interrupt(number, frame):
        raise KeyboardInterrupt

    work = {"read": read, "group": lambda: group([str(file)], ["order"], [], out)}[name]
    work()
    start = time.monotonic()
    work()
    seconds = time.monotonic() - start
    random, ended = np.random.default_rng(0), []
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(60 if request.config.option.all else 15):
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, seconds))
                work()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt as error:
                ended.append(error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert ended and [path.name for path in tmp_path.iterdir() if path != out] == ["orders.csv"]


def test_an_error_after_a_signal_is_the_signal(janossy, monkeypatch):
    """A library may catch the KeyboardInterrupt, or make another error of it."""
    write("orders.csv", orders())
    real = fitting.sets_to_fit
    for error in (RuntimeError("interrupted"), None):

        def interrupted(*arguments, error=error, **options):
            with suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            if error is not None:
                raise error
            return real(*arguments, **options)

        monkeypatch.setattr(fitting, "sets_to_fit", interrupted)
        assert janossy(*FIT, "--out", "model")[::2] == (130, "")
        assert [path.name for path in Path().iterdir()] == ["orders.csv"]


def test_interrupts_within_interrupts():
    with Interrupts() as outer:
        signal.raise_signal(signal.SIGINT)
        with Interrupts() as inner:
            assert inner.came and not inner.insisted
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                inner.check()
        assert outer.insisted
    with Interrupts() as outer:
        with Interrupts():
            signal.raise_signal(signal.SIGINT)
        assert outer.came and not outer.insisted
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_signal_that_somebody_else_hears_is_left_to_them():
    heard = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        with Interrupts() as interrupts:
            signal.raise_signal(signal.SIGINT)
        assert heard == [signal.SIGINT] and not interrupts.came
    finally:
        signal.signal(signal.SIGINT, before)
