"""Joint training of replicas of one model on one task by Adam, with different seeds and learning rates."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor

from janossy import JanossyNetwork, Ragged, Stack
from janossy.stack import scale_steps
from studies.paper.adam import Adam
from studies.paper.arithmetic.scoring import Examples, Scaled, error_of, score
from studies.paper.arithmetic.settings import Settings
from studies.paper.arithmetic.tasks import Task
from studies.runs.trials import Progress

REPORTED = 25
"""The number of steps between reports of progress."""


@dataclass
class Replica:
    """A network in training, with everything of its own.

    Attributes:
        source: the source of its batches and permutations.
        rate: its learning rate, if its optimiser has one.
        history: one entry per epoch.
        kept: the entry of the epoch whose weights are kept.
        stack: the number of replicas trained together with it, including itself.
    """

    scaled: Scaled
    source: torch.Generator
    rate: float | None
    train: Examples
    validation: Examples
    history: list[dict[str, Any]] = field(default_factory=list)
    kept: dict[str, Any] = field(default_factory=dict)
    stack: int = 1
    state: dict[str, Tensor] | None = None

    def note(self, entry: dict[str, Any], task: Task, settings: Settings) -> None:
        """Scores the current weights on validation, and keeps them if they are the ones to keep."""
        start = time.process_time()
        outputs = self.scaled.outputs(self.validation[0], 1, self.source)
        entry |= score(outputs, self.validation[1], settings.vote, task)
        entry["seconds"] = round(entry["seconds"] + time.process_time() - start, 3)
        self.history.append(entry)
        if settings.keep == "last" or not self.kept or error_of(entry, task) <= error_of(self.kept, task):
            self.kept = entry
            if settings.keep == "best":
                self.state = {name: value.clone() for name, value in self.scaled.network.state_dict().items()}


def fit(replicas: Sequence[Replica], task: Task, settings: Settings, progress: Progress) -> None:
    """Trains replicas in place, all in one ``Stack``, each with its own examples, order and permutations.

    Each is trained as it would be alone, except for rounding. If a replica's loss is not finite, it has diverged. It
    then ends with that epoch, and the others go on unchanged.
    """
    squared = settings.loss == "squared" or (settings.loss == "task" and not task.is_integer)
    together = Together(replicas, settings, squared)
    for replica in replicas:
        replica.stack = len(replicas)
    for epoch in range(1, settings.epochs + 1):
        start = time.process_time()
        losses = together.epoch(progress)
        seconds = (time.process_time() - start) / len(losses)
        for replica, loss in zip(together.replicas, losses.tolist(), strict=True):
            entry = {"epoch": epoch, "learning_rate": replica.rate, "train_loss": loss, "seconds": seconds}
            replica.note(entry, task, settings)
        finite = losses.isfinite().nonzero()[:, 0].tolist()
        progress((len(losses) - len(finite)) * (settings.epochs - epoch))
        if not finite:
            break
        if len(finite) < len(losses):
            together.keep(finite)
    for replica in replicas:
        if replica.state is not None:
            replica.scaled.network.load_state_dict(replica.state)


class Together:
    """The networks of several replicas as one module, with its optimiser and their examples."""

    def __init__(self, replicas: Sequence[Replica], settings: Settings, squared: bool) -> None:
        self.settings, self.squared = settings, squared
        networks = [replica.scaled.network for replica in replicas]
        self.module: JanossyNetwork | Stack = networks[0] if len(networks) == 1 else Stack(networks)
        rates = [replica.rate for replica in replicas if replica.rate is not None]
        alike = len(set(rates)) == 1
        rate = rates[0] if alike else 1.0
        trained = [p for p in self.module.parameters() if p.requires_grad]
        self.optimizer = Adam(trained, lr=rate, betas=settings.betas)
        self.rates = torch.tensor(rates)
        if not alike:
            scale_steps(self.optimizer, self.rates)
        self._see(replicas)
        self.schedule = None
        if settings.schedule == "one-cycle":
            self.schedule = torch.optim.lr_scheduler.OneCycleLR(
                self.optimizer,
                max_lr=rate,
                epochs=settings.epochs,
                steps_per_epoch=-(-self.num // settings.batch_size),
                pct_start=0.2,
                cycle_momentum=False,
            )

    def keep(self, chosen: Sequence[int]) -> None:
        """Continues with only the chosen replicas."""
        assert isinstance(self.module, Stack)
        self.module.keep(chosen, self.optimizer)
        left = self.rates[torch.tensor(chosen)]
        self.rates.resize_(len(left)).copy_(left)
        self._see([self.replicas[number] for number in chosen])

    def epoch(self, progress: Progress) -> Tensor:
        """Takes the steps of an epoch, gives the replicas their weights, and returns their mean losses (R,)."""
        R = len(self.replicas)
        orders = [torch.randperm(self.num, generator=replica.source) for replica in self.replicas]
        order = torch.stack([order + number * self.num for number, order in enumerate(orders)])
        batches = order.split(self.settings.batch_size, 1)
        total = torch.zeros(R, dtype=torch.float64)
        for step, batch in enumerate(batches, 1):
            losses = self._losses(batch.flatten())
            self.optimizer.zero_grad()
            losses.sum().backward()
            self.optimizer.step()
            if self.schedule is not None:
                self.schedule.step()
            total += losses.detach().double() * batch.shape[1]
            if step % REPORTED == 0 or step == len(batches):
                progress(R * ((step - 1) % REPORTED + 1) / len(batches))
        if isinstance(self.module, Stack):
            for replica, member in zip(self.replicas, self.module.members(), strict=True):
                replica.scaled.network.load_state_dict(member.state_dict())
        return total / self.num

    def _see(self, replicas: Sequence[Replica]) -> None:
        """Sets the examples of these replicas, end to end, with the networks' targets."""
        self.replicas = list(replicas)
        self.sources = [replica.source for replica in replicas]
        self.num = len(replicas[0].train[0])
        self.x = torch.cat([replica.train[0] for replica in replicas])
        self.y = torch.cat([replica.scaled.scaled(replica.train[1]) for replica in replicas])

    def _losses(self, batch: Tensor) -> Tensor:
        """Returns each network's mean loss on its own examples, (R,)."""
        sets = Ragged.from_padded(self.x.index_select(0, batch))
        if isinstance(self.module, Stack):
            outputs = self.module(sets, joined=True, generators=self.sources)[:, :, 0]
        else:
            outputs = self.module(sets, generator=self.sources[0])[:, 0][None]
        error = outputs - self.y.index_select(0, batch).view_as(outputs)
        return cast(Tensor, (error.square() if self.squared else error.abs()).mean(1))
