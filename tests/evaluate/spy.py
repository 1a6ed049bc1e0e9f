"""A function that records its calls, and memory budgets in rows."""

from torch import nn

from janossy import Sampled
from janossy.evaluate import Gather, Problem
from tests.examples import (
    distinct_sets,
)


class Spy(nn.Module):
    """A function f that records every x that it is called with."""

    def __init__(self, f):
        super().__init__()
        self.f = f
        self.seen = []

    def forward(self, x):
        self.seen.append(x.detach().clone())
        return self.f(x)


def budget_for(rows, f, length=2):
    """Returns a memory budget for exactly this many rows."""
    elements = distinct_sets((1,))
    return int(rows * Gather().cost(Problem(f, Sampled(1, k=length), elements)).bytes)
