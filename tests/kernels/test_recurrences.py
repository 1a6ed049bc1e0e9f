"""The recurrences' kernels against torch's modules, row by row; sums by element; products of independent rows."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

pytest.importorskip("numba", reason="compiled kernels need numba, the extra janossy[fast]")

from janossy.evaluate.cells.forest import paths
from janossy.kernels.cpu.recurrences import run_cells, run_cells_back, sum_by_element
from janossy.kernels.cpu.row_matmul import add_row_products, panels

KINDS = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
LENGTHS = [13, 9, 9, 8, 7, 5, 5, 5, 4, 3, 1, 1]


def case(kind, dtype, H, scale=1.0):
    """Returns a torch module, elements, and what the kernels take of them."""
    torch.manual_seed(0)
    module = KINDS[kind](5, H, batch_first=True).to(dtype)
    x = scale * torch.randn(sum(LENGTHS), 5, dtype=dtype)
    weight_ih, weight_hh, bias_ih, bias_hh = (p.detach() for p in module.parameters())
    folded = bias_hh.clone()
    bias = torch.zeros(H, dtype=dtype)
    if kind == "gru":
        bias = folded[2 * H :].clone()
        folded[2 * H :] = 0
    inputs = x @ weight_ih.T + bias_ih + folded
    ends = np.cumsum(LENGTHS)
    forest = paths([torch.arange(end - n, end)[None] for end, n in zip(ends, LENGTHS, strict=True)])
    shape = forest.shape
    cells = (forest.elements.numpy(), shape.parents, shape.rows, shape.levels, shape.trees)
    return module, inputs.requires_grad_(), weight_hh, bias, cells


def by_torch(kind, module, inputs, weight, bias):
    """Returns each row's last hidden state from projections, by torch's module with the identity as input weights."""
    H, gates = weight.shape[1], len(weight)
    like = KINDS[kind](gates, H, batch_first=True).to(weight.dtype)
    zero = torch.zeros(gates, dtype=weight.dtype)
    hidden_bias = torch.cat((zero[: gates - H], bias)) if kind == "gru" else zero
    parameters = (torch.eye(gates, dtype=weight.dtype), weight, zero, hidden_bias)
    named = dict(zip(("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"), parameters, strict=True))
    last = [torch.func.functional_call(like, named, (row[None],))[1] for row in inputs.split(LENGTHS)]
    return torch.stack([(x[0] if kind == "lstm" else x)[0, 0] for x in last])


@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.parametrize("scale", [1.0, 50.0])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-5)])
@pytest.mark.parametrize("H", [16, 21])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("worth_a_thread")
def test_equals_torch(kind, H, dtype, tolerance, scale, num_threads):
    module, inputs, weight, bias, cells = case(kind, dtype, H, scale)
    weight, bias = weight.requires_grad_(), bias.requires_grad_()
    expected = by_torch(kind, module, inputs, weight, bias)
    by_ends = torch.randn_like(expected)
    wanted = torch.autograd.grad((expected * by_ends).sum(), (inputs, weight))

    arrays = [x.detach().numpy() for x in (inputs, weight, bias)]
    ends, states, kept = run_cells(kind, *arrays, cells, len(LENGTHS), True, True, num_threads)
    np.testing.assert_allclose(ends, expected.detach(), atol=tolerance, rtol=0)
    without_states = run_cells(kind, *arrays, cells, len(LENGTHS), False, False, num_threads)
    assert (without_states[0] == ends).all() and without_states[1].size == without_states[2].size == 0

    nothing = np.zeros((0, H), ends.dtype)
    back = (arrays[1], (np.arange(len(cells[0])), *cells[1:]), states, kept)
    changes = run_cells_back(kind, *back, by_ends.numpy(), nothing, num_threads)
    by_inputs = sum_by_element(changes[:, : len(weight)], cells[0], len(inputs), num_threads)
    np.testing.assert_allclose(by_inputs, wanted[0], atol=20 * tolerance, rtol=0)
    there = run_cells_back(kind, arrays[1], cells, states, kept, by_ends.numpy(), nothing, num_threads)
    assert (there[cells[0]] == changes).all()
    # The same tree by tree.
    levels, trees = cells[3:]
    for a in range(len(trees) - 1):
        first, last = levels[trees[a]], levels[trees[a + 1]]
        part = (np.arange(last - first), *cells[1:4], trees[a : a + 2])
        got = run_cells_back(kind, arrays[1], part, states, kept, by_ends.numpy(), nothing, num_threads)
        assert (got == changes[first:last]).all()
    # The same by the gradient of every state.
    by_states = np.zeros((len(cells[0]), H), ends.dtype)
    by_states[cells[2] >= 0] = by_ends.numpy()[cells[2][cells[2] >= 0]]
    assert (run_cells_back(kind, *back, nothing, by_states, num_threads) == changes).all()


@pytest.mark.parametrize("H", [32, 37])
@pytest.mark.parametrize("kind", KINDS)
def test_a_row_is_the_same_whatever_the_others(kind, H):
    """To the last bit: alone, and among rows that hold NaN."""
    _, inputs, weight, bias, cells = case(kind, torch.float32, H)
    arrays = inputs.detach().numpy().copy(), weight.numpy(), bias.numpy()
    together = run_cells(kind, *arrays, cells, len(LENGTHS), True, True, 2)[0]
    start = 0
    for row, n in enumerate(LENGTHS):
        alone = paths([torch.arange(start, start + n)[None]])
        shape = alone.shape
        its_cells = (alone.elements.numpy(), shape.parents, shape.rows, shape.levels, shape.trees)
        others = arrays[0].copy()
        others[:start] = np.nan
        others[start + n :] = np.nan
        got = run_cells(kind, others, *arrays[1:], its_cells, 1, False, False, 1)[0]
        assert (got[0] == together[row]).all()
        amid = run_cells(kind, others, *arrays[1:], cells, len(LENGTHS), False, False, 2)[0]
        assert (amid[row] == together[row]).all()
        assert np.isnan(np.delete(amid, row, 0)).all()
        start += n


@given(
    elements=st.lists(st.integers(0, 5), max_size=30),
    dtype=st.sampled_from([np.float32, np.float64]),
    columns=st.sampled_from([16, 21, 32]),
)
def test_sums_by_element(elements, dtype, columns):
    elements = np.array(elements, np.int64)
    x = np.random.default_rng(0).normal(size=(len(elements), 48)).astype(dtype)
    expected = np.zeros((6, columns))
    np.add.at(expected, elements, x[:, :columns])
    got = sum_by_element(x[:, :columns], elements, 6, 2)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, expected, atol=1e-5 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("num_rows", [0, 1, 2, 3, 7, 8, 15, 21])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-4), (np.float64, 1e-12)])
def test_row_products(dtype, tolerance, num_rows):
    rng = np.random.default_rng(0)
    a, w, out = (rng.normal(size=shape).astype(dtype) for shape in ((num_rows, 7), (5, 32), (num_rows, 40)))
    expected = out.astype(np.float64)
    expected[:, 3:35] += a[:, 1:6].astype(np.float64) @ w
    flat = out.reshape(-1)
    add_row_products(a.reshape(-1), 1, 7, num_rows, panels(w), 5, 32, flat, 3, 40)
    np.testing.assert_allclose(flat.reshape(num_rows, 40), expected, atol=tolerance)
