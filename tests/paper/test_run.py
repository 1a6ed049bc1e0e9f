"""Running cells: results on disk, resuming, and what goes wrong."""

import errno
import json
import multiprocessing
import os
import resource
import signal
from dataclasses import asdict, fields, replace

import pytest
from rich.console import Console

from janossy.paper import run
from janossy.paper.arithmetic.cell import Cell
from janossy.paper.arithmetic.models import MODELS
from janossy.paper.arithmetic.settings import Settings, settings_for
from janossy.paper.arithmetic.tasks import TASKS
from janossy.paper.results import ARITHMETIC, GRAPHS, cell_path, read_cells, write_json
from janossy.paper.run import run_cells, unfinished
from janossy.paper.workers import work

QUIET = Console(quiet=True)


def cell(task="sum", model="k1-linear", seed=0, **changes) -> Cell:
    settings = replace(settings_for(TASKS[task], MODELS[model], "smoke", "fast"), **{"num_train": 200, **changes})
    return Cell(task, model, seed, settings)


def finished(cell: Cell, directory) -> None:
    """A result as a run would leave it, without the run."""
    result = {key: [] for key in ARITHMETIC.others} | {"config": json.loads(json.dumps(asdict(cell.settings)))}
    named = {"task": cell.task, "model": cell.model, "seed": cell.seed}
    write_json(cell_path(directory, cell.task, cell.model, cell.seed), result | named)


def test_results_are_written_and_resumed(tmp_path):
    cells = [cell(), cell("range", "gru-linear"), cell(seed=1)]
    assert run_cells(cells[:2], tmp_path, 2, QUIET) == []
    results, damaged = read_cells(tmp_path, ARITHMETIC)
    assert {(r["task"], r["model"]) for r in results} == {("sum", "k1-linear"), ("range", "gru-linear")}
    assert damaged == [] and all(r["versions"]["torch"] and r["finished"] for r in results)
    assert unfinished(cells, ARITHMETIC, tmp_path, QUIET) == cells[2:]


def test_other_settings_are_not_mixed(tmp_path):
    finished(cell(), tmp_path)
    assert unfinished([cell()], ARITHMETIC, tmp_path, QUIET) == []
    with pytest.raises(ValueError, match=r"epochs=2 there, 3 asked for.*another --out"):
        unfinished([cell(epochs=3)], ARITHMETIC, tmp_path, QUIET)


def test_a_result_from_before_a_setting_has_its_default(tmp_path):
    finished(cell(), tmp_path)
    path = cell_path(tmp_path, "sum", "k1-linear", 0)
    result = json.loads(path.read_text())
    for key in ("keep", "learning_rates"):
        del result["config"][key]
    write_json(path, result)
    default = {field.name: field.default for field in fields(Settings)}
    assert (
        unfinished([cell(keep=default["keep"], learning_rates=default["learning_rates"])], ARITHMETIC, tmp_path, QUIET)
        == []
    )
    with pytest.raises(ValueError, match=f"keep='{default['keep']}' there, 'other' asked for"):
        unfinished([cell(keep="other")], ARITHMETIC, tmp_path, QUIET)


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"task": "sum"}', "\x00\x00"], ids=repr)
def test_damaged_results_are_set_aside_and_run_again(tmp_path, damage):
    cells = [cell(), cell(seed=1)]
    for each in cells:
        finished(each, tmp_path)
    path = cell_path(tmp_path, "sum", "k1-linear", 0)
    path.write_text(damage)
    assert unfinished(cells, ARITHMETIC, tmp_path, QUIET) == cells[:1]
    assert not path.exists() and path.with_suffix(".damaged").read_text() == damage


def test_results_of_another_experiment_are_left_alone(tmp_path):
    finished(cell(), tmp_path)
    with pytest.raises(ValueError, match="results of another experiment; choose another --out"):
        unfinished([], GRAPHS, tmp_path, QUIET)
    assert len(read_cells(tmp_path, ARITHMETIC)[0]) == 1
    cells, damaged = read_cells(tmp_path, GRAPHS)
    assert cells == [] and len(damaged) == 1 and "lacks dataset, row, losses" in damaged[0]


def test_a_cell_that_raises_is_reported_and_the_others_finish(tmp_path):
    bad = cell(batch_size=0)
    failures = run_cells([bad, cell(seed=1)], tmp_path, 1, QUIET)
    assert len(failures) == 1 and failures[0].startswith("sum k1-linear seed 0: ")
    assert [r["seed"] for r in read_cells(tmp_path, ARITHMETIC)[0]] == [1]


def test_a_killed_worker_loses_its_own_cell_only():
    cells = [cell(epochs=1000), cell(seed=1), cell(seed=2)]
    killed, ends = False, []
    for event in work(cells, 1):
        if event.kind == "progress" and event.cell.seed == 0 and not killed:
            (child,) = multiprocessing.active_children()
            os.kill(child.pid, signal.SIGKILL)
            killed = True
        if event.kind in ("done", "failed"):
            ends.append((event.cell.seed, event.kind))
    assert sorted(ends) == [(0, "failed"), (1, "done"), (2, "done")]
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("stop", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_when_writing_stops_finished_cells_stay_and_workers_go(tmp_path, monkeypatch, stop):
    written = []

    def write(path, data):
        if written:
            raise stop
        written.append(path)
        write_json(path, data)

    monkeypatch.setattr(run, "write_json", write)
    with pytest.raises(type(stop)):
        run_cells([cell(seed=seed) for seed in range(3)], tmp_path, 1, QUIET)
    results, damaged = read_cells(tmp_path, ARITHMETIC)
    assert len(results) == 1 and damaged == []
    assert multiprocessing.active_children() == []


def test_a_write_that_does_not_fit_leaves_the_old_file(tmp_path):
    path = tmp_path / "result.json"
    write_json(path, {"a": 1})

    def child(pipe):
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        try:
            write_json(path, {"a": "x" * 100_000})
        except OSError as error:
            pipe.send(error.errno)

    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=child, args=(there,))
    process.start()
    assert here.recv() == errno.EFBIG
    process.join()
    assert json.loads(path.read_text()) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]
