"""Recurrences over a forest of cells: rows are paths, and rows that begin alike share cells (docs/recurrences.md).

Cells are ordered by tree, within it by level, within that by parent. A cell's state is that of its parent, the zero
state at a root, after one step with its element's projections. Trees are independent of one another, so they are what
threads share; within a tree each parent's product with the weights is made once, for up to eight parents at a time.

A forest of C cells is the arrays of int64: elements (C,), whose projections a cell reads; parents (C,), -1 at a root,
never falling within a level; rows (C,), the row that a cell is the end of, or -1; levels (V + 1,), where each level
begins among the cells; trees (G + 1,), where each tree begins among the levels.
"""

from functools import partial

import numpy as np
from numba import njit

from janossy.kernels.cpu.cells import NUM_CHANGES, NUM_GATES, NUM_KEPT, NUM_STATES, at_most_once, step, step_back
from janossy.kernels.cpu.compiled import Kernel, kernel_maker
from janossy.kernels.cpu.denormals import flush_denormals, restore
from janossy.kernels.cpu.row_matmul import ROWS, add_row_products, panels
from janossy.kernels.cpu.vector import load, num_lanes, store
from janossy.kernels.limits import CELL_KINDS, LANES


def run_cells(
    kind: str,
    inputs: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    cells: tuple[np.ndarray, ...],
    num_rows: int,
    keep_states: bool,
    keep_gates: bool,
    num_threads: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The last hidden state of each row; every cell's state and behind them the zero state, and gates; or neither.

    Shapes: inputs (N, gates·H), weight (gates·H, H), bias (H,), H one vector at least ->
        (num_rows, H), (C + 1, states·H) or (0, …), (C, kept·H) or (0, …).
    """
    code, H, C = CELL_KINDS[kind], weight.shape[1], len(cells[0])
    ends = np.zeros((num_rows, H), inputs.dtype)
    states = np.empty((C + 1 if keep_states else 0, NUM_STATES[code] * H), inputs.dtype)
    states[C:] = 0
    kept = np.empty((C if keep_gates else 0, NUM_KEPT[code] * H), inputs.dtype)
    matrix = panels(_whole(weight.T))
    arrays = (x.reshape(-1) for x in (inputs, matrix, bias))
    results = (x.reshape(-1) for x in (states, kept, ends))
    _forward(code)(len(cells[4]) - 1, partial(_costs, *cells[3:], code, H), num_threads, *arrays, *cells, *results, H)
    return ends, states, kept


def run_cells_back(
    kind: str,
    weight: np.ndarray,
    cells: tuple[np.ndarray, ...],
    states: np.ndarray,
    kept: np.ndarray,
    by_ends: np.ndarray,
    by_states: np.ndarray,
    num_threads: int,
) -> np.ndarray:
    """The gradients by what the gates of the trees' cells are made of, (cells of these trees, changes·H).

    The first of a cell's numbers here is not the element that it reads, but the place where its gradients are put.
    ``trees`` may be a stretch of all trees, and the places are those of its cells.

    Shapes: by_ends (num_rows, H) or (0, H), by_states (C, H) or (0, H).
    """
    code, H = CELL_KINDS[kind], weight.shape[1]
    changes = np.empty((len(cells[0]), NUM_CHANGES[code] * H), states.dtype)
    arrays = (x.reshape(-1) for x in (states, kept, by_ends, by_states, changes))
    arguments = panels(_whole(weight)), *cells, *arrays, H
    _backward(code)(len(cells[4]) - 1, partial(_costs, *cells[3:], code, H), num_threads, *arguments)
    return changes


def _whole(w: np.ndarray) -> np.ndarray:
    """A matrix whose rows are filled up with zeros to whole vectors."""
    missing = -w.shape[1] % LANES[w.dtype.name]
    return np.concatenate((w, np.zeros((len(w), missing), w.dtype)), 1) if missing else w


def sum_by_element(x: np.ndarray, elements: np.ndarray, num_elements: int, num_threads: int) -> np.ndarray:
    """The sum of the rows x (C, W), W one vector at least, of each element, (num_elements, W)."""
    total = np.empty((num_elements, x.shape[1]), x.dtype)
    starts, order = _sorted_by_element(elements, num_elements)
    stride = x.strides[0] // x.itemsize
    costs = partial(np.full, num_elements, 0.2 * x.shape[1] * max(1.0, len(elements) / max(1, num_elements)))
    flat = np.lib.stride_tricks.as_strided(x, (max(0, (len(x) - 1) * stride + x.shape[1]),), (x.itemsize,))
    _sums()(num_elements, costs, num_threads, flat, stride, order, starts, total.reshape(-1), x.shape[1])
    return total


def _costs(levels: np.ndarray, trees: np.ndarray, code: int, H: int) -> np.ndarray:
    """The cost of each tree, in activations: a multiplication in a product takes a fortieth of one."""
    num_cells = np.diff(levels[trees])
    return num_cells * (NUM_GATES[code] * H * (1.0 + H / 40.0))


@njit
def _zero(x, at, num):
    for i in range(at, at + num):
        x[i] = 0


@njit
def _filled(num, x):
    """So many numbers, filled up to whole vectors."""
    return (num + num_lanes(x) - 1) // num_lanes(x) * num_lanes(x)


@njit
def _widest(levels, trees, first, last):
    widest = 0
    for level in range(trees[first], trees[last]):
        widest = max(widest, levels[level + 1] - levels[level])
    return widest


@kernel_maker
def _forward(kind: int) -> Kernel:
    num_gates, num_states, num_kept = NUM_GATES[kind], NUM_STATES[kind], NUM_KEPT[kind]

    def forward(inputs, weight, bias, elements, parents, rows, levels, trees, states, kept, ends, H, first, last):
        width, state_size = num_gates * H, num_states * H
        widest = _widest(levels, trees, first, last)
        all_states = len(states) > 0
        now = states if all_states else np.empty(2 * widest * state_size, states.dtype)
        whole = _filled(width, states)
        hidden, zero = np.empty(ROWS * whole, states.dtype), np.zeros(max(width, state_size), states.dtype)
        mode = flush_denormals()
        for tree in range(first, last):
            for level in range(trees[tree], trees[tree + 1]):
                begin, end = levels[level], levels[level + 1]
                # Cell c's state is number c + shift: of all of them, or of two levels by turns.
                shift = 0 if all_states else (level & 1) * widest - begin
                c = begin
                while c < end:
                    p, num, above, at_above = parents[c], 0, zero, 0
                    if p >= 0:
                        num = min(ROWS, parents[end - 1] + 1 - p)
                        shift_above = 0 if all_states else (1 - (level & 1)) * widest - levels[level - 1]
                        above, at_above = now, (p + shift_above) * state_size
                        _zero(hidden, 0, num * whole)
                        add_row_products(above, at_above, state_size, num, weight, H, whole, hidden, 0, whole)
                    while c < end and parents[c] < p + max(num, 1):
                        r = parents[c] - p
                        at = (c + shift) * state_size
                        step(
                            kind, H, inputs, elements[c] * width, hidden if num > 0 else zero, r * whole, bias,
                            above, at_above + r * state_size, now, at, kept, c * num_kept * H,
                        )  # fmt: skip
                        if rows[c] >= 0:
                            for column in range(0, H, num_lanes(now)):
                                v = min(column, H - num_lanes(now))
                                store(ends, rows[c] * H + v, load(now, at + v))
                        c += 1
        restore(mode)

    return Kernel(forward, f"cells_{kind}")


@kernel_maker
def _backward(kind: int) -> Kernel:
    num_gates, num_states = NUM_GATES[kind], NUM_STATES[kind]
    num_kept, num_changes = NUM_KEPT[kind], NUM_CHANGES[kind]

    def backward(
        weight, places, parents, rows, levels, trees, states, kept, by_ends, by_states, changes, H, first, last
    ):
        width, state_size = num_gates * H, num_states * H
        widest, begin_all = _widest(levels, trees, first, last), levels[trees[0]]
        # A gradient by the hidden state is whole vectors, and what is behind its numbers its own.
        whole = _filled(H, states)
        size = _filled(state_size, states)
        by_state = np.zeros((2 * widest + 1) * size, states.dtype)
        by_hidden, zero = np.empty(ROWS * width, states.dtype), np.zeros(state_size, states.dtype)
        masks = at_most_once(states)
        mode = flush_denormals()
        for tree in range(first, last):
            top, bottom = trees[tree], trees[tree + 1] - 1
            for level in range(bottom, top - 1, -1):
                begin, end = levels[level], levels[level + 1]
                shift = (level & 1) * widest - begin
                if level == bottom:
                    _zero(by_state, (begin + shift) * size, (end - begin) * size)
                shift_above = 0
                if level > top:
                    shift_above = (1 - (level & 1)) * widest - levels[level - 1]
                    num_above = begin - levels[level - 1]
                    _zero(by_state, (levels[level - 1] + shift_above) * size, num_above * size)
                c = begin
                while c < end:
                    p, num, above, at_above, by_above = parents[c], 0, zero, 0, 2 * widest * size
                    if p >= 0:
                        num = min(ROWS, parents[end - 1] + 1 - p)
                        above, at_above, by_above = states, p * state_size, (p + shift_above) * size
                    _zero(by_hidden, 0, max(num, 1) * width)
                    while c < end and parents[c] < p + max(num, 1):
                        r = parents[c] - p
                        at = (c + shift) * size
                        for column in range(0, H, num_lanes(states)):
                            v = min(column, H - num_lanes(states))
                            once = load(masks, num_lanes(states) - (column - v))
                            total = load(by_state, at + v)
                            if rows[c] >= 0 and len(by_ends) > 0:
                                total = total + once * load(by_ends, rows[c] * H + v)
                            if len(by_states) > 0:
                                total = total + once * load(by_states, c * H + v)
                            store(by_state, at + v, total)
                        step_back(
                            False, kind, H, above, at_above + r * state_size, states, c * state_size,
                            kept, c * num_kept * H,
                            by_state, at, changes, places[c - begin_all] * num_changes * H, by_hidden, r * width,
                            by_state, by_above + r * size, masks,
                        )  # fmt: skip
                        c += 1
                    if num > 0:
                        add_row_products(by_hidden, 0, width, num, weight, width, whole, by_state, by_above, size)
        restore(mode)

    return Kernel(backward, f"cells_back_{kind}")


@njit(nogil=True, cache=True)
def _sorted_by_element(elements, num_elements):
    """Returns the beginnings of the elements' cells, (num_elements + 1,), in the order (C,)."""
    starts, order = np.zeros(num_elements + 1, np.int64), np.empty(len(elements), np.int64)
    for e in elements:
        starts[e + 1] += 1
    for e in range(num_elements):
        starts[e + 1] += starts[e]
    free = starts[:-1].copy()
    for c in range(len(elements)):
        e = elements[c]
        order[free[e]] = c
        free[e] += 1
    return starts, order


@kernel_maker
def _sums() -> Kernel:
    def sums(x, stride, order, starts, total, width, first, last):
        for e in range(first, last):
            for column in range(0, width, num_lanes(x)):
                v = min(column, width - num_lanes(x))
                if starts[e] == starts[e + 1]:
                    _zero(total, e * width + v, num_lanes(x))
                    continue
                row = load(x, order[starts[e]] * stride + v)
                for i in range(starts[e] + 1, starts[e + 1]):
                    row = row + load(x, order[i] * stride + v)
                store(total, e * width + v, row)

    return Kernel(sums, "sum_by_element")
