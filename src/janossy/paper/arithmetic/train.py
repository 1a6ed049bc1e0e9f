"""Train and score one trial: one task, one model, one seed."""

import time
from copy import deepcopy
from dataclasses import asdict

import numpy as np
import torch

from janossy.adam import Adam
from janossy.paper.arithmetic import second_order
from janossy.paper.arithmetic.models import Model, num_trainable_parameters
from janossy.paper.arithmetic.scoring import Examples, Scaled, score
from janossy.paper.arithmetic.settings import Settings
from janossy.paper.arithmetic.tasks import Task
from janossy.paper.arithmetic.whitening import whiten
from janossy.runs.workers import Progress


def train_trial(task: Task, model: Model, seed: int, settings: Settings, progress: Progress) -> dict:
    """Train with each learning rate, keep the model best on validation, and score it on the test examples."""
    start = time.perf_counter()
    scaled, history, kept = train_network(task, model, seed, settings, progress)
    test = task.draw(settings.num_test, seed, 2)
    num_permutations = settings.num_permutations if model.is_sampled else 1
    outputs = scaled.outputs(test[0], num_permutations)
    scored = (1, num_permutations) if model.is_sampled else (1,)
    curve = range(1, num_permutations + 1) if model.is_sampled else ()
    return {
        "format": 1,
        "task": task.name,
        "model": model.name,
        "seed": seed,
        "config": {**asdict(settings), "learning_rate": kept.get("learning_rate")},
        "num_trainable_parameters": num_trainable_parameters(scaled.network),
        "scores": [
            {"num_permutations": m if model.is_sampled else None, **score(outputs[:, :m], test[1], settings.vote, task)}
            for m in scored
        ],
        "curve": [{"num_permutations": m, **score(outputs[:, :m], test[1], settings.vote, task)} for m in curve],
        "history": history,
        "kept_epoch": kept["epoch"],
        "seconds": round(time.perf_counter() - start, 3),
    }


def train_network(
    task: Task, model: Model, seed: int, settings: Settings, progress: Progress
) -> "tuple[Scaled, list[dict], dict]":
    """The network best on validation, the history of its epochs, and the entry of the epoch whose weights are kept."""
    train, validation = (
        task.draw(num, seed, split) for split, num in enumerate((settings.num_train, settings.num_validation))
    )
    shift, scale = (train[1].mean().item(), train[1].std().item()) if settings.standardise else (0.0, 1.0)
    fitted = []
    for rate in settings.learning_rates or (None,):
        torch.manual_seed(np.random.SeedSequence((seed, *model.name.encode())).generate_state(1)[0].item())
        network = model.build(task, settings.reduce, settings.embedding_init, settings.rho_init)
        if settings.whiten:
            whiten(network)
        scaled = Scaled(network, shift, scale)
        if rate is None:
            history = second_order.fit(scaled, task, settings, train, validation, progress)
            fitted.append((scaled, history, history[-1]))
        else:
            fitted.append((scaled, *fit(scaled, task, settings, rate, train, validation, progress)))
    return min(fitted, key=lambda fit: _error(fit[2], task))


def fit(
    scaled: Scaled,
    task: Task,
    settings: Settings,
    rate: float,
    train: Examples,
    validation: Examples,
    progress: Progress,
) -> tuple[list[dict], dict]:
    """Train in place; return the history of epochs and the entry of the epoch whose weights are kept."""
    network, (x, y) = scaled.network, train
    squared = settings.loss == "squared" or (settings.loss == "task" and not task.is_integer)
    num_steps = -(-len(x) // settings.batch_size)
    trainable = [p for p in network.parameters() if p.requires_grad]
    optimizer = Adam(trainable, lr=rate, betas=settings.betas)
    schedule = None
    if settings.schedule == "one-cycle":
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer,
            max_lr=rate,
            epochs=settings.epochs,
            steps_per_epoch=num_steps,
            pct_start=0.2,
            cycle_momentum=False,
        )
    history: list[dict] = []
    kept, state = None, None
    for epoch in range(1, settings.epochs + 1):
        start, losses = time.perf_counter(), 0.0
        for step, batch in enumerate(torch.randperm(len(x)).split(settings.batch_size), 1):
            loss = scaled.loss(x[batch], y[batch], squared)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if schedule is not None:
                schedule.step()
            losses += loss.item() * len(batch)
            if step % 25 == 0 or step == num_steps:
                progress(((step - 1) % 25 + 1) / num_steps)
        entry = {"epoch": epoch, "learning_rate": rate, "train_loss": losses / len(x)}
        entry |= score(scaled.outputs(validation[0], 1), validation[1], settings.vote, task)
        entry["seconds"] = round(time.perf_counter() - start, 3)
        history.append(entry)
        if settings.keep == "last" or kept is None or _error(entry, task) <= _error(kept, task):
            kept = entry
            state = deepcopy(network.state_dict()) if settings.keep == "best" else None
    assert kept is not None
    if state is not None:
        network.load_state_dict(state)
    return history, kept


def _error(entry: dict, task: Task) -> float:
    """What validation minimises: the paper's score of the task."""
    return 1 - entry["accuracy"] if task.is_integer else entry["rmse"]
