"""janossy predict --out FOLDER: parts of many files, by processes or by Ray, resumed after any end."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from janossy.batch import SetPredictor
from janossy.cli.workflow import predicting_parts as parts
from tests.batch.models import saved, table
from tests.batch.ray import ray
from tests.cli.commands import janossy, run

__all__ = ["janossy", "ray"]

NUM_PARTS = 6


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return saved("classes", tmp_path_factory.mktemp("model"))


@pytest.fixture
def sets(monkeypatch, tmp_path):
    """Gives two files of 120 sets each, in parts of three row groups of 15. BATCH cuts these too."""
    monkeypatch.setattr(parts, "PART", 40)
    monkeypatch.setattr(parts, "BATCH", 10)
    (tmp_path / "sets").mkdir()
    for name in "ab":
        parquet.write_table(table(120, seed=ord(name)), tmp_path / "sets" / f"{name}.parquet", row_group_size=15)
    return tmp_path / "sets"


def predicted(out: Path) -> pa.Table:
    return parquet.read_table(out)


def expected(model: Path) -> pa.Table:
    return SetPredictor(model)(pa.concat_tables([table(120, seed=ord(name)) for name in "ab"]))


def law_same(found: pa.Table, expected: pa.Table) -> None:
    """Checks that sets and predictions are the same, except for the rounding of float32."""
    assert found.schema == expected.schema and found["id"] == expected["id"]
    assert found["prediction"] == expected["prediction"]
    for name in ("probability_dear", "standard_error"):
        gap = abs(found[name].to_numpy() - expected[name].to_numpy())
        assert gap.max() < 1e-5, name


def whole(out: Path) -> dict[str, tuple[int, int]]:
    """Returns the file of each part, and its time of writing, which a file that is written again does not keep."""
    return {file.name: (file.stat().st_ino, file.stat().st_mtime_ns) for file in out.glob("part-*")}


def test_parts_are_what_the_predictor_gives_and_are_never_written_twice(model, sets, janossy):
    code, stdout, stderr = janossy("predict", model, sets, "--out", "out")
    assert (code, stderr) == (0, ""), stderr
    assert f"out: 240 sets in {NUM_PARTS} parts, columns id, note, prediction" in stdout
    assert sorted(whole(Path("out"))) == [f"part-{i:05}.parquet" for i in range(NUM_PARTS)]
    law_same(predicted(Path("out")), expected(model))
    before = whole(Path("out"))
    Path("out/part-00002.parquet").unlink()
    Path("out/.part-00002.parquet.0123.part").write_bytes(b"cut short")
    code, stdout, stderr = janossy("predict", model, sets, "--out", "out")
    assert (code, stderr) == (0, "") and stdout.count("wrote part") == 1
    assert f"{NUM_PARTS} parts, {NUM_PARTS - 1} of them before" in stdout
    after = whole(Path("out"))
    assert after.keys() == before.keys() and {name for name in after if after[name] != before[name]} == {
        "part-00002.parquet"
    }
    law_same(predicted(Path("out")), expected(model))
    assert not list(Path("out").glob(".*"))


def test_ids_of_several_columns_are_kept(model, sets, janossy):
    code, stdout, _ = janossy("predict", model, sets, "--set-id", "id+note", "--out", "out")
    assert code == 0 and "columns id, note, prediction" in stdout


@pytest.mark.parametrize("option", ["--decimal ,", "--sheet Orders", "--list-separator ;"])
def test_options_of_text_files_are_refused(model, sets, janossy, option):
    code, _, stderr = janossy("predict", model, sets, *option.split(), "--out", "out")
    assert code == 2 and f"{option.split()[0]} has no effect with a folder as --out, which reads Parquet" in stderr


def test_a_prediction_that_is_not_finite_stops_its_part_alone(model, sets, janossy, monkeypatch):
    predict, calls = SetPredictor.__call__, []

    def first_fails(self, table):
        calls.append(table)
        if len(calls) == 1:
            raise FloatingPointError("a prediction is not finite")
        return predict(self, table)

    monkeypatch.setattr(SetPredictor, "__call__", first_fails)
    code, _, stderr = janossy("predict", model, sets, "--out", "out")
    assert code == 1 and f"1 of {NUM_PARTS} parts failed" in stderr and "a.parquet, after row 0" in stderr
    assert len(whole(Path("out"))) == NUM_PARTS - 1


KILLED = """
import os, signal, sys
from janossy.cli.workflow import predicting_parts as parts
from janossy.cli import main

parts.PART, parts.BATCH = 40, 10
main()
"""


class Ended(BaseException):
    """The end of a process, which nothing catches."""


def test_a_run_that_ended_goes_on_where_it_was(model, sets, janossy, monkeypatch):
    """After its second part, while it writes another."""
    write = parquet.ParquetWriter.write_table

    def ends(self, *arguments, **options):
        if len(whole(Path("out"))) == 2:
            raise Ended
        return write(self, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(parquet.ParquetWriter, "write_table", ends)
        with pytest.raises(Ended):
            janossy("predict", model, sets, "--out", "out")
    before = whole(Path("out"))
    assert len(before) == 2
    assert janossy("predict", model, sets, "--out", "out")[0] == 0
    after = whole(Path("out"))
    assert before.items() <= after.items() and len(after) == NUM_PARTS
    law_same(predicted(Path("out")), expected(model))


@pytest.mark.only_all
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")
def test_a_killed_run_goes_on_where_it_was(model, sets, tmp_path):
    """After its second part, while it writes another."""
    out = tmp_path / "out"
    command = [sys.executable, "-c", KILLED, "predict", str(model), str(sets), "--out", str(out)]
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 200
    while len(whole(out)) < 2 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = whole(out)
    assert before
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert run("predict", model, sets, "--out", "out") == 0
    after = whole(out)
    assert before.items() <= after.items() and len(after) == NUM_PARTS
    law_same(predicted(out), expected(model))


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.only_all)])
def test_what_fails_is_one_line_and_the_rest_is_done(workers, model, sets, janossy):
    """A part whose set is a null; a worker that dies has its law in test_run.py, and on Ray below."""
    broken = table(30).set_column(1, "price", pa.array([*table(30)["price"].to_pylist()[:-1], None]))
    parquet.write_table(broken, sets / "c.parquet")
    code, stdout, stderr = janossy("predict", model, sets, "--out", "out", "--workers", workers)
    assert code == 1 and stderr.count("\n") == 1
    assert "1 of 7 parts failed. The same command computes the rest." in stderr
    assert "c.parquet, after row" in stderr and "column 'price' expects a list" in stderr
    assert stderr.endswith("(what was finished is kept)\n")
    assert len(whole(Path("out"))) == NUM_PARTS and stdout.count("wrote part") == NUM_PARTS
    assert not list(Path("out").glob(".*"))
    law_same(predicted(Path("out")), expected(model))


ANOTHER = "out holds predictions of another model, of other files"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("sets", "--out", "other"), 2, "is another command's"),
        (
            ("sets", "--out", "out", "--num-permutations", 3),
            2,
            ANOTHER,
        ),
        (("sets/a.parquet", "--out", "out"), 2, ANOTHER),
        (("sets", "long.parquet", "--out", "new"), 2, "long.parquet. Files of a table have columns of the same types"),
        (("long.parquet", "--out", "new"), 2, "Group rows of one set first: janossy group"),
        (("none", "--out", "new"), 2, "/none."),
        (("sets", "--out", "new.parquet", "--engine", "ray"), 2, "expect an --out that is a folder; got new.parquet"),
        (("sets", "--out", "new.txt"), 2, ", or a folder; got new.txt"),
        (("empty.parquet", "--out", "new"), 2, "there are columns but no rows"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(arguments, code, says, model, sets, janossy):
    Path("other").mkdir()
    Path("other/notes.txt").write_text("is another command's")
    parquet.write_table(table(4).drop_columns("price").append_column("price", [[1.0] * 4]), "long.parquet")
    parquet.write_table(table(4).slice(0, 0), "empty.parquet")
    Path("out").mkdir()
    Path("out/_plan.json").write_text("{}")
    found, stdout, stderr = janossy("predict", model, *arguments)
    expected = "is not a folder of janossy predict" if "other" in arguments else says
    assert (found, stdout) == (code, "") and stderr.count("\n") == 1 and expected in stderr, stderr
    assert not Path("new").exists() and not whole(Path("out"))


@dataclass(frozen=True)
class Dying:
    """A job that ends its worker, but of number 0."""

    number: int
    cost: float = 1.0

    def run(self, progress):
        if self.number:
            os.kill(os.getpid(), signal.SIGKILL)
        return "alive"


@pytest.mark.only_all
def test_a_worker_of_ray_that_dies_takes_its_job_alone(ray):
    on_ray = import_module("janossy.batch.workers_on_ray")
    events = list(on_ray.work([Dying(1), Dying(0)], 1))
    ended = {event.job.number: event for event in events if event.kind != "started"}
    assert ended[0].value == "alive"
    assert ended[1].kind == "failed" and "its worker died" in ended[1].value


def test_null_values_of_the_fit_hold_in_parts(janossy):
    """-999 is missing as in a file as --out, and columns that the model does not read stay as they are."""
    rng = np.random.default_rng(0)
    x = [[-999.0 if rng.random() < 0.1 else rng.normal() for _ in range(3)] for _ in range(60)]
    parquet.write_table(pa.table({"x": x, "y": [sum(each) > -500 for each in x]}), "t.parquet")
    fit = ("fit", "t.parquet", "--target", "y", "--strategy", "k1", "--max-epochs", 1, "--null-values=-999")
    assert janossy(*fit, "--out", "model")[0] == 0
    table = pa.table({"id": list(range(-999, -939)), "x": x})
    parquet.write_table(table, "new.parquet")
    assert janossy("predict", "model", "new.parquet", "--out", "out")[0] == 0
    assert janossy("predict", "model", "new.parquet", "--out", "out.parquet")[0] == 0
    found, expected = predicted(Path("out")), parquet.read_table("out.parquet")
    assert found["id"] == table["id"]
    name = next(name for name in expected.column_names if name.startswith("probability"))
    np.testing.assert_allclose(found[name], expected[name], atol=1e-6)
