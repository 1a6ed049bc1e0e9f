"""BalancedTree equals its recursion; with a mask, each row is what it is alone."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call, stack_module_state, vmap

from janossy import AllPermutations, JanossyPooling, Ragged
from janossy.functions.balanced_tree import BalancedTree
from tests.laws import close

pytestmark = pytest.mark.usefixtures("float64")

TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5}


class Combine(nn.Module):
    """A function of two states as a module; it remembers the numbers of pairs that it was given."""

    def __init__(self, function):
        super().__init__()
        self.function, self.seen = function, []

    def forward(self, pair):
        self.seen.append(pair.shape[-2])
        return self.function(*pair.chunk(2, -1))


COMBINES = {
    "gated": lambda: None,
    "linear": lambda: nn.Linear(6, 3),
    "mlp": lambda: nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)),
    "quadratic": lambda: Combine(lambda a, b: a * b.sin() - b),
}


def default_cell(cell, a, b):
    """Returns the formula of the docstring, the softmax written out."""
    weight, bias = cell.linear.weight.unflatten(0, (4, -1)), cell.linear.bias.unflatten(0, (4, -1))
    *logits, candidate = (weight[i] @ torch.cat((a, b)) + bias[i] for i in range(4))
    g = [logit.exp() / sum(other.exp() for other in logits) for logit in logits]
    return g[0] * a + g[1] * b + g[2] * candidate.tanh()


def recursive(f, elements, cell=None):
    """Returns one row (L, d), by recursion from the root: m of the largest power of 2 below L, and of the rest."""
    length = len(elements)
    if length == 0:
        return elements.new_zeros(f.hidden_features)
    if length == 1:
        return torch.tanh(f.embed.weight @ elements[0] + f.embed.bias)
    split = max(2**i for i in range(length.bit_length()) if 2**i < length)
    a, b = recursive(f, elements[:split], cell), recursive(f, elements[split:], cell)
    return cell(f.combine, a, b) if cell else f.combine(torch.cat((a, b))[None])[0]


@given(st.integers(0, 40), st.sampled_from(list(COMBINES)), st.sampled_from(list(TOLERANCES)), st.integers(0, 99))
def test_equals_the_recursion(length, combine, dtype, seed):
    torch.manual_seed(seed)
    f, x = BalancedTree(2, 3, combine=COMBINES[combine]()).to(dtype), torch.randn(2, length, 2, dtype=dtype)
    expected = torch.stack([recursive(f, row) for row in x])
    close(f(x), expected, atol=TOLERANCES[dtype], rtol=TOLERANCES[dtype])


def test_the_default_cell():
    f, x = BalancedTree(2, 3), torch.randn(4, 7, 2)
    close(f(x), torch.stack([recursive(f, row, default_cell) for row in x]))


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 8, 9, 31, 33])
def test_depth_and_number_of_applications(length):
    f = BalancedTree(2, 3, combine=Combine(lambda a, b: a + b))
    f(torch.randn(2, length, 2))
    assert len(f.combine.seen) == math.ceil(math.log2(length))
    assert sum(f.combine.seen) == length - 1


def test_operators_whose_reduction_is_known():
    x = torch.randn(4, 11, 2)
    cases = {
        "sum": (lambda a, b: a + b, lambda states: states.sum(1)),
        "max": (torch.maximum, lambda states: states.amax(1)),
        "first": (lambda a, b: a, lambda states: states[:, 0]),
        "last": (lambda a, b: b, lambda states: states[:, -1]),
    }
    for combine, reduction in cases.values():
        f = BalancedTree(2, 3, combine=Combine(combine))
        close(f(x), reduction(torch.tanh(f.embed(x))))


def test_a_commutative_monoid_needs_one_order_and_any_other_operator_the_average():
    sets = Ragged.from_sets([torch.randn(n, 2) for n in (4, 3, 0, 1)])
    reverse = Ragged.from_sets([x.flip(0) for x in sets])
    maximum, learned = BalancedTree(2, 3, combine=Combine(torch.maximum)), BalancedTree(2, 3)
    close(JanossyPooling(maximum, AllPermutations())(sets)[0], maximum(sets[0][None])[0])
    pooling = JanossyPooling(learned, AllPermutations())
    close(pooling(sets), pooling(reverse))
    assert not torch.allclose(learned(sets[0][None]), learned(reverse[0][None]))


@st.composite
def padded_batches(draw):
    lengths = draw(st.lists(st.integers(0, 20), min_size=1, max_size=5).filter(any))
    return lengths, max(lengths) + draw(st.integers(0, 3)), draw(st.sampled_from([0.0, 1e30, math.inf, math.nan]))


def padded(lengths, width, padding):
    """Returns rows of these lengths, and the same rows in one batch with its mask."""
    rows = [torch.randn(n, 2) for n in lengths]
    x = torch.stack([torch.cat((row, torch.full((width - len(row), 2), padding))) for row in rows])
    return rows, x, torch.arange(width) < torch.tensor(lengths)[:, None]


@given(padded_batches(), st.sampled_from(list(COMBINES)))
def test_masked_equals_alone(batch, combine):
    """In value and in gradient, whatever the padding holds."""
    torch.manual_seed(sum(batch[0]))
    f = BalancedTree(2, 3, combine=COMBINES[combine]())
    rows, x, mask = padded(*batch)
    for row in (*rows, x):
        row.requires_grad_()
    alone, together = torch.cat([f(row[None]) for row in rows]), f(x, mask)
    close(together, alone)
    weights = torch.linspace(-1, 1, alone.numel()).view_as(alone)
    of_rows = torch.autograd.grad((alone * weights).sum(), [*rows, *f.parameters()], materialize_grads=True)
    of_x, *of_parameters = torch.autograd.grad((together * weights).sum(), [x, *f.parameters()], materialize_grads=True)
    close(of_x[mask], torch.cat(of_rows[: len(rows)]))
    assert of_x[~mask].eq(0).all()
    for got, want in zip(of_parameters, of_rows[len(rows) :], strict=True):
        close(got, want)


def test_a_full_mask_changes_nothing():
    f, x = BalancedTree(2, 3), torch.randn(4, 7, 2)
    assert torch.equal(f(x, torch.ones(4, 7, dtype=torch.bool)), f(x))


def test_without_its_mask_padding_counts():
    f = BalancedTree(2, 3)
    rows, x, _ = padded([3, 5], 5, 0.0)
    with pytest.raises(AssertionError):
        close(f(x)[0], f(rows[0][None])[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_empty_rows_give_zero(dtype):
    f = BalancedTree(2, 3).to(dtype)
    assert torch.equal(f(torch.zeros(4, 0, 2, dtype=dtype)), torch.zeros(4, 3, dtype=dtype))
    assert torch.equal(
        f(torch.full((4, 5, 2), math.nan, dtype=dtype), torch.zeros(4, 5, dtype=torch.bool)),
        torch.zeros(4, 3, dtype=dtype),
    )
    for length in (0, 1, 4, 5):
        assert f(torch.zeros(0, length, 2, dtype=dtype)).shape == (0, 3)


@pytest.mark.parametrize("length", [1, 7, 33])
def test_a_row_does_not_depend_on_the_others(length):
    f, x = BalancedTree(2, 8), torch.randn(1, length, 2)
    x = torch.cat((x, torch.randn(5, length, 2), x))
    together = f(x)
    for row, y in zip(x, together, strict=True):
        close(f(row[None])[0], y)
    close(together[0], together[-1])


@pytest.mark.parametrize("size", [1e3, 1e300])
def test_states_stay_bounded(size):
    f = BalancedTree(2, 3)
    x = (size * torch.randn(2, 1000, 2)).requires_grad_()
    y = f(x)
    assert y.abs().le(1).all()
    assert all(g.isfinite().all() for g in torch.autograd.grad(y.sum(), [x, *f.parameters()]))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("length", [1, 2, 5, 8])
def test_derivatives(length, masked):
    f = BalancedTree(2, 3)
    mask = torch.arange(length) < torch.tensor([length, length // 2])[:, None] if masked else None
    names = [name for name, _ in f.named_parameters()]

    def run(x, *parameters):
        return functional_call(f, dict(zip(names, parameters, strict=True)), (x, mask))

    inputs = [torch.randn(2, length, 2).requires_grad_(), *f.parameters()]
    assert gradcheck(run, inputs, fast_mode=True)
    assert gradgradcheck(run, inputs, fast_mode=True)


def test_many_at_once():
    models = [BalancedTree(2, 3) for _ in range(4)]
    _, x, mask = padded([3, 7, 5], 7, math.nan)
    parameters, buffers = stack_module_state(models)
    together = vmap(lambda p, b: functional_call(models[0], (p, b), (x, mask)))(parameters, buffers)
    close(together, torch.stack([f(x, mask) for f in models]))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("length", [1, pytest.param(6, marks=pytest.mark.only_all), 13])
@pytest.mark.cover(1)
def test_compiled(length, masked):
    torch.compiler.reset()
    f = BalancedTree(2, 3)
    _, x, mask = padded([length, length // 2], length, 0.0)
    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    results = []
    for run in (compiled, f):
        leaf = x.clone().requires_grad_()
        y = run(leaf, mask) if masked else run(leaf)
        results.append([y, *torch.autograd.grad(y.square().sum(), [leaf, *f.parameters()], materialize_grads=True)])
    for got, want in zip(*results, strict=True):
        close(got, want)


def test_errors():
    f, x = BalancedTree(2, 3), torch.zeros(4, 3, 2)
    with pytest.raises(ValueError, match=r"this BalancedTree expects rows of shape \(T, L, 2\); got \(4, 3\)\."):
        f(torch.zeros(4, 3))
    with pytest.raises(ValueError, match=r"got \(4, 3, 5\)"):
        f(torch.zeros(4, 3, 5))
    with pytest.raises(ValueError, match=r"a mask of shape \(4, 3\) and dtype torch\.bool; got \(3, 3\)"):
        f(x, torch.ones(3, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"got \(4, 3\) and torch\.float64"):
        f(x, torch.ones(4, 3))
    with pytest.raises(ValueError, match="padding only behind the real elements; got an element behind padding"):
        f(x, torch.tensor([[False, True, True]] * 4))
    with pytest.raises(ValueError, match=r"expects combine to map \(4, 1, 6\) to \(4, 1, 3\); got \(4, 1, 5\)"):
        BalancedTree(2, 3, combine=nn.Linear(6, 5))(x)
    for arguments in ((0, 3), (2, 0)):
        with pytest.raises(ValueError, match="all >= 1; got in_features="):
            BalancedTree(*arguments)


def test_repr():
    assert "BalancedTree(\n  in_features=2, hidden_features=3\n" in repr(BalancedTree(2, 3))
