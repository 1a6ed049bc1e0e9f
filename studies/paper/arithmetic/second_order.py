"""Training of a k-ary model without batches: L-BFGS, preconditioned by damped Gauss-Newton matrices."""

import time
from functools import partial
from itertools import count
from math import ceil
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from studies.paper.arithmetic.all_at_once import AllAtOnce
from studies.paper.arithmetic.lbfgs import Descent, GaussNewton
from studies.paper.arithmetic.scoring import Examples, Scaled, error_of, score
from studies.paper.arithmetic.settings import Settings
from studies.paper.arithmetic.tasks import Task
from studies.runs.trials import Progress

FRACTIONS = (1 / 8, 1 / 4, 1 / 2)
"""The parts of the examples that the first rounds use. Later rounds use all examples."""

EVALUATIONS = 100
"""The losses and gradients of a round, before the matrix is computed anew."""

DAMPING, SOFTER, LEAST_DAMPING = 1.0, 0.3, 1e-3
"""The damping of the matrices. The first one adds its whole diagonal to itself, which keeps units from saturating in
the first few passes. Each later one adds 0.3 times as much of it as the one before."""

FLOOR = 0.03
"""The smallest damped diagonal entry, relative to the mean. Without it, steps of weights that the sample hardly
determines would be a thousand times too long. No line search could correct them."""

SMOOTHING = 0.25
"""The size below which absolute errors become squared, in units of the targets, so that they have a curvature."""

SAMPLE = 2000
"""The number of examples of a Gauss-Newton matrix."""

WON = 1e-3
"""The relative fall of the loss in a round on all examples below which it is the last round."""


def fit(
    scaled: Scaled,
    task: Task,
    settings: Settings,
    train: Examples,
    validation: Examples,
    seed: int,
    progress: Progress,
) -> list[dict[str, Any]]:
    """Trains in place, and returns the history.

    Training ends after ``settings.epochs`` passes over the examples, at the end of the current line search. It ends
    earlier with a round that gains nothing, or after which all rounded outputs on validation are right.

    First, squared errors on a part of the examples are minimised, then the loss on all examples. That loss is squared
    errors, or smoothed absolute ones if the loss is "l1", or "task" on integer targets. An epoch is a loss and a
    gradient on all examples, or twice that on half of them.

    The matrix is Jᵀ W J / m + damping. J are the outputs' derivatives by all weights on a sample of m examples. W are
    the errors' weights: it is the Gauss-Newton matrix with Marquardt's damping by the diagonal. A step is therefore
    Gauss-Newton's before L-BFGS has learnt anything, and later also uses what the sample did not show.
    """
    x, targets = train[0].sort(1).values, scaled.scaled(train[1])  # tuples of a set are then tuples of places
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
    """Half the squared errors, or absolute ones that are squared near 0: √(e² + s²) - s (pseudo-Huber loss over s)."""

    def __init__(self, smoothing: float | None) -> None:
        self.smoothing = smoothing

    def __call__(self, errors: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the loss of each error, and its derivative."""
        if self.smoothing is None:
            return errors.square() / 2, errors.clone()
        roots = (errors.square() + self.smoothing**2).sqrt()
        return roots - self.smoothing, errors / roots

    def root_weights(self, errors: Tensor) -> Tensor:
        """Returns √(derivative / error), the square root of the errors' weights W."""
        if self.smoothing is None:
            return torch.ones_like(errors)
        return (errors.square() + self.smoothing**2) ** -0.25


def gauss_newton(
    examples: AllAtOnce, weights: Tensor, loss: Loss, damping: float, sampling: torch.Generator
) -> GaussNewton:
    """Returns the inverse of Jᵀ W J / m plus damping times its floored diagonal, for m sampled examples."""
    some = torch.randperm(examples.num, generator=sampling)[:SAMPLE]
    jacobian, errors = examples.jacobian(weights, some)
    jacobian *= loss.root_weights(errors)[:, None] / len(some) ** 0.5
    diagonal = jacobian.square().sum(0).double()
    return GaussNewton(jacobian, damping * diagonal.clamp_min(FLOOR * diagonal.mean()))
