"""Training and scoring of trials of one task and one model, each with its own seed."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from studies.paper.arithmetic import first_order, second_order
from studies.paper.arithmetic.first_order import Replica
from studies.paper.arithmetic.models import Model, num_trainable_parameters
from studies.paper.arithmetic.scoring import Scaled, error_of, score
from studies.paper.arithmetic.settings import Settings
from studies.paper.arithmetic.tasks import Task
from studies.paper.arithmetic.whitening import whiten
from studies.runs.trials import Progress


def train_trial(task: Task, model: Model, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Trains one seed, one learning rate after the other, as ``train_trials`` does."""
    return train_trials(task, model, [seed], settings, progress)[0]


def train_trials(
    task: Task, model: Model, seeds: Sequence[int], settings: Settings, progress: Progress, stack: int = 1
) -> list[dict[str, Any]]:
    """Trains, keeps per seed the network that is best on validation, and scores it on the test examples.

    The seconds of a result are its share of the total.
    """
    start = time.process_time()
    results = [
        _scored(task, model, seed, settings, kept)
        for seed, kept in zip(seeds, train_networks(task, model, seeds, settings, progress, stack), strict=True)
    ]
    seconds = round((time.process_time() - start) / len(results), 3)
    return [result | {"seconds": seconds} for result in results]


def train_networks(
    task: Task, model: Model, seeds: Sequence[int], settings: Settings, progress: Progress, stack: int = 1
) -> list[Replica]:
    """Returns each seed's network, with the learning rate that is best on validation.

    Adam trains up to ``stack`` replicas together, over seeds and learning rates. L-BFGS trains each by itself.
    """
    rates = settings.learning_rates or (None,)
    replicas = [replica(task, model, seed, rate, settings) for seed in seeds for rate in rates]
    if settings.optimizer == "L-BFGS":
        for one in replicas:
            examples, sampling = (one.train, one.validation), one.source.initial_seed()
            one.history = second_order.fit(one.scaled, task, settings, *examples, sampling, progress)
            one.kept = one.history[-1]
    else:
        for first in range(0, len(replicas), stack):
            first_order.fit(replicas[first : first + stack], task, settings, progress)
    of_seeds = [replicas[first : first + len(rates)] for first in range(0, len(replicas), len(rates))]
    return [min(some, key=lambda one: error_of(one.kept, task)) for some in of_seeds]


def replica(task: Task, model: Model, seed: int, rate: float | None, settings: Settings) -> Replica:
    """Returns a network with its examples. These and all of its later samples are functions of the seed."""
    train, validation = (
        task.draw(num, seed, split) for split, num in enumerate((settings.num_train, settings.num_validation))
    )
    shift, scale = (train[1].mean().item(), train[1].std().item()) if settings.standardise else (0.0, 1.0)
    torch.manual_seed(np.random.SeedSequence((seed, *model.name.encode())).generate_state(1)[0].item())
    network = model.build(task, settings.reduce, settings.embedding_init, settings.rho_init)
    if settings.whiten:
        whiten(network)
    source = torch.Generator()
    source.set_state(torch.get_rng_state())  # continues after the initial weights
    return Replica(Scaled(network, shift, scale), source, rate, train, validation)


def _scored(task: Task, model: Model, seed: int, settings: Settings, kept: Replica) -> dict[str, Any]:
    """Returns the contents of a result file without the seconds."""
    x, y = task.draw(settings.num_test, seed, 2)
    num_permutations = settings.num_permutations if model.is_sampled else 1
    outputs = kept.scaled.outputs(x, num_permutations, kept.source)
    scored = (1, num_permutations) if model.is_sampled else (1,)
    curve = range(1, num_permutations + 1) if model.is_sampled else ()
    return {
        "format": 1,
        "task": task.name,
        "model": model.name,
        "seed": seed,
        "config": {**asdict(settings), "learning_rate": kept.rate},
        "num_trainable_parameters": num_trainable_parameters(kept.scaled.network),
        "scores": [
            {"num_permutations": m if model.is_sampled else None, **score(outputs[:, :m], y, settings.vote, task)}
            for m in scored
        ],
        "curve": [{"num_permutations": m, **score(outputs[:, :m], y, settings.vote, task)} for m in curve],
        "history": kept.history,
        "kept_epoch": kept.kept["epoch"],
        "stack": kept.stack,
    }
