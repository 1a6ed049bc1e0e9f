"""Running trials: results on disk, resuming, and what goes wrong."""

import errno
import json
import multiprocessing
import os
import resource
import signal
from dataclasses import asdict, fields, replace

import pytest
from rich.console import Console

from janossy.batch.workers import work
from studies.paper.arithmetic.models import MODELS
from studies.paper.arithmetic.settings import Settings, settings_for
from studies.paper.arithmetic.study import ARITHMETIC
from studies.paper.arithmetic.tasks import TASKS
from studies.paper.arithmetic.trial import Trial
from studies.paper.graphs.study import GRAPHS
from studies.runs import run
from studies.runs.durations import duration, projected
from studies.runs.results import cell_path, write_json
from studies.runs.run import run_trials, unfinished

QUIET = Console(quiet=True)


def a_trial(task="sum", model="k1-linear", seed=0, **changes) -> Trial:
    settings = replace(settings_for(TASKS[task], MODELS[model], "smoke", "fast"), **{"num_train": 200, **changes})
    return Trial(task, model, seed, settings)


def finished(trial: Trial, directory) -> None:
    """Writes a result as a run would leave it."""
    result = {
        "task": trial.task,
        "model": trial.model,
        "seed": trial.seed,
        "config": json.loads(json.dumps(asdict(trial.settings))),
        "num_trainable_parameters": 31,
        **{key: [] for key in ("scores", "curve", "history")},
        "seconds": 1.5,
        "versions": {},
    }
    write_json(cell_path(directory, *trial.place), result)


def missing(trials, directory, study=ARITHMETIC, console=QUIET):
    others = [other for other in (ARITHMETIC, GRAPHS) if other is not study]
    return unfinished(trials, study, others, directory, console)


def test_results_are_written_and_resumed(tmp_path):
    trials = [a_trial(), a_trial("range", "gru-linear"), a_trial(seed=1)]
    assert run_trials(trials[:2], tmp_path, 2, QUIET) == []
    results, skipped = ARITHMETIC.read(tmp_path)
    assert {(r["task"], r["model"]) for r in results} == {("sum", "k1-linear"), ("range", "gru-linear")}
    assert skipped == [] and all(r["versions"]["torch"] and r["finished"] for r in results)
    assert missing(trials, tmp_path) == trials[2:]


def test_other_settings_are_not_mixed(tmp_path):
    finished(a_trial(), tmp_path)
    assert missing([a_trial()], tmp_path) == []
    with pytest.raises(ValueError, match=r"epochs=2 there, 3 asked for.*another --out"):
        missing([a_trial(epochs=3)], tmp_path)


def test_a_result_from_before_a_setting_has_its_default(tmp_path):
    finished(a_trial(), tmp_path)
    path = cell_path(tmp_path, "sum", "k1-linear", 0)
    result = json.loads(path.read_text())
    for key in ("keep", "learning_rates"):
        del result["config"][key]
    write_json(path, result)
    default = {field.name: field.default for field in fields(Settings)}
    assert missing([a_trial(keep=default["keep"], learning_rates=default["learning_rates"])], tmp_path) == []
    with pytest.raises(ValueError, match=f"keep='{default['keep']}' there, 'other' asked for"):
        missing([a_trial(keep="other")], tmp_path)


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"task": "sum"}', "\x00\x00"], ids=repr)
def test_damaged_results_are_set_aside_and_run_again(tmp_path, damage):
    trials = [a_trial(), a_trial(seed=1)]
    for each in trials:
        finished(each, tmp_path)
    path = cell_path(tmp_path, "sum", "k1-linear", 0)
    path.write_text(damage)
    assert missing(trials, tmp_path) == trials[:1]
    assert not path.exists() and path.with_suffix(".damaged").read_text() == damage


def test_results_of_another_experiment_are_left_alone(tmp_path):
    finished(a_trial(), tmp_path)
    with pytest.raises(ValueError, match="results of another experiment; choose another --out"):
        missing([], tmp_path, GRAPHS)
    assert len(ARITHMETIC.read(tmp_path)[0]) == 1
    results, skipped = GRAPHS.read(tmp_path)
    assert results == [] and len(skipped) == 1 and "lacks dataset, row, losses" in str(skipped[0])


def test_a_cell_that_raises_is_reported_and_the_others_finish(tmp_path):
    bad = a_trial(batch_size=0)
    failures = run_trials([bad, a_trial(seed=1)], tmp_path, 1, QUIET)
    assert len(failures) == 1 and failures[0].startswith("sum k1-linear seed 0: ")
    assert [r["seed"] for r in ARITHMETIC.read(tmp_path)[0]] == [1]


def test_trials_run_in_their_order_if_asked():
    some = [a_trial(num_train=64, epochs=epochs) for epochs in (1, 3, 2)]

    def order(**options):
        return [event.job.units for event in work(some, 1, **options) if event.kind == "done"]

    assert order(in_order=True) == [1, 3, 2]
    assert order() == [3, 2, 1]


def test_a_trial_without_a_learning_rate_costs_its_epochs(tmp_path):
    trial = a_trial(num_train=64, optimizer="L-BFGS", learning_rates=())
    assert trial.units == trial.settings.epochs and trial.cost > 0
    assert run_trials([trial], tmp_path, 1, QUIET) == []
    assert len(ARITHMETIC.read(tmp_path)[0]) == 1


def test_the_projection_is_by_finished_trials_of_the_same_names():
    first, other = a_trial(), a_trial("variance", "gru-mlp")
    assert projected([first], []) is None
    finished = [(first, {"seconds": 10.0}), (first, {"seconds": 30.0}), (first, {"seconds": 11.0})]
    assert projected([first, first], finished) == pytest.approx(22)
    stacked = replace(first, stack=15)
    assert projected([first], [(stacked, {"seconds": stacked.cost})]) == pytest.approx(first.cost)
    assert ARITHMETIC.as_run(first, {"stack": 15}) == stacked and ARITHMETIC.as_run(stacked, {}) == first
    rate = 11 / first.cost
    assert projected([other], finished) == pytest.approx(rate * other.cost)
    assert [duration(seconds) for seconds in (45, 725, 12_000)] == ["45 s", "12 min 05 s", "3 h 20 min"]


def test_a_killed_worker_loses_its_own_cell_only():
    trials = [a_trial(epochs=1000), a_trial(seed=1), a_trial(seed=2)]
    killed, ends = False, []
    for event in work(trials, 1):
        if event.kind == "progress" and event.job.seed == 0 and not killed:
            (child,) = multiprocessing.active_children()
            os.kill(child.pid, signal.SIGKILL)
            killed = True
        if event.kind in ("done", "failed"):
            ends.append((event.job.seed, event.kind))
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
        run_trials([a_trial(seed=seed) for seed in range(3)], tmp_path, 1, QUIET)
    results, skipped = ARITHMETIC.read(tmp_path)
    assert len(results) == 1 and skipped == []
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
