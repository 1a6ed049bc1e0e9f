"""Training of one network, on sets in memory or in files, by one or several processes, and resumed after a kill."""

from collections import deque
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from math import cos, inf, isfinite, nan, pi
from typing import Any, cast

import torch
from torch import Tensor, nn

from janossy.estimators import checkpoint as checkpoints
from janossy.estimators.adamw import AdamW
from janossy.estimators.batches import BatchSource, Examples, seed_all, seed_of
from janossy.estimators.checkpoint import Checkpoint
from janossy.estimators.interrupts import Interrupts, now
from janossy.estimators.networks import outputs_in_training
from janossy.estimators.norms import RECENT, norms_that_lag, renew_statistics
from janossy.estimators.processes import Processes
from janossy.estimators.trials import Epoch, Trial

WARM_UP = 0.1
"""The part of training in which the learning rate rises."""

MAX_NORM = 1.0
"""The norm to which longer gradients are clipped."""

EVALUATED = 256
"""The number of validation sets that are computed together, unless batches are larger."""

VALIDATION = 2**32 - 1
"""The entry in the seeds of validation that stands where training's seeds have the process."""


@dataclass(frozen=True)
class Plan:
    """The plan of a network's training. The deadline may shorten it."""

    epochs: int
    batch_size: int
    learning_rate: float
    patience: int | None
    """Epochs without a better validation loss after which training ends; None for no early end."""
    weight_decay: float = 1e-2
    deadline: float = inf
    """The latest end of training, by ``interrupts.now``."""

    def rate(self, step: int, num_steps: float) -> float:
        """Returns the learning rate at a step: a linear warm-up, then the first half of a cosine."""
        part = min(1.0, step / num_steps)
        if part < WARM_UP:
            return self.learning_rate * (part + 1e-3) / (WARM_UP + 1e-3)
        return self.learning_rate * (1 + cos(pi * (part - WARM_UP) / (1 - WARM_UP))) / 2


class Ending(StrEnum):
    """The reason why training ended. The value is a trial's note."""

    AS_PLANNED = ""
    OUT_OF_TIME = "out of time"
    INTERRUPTED = "interrupted"


def unfinished(trials: Sequence[Trial], time_budget: float | None) -> str:
    """Returns the candidates that predict but were not trained to the end, with the reasons; "" for none.

    Without a budget, the time of an earlier run was over, which a checkpoint continues.
    """
    said = ""
    for ending in (Ending.OUT_OF_TIME, Ending.INTERRUPTED):
        names = list(dict.fromkeys(trial.strategy for trial in trials if trial.weight and trial.note == ending))
        whose = "its" if len(names) == 1 else "their"
        if ending is Ending.INTERRUPTED:
            why = "an interrupt came"
        elif time_budget is None:
            why = f"{whose} time was over in an earlier run"
        else:
            why = f"{whose} part of time_budget={time_budget} was over"
        if names:
            said += f"Training of {' and '.join(names)} ended early, as {why}. "
    return said and f"{said}The best weights so far predict. Give more time for better."


@dataclass(frozen=True)
class Trained:
    """The course of training: the losses of each epoch, the last epoch, the ending, and the seconds."""

    history: list[dict[str, float]]
    last: Epoch
    ending: Ending
    seconds: float


@dataclass
class TrainingState:
    """The state of training beside weights. It determines how training continues."""

    step: int = 0
    steps: float = inf
    """The step at which training ends. The clock may lower it."""
    first_step: int = 0
    """The step at which the learning rate last began to rise."""
    first_epoch: int = 0
    """The number of epochs before ``first_step``."""
    misses: int = 0
    seconds: float = 0.0
    shortened: bool = False
    finished: bool = False
    loss: float = 0.0
    """The sum of the loss over the sets of this epoch."""
    num_sets: int = 0
    history: list[dict[str, float]] = field(default_factory=list)

    def best(self, first_epoch: int = 0) -> float:
        """Returns the smallest validation loss from an epoch on."""
        return min((row["valid_loss"] for row in self.history[first_epoch:]), default=inf)


def train(
    network: nn.Module,
    source: BatchSource,
    validation: Examples,
    criterion: nn.Module,
    plan: Plan,
    report: Callable[[Epoch], None],
    *,
    interrupts: Interrupts | None = None,
    processes: Processes | None = None,
    checkpoint: Checkpoint | None = None,
    stage: str = "training",
) -> Trained:
    """Trains a network, and leaves it with the weights that were best on the validation sets.

    The optimiser is AdamW. Its learning rate warms up, then falls like a cosine; gradients are clipped. Networks that
    sample permutations sample new ones at every step (π-SGD). An interrupt or the deadline ends training after its
    step, and either prevents the first step.

    Args:
        criterion: maps outputs and targets to the loss of each set.
        report: a function that is called after each epoch.
        checkpoint, stage: the checkpoint in which training is saved now and then, and the name there. Training resumes
            from it.

    Raises: FloatingPointError if a loss is not finite.
    """
    return Training(
        network,
        source,
        validation,
        criterion,
        plan,
        report,
        interrupts=interrupts,
        processes=processes,
        checkpoint=checkpoint,
        stage=stage,
    ).run()


class Training:
    """AdamW on the mean loss of batches, with the learning rate and early end of training.

    Random numbers are seeded by the step and the process, so that no random state is saved: runs repeat, and processes
    sample different permutations. After ``run``, ``extend`` plans further epochs.
    """

    def __init__(
        self,
        network: nn.Module,
        source: BatchSource,
        validation: Examples,
        criterion: nn.Module,
        plan: Plan,
        report: Callable[[Epoch], None],
        *,
        interrupts: Interrupts | None = None,
        processes: Processes | None = None,
        checkpoint: Checkpoint | None = None,
        stage: str = "training",
    ) -> None:
        self.network, self.source, self.validation, self.criterion = network, source, validation, criterion
        self.plan, self.report = plan, report
        self.interrupts, self.processes = interrupts or Interrupts(), processes or Processes()
        self.checkpoint, self.stage = checkpoint, stage
        self.device = validation.sets.device
        self.optimizer = AdamW(network.parameters(), plan.weight_decay)
        self.norms = norms_that_lag(network)
        self.best: dict[str, Any] = {}
        self.state = TrainingState(steps=plan.epochs * source.steps_per_epoch)
        self.interrupted = False
        self._restore()

    def extend(self, plan: Plan, stage: str) -> None:
        """Plans further epochs from the best weights so far. The learning rate rises and falls again.

        This is a warm restart (Loshchilov and Hutter, 2017). The optimiser keeps its state.
        """
        state, self.plan, self.stage = self.state, plan, stage
        state.first_step, state.first_epoch = state.step, len(state.history)
        state.steps = state.step + plan.epochs * self.source.steps_per_epoch
        state.misses, state.finished, state.shortened = 0, False, False
        self._restore()

    def run(self) -> Trained:
        """Trains to the end, and leaves the network with the weights that were best on the validation sets."""
        state = self.state
        if not state.finished:
            called = self.processes.trained(self.network)
            try:
                with self.processes.together():
                    self._train(called)
            finally:
                self.processes.leave(self.network)
            state.finished = not self.interrupted
            self._save()
        if self.best:
            self.network.load_state_dict(self.best)
        shortened = Ending.OUT_OF_TIME if state.shortened else Ending.AS_PLANNED
        ending = Ending.INTERRUPTED if self.interrupted else shortened
        return Trained(state.history, self._epoch(), ending, state.seconds)

    def _train(self, called: nn.Module) -> None:
        state, began = self.state, now() - self.state.seconds
        saved = now()
        if self._must_stop(0.0)[1]:
            return
        num_kept = min(RECENT, self.source.steps_per_epoch) if self.norms else 0
        recent: deque[tuple[Examples | None, int]] = deque(maxlen=num_kept)
        first = max(0, state.step - num_kept)
        for number, (batch, num_sets) in enumerate(self.source.batches(first), first):
            recent.append((batch, num_sets))
            if number < state.step:
                continue
            must_stop = self.step(called, batch, num_sets)
            state.step += 1
            state.seconds = now() - began
            ends = state.step >= state.steps or must_stop
            if state.step % self.source.steps_per_epoch == 0 or ends:
                self._renew_statistics(recent)
                ends = self._end_epoch() or ends or self._must_stop(0.0)[1]
            if ends:
                return
            if now() - saved > checkpoints.SECONDS:
                self._save()
                saved = now()

    def step(self, called: nn.Module, batch: Examples | None, num_sets: int) -> bool:
        """Takes a step on the batches of all processes, and returns True if any of them must stop."""
        if not self.network.training:
            self.network.train()
        self.optimizer.zero_grad()
        batch = self.validation[:0] if batch is None else batch.to(self.device)
        outputs = self._outputs(called, batch, self.state.step)
        loss = (self.criterion(outputs, batch.targets) * batch.weights).sum() / num_sets
        (loss * self.processes.num).backward()  # gradients are averaged over processes
        nn.utils.clip_grad_norm_(self.optimizer.parameters, MAX_NORM)
        first = self.state.first_step
        self.optimizer.step(self.plan.rate(self.state.step - first, self.state.steps - first))
        total, must_stop = self._must_stop(loss.item())
        self.state.loss += total * num_sets
        self.state.num_sets += num_sets
        return must_stop

    def _outputs(self, called: nn.Module, batch: Examples, number: int) -> Tensor:
        """Returns the outputs for a batch in training, with the random numbers of this step."""
        seed = seed_of(self.source.seed, number, self.processes.rank)
        seed_all(seed, self.device)
        generator = torch.Generator(self.device).manual_seed(seed)
        return cast(Tensor, called(batch.sets, context=batch.context, generator=generator))

    def _renew_statistics(self, recent: Sequence[tuple[Examples | None, int]]) -> None:
        """Computes the statistics of an encoder's norms anew from the latest batches."""
        forward = []
        for number, (batch, num_sets) in enumerate(recent, self.state.step - len(recent)):
            if num_sets > 1:  # one set has no variance
                batch = self.validation[:0] if batch is None else batch.to(self.device)
                forward.append(partial(self._outputs, self.network, batch, number))
        renew_statistics(self.norms, forward)

    def _must_stop(self, loss: float) -> tuple[float, bool]:
        """Returns the total loss of all processes, and True if time is over or an interrupt came in any of them."""
        late = now() > self.plan.deadline
        votes = torch.tensor([loss, self.interrupts.came, late], dtype=torch.float64)
        total, came, late_in = self.processes.total(votes).tolist()
        self.interrupted |= bool(came)
        self.state.shortened |= bool(late_in)
        return total, bool(came or late_in)

    def _end_epoch(self) -> bool:
        """Evaluates the validation sets, reports, and returns True if training ends early."""
        state = self.state
        row = {
            "epoch": len(state.history) + 1,
            "train_loss": state.loss / state.num_sets,
            "valid_loss": self._validation_loss(),
            "dur": state.seconds - sum(row["dur"] for row in state.history),
        }
        state.loss, state.num_sets = 0.0, 0
        for name in ("train_loss", "valid_loss"):
            if not isfinite(row[name]):
                raise FloatingPointError(
                    f"training expects finite losses; got {name} = {row[name]} after epoch {row['epoch']}. "
                    "Lower learning_rate, or look for columns or targets with very large values."
                )
        is_best = row["valid_loss"] < state.best()
        misses = row["valid_loss"] >= state.best(state.first_epoch)
        state.history.append(row)
        state.misses = state.misses + 1 if misses else 0
        if is_best:
            weights = self.network.state_dict().items()
            self.best = {name: each.clone() if isinstance(each, Tensor) else deepcopy(each) for name, each in weights}
        self.report(self._epoch())
        time_left = self.plan.deadline - now()
        possible = self.processes.of_first(state.step * (1 + time_left / max(state.seconds, 1e-9)))
        if possible < state.steps:
            state.steps, state.shortened = possible, True
        return state.misses == self.plan.patience or state.step >= state.steps

    @torch.no_grad()
    def _validation_loss(self) -> float:
        self.network.eval()
        total = torch.zeros((), dtype=torch.float64)
        size = max(EVALUATED, self.plan.batch_size)
        for number in self.processes.mine(-(-len(self.validation) // size)):
            batch = self.validation[number * size : (number + 1) * size]
            seed = seed_of(self.source.seed, self.state.step, VALIDATION, number)
            generator = torch.Generator(self.device).manual_seed(seed)
            outputs = outputs_in_training(self.network, batch.sets, batch.context, generator)
            total += (self.criterion(outputs, batch.targets) * batch.weights).sum().cpu().double()
        return self._of_all(total) / len(self.validation)

    def _of_all(self, total: Tensor) -> float:
        return self.processes.total(total).item()

    def _epoch(self) -> Epoch:
        row = self.state.history[-1] if self.state.history else {"train_loss": nan, "valid_loss": nan}
        planned = -(-int(min(self.state.steps, 2**53)) // self.source.steps_per_epoch)
        num_epochs = len(self.state.history)
        return Epoch(num_epochs, max(num_epochs, planned), row["train_loss"], row["valid_loss"])

    def _save(self) -> None:
        if self.checkpoint is None:
            return
        state = {"best": self.best, "state": vars(self.state), "network": self.network.state_dict()}
        self.checkpoint.write(self.stage, state | {"optimizer": self.optimizer.state_dict()})

    def _restore(self) -> None:
        saved = None if self.checkpoint is None else self.checkpoint.read(self.stage)
        if saved is None:
            return
        self.best, self.state = saved["best"], TrainingState(**saved["state"])
        self.network.load_state_dict(saved["network"])
        self.optimizer.load_state_dict(saved["optimizer"])
