"""One step of a tanh RNN, a GRU and an LSTM on whole vectors, and its gradients.

A state is h (H), for the LSTM (h, c). ``inputs`` are the projections of an element with every bias but the GRU's of
its new gate's hidden part, ``hidden`` the products of the state before; gates stand in torch's order. Arrays are flat:
a name ending in ``_at`` says where a cell's numbers begin.
"""

import numpy as np
from numba import njit

from janossy.kernels.cpu.activations import CODES, value
from janossy.kernels.cpu.vector import inlined, load, num_lanes, store
from janossy.kernels.limits import CELL_KINDS, NUMBERS_KEPT

RNN, GRU, LSTM = CELL_KINDS.values()

NUM_GATES = {RNN: 1, GRU: 3, LSTM: 4}
NUM_STATES = {RNN: 1, GRU: 1, LSTM: 2}
NUM_KEPT = {CELL_KINDS[kind]: num for kind, num in NUMBERS_KEPT.items()}
NUM_CHANGES = {RNN: 1, GRU: 4, LSTM: 4}
"""Gradients by what the gates are made of; the GRU's new gate has two, by its input and by its hidden part."""

_TANH, _SIGMOID = CODES["tanh"], CODES["sigmoid"]


@njit(inline="always")
def step(kind, H, inputs, inputs_at, hidden, hidden_at, bias, before, before_at, after, after_at, kept, kept_at):
    """The state after, from the state before; ``kept`` may be empty.

    H is one vector at least; where it is no whole vectors, the last one overlaps the one before.
    """
    for column in range(0, H, num_lanes(inputs)):
        v = min(column, H - num_lanes(inputs))
        i, j = inputs_at + v, hidden_at + v
        if kind == RNN:
            store(after, after_at + v, value(_TANH, load(inputs, i) + load(hidden, j)))
        elif kind == GRU:
            reset = value(_SIGMOID, load(inputs, i) + load(hidden, j))
            update = value(_SIGMOID, load(inputs, i + H) + load(hidden, j + H))
            by_state = load(hidden, j + 2 * H) + load(bias, v)
            new = value(_TANH, load(inputs, i + 2 * H) + reset * by_state)
            store(after, after_at + v, new + update * (load(before, before_at + v) - new))
            if len(kept) > 0:
                store(kept, kept_at + v, reset)
                store(kept, kept_at + v + H, update)
                store(kept, kept_at + v + 2 * H, new)
                store(kept, kept_at + v + 3 * H, by_state)
        else:
            input_gate = value(_SIGMOID, load(inputs, i) + load(hidden, j))
            forget = value(_SIGMOID, load(inputs, i + H) + load(hidden, j + H))
            new = value(_TANH, load(inputs, i + 2 * H) + load(hidden, j + 2 * H))
            output = value(_SIGMOID, load(inputs, i + 3 * H) + load(hidden, j + 3 * H))
            memory = forget * load(before, before_at + v + H) + input_gate * new
            store(after, after_at + v, output * value(_TANH, memory))
            store(after, after_at + v + H, memory)
            if len(kept) > 0:
                store(kept, kept_at + v, input_gate)
                store(kept, kept_at + v + H, forget)
                store(kept, kept_at + v + 2 * H, new)
                store(kept, kept_at + v + 3 * H, output)


@inlined
def at_most_once(x):
    """Returns what masks are cut from: the numbers of the last vector that are not in the one before."""
    lanes = num_lanes(x)
    masks = np.zeros(2 * lanes, x.dtype)
    masks[lanes:] = 1
    return masks


@njit(inline="always")
def _put(anew, x, at, y, once):
    store(x, at, y if anew else load(x, at) + y * once)


@njit(inline="always")
def step_back(
    anew, kind, H, before, before_at, after, after_at, kept, kept_at, by_after, by_after_at,
    changes, changes_at, by_hidden, by_hidden_at, by_before, by_before_at, masks,
):  # fmt: skip
    """Store the ``changes``, and the gradients by the hidden products and, past them, by the state before.

    These are put ``anew``, or added to what is there, each once: ``masks`` is ``at_most_once``.
    """
    for column in range(0, H, num_lanes(after)):
        v = min(column, H - num_lanes(after))
        once = load(masks, num_lanes(after) - (column - v))
        i, j, k, b = changes_at + v, by_hidden_at + v, kept_at + v, by_before_at + v
        by_h = load(by_after, by_after_at + v)
        if kind == RNN:
            h = load(after, after_at + v)
            change = by_h * (1.0 - h * h)
            store(changes, i, change)
            _put(anew, by_hidden, j, change, once)
        elif kind == GRU:
            reset, update = load(kept, k), load(kept, k + H)
            new, by_state = load(kept, k + 2 * H), load(kept, k + 3 * H)
            by_new = by_h * (1.0 - update) * (1.0 - new * new)
            by_update = by_h * (load(before, before_at + v) - new) * (update * (1.0 - update))
            by_reset = by_new * by_state * (reset * (1.0 - reset))
            by_product = by_new * reset
            store(changes, i, by_reset)
            store(changes, i + H, by_update)
            store(changes, i + 2 * H, by_new)
            store(changes, i + 3 * H, by_product)
            _put(anew, by_hidden, j, by_reset, once)
            _put(anew, by_hidden, j + H, by_update, once)
            _put(anew, by_hidden, j + 2 * H, by_product, once)
            _put(anew, by_before, b, by_h * update, once)
        else:
            input_gate, forget = load(kept, k), load(kept, k + H)
            new, output = load(kept, k + 2 * H), load(kept, k + 3 * H)
            shown = value(_TANH, load(after, after_at + v + H))
            by_memory = load(by_after, by_after_at + v + H) + by_h * output * (1.0 - shown * shown)
            by_input = by_memory * new * (input_gate * (1.0 - input_gate))
            by_forget = by_memory * load(before, before_at + v + H) * (forget * (1.0 - forget))
            by_new = by_memory * input_gate * (1.0 - new * new)
            by_output = by_h * shown * (output * (1.0 - output))
            store(changes, i, by_input)
            store(changes, i + H, by_forget)
            store(changes, i + 2 * H, by_new)
            store(changes, i + 3 * H, by_output)
            _put(anew, by_hidden, j, by_input, once)
            _put(anew, by_hidden, j + H, by_forget, once)
            _put(anew, by_hidden, j + 2 * H, by_new, once)
            _put(anew, by_hidden, j + 3 * H, by_output, once)
            _put(anew, by_before, b + H, by_memory * forget, once)
