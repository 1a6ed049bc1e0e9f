"""Training one network on pieces that are read as it goes, by one process or several, and on after a kill."""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from math import inf, isfinite, nan
from typing import Any

import torch
from torch import Tensor, nn

from janossy.estimators.batches import Examples
from janossy.estimators.clock import now
from janossy.estimators.networks import outputs_in_training
from janossy.estimators.streams import checkpoint as checkpoints
from janossy.estimators.streams.checkpoint import Checkpoint
from janossy.estimators.streams.order import Order, seed_of
from janossy.estimators.streams.processes import Processes
from janossy.estimators.training import MOST_NORM, Plan, Trained
from janossy.estimators.trials import Epoch

EVALUATED = 1024
"""Sets of the left out that are computed together."""

VALIDATION = 2**32 - 1
"""In the seeds of validation, where those of training have the process."""


class Reader:
    """The batches of one process, in the order that ``order`` says; a window of them is in memory at a time.

    ``read``: the examples of a piece, those left out not among them.
    """

    def __init__(self, read: Callable[[int], Examples], order: Order, rank: int) -> None:
        self.read, self.order, self.rank = read, order, rank
        self.seconds = 0.0
        """Spent on reading."""

    def batches(self, step: int) -> Iterator[tuple[Examples | None, int]]:
        """From the ``step``-th on: the batch, or None where others still have one, and the sets in those of all."""
        there: tuple[int, int] | None = None
        parts: Sequence[Tensor] = ()
        for place in self.order.places(self.rank, step):
            if place.window is None:
                yield None, place.num_sets
                continue
            if there != (place.number, place.window):
                began = now()
                window = self.order.windows(place.number, self.rank)[place.window]
                examples = Examples.cat([self.read(i) for i in window.pieces])
                shuffled = self.order.shuffled(place.number, place.window, self.rank, len(examples))
                parts = shuffled.split(window.batches)
                there = place.number, place.window
                self.seconds += now() - began
            yield examples[parts[place.batch]], place.num_sets


@dataclass
class State:
    """Where training is, beside weights: all that decides how it goes on."""

    step: int = 0
    steps: float = inf
    """Planned; a clock may take some away."""
    misses: int = 0
    seconds: float = 0.0
    shortened: bool = False
    finished: bool = False
    loss: float = 0.0
    """Summed over the sets of this epoch."""
    num_sets: int = 0
    history: list[dict[str, float]] = field(default_factory=list)

    @property
    def best(self) -> float:
        return min((row["valid_loss"] for row in self.history), default=inf)


class Training:
    """AdamW on the mean loss of batches, with the learning rate and the early end of training in memory.

    Random numbers are drawn from a seed of the step and of the process, so that no state of theirs has to be kept: runs
    repeat, and processes draw different permutations.
    """

    def __init__(
        self,
        network: nn.Module,
        reader: Reader,
        left_out: Examples,
        criterion: nn.Module,
        plan: Plan,
        steps_an_epoch: int,
        processes: Processes,
        tell: Callable[[Epoch], None],
        checkpoint: Checkpoint | None,
    ) -> None:
        self.network, self.reader, self.left_out, self.criterion = network, reader, left_out, criterion
        self.plan, self.steps_an_epoch, self.processes, self.tell = plan, steps_an_epoch, processes, tell
        self.checkpoint = checkpoint
        self.device = left_out.sets.device
        self.optimizer = torch.optim.AdamW(
            network.parameters(), plan.learning_rate, weight_decay=plan.weight_decay, fused=True
        )
        self.best = deepcopy(network.state_dict())
        self.state = State(steps=plan.epochs * steps_an_epoch)
        self.interrupted = False
        self._restore()

    def run(self) -> Trained:
        """Train to the end, and leave the network with the weights that were best on the sets left out.

        Raises: FloatingPointError if a loss is not finite.
        """
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
        if state.history:
            self.network.load_state_dict(self.best)
        return Trained(state.history, self._epoch(), self.interrupted, state.shortened)

    def _train(self, called: nn.Module) -> None:
        state, began = self.state, now() - self.state.seconds
        saved = now()
        self.plan.steps = state.steps
        for batch, num_sets in self.reader.batches(state.step):
            stop = self._step(called, batch, num_sets)
            state.step += 1
            state.seconds = now() - began
            ends = state.step >= state.steps or stop
            if state.step % self.steps_an_epoch == 0 or ends:
                ends = self._end_epoch() or ends
            if ends:
                return
            if now() - saved > checkpoints.SECONDS:
                self._save()
                saved = now()

    def _step(self, called: nn.Module, batch: Examples | None, num_sets: int) -> bool:
        """A step of the optimiser on the batches of all processes; whether to stop, and be it for one of them."""
        self.network.train()
        seed = seed_of(self.reader.order.seed, self.state.step, self.processes.rank)
        torch.manual_seed(seed)
        batch = self.left_out[:0] if batch is None else batch.to(self.device)
        for group in self.optimizer.param_groups:
            group["lr"] = self.plan.learning_rate * self.plan.rate(self.state.step)
        self.optimizer.zero_grad()
        outputs = called(batch.sets, context=batch.context, generator=torch.Generator(self.device).manual_seed(seed))
        loss = (self.criterion(outputs, batch.targets) * batch.weights).sum() / num_sets
        (loss * self.processes.num).backward()  # gradients are averaged over processes
        nn.utils.clip_grad_norm_(self.network.parameters(), MOST_NORM)
        self.optimizer.step()
        came = self.plan.interrupts.came
        late = now() > self.plan.deadline
        told = self.processes.total(torch.tensor([loss.item(), came, late], dtype=torch.float64)).tolist()
        self.state.loss += told[0] * num_sets
        self.state.num_sets += num_sets
        self.interrupted |= bool(told[1])
        self.state.shortened |= bool(told[2])
        return bool(told[1] or told[2])

    def _end_epoch(self) -> bool:
        """Look at the sets left out, and tell; whether training ends early."""
        state = self.state
        row = {
            "epoch": len(state.history) + 1,
            "train_loss": state.loss / state.num_sets,
            "valid_loss": self._loss_of_left_out(),
            "dur": state.seconds - sum(row["dur"] for row in state.history),
        }
        state.loss, state.num_sets = 0.0, 0
        for name in ("train_loss", "valid_loss"):
            if not isfinite(row[name]):
                raise FloatingPointError(
                    f"training expects finite losses; got {name} = {row[name]} after epoch {row['epoch']}. "
                    "Lower learning_rate, or look for columns or targets of enormous values."
                )
        better = row["valid_loss"] < state.best
        state.history.append(row)
        state.misses = 0 if better else state.misses + 1
        if better:
            self.best = deepcopy(self.network.state_dict())
        self.tell(self._epoch())
        possible = self.processes.of_first(state.step * (1 + (self.plan.deadline - now()) / max(state.seconds, 1e-9)))
        if possible < state.steps:
            state.steps = self.plan.steps = possible
            state.shortened = True
        return state.misses == self.plan.patience or state.step >= state.steps

    @torch.no_grad()
    def _loss_of_left_out(self) -> float:
        self.network.eval()
        total = torch.zeros((), dtype=torch.float64)
        for number in self.processes.mine(-(-len(self.left_out) // EVALUATED)):
            batch = self.left_out[number * EVALUATED : (number + 1) * EVALUATED]
            seed = seed_of(self.reader.order.seed, self.state.step, VALIDATION, number)
            generator = torch.Generator(self.device).manual_seed(seed)
            outputs = outputs_in_training(self.network, batch.sets, batch.context, generator)
            total += (self.criterion(outputs, batch.targets) * batch.weights).sum().double().cpu()
        return self.processes.total(total).item() / len(self.left_out)

    def _epoch(self) -> Epoch:
        row = self.state.history[-1] if self.state.history else {"train_loss": nan, "valid_loss": nan}
        planned = max(len(self.state.history), -(-int(min(self.state.steps, 2**53)) // self.steps_an_epoch))
        return Epoch(len(self.state.history), planned, row["train_loss"], row["valid_loss"])

    def _save(self) -> None:
        if self.checkpoint is not None:
            state: dict[str, Any] = {
                "network": self.network.state_dict(),
                "best": self.best,
                "optimizer": self.optimizer.state_dict(),
                "state": vars(self.state),
            }
            self.checkpoint.write("training", state)

    def _restore(self) -> None:
        found = None if self.checkpoint is None else self.checkpoint.read("training")
        if found is not None:
            self.network.load_state_dict(found["network"])
            self.best = found["best"]
            self.optimizer.load_state_dict(found["optimizer"])
            self.state = State(**found["state"])
