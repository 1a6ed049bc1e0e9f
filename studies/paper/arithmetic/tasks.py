"""The five tasks: functions of sets of integers (Section 4.1)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Task:
    """The task of predicting ``target`` of ``num_integers`` integers, sampled uniformly from 0 … vocabulary - 1.

    ``target`` maps (B, num_integers) int64 to (B,) float32. Integer targets are scored by accuracy after rounding.
    """

    name: str
    num_integers: int
    vocabulary: int
    target: Callable[[Tensor], Tensor]
    is_integer: bool = True

    def draw(self, num_examples: int, *seed: int) -> tuple[Tensor, Tensor]:
        """Samples integers (num_examples, num_integers), and returns them with targets (num_examples,), by the seed."""
        rng = np.random.default_rng((*self.name.encode(), *seed))
        x = torch.from_numpy(rng.integers(self.vocabulary, size=(num_examples, self.num_integers)))
        return x, self.target(x).float()


def _present(x: Tensor) -> Tensor:
    """Returns 1 for each digit 0 … 9 that occurs, else 0, (B, 10)."""
    return torch.zeros(len(x), 10).scatter_(1, x, 1.0)


TASKS = {
    task.name: task
    for task in (
        Task("sum", 5, 100, lambda x: x.sum(1)),
        Task("range", 5, 100, lambda x: x.amax(1) - x.amin(1)),
        Task("unique_sum", 10, 10, lambda x: _present(x) @ torch.arange(10.0)),
        Task("unique_count", 10, 10, lambda x: _present(x).sum(1)),
        Task("variance", 10, 100, lambda x: x.double().var(1, correction=0), is_integer=False),
    )
}
