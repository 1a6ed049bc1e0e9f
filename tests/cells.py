"""Recurrence cells from outside the package, as users would write them."""

import torch

from janossy import GRU, LSTM
from janossy.functions import Recurrence


class Peephole(Recurrence):
    """A cell with two states, and gates that multiply the contribution of the hidden state, with its bias."""

    num_gates = 3
    num_states = 2

    @staticmethod
    def step(inputs, hidden, state):
        a, b, c = inputs.chunk(3, dim=1)
        u, v, w = hidden.chunk(3, dim=1)
        gate = torch.sigmoid(a * (1 + u))
        memory = gate * state[1] + (1 - gate) * torch.tanh(b + gate * v)
        return torch.sigmoid(c + w * memory) * memory, memory


class AnotherGRU(GRU):
    """A cell with its own step under an existing name."""

    @staticmethod
    def step(inputs, hidden, state):
        first, second, third = (inputs + 0.5 * hidden.square()).chunk(3, dim=1)
        return (torch.sigmoid(first) * state[0] + torch.sigmoid(second) * torch.sin(third),)


class MultipliesLSTM(LSTM):
    """A subclass of an additive cell, whose gates multiply."""

    @staticmethod
    def step(inputs, hidden, state):
        a, b, c, d = (inputs * (1 + hidden)).chunk(4, dim=1)
        memory = torch.sigmoid(a) * state[1] + torch.tanh(b)
        return torch.sigmoid(c + d) * torch.tanh(memory), memory


class Writes(Recurrence):
    """A cell whose step writes into its arguments."""

    num_gates = 2

    @staticmethod
    def step(inputs, hidden, state):
        first, second = hidden.mul_(0.5).add_(inputs.mul_(2.0)).chunk(2, dim=1)
        return (torch.sigmoid(first) * state[0] + torch.tanh(second),)


AnotherGRU.__name__ = AnotherGRU.__qualname__ = "GRU"
NAMED_AS_THE_KERNEL = type("gru", (Recurrence,), {"num_gates": 3, "step": staticmethod(AnotherGRU.step)})

CELLS = {
    "peephole": Peephole,
    "another_gru": AnotherGRU,
    "multiplies_lstm": MultipliesLSTM,
    "writes": Writes,
    "named_as_the_kernel": NAMED_AS_THE_KERNEL,
}
