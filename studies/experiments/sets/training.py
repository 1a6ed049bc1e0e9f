"""One training loop for all networks: AdamW with a one-cycle schedule, and the best epoch on validation."""

import time
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from janossy import JanossyNetwork, Ragged, predict
from janossy.estimators.strategies import build_network
from janossy.tables.layout import Layout
from studies.experiments.sets.generators import Task


@dataclass(frozen=True)
class Data:
    """Sets with their classes. Numbers except angles are standardised by the training sets."""

    train: Ragged
    train_y: Tensor
    valid: Ragged
    valid_y: Tensor
    test: Ragged
    test_y: Tensor
    units: dict[str, float]
    """The factors that restore the units of standardised numbers."""


def data_of(task: Task, num_train: int, num_test: int, seed: int) -> Data:
    """Samples new sets, with an eighth as many for validation as for training."""
    draws = [task.draw(num, 3 * seed + part) for part, num in enumerate((num_train, num_train // 8, num_test))]
    numbers = slice(len(task.layout.vocabularies), None)
    values = draws[0][0].values[:, numbers]
    mean, std = values.mean(0), values.std(0)
    scaled = []
    for sets, _ in draws:
        x = sets.values.clone()
        x[:, numbers] = (x[:, numbers] - mean) / std
        scaled.append(sets.with_values(x))
    units = {str(numbers.start + i): s for i, s in enumerate(std.tolist())}
    ((_, train_y), (_, valid_y), (_, test_y)) = draws
    return Data(scaled[0], train_y, scaled[1], valid_y, scaled[2], test_y, units)


@dataclass(frozen=True)
class Result:
    """The result of one run."""

    auc: float
    valid_auc: float
    epoch: int
    seconds: float
    parameters: int


def fit(
    task: Task,
    data: Data,
    strategy: str,
    seed: int,
    *,
    epochs: int,
    learning_rate: float,
    batch: int,
    weight_decay: float = 1e-2,
    **settings: Any,
) -> Result:
    """Trains a strategy's network, and returns the test AUC of the epoch that is best on the validation sets."""
    torch.manual_seed(seed)
    network = build_network(strategy, task.layout, Layout(), 1, **settings)
    optimizer = torch.optim.AdamW(network.parameters(), lr=learning_rate, weight_decay=weight_decay)
    steps = -(-len(data.train) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, epochs=epochs, steps_per_epoch=steps)
    loss_of = nn.BCEWithLogitsLoss()
    start, best, best_epoch, best_state = time.process_time(), 0.0, 0, network.state_dict()
    for epoch in range(epochs):
        network.train()
        for chosen in torch.randperm(len(data.train)).split(batch):
            loss = loss_of(network(data.train[chosen])[:, 0], data.train_y[chosen])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
        auc = auc_of(network, data.valid, data.valid_y)
        if auc > best:
            best, best_epoch, best_state = auc, epoch + 1, deepcopy(network.state_dict())
    seconds = time.process_time() - start
    network.load_state_dict(best_state)
    num_parameters = sum(p.numel() for p in network.parameters())
    return Result(auc_of(network, data.test, data.test_y), best, best_epoch, seconds, num_parameters)


def auc_of(network: JanossyNetwork, sets: Ragged, y: Tensor) -> float:
    prediction = predict(network, sets, 10, link="sigmoid", batch_size=256)
    return float(roc_auc_score(y, prediction.mean[:, 0]))
