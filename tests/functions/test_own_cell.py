"""A recurrence cell of a user's own, one class with a step, on every path that recurrences take."""

import pytest
import torch
from torch import nn

from janossy import AllPermutations, Canonical, Combinations, JanossyEquivariant, JanossyPooling, Sampled, Tuples
from janossy.evaluate import SampledPrefixes, SharedPrefixes
from janossy.functions import Recurrence, structure
from janossy.kernels.limits import CELL_KINDS
from tests.cells import CELLS, Peephole
from tests.examples import D, distinct_sets, tied_sets
from tests.laws import close, law_gradients, law_parity

pytestmark = pytest.mark.usefixtures("float64")

SHAPES = [{}, {"num_layers": 2}, {"bidirectional": True}, {"num_layers": 2, "bidirectional": True}]
each_cell = pytest.mark.parametrize("cell", CELLS)

PATHS = {
    "packed": ("packed", Sampled(4, seed=1)),
    "packed_canonical": ("packed", Canonical()),
    "packed_tuples": ("packed", Tuples(2)),
    "shared_prefixes": ("shared_prefixes", AllPermutations()),
    "shared_prefixes_combinations": ("shared_prefixes", Combinations(3)),
    "shared_prefixes_merged": (SharedPrefixes(merge_equal=True), AllPermutations()),
    "sampled_prefixes": (SampledPrefixes(), Sampled(3, exact_last=2, seed=0)),
    "auto": ("auto", AllPermutations()),
}

FITTING = [
    (path, shape) for path in PATHS for shape in SHAPES if "prefixes" not in path or "bidirectional" not in shape
]
"""Shared beginnings are read in one direction."""


@each_cell
def test_it_is_its_step_in_a_loop(cell):
    f, x = CELLS[cell](D, 3), torch.randn(4, 5, D)
    state = (torch.zeros(4, 3),) * f.num_states
    for t in range(5):
        inputs = x[:, t] @ f.weight_ih_l0.T + f.bias_ih_l0
        hidden = state[0] @ f.weight_hh_l0.T + f.bias_hh_l0
        state = f.step(inputs, hidden, state)
    close(f(x), state[0])


@pytest.mark.parametrize("budget", [2**30, 5000])
@pytest.mark.parametrize(("path", "shape"), FITTING, ids=str)
@each_cell
def test_every_path_is_gather(cell, path, shape, budget):
    evaluator, orderings = PATHS[path]
    f = CELLS[cell](D, 3, **shape)
    layer = JanossyPooling(f, orderings, evaluate=evaluator, memory_budget=budget)
    for sets in (distinct_sets((3, 0, 4, 1)), tied_sets((3, 2))):
        law_parity(layer, JanossyPooling(f, orderings, evaluate="gather"), sets)


class AnyModule(nn.Module):
    """Hides that f is a recurrence."""

    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x):
        return self.f(x)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@each_cell
def test_an_output_for_each_element(cell, shape):
    f = CELLS[cell](D, 3, per_position=True, **shape)
    as_cells, as_rows = (JanossyEquivariant(each, Sampled(2, seed=0)) for each in (f, AnyModule(f)))
    law_parity(as_cells, as_rows, distinct_sets((3, 0, 4, 1)))


@pytest.mark.parametrize("path", ["packed", "shared_prefixes", "sampled_prefixes"])
@each_cell
def test_gradients(cell, path):
    evaluator, orderings = PATHS[path]
    law_gradients(
        JanossyPooling(CELLS[cell](D, 3), orderings, evaluate=evaluator), distinct_sets((3, 0, 1)), twice=True
    )


@each_cell
def test_no_compiled_kernel_takes_another_step(cell):
    assert structure(CELLS[cell](D, 3)).kind not in CELL_KINDS


def test_a_gate_that_is_said_to_add_and_multiplies_is_found():
    class Wrong(Recurrence):
        num_gates, num_states, num_apart = 3, 2, 0
        step = staticmethod(Peephole.step)

    f, sets = Wrong(D, 3), distinct_sets((3, 4))
    with pytest.raises(AssertionError):
        law_parity(*(JanossyPooling(f, Canonical(), evaluate=e) for e in ("packed", "gather")), sets)
