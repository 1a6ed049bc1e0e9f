"""L-BFGS in the metric of a damped Gauss-Newton matrix."""

import warnings
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
import scipy.optimize
import torch
from scipy.linalg.blas import dsyrk
from torch import Tensor

Evaluate = Callable[[Tensor], tuple[float, Tensor]]
"""A function of weights (P,) that returns the loss and its gradient, float64."""

MEMORY = 30
"""The number of kept pairs of steps and gradient changes."""

LINE_SEARCH = 20
"""The most evaluations of a line search."""


class GaussNewton:
    """The inverse of Jᵀ J + diag(d), by Woodbury's identity. Only an (m, m) matrix is factored for J (m, P)."""

    def __init__(self, jacobian: Tensor, diagonal: Tensor) -> None:
        """Factors the matrix of a Jacobian (m, P) and a positive diagonal (P,), float64."""
        self.roots = diagonal.rsqrt()
        self.scaled = jacobian.double().mul_(self.roots)
        gram = torch.from_numpy(dsyrk(1.0, self.scaled.numpy().T, trans=1))  # the upper triangle, at half the cost
        gram.diagonal().add_(1.0)
        self.inner = torch.cholesky_inverse(torch.linalg.cholesky(gram, upper=True), upper=True)

    def __call__(self, x: Tensor) -> Tensor:
        """Applies it to a vector (P,), or to several (c, P), float64."""
        scaled = x * self.roots
        return self.roots * (scaled - scaled @ self.scaled.T @ self.inner @ self.scaled)


class Descent:
    """A descent: its current point, the loss and gradient there, and the pairs learnt so far.

    Attributes:
        evaluate: returns the loss and its gradient.
        at: the current point, (P,), float64.
        loss: the loss there.
    """

    def __init__(self, evaluate: Evaluate, at: Tensor) -> None:
        self.evaluate, self.at = evaluate, at
        self.loss, self.gradient = evaluate(at)
        self.pairs: deque[tuple[Tensor, Tensor]] = deque(maxlen=MEMORY)
        """Steps, with the changes of the gradient over them."""

    def go(self, inverse: GaussNewton, evaluations: int) -> None:
        """Descends for at least so many evaluations, up to the end of a line search, or until no step is found.

        The inverse Hessian is ``inverse`` until pairs are known, and then the update of a multiple of it by the pairs.
        """
        left = evaluations
        products = deque(inverse(torch.stack([change for _, change in self.pairs])) if self.pairs else (), MEMORY)
        natural = inverse(self.gradient)
        while left > 0:
            direction = -self.direction_of(natural, products)
            line = _Line(self.evaluate, self.at, direction, self.loss, self.gradient)
            length = line.search()
            left -= line.num
            if length is None:
                if not self.pairs:
                    return
                self.pairs.clear()
                products.clear()
                continue
            step = length * direction
            self.loss, gradient = line.known[length]
            change, self.gradient, self.at = gradient - self.gradient, gradient, self.at + step
            product = inverse(change)
            natural = natural + product
            if step @ change > 0:
                self.pairs.append((step, change))
                products.append(product)

    def direction_of(self, natural: Tensor, products: Sequence[Tensor]) -> Tensor:
        """Returns the inverse Hessian times the gradient (Nocedal and Wright, algorithm 7.4).

        ``natural`` is the initial inverse times the gradient, ``products`` times the change of each pair.
        """
        q, r, factors = self.gradient.clone(), natural.clone(), []
        for (step, change), product in zip(reversed(self.pairs), reversed(products), strict=True):
            factors.append(step @ q / (step @ change))
            q -= factors[-1] * change
            r -= factors[-1] * product
        if self.pairs:
            step, change = self.pairs[-1]
            r *= step @ change / (change @ products[-1])
        for step, change in self.pairs:
            r += (factors.pop() - change @ r / (step @ change)) * step
        return r


class _Line:
    """The loss along a direction, each point evaluated once."""

    def __init__(self, evaluate: Evaluate, at: Tensor, direction: Tensor, loss: float, gradient: Tensor) -> None:
        self.evaluate, self.at, self.direction = evaluate, at, direction
        self.known = {0.0: (loss, gradient)}
        self.num = 0

    def search(self) -> float | None:
        """Returns a length that satisfies Wolfe's conditions, or the best that was tried; None if 0 is better."""
        loss, gradient = self.known[0.0]
        slope = (gradient @ self.direction).item()
        if not slope < 0:
            return None
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The line search algorithm", RuntimeWarning)
            found = scipy.optimize.line_search(
                lambda t: self._point(float(t[0]))[0],
                lambda t: np.array([(self._point(float(t[0]))[1] @ self.direction).item()]),
                np.zeros(1), np.ones(1), np.array([slope]), loss,
                maxiter=LINE_SEARCH,
            )  # fmt: skip
        if found[0] is not None:
            return float(found[0])
        best = min((length for length in self.known if length), key=lambda length: self.known[length][0], default=0.0)
        return best if self.known[best][0] < loss else None

    def _point(self, length: float) -> tuple[float, Tensor]:
        if length not in self.known:
            self.num += 1
            self.known[length] = self.evaluate(self.at + length * self.direction)
        return self.known[length]
