"""Recurrences depth by depth: the rows of several networks take one step together, each with its network's numbers.

The products with the weights are made outside, by a matrix product for all rows of a depth. Cells are numbered depth by
depth, within it network by network, and the rows that go on are always a network's first ones.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from janossy.kernels.cpu.cells import NUM_CHANGES, NUM_GATES, NUM_KEPT, NUM_STATES, at_most_once, step, step_back
from janossy.kernels.cpu.compiled import Kernel, kernel_maker
from janossy.kernels.cpu.vector import inlined, load, load_first, num_lanes, store, store_first
from janossy.kernels.limits import CELL_KINDS


def step_rows(
    kind: str,
    inputs: np.ndarray,
    elements: np.ndarray,
    bias: np.ndarray,
    hidden: np.ndarray,
    states: np.ndarray,
    kept: np.ndarray,
    depth: tuple[int, ...],
    num_threads: int,
) -> None:
    """Put the states of a depth's cells, and what is kept of them, unless ``kept`` is empty.

    Shapes: inputs (N, gates·H), elements (C,), bias (R, H), hidden (R·m·gates·H or more,), the products of the states
    before; states (C, states·H), kept (C·kept·H or 0,). depth: the first cells of the depth before, -1 at the first
    depth, and of this one; the rows of each network at both.
    """
    code, (R, H) = CELL_KINDS[kind], bias.shape
    arrays = (x.reshape(-1) for x in (inputs, elements, bias, hidden, states, kept))
    _forward(code)(R, _costs(R, depth[3], code, H), num_threads, *arrays, *depth, H)


def step_rows_back(
    kind: str,
    elements: np.ndarray,
    states: np.ndarray,
    kept: np.ndarray,
    by_ends: np.ndarray,
    by_state: np.ndarray,
    product: np.ndarray,
    by_before: np.ndarray,
    by_hidden: np.ndarray,
    by_inputs: np.ndarray,
    ends: np.ndarray,
    depth: tuple[int, ...],
    num_threads: int,
) -> None:
    """Put the gradients by a depth's products, and by the states before; add those by the inputs.

    Shapes: by_ends (R·m, H), those by the rows' ends; by_state (R·m·states·H or more,), those by the depth's states, of
    which the rows that go on are known but for ``product`` (R·m·H,); ends (R, rows). depth: as for ``step_rows``, and
    the rows of each network at the depth after.
    """
    code, R, H = CELL_KINDS[kind], len(ends), by_ends.shape[1]
    arrays = (x.reshape(-1) for x in (elements, states, kept, by_ends, by_state, product, by_before, by_hidden))
    _backward(code)(
        R, _costs(R, depth[3], code, H), num_threads, *arrays, by_inputs.reshape(-1), ends.reshape(-1), *depth,
        ends.shape[1], H,
    )  # fmt: skip


def _costs(R: int, m: int, code: int, H: int) -> Callable[[], np.ndarray]:
    return partial(np.full, R, m * NUM_GATES[code] * float(H))


@kernel_maker
def _forward(kind: int) -> Kernel:
    num_gates, num_states, num_kept = NUM_GATES[kind], NUM_STATES[kind], NUM_KEPT[kind]

    def forward(inputs, elements, bias, hidden, states, kept, before, now, num_before, num_now, H, first, last):
        width, state_size = num_gates * H, num_states * H
        zero = np.zeros(max(width, state_size), states.dtype)
        own_bias = np.empty(H, bias.dtype)
        for r in range(first, last):
            for h in range(H):  # numba takes a second to compile a copy between slices
                own_bias[h] = bias[r * H + h]
            for j in range(num_now):
                row = r * num_now + j
                c = now + row
                if before >= 0:
                    above, at_above = states, (before + r * num_before + j) * state_size
                    product, at_product = hidden, row * width
                else:
                    above, at_above, product, at_product = zero, 0, zero, 0
                step(
                    kind, H, inputs, elements[c] * width, product, at_product, own_bias,
                    above, at_above, states, c * state_size, kept, c * num_kept * H,
                )  # fmt: skip

    return Kernel(forward, f"rows_{kind}")


@inlined
def _add(x, at, y, from_, num):
    # By whole vectors, as they are read and written before and after: a CPU waits where a read spans two writes.
    whole = num - num % num_lanes(x)
    for i in range(0, whole, num_lanes(x)):
        store(x, at + i, load(x, at + i) + load(y, from_ + i))
    if whole < num:
        more = load_first(x, at + whole, num - whole) + load_first(y, from_ + whole, num - whole)
        store_first(x, at + whole, more, num - whole)


@kernel_maker
def _backward(kind: int) -> Kernel:
    num_gates, num_states = NUM_GATES[kind], NUM_STATES[kind]
    num_kept, num_changes = NUM_KEPT[kind], NUM_CHANGES[kind]

    def backward(
        elements, states, kept, by_ends, by_state, product, by_before, by_hidden, by_inputs, ends,
        before, now, num_before, num_now, num_after, num_rows, H, first, last,
    ):  # fmt: skip
        width, state_size = num_gates * H, num_states * H
        zero, changes = np.zeros(state_size, states.dtype), np.empty(num_changes * H, states.dtype)
        nothing, masks = np.empty(state_size, states.dtype), at_most_once(states)
        for r in range(first, last):
            for j in range(num_now):
                row = r * num_now + j
                c, at = now + row, row * state_size
                if j < num_after:
                    _add(by_state, at, product, (r * num_after + j) * H, H)
                else:
                    by_state[at : at + state_size] = 0
                if ends[r * num_rows + j] == c:
                    _add(by_state, at, by_ends, (r * num_rows + j) * H, H)
                if before >= 0:
                    above, at_above = states, (before + r * num_before + j) * state_size
                    by_above, at_by_above = by_before, (r * num_before + j) * state_size
                else:
                    above, at_above, by_above, at_by_above = zero, 0, nothing, 0
                by_above[at_by_above : at_by_above + state_size] = 0  # of which some kinds put a part only
                step_back(
                    True, kind, H, above, at_above, states, c * state_size, kept, c * num_kept * H,
                    by_state, at, changes, 0, by_hidden, row * width, by_above, at_by_above, masks,
                )  # fmt: skip
                _add(by_inputs, elements[c] * width, changes, 0, width)

    return Kernel(backward, f"rows_back_{kind}")
