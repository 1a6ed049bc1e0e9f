"""Train a k-ary model without batches: L-BFGS, preconditioned by damped Gauss-Newton matrices."""

import time
from functools import partial
from itertools import count
from math import ceil
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from janossy.batch.workers import Progress
from studies.paper.arithmetic.all_at_once import AllAtOnce
from studies.paper.arithmetic.lbfgs import Descent, GaussNewton
from studies.paper.arithmetic.scoring import Examples, Scaled, error_of, score
from studies.paper.arithmetic.settings import Settings
from studies.paper.arithmetic.tasks import Task

FRACTIONS = (1 / 8, 1 / 4, 1 / 2)
"""The part of the examples that the first rounds see; the later ones see all."""

EVALUATIONS = 100
"""Losses and gradients of a round, after which the matrix is made anew."""

DAMPING, SOFTER, LEAST_DAMPING = 1.0, 0.3, 1e-3
"""The first matrix adds its whole diagonal to itself, which keeps units from saturating in the first few passes; each
later one adds 0.3 times as much of it as the one before."""

FLOOR = 0.03
"""The least of the diagonal that is damped, beside its mean: steps of weights that the sample hardly knows would else
be a thousand times too long, and no line search mends them."""

SMOOTHING = 0.25
"""The size at which absolute errors become squared ones, in units of the targets, so that they have a curvature."""

SAMPLE = 2000
"""Examples that a Gauss-Newton matrix is made of."""

WON = 1e-3
"""The part of the loss that a round on all examples must win, or it is the last one."""


def fit(
    scaled: Scaled,
    task: Task,
    settings: Settings,
    train: Examples,
    validation: Examples,
    seed: int,
    progress: Progress,
) -> list[dict[str, Any]]:
    """Trains in place; returns the history.

    It ends after ``settings.epochs`` passes over the examples and the line search that is under way then; or before,
    with the round that wins nothing or leaves no error of rounded outputs on validation.

    Minimises squared errors on a part of the examples, then, on all, squared errors or, where the loss is "l1" or
    "task" on integer targets, smoothed absolute ones: an epoch is a loss and a gradient on all of them, or twice that
    on half of them. The matrix is Jᵀ W J / m + damping: J are the outputs' derivatives by all weights on a sample of m
    examples, and W the errors' weights (Gauss and Newton's matrix, with Marquardt's damping by the diagonal), so that a
    step is Gauss and Newton's before L-BFGS has learnt anything, and then also knows what the sample did not tell.
    """
    x, targets = train[0].sort(1).values, scaled.scaled(train[1])  # a set's tuples are then its places' in this order
    weights = [weight for weight in scaled.network.parameters() if weight.requires_grad]
    at, passes = parameters_to_vector(weights).detach().double(), 0.0
    absolute = settings.loss == "l1" or (settings.loss == "task" and task.is_integer)
    sampling = torch.Generator().manual_seed(seed)
    history: list[dict[str, Any]] = []

    def evaluate(examples: AllAtOnce, loss: Loss, part: float, at: Tensor) -> tuple[float, Tensor]:
        nonlocal passes
        passes += part
        progress(part)
        return examples.loss_and_gradient(at, loss)

    for number in count():
        start, before = time.process_time(), passes
        part = FRACTIONS[number] if number < len(FRACTIONS) else 1.0
        if number <= len(FRACTIONS):
            some = torch.randperm(len(x), generator=sampling)[: ceil(len(x) * part)] if part < 1 else slice(None)
            examples = AllAtOnce(scaled.network, (x[some], targets[some]))
            loss = Loss(SMOOTHING / scaled.scale if absolute and part == 1 else None)
            descent = Descent(partial(evaluate, examples, loss, part), at)
        matrix = gauss_newton(examples, at, loss, max(LEAST_DAMPING, DAMPING * SOFTER**number), sampling)
        loss_before = descent.loss
        descent.go(matrix, min(EVALUATIONS, ceil((settings.epochs - passes) / part)))
        at = descent.at
        vector_to_parameters(at.float(), weights)
        history.append({
            "epoch": ceil(passes),
            "train_loss": descent.loss,
            **score(scaled.outputs(validation[0], 1), validation[1], settings.vote, task),
            "seconds": round(time.process_time() - start, 3),
        })  # fmt: skip
        is_done = part == 1 and (descent.loss > (1 - WON) * loss_before or error_of(history[-1], task) == 0)
        if is_done or passes >= settings.epochs or passes == before:
            break
    progress(max(0, settings.epochs - passes))
    return history


class Loss:
    """Half the squared errors; or the absolute ones, squared near 0: √(e² + s²) - s (the pseudo-Huber loss over s)."""

    def __init__(self, smoothing: float | None) -> None:
        self.smoothing = smoothing

    def __call__(self, errors: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the loss of each error, and its derivative."""
        if self.smoothing is None:
            return errors.square() / 2, errors.clone()
        roots = (errors.square() + self.smoothing**2).sqrt()
        return roots - self.smoothing, errors / roots

    def root_weights(self, errors: Tensor) -> Tensor:
        """√(derivative / error), by which W weighs them."""
        if self.smoothing is None:
            return torch.ones_like(errors)
        return (errors.square() + self.smoothing**2) ** -0.25


def gauss_newton(
    examples: AllAtOnce, weights: Tensor, loss: Loss, damping: float, sampling: torch.Generator
) -> GaussNewton:
    """The inverse of Jᵀ W J / m and damping times its diagonal, or a floor, of some m examples that are drawn."""
    some = torch.randperm(examples.num, generator=sampling)[:SAMPLE]
    jacobian, errors = examples.jacobian(weights, some)
    jacobian *= loss.root_weights(errors)[:, None] / len(some) ** 0.5
    diagonal = jacobian.square().sum(0).double()
    return GaussNewton(jacobian, damping * diagonal.clamp_min(FLOOR * diagonal.mean()))
