"""Training and scoring of one row on one data set from one seed."""

import time
from collections import defaultdict
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from janossy.files.atomic import beside
from janossy.graph.neighbourhoods import two_hops
from janossy.graph.sage import GraphSAGE
from studies.paper.adam import Adam
from studies.paper.graphs.datasets import VertexData
from studies.paper.graphs.settings import Row, Settings
from studies.runs.trials import Progress

EVALUATION_BATCH = 8192
THRESHOLDS = tuple(i / 50 for i in range(1, 50))
MEMORY_BUDGET = 2**33
"""The memory budget of a step. One that reads 100 neighbours on PPI keeps 7.6 GB for backward, by the estimate.

Its process has up to 12 GB in fact."""

STATE = ("losses", "num_vertices", "best", "seconds")
"""The names of numbers in a checkpoint, beside weights and moments."""


def train_row(
    data: VertexData, name: str, seed: int, settings: Settings, progress: Progress, checkpoint: Path | None = None
) -> dict[str, Any]:
    """Trains by π-SGD as in the paper, and scores the mean probabilities of passes over the test vertices.

    ``checkpoint`` is a file that is written after each epoch. If it exists, training resumes from it.
    """
    torch.manual_seed(np.random.SeedSequence((seed, *f"{data.name} {name}".encode())).generate_state(1)[0].item())
    aggregation = Row.named(name).aggregation
    model = GraphSAGE(
        data.x.shape[1],
        data.num_classes,
        aggregation=aggregation,
        hidden_features=settings.hidden_features,
        memory_budget=MEMORY_BUDGET,
    )
    start = time.perf_counter()
    losses, num_vertices, seconds_before = fit(model, data, settings, progress, checkpoint)
    start -= seconds_before
    trained = time.perf_counter()
    found = curves(model, data, settings)
    return {
        "format": 1,
        "dataset": data.name,
        "row": name,
        "seed": seed,
        "config": {**asdict(settings), "optimizer": "Adam"},
        "num_trainable_parameters": sum(p.numel() for p in model.parameters()),
        "scores": {"validation": found.pop("validation_curve")[-1], "test": found["curve"][-1]},
        **found,
        "losses": losses,
        "vertices_per_second": round(num_vertices / (trained - start), 1),
        "seconds": round(time.perf_counter() - start, 3),
    }


def curves(model: GraphSAGE, data: VertexData, settings: Settings) -> dict[str, list[float]]:
    """Scores the mean probabilities of the first 1, 2, … passes (Remark 2.2).

    - "validation_curve" and "curve": the micro-F1 on validation and test vertices.
    - "loss_curve", with several labels per vertex: the binary cross-entropy on the test vertices.
    - "tuned_curve", with several labels per vertex: the micro-F1 there, at the threshold that is best on validation.
    """
    model.eval()
    validation, test = (vertices[: settings.num_test] for vertices in (data.validation, data.test))
    found = defaultdict(list)
    passes = (mean_probabilities(model, data, vertices, settings) for vertices in (validation, test))
    for on_validation, on_test in zip(*passes, strict=True):
        found["validation_curve"].append(micro_f1(on_validation, data.y[validation]))
        found["curve"].append(micro_f1(on_test, data.y[test]))
        if data.multilabel:
            loss = nn.functional.binary_cross_entropy(on_test, data.y[test].double())
            found["loss_curve"].append(loss.item())
            threshold = max(THRESHOLDS, key=lambda t: micro_f1(on_validation, data.y[validation], t))
            found["tuned_curve"].append(micro_f1(on_test, data.y[test], threshold))
    return {name: [round(value, 6) for value in values] for name, values in found.items()}


@torch.no_grad()
def mean_probabilities(model: GraphSAGE, data: VertexData, vertices: Tensor, settings: Settings) -> Iterator[Tensor]:
    """Yields the mean probabilities (B, c) of the first pass, of the first two, …, in float64."""
    total = torch.zeros(1, dtype=torch.float64)
    for num in range(1, settings.num_permutations + 1):
        with autocast(settings):
            logits = [
                model(data.x, data.graph, batch, settings.k_1, settings.k_2)
                for batch in vertices.split(EVALUATION_BATCH)
            ]
        probabilities = torch.cat(logits).double()
        total = total + (probabilities.sigmoid() if data.multilabel else probabilities.softmax(1))
        yield total / num


def micro_f1(probabilities: Tensor, y: Tensor, threshold: float = 0.5) -> float:
    """Returns 2 TP / (2 TP + FP + FN) over all vertices and classes; with one class per vertex it is the accuracy.

    Shapes: probabilities (B, c), y (B,) classes, or (B, c) of 0 and 1, predicted above the threshold.
    """
    if y.dim() == 1:
        return (probabilities.argmax(1) == y).double().mean().item()
    predicted, actual = probabilities > threshold, y > 0.5
    right = 2 * int((predicted & actual).sum())
    return right / max(int(predicted.sum()) + int(actual.sum()), 1)


def loss_of(logits: Tensor, y: Tensor) -> Tensor:
    """Returns the mean cross-entropy; for labels (B, c) the binary one, over vertices and classes."""
    if y.dim() == 1:
        return nn.functional.cross_entropy(logits, y)
    return nn.functional.binary_cross_entropy_with_logits(logits, y)


def fit(
    model: GraphSAGE, data: VertexData, settings: Settings, progress: Progress, checkpoint: Path | None = None
) -> tuple[list[float], int, float]:
    """Trains in place, from a checkpoint if it exists.

    Returns:
        The mean losses of each tenth of the batches, the number of vertices trained on, and the seconds of training up
        to the checkpoint.
    """
    optimizer = Adam(model.parameters(), lr=settings.learning_rate)
    losses, num_vertices, best, seconds_before = [], 0, -1.0, 0.0
    total = num_batches(len(data.train), settings)
    tenths = np.array_split(np.arange(total), min(10, total))
    looks = {int(tenth[-1]) for tenth in tenths} if settings.keep == "best" else set()
    kept = model.state_dict()
    if checkpoint is not None and checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        if saved["settings"] == asdict(settings):
            model.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
            torch.set_rng_state(saved["random"])
            losses, num_vertices, best, seconds_before = (saved[name] for name in STATE)
            kept = saved["kept"] if settings.keep == "best" else model.state_dict()
            progress(len(losses))
    start, batches = time.perf_counter(), -(-len(data.train) // settings.batch_size)
    for i, batch in enumerate(_batches(data.train, settings, len(losses) // batches), len(losses)):
        hops = two_hops(data.graph, batch, k_1=settings.k_1, k_2=settings.k_2)
        with autocast(settings):
            loss = loss_of(model.of_hops(data.x, hops), data.y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        num_vertices += len(batch)
        progress(1)
        if i in looks and (score := look(model, data, settings)) > best:
            best, kept = score, deepcopy(model.state_dict())
        if checkpoint is not None and settings.num_batches is None and (i + 1) % batches == 0:
            seconds = seconds_before + time.perf_counter() - start
            state = dict(zip(STATE, (losses, num_vertices, best, seconds), strict=True))
            state |= {"settings": asdict(settings), "model": model.state_dict()}
            state |= {"optimizer": optimizer.state_dict(), "random": torch.get_rng_state()}
            state |= {"kept": kept} if settings.keep == "best" else {}
            checkpoint.parent.mkdir(parents=True, exist_ok=True)
            with beside(checkpoint) as part:
                torch.save(state, part)
                part.rename(checkpoint)
    model.load_state_dict(kept)
    return [round(fmean(losses[i] for i in tenth), 6) for tenth in tenths], num_vertices, seconds_before


def autocast(settings: Settings) -> torch.autocast:
    """Returns the context of a forward pass."""
    return torch.autocast("cpu", torch.bfloat16, enabled=settings.precision == "bfloat16")


def num_batches(num_train: int, settings: Settings) -> int:
    """Returns the number of training steps of a run on so many vertices."""
    return settings.num_batches or (settings.epochs or 0) * -(-num_train // settings.batch_size)


def look(model: GraphSAGE, data: VertexData, settings: Settings) -> float:
    """Returns the score on validation vertices, by one permutation."""
    vertices = data.validation[: settings.num_test]
    (probabilities,) = mean_probabilities(model, data, vertices, replace(settings, num_permutations=1))
    return micro_f1(probabilities, data.y[vertices])


def _batches(vertices: Tensor, settings: Settings, epoch: int) -> Iterator[Tensor]:
    """Yields random subsets, sampled anew each time, or the parts of shuffled epochs from ``epoch`` on."""
    for _ in range(settings.num_batches or 0):
        yield vertices[torch.randperm(len(vertices))[: settings.batch_size]]
    if settings.num_batches is None:
        for _ in range(epoch, settings.epochs or 0):
            yield from vertices[torch.randperm(len(vertices))].split(settings.batch_size)
