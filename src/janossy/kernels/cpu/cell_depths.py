"""Recurrences over a forest of cells depth by depth, in bfloat16: all cells of a depth take one step together.

The products with the weights are made outside, as a CPU has instructions for matrix products in bfloat16. Arrays of
uint16 hold the bits of bfloat16 numbers; a step computes in float32. Cells of a depth are in the order of their
parents, which are cells of the depth before.
"""

from functools import partial

import numpy as np

from janossy.kernels.cpu.cells import (
    GRU,
    LSTM,
    NUM_CHANGES,
    NUM_GATES,
    NUM_KEPT,
    NUM_STATES,
    at_most_once,
    step,
    step_back,
)
from janossy.kernels.cpu.compiled import Kernel, kernel_maker
from janossy.kernels.cpu.denormals import flush_denormals, restore
from janossy.kernels.cpu.vector import load, num_lanes, store
from janossy.kernels.limits import CELL_KINDS


def step_depth(
    kind: str,
    inputs: np.ndarray,
    bias: np.ndarray,
    cells: tuple[np.ndarray, ...],
    hidden: np.ndarray,
    before: np.ndarray,
    after: np.ndarray,
    kept: np.ndarray,
    num_threads: int,
) -> None:
    """Put the states of a depth's cells, and what is kept of them, unless ``kept`` is empty.

    Shapes: inputs (N, gates·H), and bias (H,) of the last gate; hidden (P, gates·H), the products of the first P states
    of the depth before; before (P or more, states·H), these states; after (C, states·H); kept (C, kept·H) or (0, …).
    cells: the elements (C,) whose inputs they read, and the numbers (C,) of their parents in the depth before, int64.
    bias is float32, and the others uint16.
    """
    code, H, C = CELL_KINDS[kind], len(bias), len(after)
    arrays = (x.reshape(-1) for x in (inputs, bias, hidden, before, after, kept))
    _forward(code)(C, partial(np.full, C, NUM_GATES[code] * float(H)), num_threads, *cells, *arrays, H)


def step_depth_back(
    kind: str,
    cells: tuple[np.ndarray, ...],
    before: np.ndarray,
    after: np.ndarray,
    kept: np.ndarray,
    by_ends: np.ndarray,
    product: np.ndarray,
    by_after: np.ndarray,
    by_before: np.ndarray,
    changes: np.ndarray,
    by_hidden: np.ndarray,
    num_threads: int,
) -> None:
    """Put the gradients by what a depth's gates are made of, by its products, and by the states before.

    Shapes: by_ends (rows, H), the gradients by the last states of rows; product (D, H) and by_after (D, states·H), the
    gradients by this depth's states through each of the D cells of the depth after: by its products, and directly;
    by_before (C, states·H); changes (C, changes·H); by_hidden (C, gates·H), the memory of the changes where these are
    equal. cells: the parents of ``step_depth``; the row (C,) that a cell is the end of, or -1; and where the children
    of each cell begin in the depth after, (C + 1,); int64. by_after and by_before are float32, the others uint16.
    """
    code, H, C = CELL_KINDS[kind], by_ends.shape[1], len(after)
    matrices = before, after, kept, by_ends, product, by_after, by_before, changes, by_hidden
    arrays = (x.reshape(-1) for x in matrices)
    _backward(code)(C, partial(np.full, C, NUM_GATES[code] * float(H)), num_threads, *cells, *arrays, H)


@kernel_maker
def _forward(kind: int) -> Kernel:
    num_gates, num_states, num_kept = NUM_GATES[kind], NUM_STATES[kind], NUM_KEPT[kind]

    def forward(elements, parents, inputs, bias, hidden, before, after, kept, H, first, last):
        width, state_size = num_gates * H, num_states * H
        mode = flush_denormals()
        for c in range(first, last):
            step(
                kind, H, inputs, elements[c] * width, hidden, parents[c] * width, bias,
                before, parents[c] * state_size, after, c * state_size, kept, c * num_kept * H,
            )  # fmt: skip
        restore(mode)

    return Kernel(forward, f"depth_{kind}")


@kernel_maker
def _backward(kind: int) -> Kernel:
    num_gates, num_states = NUM_GATES[kind], NUM_STATES[kind]
    num_kept, num_changes = NUM_KEPT[kind], NUM_CHANGES[kind]

    def backward(
        parents, rows, children, before, after, kept, by_ends, product, by_after, by_before, changes, by_hidden,
        H, first, last,
    ):  # fmt: skip
        width, state_size = num_gates * H, num_states * H
        by_state, zero = np.empty(state_size, by_before.dtype), np.zeros(num_lanes(by_before), by_before.dtype)
        masks = at_most_once(by_before)
        mode = flush_denormals()
        for c in range(first, last):
            for column in range(0, H, num_lanes(by_state)):
                v = min(column, H - num_lanes(by_state))
                by_h, by_memory = load(zero, 0), load(zero, 0)
                if rows[c] >= 0:
                    by_h = by_h + load(by_ends, rows[c] * H + v)
                for child in range(children[c], children[c + 1]):
                    by_h = by_h + load(product, child * H + v)
                    if kind == GRU:
                        by_h = by_h + load(by_after, child * H + v)
                    elif kind == LSTM:
                        by_memory = by_memory + load(by_after, child * state_size + H + v)
                store(by_state, v, by_h)
                if kind == LSTM:
                    store(by_state, H + v, by_memory)
            step_back(
                True, kind, H, before, parents[c] * state_size, after, c * state_size, kept, c * num_kept * H,
                by_state, 0, changes, c * num_changes * H, by_hidden, c * width, by_before, c * state_size, masks,
            )  # fmt: skip
        restore(mode)

    return Kernel(backward, f"depth_back_{kind}")
