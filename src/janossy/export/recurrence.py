"""A recurrence over padded rows, cell by cell: a loop in Python, or, when exported, one ``scan`` of any length."""

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan

from janossy.export.indices import gather
from janossy.functions.structure import Direction, Recurrent, State

Stepped = tuple[State, Tensor]  # defined here, as torch.export cannot trace the expression where it is used


def last_hidden(structure: Recurrent, x: Tensor, sizes: Tensor) -> Tensor:
    """Returns f of the rows x (T, L, d), whose first sizes (T,) elements are real; zero without real elements."""
    last: list[Tensor] = []
    for layer in structure.layers:
        runs = [_run(structure, direction, x, sizes) for direction in layer]
        x = torch.cat([outputs for outputs, _ in runs], dim=2)
        last = [hidden for _, hidden in runs]
    return torch.cat(last, dim=1)


def _run(structure: Recurrent, weights: Direction, x: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Runs one layer in one direction: returns its outputs (T, L, H), in the order of x, and last hidden states (T, H).

    It reads the real elements of each row, from the first to the last or backwards, and then the padding. The last
    hidden state is that before the padding.
    """
    ordered = _reversed(x, sizes) if weights.reverse else x
    inputs = nn.functional.linear(ordered, weights.weight_ih, weights.bias_ih)

    def step(state: State, inputs: Tensor) -> Stepped:
        hidden = nn.functional.linear(state[0], weights.weight_hh, weights.bias_hh)
        return structure.step(inputs, hidden, state), state[0].clone()

    H = weights.weight_hh.shape[1]
    start = tuple(inputs.new_zeros(x.shape[0], H) for _ in range(structure.num_states))
    # One step is added, so that there is always one. hidden[:, t] is the state after t elements.
    hidden = _loop(step, start, nn.functional.pad(inputs, (0, 0, 0, 1)).transpose(0, 1)).transpose(0, 1)
    outputs, last = hidden[:, 1:], gather(hidden, sizes[:, None])[:, 0]
    return (_reversed(outputs, sizes) if weights.reverse else outputs), last


def _loop(step: Callable[[State, Tensor], Stepped], state: State, inputs: Tensor) -> Tensor:
    """Returns the outputs of every step, stacked; when exported, it is a loop over any number of inputs."""
    if torch.compiler.is_exporting():
        return cast(Tensor, scan(step, state, inputs)[1])
    outputs = []
    for each in inputs:
        state, output = step(state, each)
        outputs.append(output)
    return torch.stack(outputs)


def _reversed(x: Tensor, sizes: Tensor) -> Tensor:
    """Returns the rows x (T, L, d) with the first sizes (T,) elements of each in reverse."""
    forward = torch.arange(x.shape[1], device=x.device)
    backward = sizes[:, None] - 1 - forward
    return gather(x, torch.where(backward >= 0, backward, forward))
