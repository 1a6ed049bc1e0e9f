"""Rows of a recurrence by torch's kernels (on CUDA cuDNN's): all rows in one call, without padding."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from janossy.evaluate.problem import Function, Problem
from janossy.functions.checks import check_dtype
from janossy.functions.structure import Recurrent, recurrent
from janossy.sets.transfer import constant, upload

KERNELS: dict[str, Callable[..., tuple[Tensor, ...]]] = {"rnn": torch.rnn_tanh, "gru": torch.gru, "lstm": torch.lstm}
"""torch's kernels per kind of step. Only the library's own steps have these kinds; torch's formulas are the same."""

KEEP_CELLS = 2**16
"""The most cells of an order that is kept on the device (half a megabyte); larger ones are sent at every call."""


@dataclass(frozen=True, eq=False)
class Sequences:
    """Rows in the order of torch's kernels: step by step, and at each step the rows that are so long, longest first.

    Shapes: elements (C,), int64, the elements that are read. batch_sizes (L,), int64, on the host: the number of rows
        that have the step.
    """

    elements: Tensor
    batch_sizes: Tensor
    num_rows: int
    """The number of rows, including rows of length 0, which come last."""

    @property
    def num_cells(self) -> int:
        return len(self.elements)


def takes(problem: Problem) -> bool:
    """Returns True if torch's kernels run these rows best: on CUDA, for the library's own recurrences.

    ``unrolled`` recurrences are excluded, as cuDNN cannot be differentiated twice. So are those with dropout, as a
    chunk that is computed again in backward could not drop the same activations, and sparse values.
    """
    structure, values = problem.declared(Recurrent), problem.values
    is_own = structure.kind in KERNELS and not (structure.unrolled or structure.dropout)
    return is_own and values.is_cuda and values.layout == torch.strided


def launches(problem: Problem, longest: int) -> float:
    """Estimates the number of kernels, forward and backward: some per step of each layer, and some besides."""
    return 40 + 6 * longest * sum(map(len, problem.declared(Recurrent).layers))


def sequences(positions: list[Tensor]) -> Sequences:
    """Returns rows of elements at positions (T_i, L_i), the longest first; rows are numbered as they come."""
    num_rows, shapes = sum(len(x) for x in positions), tuple((len(x), x.shape[1]) for x in positions if x.numel())
    if len(shapes) < 2:
        elements = next(
            (x for x in positions if x.numel()), torch.zeros(0, 0, dtype=torch.long, device="cpu")
        ).T.reshape(-1)
    else:
        flat = torch.cat([x.reshape(-1) for x in positions])
        kept = len(flat) <= KEEP_CELLS
        order = constant(flat.device, _order, shapes) if kept else upload(_order(shapes), flat.device)
        elements = flat.index_select(0, order)
    lengths = np.repeat([length for _, length in shapes], [num for num, _ in shapes]).astype(np.int64)
    steps = np.arange(lengths.max(initial=0))
    return Sequences(elements, torch.from_numpy(np.searchsorted(-lengths, -steps)), num_rows)


def run(f: Function, x: tuple[Tensor, Sequences], structure: Recurrent | None = None) -> Tensor:
    """Returns f of these rows of values (N, d): (rows, c). A row of length 0 is the zero vector.

    ``structure`` is the present declaration of f, if known.

    Raises: ValueError for values in another dtype than the weights.
    """
    structure, (values, rows) = structure or recurrent(f), x
    directions = [direction for layer in structure.layers for direction in layer]
    check_dtype(f, values, directions[0].weight_ih)
    if rows.num_cells == 0:
        return values.new_zeros(rows.num_rows, structure.out_features)
    num_real, H = int(rows.batch_sizes[0]), directions[0].weight_hh.shape[1]
    weights = [w for d in directions for w in (d.weight_ih, d.weight_hh, d.bias_ih, d.bias_hh)]
    zero = values.new_zeros(len(directions), num_real, H)
    state = zero if structure.num_states == 1 else (zero,) * structure.num_states
    both = len(structure.layers[0]) > 1
    # (…, has_biases, num_layers, dropout, train, bidirectional)
    options = (True, len(structure.layers), 0.0, torch.is_grad_enabled(), both)
    read = values.index_select(0, rows.elements)
    _, last, *_ = KERNELS[structure.kind](read, rows.batch_sizes, state, weights, *options)
    ends = last[-len(structure.layers[0]) :].transpose(0, 1).flatten(1)
    return torch.nn.functional.pad(ends, (0, 0, 0, rows.num_rows - num_real))


@lru_cache(maxsize=64)
def _order(shapes: tuple[tuple[int, int], ...]) -> np.ndarray:
    """Returns the order in which entries of rows (T_i, L_i), end to end, are read: by step, then by row."""
    lengths = np.repeat([length for _, length in shapes], [num for num, _ in shapes])
    steps = np.concatenate([np.tile(np.arange(length), num) for num, length in shapes])
    rows = np.repeat(np.arange(len(lengths)), lengths)
    return np.lexsort((rows, steps))
