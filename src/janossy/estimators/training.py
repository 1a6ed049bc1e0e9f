"""Training one network on encoded sets: skorch's loop, with batches that are cut from all sets by index."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import cos, inf, isfinite, nan, pi
from typing import Any

import torch
from skorch import NeuralNet
from skorch.callbacks import Callback, EarlyStopping, GradientNormClipping, LRScheduler
from skorch.helper import predefined_split
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from janossy.estimators.batches import Batches, Examples, RandomBatches, num_batches
from janossy.estimators.clock import now
from janossy.estimators.interrupts import Interrupts
from janossy.estimators.networks import outputs_in_training
from janossy.estimators.trials import Epoch

WARM_UP = 0.1
"""The part of training in which the learning rate rises."""

MOST_NORM = 1.0
"""The norm to which longer gradients are cut."""


@dataclass
class Plan:
    """How long a network is trained, and how. A clock may shorten it."""

    epochs: int
    batch_size: int
    learning_rate: float
    patience: int | None
    """Epochs without a better validation loss after which training ends; None for no early end."""
    weight_decay: float = 1e-2
    deadline: float = inf
    """When training ends at the latest, by ``clock.now``."""
    interrupts: Interrupts = field(default_factory=Interrupts)
    """Training ends after the batch in which one comes."""
    steps: float = field(init=False, default=inf)
    """The optimiser's steps that training is planned to take."""

    def rate(self, step: int) -> float:
        """The learning rate's factor: a linear warm-up, and the first half of a cosine."""
        part = min(1.0, step / self.steps)
        return (
            (part + 1e-3) / (WARM_UP + 1e-3) if part < WARM_UP else (1 + cos(pi * (part - WARM_UP) / (1 - WARM_UP))) / 2
        )


@dataclass(frozen=True)
class Trained:
    """How training went: the losses of each epoch, the last of them, and why it ended, if not as planned."""

    history: list[dict[str, float]]
    last: Epoch
    interrupted: bool
    shortened: bool


def train(
    network: nn.Module,
    training: Examples,
    validation: Examples,
    criterion: nn.Module,
    plan: Plan,
    generator: torch.Generator,
    tell: Callable[[Epoch], None],
) -> Trained:
    """Train a network, and leave it with the weights that were best on validation.

    The optimiser is AdamW, with a learning rate that warms up and then falls like a cosine; gradients are clipped.
    ``criterion``: outputs, targets -> the loss of each set. ``generator``: the order of the sets, and the permutations:
    networks that draw permutations draw new ones at every step (π-SGD). ``tell`` is called after each epoch.

    Raises: FloatingPointError if the loss becomes infinite or NaN.
    """
    net = _Net(
        network,
        criterion,
        generator=generator,
        optimizer=torch.optim.AdamW,
        optimizer__weight_decay=plan.weight_decay,
        optimizer__fused=True,
        lr=plan.learning_rate,
        max_epochs=plan.epochs,
        batch_size=plan.batch_size,
        iterator_train=RandomBatches,
        iterator_train__generator=generator,
        iterator_valid=Batches,
        iterator_valid__batch_size=max(plan.batch_size, 256),
        train_split=predefined_split(validation),
        callbacks=[
            ("finite", FiniteLoss()),
            ("clip", GradientNormClipping(MOST_NORM)),
            ("rate", LRScheduler(LambdaLR, lr_lambda=plan.rate, step_every="batch")),
            ("stop", EarlyStopping(patience=plan.patience or inf, threshold=0, load_best=True)),
            ("clock", Clock(plan, tell)),
        ],
        verbose=0,
        device=None,
    )
    plan.steps = plan.epochs * num_batches(len(training), plan.batch_size)
    net.fit(training)
    # An epoch that was cut short has no losses.
    rows = [row for row in net.history.to_list() if "valid_loss" in row]
    history = [{name: row[name] for name in ("epoch", "train_loss", "valid_loss", "dur")} for row in rows]
    clock = dict(net.callbacks_)["clock"]
    return Trained(history, clock.last, net.interrupted, clock.shortened)


class Finished(KeyboardInterrupt):
    """Training ends as planned: skorch's loop ends at a KeyboardInterrupt."""


class _Net(NeuralNet):
    """skorch's loop on ``Examples``, whose losses are weighed, with a generator for permutations."""

    def __init__(self, *args: Any, generator: torch.Generator, **settings: Any) -> None:
        self.generator = generator
        super().__init__(*args, **settings)
        self.interrupted = False

    def _set_training(self, training: bool = True) -> None:
        if self.module_.training != training:
            super()._set_training(training)

    def infer(self, x: Examples, **fit_params: Any) -> Tensor:
        return outputs_in_training(self.module_, x.sets, x.context, self.generator)

    def get_loss(self, y_pred: Tensor, y_true: Tensor, X: Any = None, training: bool = False) -> Tensor:
        return (self.criterion_(y_pred, y_true) * X.weights).mean()

    def fit_loop(self, *args: Any, **fit_params: Any) -> "_Net":
        try:
            return super().fit_loop(*args, **fit_params)
        except KeyboardInterrupt as error:
            waited = dict(self.callbacks_)["stop"]
            self.interrupted = not isinstance(error, Finished) and waited.misses_ != waited.patience
            raise


class FiniteLoss(Callback):
    """Ends training with an error when a loss is not finite."""

    def on_epoch_end(self, net: NeuralNet, **kwargs: Any) -> None:
        for name in ("train_loss", "valid_loss"):
            if not isfinite(loss := net.history[-1].get(name, 0.0)):
                raise FloatingPointError(
                    f"training expects finite losses; got {name} = {loss} after epoch {len(net.history)}. "
                    "Lower learning_rate, or look for columns or targets of enormous values."
                )


class Clock(Callback):
    """Shortens the plan to what the time left allows, so that the learning rate still falls to its end; and tells."""

    def __init__(self, plan: Plan, tell: Callable[[Epoch], None]) -> None:
        self.plan, self.tell = plan, tell
        self.shortened = False
        self.last = Epoch(0, plan.epochs, nan, nan)

    def on_train_begin(self, net: NeuralNet, **kwargs: Any) -> None:
        self.began, self.steps = now(), 0

    def on_batch_end(self, net: NeuralNet, training: bool = False, **kwargs: Any) -> None:
        if training:
            self.steps += 1
        if self.plan.interrupts.came:
            raise KeyboardInterrupt
        if self.plan.deadline < inf and now() > self.plan.deadline:
            self.shortened = True
            raise Finished

    def on_epoch_end(self, net: NeuralNet, **kwargs: Any) -> None:
        row = net.history[-1]
        self.last = Epoch(row["epoch"], self.plan.epochs, row["train_loss"], row["valid_loss"])
        self.tell(self.last)
        taken, allowed = now() - self.began, self.plan.deadline - self.began
        if self.steps * allowed < self.plan.steps * taken:
            self.plan.steps, self.shortened = self.steps * allowed / taken, True
        if self.steps >= self.plan.steps:
            raise Finished
