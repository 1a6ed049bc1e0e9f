"""Packed by torch's own kernels, which CUDA takes: the same rows as our cells, in value and gradient."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from janossy import GRU, LSTM, RNN, AllPermutations, Canonical, JanossyPooling, Sampled, Tuples
from janossy.evaluate import MEMORY_BUDGET, Packed
from janossy.evaluate.cells import by_torch
from tests.examples import REDUCES, D, Rows, distinct_sets
from tests.laws import law_parity
from tests.standin import cuda, on_cuda

pytestmark = pytest.mark.usefixtures("float64")

KINDS = [RNN, GRU, LSTM]
LAYERS = [{}, {"num_layers": 2}, {"bidirectional": True}, {"num_layers": 3, "bidirectional": True}]
SIZES = (3, 0, 5, 1, 2, 3, 9, 1, 0, 4)


class OnTorch(Packed):
    """Packed as on CUDA, wherever the elements are."""

    def __call__(self, problem):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(by_torch, "takes", lambda problem: True)
            return super().__call__(problem)


def both(f, orderings, reduce="mean", budget=MEMORY_BUDGET):
    made = [
        JanossyPooling(f, orderings, evaluate=each, reduce=reduce or "mean", memory_budget=budget)
        for each in (OnTorch(), Packed())
    ]
    return made if reduce else [Rows(layer) for layer in made]


@pytest.mark.parametrize("budget", [MEMORY_BUDGET, 20_000], ids=["at once", "in chunks"])
@pytest.mark.parametrize("layers", LAYERS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_torchs_kernels_give_what_cells_give(kind, layers, budget):
    f, sets = kind(D, 3, **layers), distinct_sets(SIZES)
    for orderings in (Sampled(4, seed=1), Tuples(2)):
        law_parity(*both(f, orderings, budget=budget), sets)


@pytest.mark.parametrize("orderings", [Canonical(), Sampled(3, k=2, seed=0), AllPermutations()], ids=repr)
def test_other_orderings(orderings):
    law_parity(*both(LSTM(D, 3), orderings), distinct_sets((3, 0, 4, 2)))


@pytest.mark.parametrize("reduce", REDUCES, ids=str)
def test_every_reduction(reduce):
    law_parity(*both(LSTM(D, 3), Sampled(3, seed=1), reduce), distinct_sets(SIZES))


@given(sizes=st.lists(st.integers(0, 6), max_size=6).filter(any))
def test_sets_of_any_sizes(sizes):
    law_parity(*both(GRU(D, 3), Sampled(2, seed=1)), distinct_sets(sizes))


def test_rows_are_read_step_by_step():
    rows = by_torch.sequences([torch.tensor([[7, 1, 5]]), torch.tensor([[2, 3], [6, 4]]), torch.zeros(2, 0).long()])
    assert rows.elements.tolist() == [7, 2, 6, 1, 3, 4, 5]
    assert rows.batch_sizes.tolist() == [3, 3, 1] and rows.num_rows == 5
    packed = nn.utils.rnn.pack_sequence([torch.tensor([7, 1, 5]), torch.tensor([2, 3]), torch.tensor([6, 4])])
    torch.testing.assert_close(rows.elements, packed.data)
    torch.testing.assert_close(rows.batch_sizes, packed.batch_sizes)


def test_other_weights_between_forward_and_backward_are_found():
    f = GRU(D, 3)
    layer = both(f, Sampled(3, seed=1), budget=2000)[0]
    pooled = layer(distinct_sets(SIZES)).sum()
    with torch.no_grad():
        f.weight_hh_l0.mul_(2)
    with pytest.raises(RuntimeError, match="modified in place between forward and backward"):
        pooled.backward()


def test_elements_in_another_dtype_are_refused():
    sets = distinct_sets((3, 2))
    with pytest.raises(ValueError, match="float32"):
        both(GRU(D, 3), Sampled(2, seed=1))[0](sets.to(torch.float32))


class Slower(GRU):
    """A GRU with another step, which torch's kernels do not compute."""

    @staticmethod
    def step(inputs, hidden, state):
        return ((GRU.step(inputs, hidden, state)[0] + state[0]) / 2,)


@pytest.mark.parametrize(
    ("f", "taken"),
    [
        (GRU(D, 3), True),
        (LSTM(D, 3, num_layers=2, dropout=0.5), False),
        (LSTM(D, 3, num_layers=2, dropout=0.5).eval(), True),
        (GRU(D, 3, unrolled=True), False),
        (Slower(D, 3), False),
    ],
    ids=["a GRU", "dropout", "dropout, in evaluation", "unrolled", "another step"],
)
def test_only_what_torchs_kernels_compute_is_theirs(f, taken):
    with cuda():
        f, sets = on_cuda(copy.deepcopy(f)), on_cuda(distinct_sets((3, 2)))
        assert (
            by_torch.takes(JanossyPooling(f, Sampled(2), evaluate=Packed()).problem(sets, None, None, "mean", None))
            is taken
        )
    assert not by_torch.takes(JanossyPooling(f, Sampled(2)).problem(distinct_sets((3, 2)), None, None, "mean", None))
