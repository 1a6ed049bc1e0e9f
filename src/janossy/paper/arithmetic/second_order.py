"""Train a k-ary model without batches: L-BFGS, preconditioned by damped Gauss-Newton matrices."""

import time
from itertools import combinations, count
from math import ceil

import numpy as np
import scipy.optimize
import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from janossy import JanossyNetwork, JanossyPooling, Ragged, TupleMLP
from janossy.paper.arithmetic.scoring import Examples, Scaled, score
from janossy.paper.arithmetic.settings import Settings
from janossy.paper.arithmetic.tasks import Task
from janossy.runs.workers import Progress

FRACTIONS = (1 / 8, 1 / 4, 1 / 2)
"""What part of the examples the first rounds see; the later ones see all."""

EVALUATIONS = 100
"""Losses and gradients of a round, while it sees a part, and of the first that sees all; each later round, which has a
new matrix, takes as many passes as all before it."""

DAMPING, SOFTER, LEAST_DAMPING = 1.0, 0.3, 1e-3
"""The first matrix adds its whole diagonal to itself, which keeps units from saturating in the first few passes; each
later one adds 0.3 times as much of it as the one before."""

SQUARED_ROUNDS = 3
"""Absolute errors are minimised from here on; squared ones before."""

SMOOTHING = 0.25
"""Where absolute errors begin to be squared ones, in units of the targets, so that they have a curvature."""

SAMPLE, CHUNK = 3000, 250
"""Examples that a Gauss-Newton matrix is made of, and of which Jacobians are held at a time."""

MEMORY = 30
"""Pairs of steps and gradients that L-BFGS keeps."""

LINE_SEARCH = 20
"""Passes that a line search may take, and its second try without the memory."""

OCCURRENCE_MEMORY = 1 << 30
"""Bytes for counting the distinct tuples of all examples: 12 million of k = 3 on variance."""


def fit(
    scaled: Scaled,
    task: Task,
    settings: Settings,
    train: Examples,
    validation: Examples,
    seed: int,
    progress: Progress,
) -> list[dict]:
    """Train in place, for ``settings.epochs`` passes over the examples or until nothing is won; return the history.

    A line search that is under way is ended, by ``2 LINE_SEARCH`` passes more at most.

    Minimises squared errors, then smoothed absolute ones where the loss is "l1" or "task" on integer targets, on a part
    of the examples and then on all: an epoch is a loss and a gradient on all of them, with f on each distinct tuple
    once, or twice that on half of them. L-BFGS (``scipy.optimize``) goes in the
    coordinates in which the matrix Jᵀ W J / m + damping is the identity: J are the outputs' derivatives by all weights
    on a sample of m examples, and W the errors' weights (Gauss and Newton's matrix, with Marquardt's damping by the
    diagonal), so that a step is Gauss and Newton's before L-BFGS has learnt anything, and then also knows what the
    sample did not tell.
    """
    problem = _Problem(scaled, train)
    num = len(train[0])
    absolute = settings.loss == "l1" or (settings.loss == "task" and task.is_integer)
    sampling = torch.Generator().manual_seed(seed)
    history: list[dict] = []
    for number in count():
        start, before = time.process_time(), problem.passes
        part = FRACTIONS[number] if number < len(FRACTIONS) else 1.0
        problem.see(torch.randperm(num, generator=sampling)[: ceil(num * part)] if part < 1 else None)
        left = settings.epochs - before
        evaluations = min(EVALUATIONS, ceil(left / part)) if part < 1 else ceil(min(max(EVALUATIONS, before), left))
        damping = max(LEAST_DAMPING, DAMPING * SOFTER**number)
        problem.smoothing = SMOOTHING / scaled.scale if absolute and number >= SQUARED_ROUNDS else None
        some = torch.randperm(num, generator=sampling)[:SAMPLE]
        loss = problem.descend(some, damping, evaluations, progress)
        history.append({
            "epoch": ceil(problem.passes),
            "train_loss": loss,
            **score(scaled.outputs(validation[0], 1), validation[1], settings.vote, task),
            "seconds": round(time.process_time() - start, 3),
        })  # fmt: skip
        if problem.passes >= settings.epochs or problem.passes - before < 5 * part:
            break
    progress(max(0, settings.epochs - problem.passes))
    return history


class _Problem:
    """The loss of a network on all examples, as a function of one vector of all weights."""

    def __init__(self, scaled: Scaled, train: Examples) -> None:
        self.network = scaled.network
        self.x = train[0].sort(1).values  # a set's tuples are then its places' in this order
        self.targets = scaled.scaled(train[1])
        self.see(None)
        self.weights = [weight for weight in self.network.parameters() if weight.requires_grad]
        self.whole = _by_distinct_tuples(self.network)
        self.smoothing: float | None = None
        self.passes = 0.0

    def see(self, some: Tensor | None) -> None:
        """Of which examples the loss is from now on, None for all."""
        self.sets = Ragged.from_padded(self.x if some is None else self.x[some])
        self.seen = self.targets if some is None else self.targets[some]

    def descend(self, some: Tensor, damping: float, evaluations: int, progress: Progress) -> float:
        """So many losses and gradients, preconditioned by the Gauss-Newton matrix of some examples; return the loss."""
        factor = torch.linalg.cholesky(self._gauss_newton(some, damping))
        start = parameters_to_vector(self.weights).detach().double()

        def at(step: np.ndarray) -> Tensor:
            return start + _solve(factor.T, torch.from_numpy(step), upper=True)

        def evaluate(step: np.ndarray) -> tuple[float, np.ndarray]:
            part = len(self.seen) / len(self.targets)
            progress(part)
            self.passes += part
            loss, gradient = self._loss_and_gradient(at(step))
            return loss, _solve(factor, gradient, upper=False).numpy()

        found = scipy.optimize.minimize(
            evaluate,
            np.zeros(len(start)),
            jac=True,
            method="L-BFGS-B",
            options={
                "maxcor": MEMORY,
                "maxfun": evaluations,
                "maxiter": evaluations,
                "maxls": LINE_SEARCH,
                "ftol": 0.0,
                "gtol": 0.0,
            },
        )
        vector_to_parameters(at(found.x).float(), self.weights)
        return float(found.fun)

    def _loss_and_gradient(self, weights: Tensor) -> tuple[float, Tensor]:
        vector_to_parameters(weights.float(), self.weights)
        errors = self.whole(self.sets)[:, 0] - self.seen
        loss = self._losses(errors).mean()
        gradients = torch.autograd.grad(loss, self.weights)
        return loss.item(), parameters_to_vector(gradients).double()

    def _losses(self, errors: Tensor) -> Tensor:
        """Half the squares; or the absolute errors, squared near 0: √(e² + s²) - s (the pseudo-Huber loss over s)."""
        if self.smoothing is None:
            return errors.square() / 2
        return (errors.square() + self.smoothing**2).sqrt() - self.smoothing

    def _gauss_newton(self, some: Tensor, damping: float) -> Tensor:
        """Jᵀ W J / m + damping times its diagonal, (P, P) float64, of some m examples."""
        size = sum(weight.numel() for weight in self.weights)
        matrix = torch.zeros(size, size)
        for part in some.split(CHUNK):
            jacobian, errors = _jacobian(self.network, self.x[part], self.targets[part])
            if self.smoothing is not None:
                jacobian *= (errors.square() + self.smoothing**2)[:, None] ** -0.25
            matrix.addmm_(jacobian.T, jacobian, alpha=1 / len(some))
        exact = matrix.double()
        diagonal = exact.diagonal()
        floor = 1e-6 * diagonal.mean()
        diagonal += damping * diagonal.clamp_min(floor) + 1e-3 * floor
        return exact


def _by_distinct_tuples(network: JanossyNetwork) -> JanossyNetwork:
    """The same, of the same weights, with f on each distinct tuple once."""
    of = network.pooling
    pooling = JanossyPooling(of.f, of.orderings, reduce=of.reduce, evaluate="distinct", memory_budget=OCCURRENCE_MEMORY)
    return JanossyNetwork(network.h, pooling, network.rho)


@torch.no_grad()
def _jacobian(network: JanossyNetwork, x: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The outputs' derivatives by each weight that is trained (B, P), and the errors (B,), of sorted sets (B, n)."""
    of = network.pooling
    f, rho = of.f, network.rho
    assert isinstance(f, TupleMLP)
    tuples = torch.tensor(list(combinations(range(x.shape[1]), f.k)))
    rows = network.h(x)[:, tuples]  # (B, T, k, d)
    parts = {"f": f, "rho": rho}
    weights = {name: {key: w.detach() for key, w in part.named_parameters()} for name, part in parts.items()}

    def output(weights: dict[str, dict[str, Tensor]], rows: Tensor) -> tuple[Tensor, Tensor]:
        values = functional_call(f, weights["f"], (rows,))
        pooled = values.sum(0) if of.reduce == "sum" else values.mean(0)
        y = functional_call(rho, weights["rho"], (pooled,))[0]
        return y, y

    derivatives, outputs = vmap(grad(output, has_aux=True), in_dims=(None, 0))(weights, rows)
    columns = [derivatives[name][key] for name, part in parts.items() for key, _ in part.named_parameters()]
    return torch.cat([column.flatten(1) for column in columns], 1), outputs - targets


def _solve(factor: Tensor, vector: Tensor, *, upper: bool) -> Tensor:
    return torch.linalg.solve_triangular(factor, vector[:, None], upper=upper)[:, 0]
