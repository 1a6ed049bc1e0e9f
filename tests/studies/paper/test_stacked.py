"""Trials that are trained together: each as if by itself, one result a seed."""

from dataclasses import replace
from math import isnan

import pytest
import torch
from rich.console import Console

from studies.paper.arithmetic.costs import replicas
from studies.paper.arithmetic.models import MODELS
from studies.paper.arithmetic.names import TABLE_3
from studies.paper.arithmetic.settings import Settings, settings_for
from studies.paper.arithmetic.study import ARITHMETIC, trials
from studies.paper.arithmetic.tasks import TASKS
from studies.paper.arithmetic.train import train_networks, train_trials
from studies.paper.arithmetic.trial import Stacked, Trial, most, stacked
from studies.runs.run import run_trials, unfinished
from studies.runs.schema import check

TASK = TASKS["range"]
SMALL = Settings(
    "smoke",
    "fast",
    epochs=3,
    num_train=450,
    num_validation=50,
    num_test=50,
    batch_size=100,
    learning_rates=(5e-3,),
    standardise=True,
    schedule="one-cycle",
    num_permutations=3,
)
QUIET = Console(quiet=True)


def trained(model, seeds, settings, stack, task=TASK):
    return train_networks(task, MODELS[model], seeds, settings, lambda _: None, stack)


def assert_alike(one, other):
    """Histories and weights to rounding; the seconds are what they were."""
    assert [entry["epoch"] for entry in one.history] == [entry["epoch"] for entry in other.history]
    for key in ("train_loss", "mae"):
        assert [entry[key] for entry in one.history] == pytest.approx([entry[key] for entry in other.history], rel=1e-4)
    torch.testing.assert_close(one.scaled.network.state_dict(), other.scaled.network.state_dict(), rtol=1e-3, atol=1e-4)
    assert torch.equal(one.source.get_state(), other.source.get_state())  # as much was drawn


@pytest.mark.parametrize("model", ["k1-linear", "k2-mlp", "k3-linear", "lstm-mlp", "gru-linear"])
@pytest.mark.parametrize("keep", ["last", "best"])
def test_a_replica_is_trained_as_if_alone(model, keep):
    settings = replace(SMALL, keep=keep)
    together, fewer = trained(model, [3, 0, 7], settings, 15), trained(model, [7, 3], settings, 15)
    for seed, replica in zip([3, 0, 7], together, strict=True):
        (alone,) = trained(model, [seed], settings, 1)
        assert (replica.stack, alone.stack) == (3, 1)
        assert_alike(replica, alone)
    assert_alike(fewer[0], together[2])
    assert_alike(fewer[1], together[0])
    assert together[0].history != together[1].history


def test_learning_rates_are_a_stack_too():
    settings = replace(SMALL, learning_rates=(5e-3, 1e-2, 1e-9))
    variance = TASKS["variance"]
    together, apart, fours = (trained("k2-linear", [0, 1], settings, stack, variance) for stack in (15, 1, 4))
    for one, other in zip(together, apart, strict=True):
        assert one.rate == other.rate != 1e-9
        assert_alike(one, other)
    assert together[0].stack == 6
    assert fours[0].stack == 4 and fours[1].stack in (4, 2)  # six in stacks of four


@pytest.mark.parametrize("model", ["k1-linear", "k2-mlp", "gru-linear"])
def test_one_that_diverges_leaves_and_the_others_go_on(model):
    settings = replace(SMALL, learning_rates=(1e30, 5e-3), loss="squared")
    progress = []
    together = train_networks(TASK, MODELS[model], [0, 1], settings, progress.append, 15)
    assert sum(progress) == pytest.approx(2 * 2 * settings.epochs)
    for seed, replica in enumerate(together):
        (alone,) = trained(model, [seed], replace(settings, learning_rates=(5e-3,)), 1)
        assert replica.rate == 5e-3
        assert_alike(replica, alone)


def test_all_diverged_are_results():
    settings, progress = replace(SMALL, learning_rates=(1e30,), loss="squared"), []
    for result in train_trials(TASK, MODELS["k2-linear"], [0, 1], settings, progress.append, 15):
        assert len(result["history"]) == 1 and not result["history"][0]["train_loss"] < float("inf")
        assert isnan(result["scores"][0]["rmse"]) and result["kept_epoch"] == 1
    assert sum(progress) == pytest.approx(2 * settings.epochs)


def test_the_jobs_hold_every_trial_once():
    some = trials(list(TASKS), ["k2-linear", "k2-mlp", "gru-mlp"], 7, "full", "fast", None)
    jobs = stacked(some)
    assert sorted(trial.place for job in jobs for trial in job.trials) == sorted(trial.place for trial in some)
    firsts = [some.index(job.trials[0]) for job in jobs]
    assert firsts == sorted(firsts)
    for job in jobs:
        first = job.trials[0]
        assert {(trial.task, trial.model, trial.settings) for trial in job.trials} == {
            (first.task, first.model, first.settings)
        }
        is_last = job.trials[-1].seed == 6
        room = most(first.model, first.settings)
        assert len(job.trials) == room or (is_last and len(job.trials) < room)
        assert first.stack == room == (1 if first.settings.optimizer == "L-BFGS" else 5 if "gru" in first.model else 15)
    assert all(len(job.trials) == 1 for job in stacked(trials(list(TASKS), ["k1-linear"], 7, "full", "fast", None, 1)))


def test_rates_count_as_replicas():
    settings = settings_for(TASK, MODELS["k1-linear"], "full", "paper")
    some = [Trial("range", "k1-linear", seed, settings, 15) for seed in range(7)]
    assert [len(job.trials) for job in stacked(some)] == [3, 3, 1]  # by four rates


def test_a_stack_costs_less_and_its_share_is_the_trials():
    for model in MODELS:
        alone, together = (trials(["unique_count"], [model], 5, "full", "fast", None, stack) for stack in (1, None))
        costs = [sum(job.cost for job in stacked(some)) for some in (alone, together)]
        is_stacked = together[0].stack > 1
        assert is_stacked == (together[0].settings.optimizer == "Adam")
        assert costs[1] < costs[0] if is_stacked else costs[1] == costs[0]


def test_the_default_stacks_pay():
    rows = replicas()["rows"]
    assert {(row["model"], row["num_integers"]) for row in rows} == {(name, n) for name in TABLE_3 for n in (5, 10)}
    for row in rows:
        room = most(row["model"], settings_for(TASK, MODELS[row["model"]], "smoke", "fast"))
        others = [row[way] for way in ("plain", "stack of 1")]
        assert row[f"stack of {room}"] < 0.9 * min(others), row


def test_a_stack_is_a_file_a_seed(tmp_path):
    some = [Trial("range", "k1-linear", seed, SMALL, 15) for seed in (0, 1, 4)]
    assert run_trials(some, tmp_path, 1, QUIET, jobs_of=stacked) == []
    results, skipped = ARITHMETIC.read(tmp_path)
    assert not skipped and [(result["seed"], result["stack"]) for result in results] == [(0, 3), (1, 3), (4, 3)]
    for result in results:
        check(result, ARITHMETIC.schema)
    more = [*some, replace(some[0], seed=2)]
    assert unfinished(more, ARITHMETIC, (), tmp_path, QUIET) == more[3:]
    alone = unfinished([replace(trial, stack=1) for trial in some], ARITHMETIC, (), tmp_path, QUIET)
    assert alone == []  # a result is a seed's, however many were trained together


def test_a_stack_that_raises_names_its_trials(tmp_path):
    bad = [Trial("range", "k1-linear", seed, replace(SMALL, batch_size=0), 15) for seed in (0, 1)]
    failures = run_trials([*bad, Trial("range", "k1-linear", 2, SMALL, 15)], tmp_path, 1, QUIET, jobs_of=stacked)
    assert [failure.split(": ")[0] for failure in failures] == [f"range k1-linear seed {seed}" for seed in (0, 1)]
    assert [result["seed"] for result in ARITHMETIC.read(tmp_path)[0]] == [2]


def test_a_stack_reports_its_units():
    job, progress = Stacked(tuple(Trial("range", "k1-linear", seed, SMALL, 15) for seed in (0, 1))), []
    job.run(progress.append)
    assert sum(progress) == pytest.approx(job.units) == 6
