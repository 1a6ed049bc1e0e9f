"""Training one network on encoded sets: skorch's loop, with batches that are cut from all sets by index."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import ceil, cos, inf, isfinite, pi
from time import monotonic
from typing import Any

import torch
from skorch import NeuralNet
from skorch.callbacks import Callback, EarlyStopping, GradientNormClipping, LRScheduler
from skorch.helper import predefined_split
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import Dataset

from janossy.network import JanossyNetwork
from janossy.ragged import Ragged

EPOCH_SETS = 100_000
"""An epoch is a pass over the training sets, or so many of them, after which one looks at the validation sets."""

WARM_UP = 0.1
"""The part of training in which the learning rate rises."""

MOST_NORM = 1.0
"""The norm to which longer gradients are cut."""


@dataclass(frozen=True, eq=False)
class Examples(Dataset):
    """Encoded sets with their targets and weights, all on one device; chosen from by sets.

    Shapes: context (B, e), None where there are no columns; targets (B,) of classes, or (B, t) of numbers; weights (B,).
    """

    sets: Ragged
    context: Tensor | None
    targets: Tensor
    weights: Tensor

    def __len__(self) -> int:
        return len(self.sets)

    def __getitem__(self, chosen: Any) -> "Examples":
        context = None if self.context is None else self.context[chosen]
        return Examples(self.sets[chosen], context, self.targets[chosen], self.weights[chosen])

    def to(self, device: Any) -> "Examples":
        context = None if self.context is None else self.context.to(device)
        return Examples(self.sets.to(device), context, self.targets.to(device), self.weights.to(device))


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
    """When training ends at the latest, by ``time.monotonic``."""
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
    """How training went: ``history`` has the losses of each epoch, ``loss`` is the least one of validation."""

    history: list[dict[str, float]]
    loss: float
    seconds: float
    interrupted: bool
    out_of_time: bool


Tell = Callable[[int, Plan, float, float], None]
"""Told, after each epoch: its number, the plan, and the losses in training and validation."""


def train(
    network: JanossyNetwork,
    training: Examples,
    validation: Examples,
    criterion: nn.Module,
    plan: Plan,
    generator: torch.Generator,
    tell: Tell,
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
    began = monotonic()
    net.fit(training)
    # An epoch that was cut short has no losses.
    history = [
        {name: row[name] for name in ("epoch", "train_loss", "valid_loss", "dur", "learning_rate") if name in row}
        for row in net.history.to_list()
        if "valid_loss" in row
    ]
    return Trained(
        history,
        min((row["valid_loss"] for row in history), default=inf),
        monotonic() - began,
        net.interrupted,
        dict(net.callbacks_)["clock"].shortened,
    )


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
        return self.module_(x.sets, context=x.context, generator=self.generator)

    def get_loss(self, y_pred: Tensor, y_true: Tensor, X: Any = None, training: bool = False) -> Tensor:
        return (self.criterion_(y_pred, y_true) * X.weights).mean()

    def fit_loop(self, *args: Any, **fit_params: Any) -> "_Net":
        try:
            return super().fit_loop(*args, **fit_params)
        except KeyboardInterrupt as error:
            waited = dict(self.callbacks_)["stop"]
            self.interrupted = not isinstance(error, Finished) and waited.misses_ != waited.patience
            raise


class Batches:
    """The examples in order, so many at a time."""

    def __init__(self, examples: Examples, batch_size: int) -> None:
        self.examples = examples
        self.batch_size = batch_size

    def __iter__(self) -> Iterator[tuple[Examples, Tensor]]:
        for begin in range(0, len(self.examples), self.batch_size):
            batch = self.examples[begin : begin + self.batch_size]
            yield batch, batch.targets


class RandomBatches:
    """An epoch of batches of the examples in random order; where that is not a whole pass, the next one goes on."""

    def __init__(self, examples: Examples, batch_size: int, generator: torch.Generator) -> None:
        self.examples = examples
        self.batch_size = min(batch_size, len(examples))
        self.generator = generator
        self.order = torch.empty(0, dtype=torch.long, device=generator.device)

    def __iter__(self) -> Iterator[tuple[Examples, Tensor]]:
        for _ in range(num_batches(len(self.examples), self.batch_size)):
            if len(self.order) == 0:
                self.order = torch.randperm(len(self.examples), generator=self.generator, device=self.generator.device)
            # What is left at the end of a pass, too little for a batch, joins the last one.
            end = self.batch_size if len(self.order) >= 1.5 * self.batch_size else len(self.order)
            batch, self.order = self.examples[self.order[:end]], self.order[end:]
            yield batch, batch.targets


def num_batches(num_sets: int, batch_size: int) -> int:
    """The steps of an epoch."""
    in_epoch = min(num_sets, EPOCH_SETS)
    return max(1, ceil(in_epoch / min(batch_size, num_sets) - 0.5))


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

    def __init__(self, plan: Plan, tell: Tell) -> None:
        self.plan, self.tell = plan, tell
        self.shortened = False

    def on_train_begin(self, net: NeuralNet, **kwargs: Any) -> None:
        self.began, self.steps = monotonic(), 0

    def on_batch_end(self, net: NeuralNet, training: bool = False, **kwargs: Any) -> None:
        if training:
            self.steps += 1
        if self.plan.deadline < inf and monotonic() > self.plan.deadline:
            self.shortened = True
            raise Finished

    def on_epoch_end(self, net: NeuralNet, **kwargs: Any) -> None:
        losses = net.history[-1]
        self.tell(losses["epoch"], self.plan, losses["train_loss"], losses["valid_loss"])
        now = monotonic()
        left = self.plan.deadline - now
        possible = self.steps + left / (now - self.began) * self.steps
        if possible < self.plan.steps:
            self.plan.steps, self.shortened = possible, True
        if self.steps >= self.plan.steps:
            raise Finished
