"""JanossyEquivariant: f(X_π) = f(X)_π, by the definition, for recurrences and for any f with an output a position."""

from itertools import permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from janossy import GRU, LSTM, RNN, AllPermutations, Canonical, JanossyEquivariant, Ragged, Sampled, Tuples
from tests.examples import D, distinct_sets, drawing, in_order, tied_sets
from tests.laws import close, law_gradients

pytestmark = pytest.mark.usefixtures("float64")

ORDERINGS = {
    "all_permutations": AllPermutations(),
    "canonical": Canonical(),
    "sampled_seeded": Sampled(4, seed=7),
    "sampled": Sampled(3),
}
EXACT = ["all_permutations", "canonical", "sampled_seeded"]


class Rows(nn.Module):
    """Hides that f is a recurrence."""

    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x):
        return self.f(x)


class WithPositions(nn.Module):
    """Each position's element, mixed with the whole row's mean and its place."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2 * D + 1, 3)

    def forward(self, x):
        place = torch.arange(x.shape[1], dtype=x.dtype)[:, None].expand(len(x), -1, 1)
        return self.linear(torch.cat((x, x.mean(1, keepdim=True).expand_as(x), place), dim=2)).tanh()


FUNCTIONS = {
    "gru": lambda: GRU(D, 3, bidirectional=True, per_position=True),
    "lstm_one_way": lambda: LSTM(D, 3, per_position=True),
    "rnn_deep": lambda: RNN(D, 3, num_layers=2, bidirectional=True, per_position=True),
    "gru_unrolled": lambda: GRU(D, 3, bidirectional=True, per_position=True, unrolled=True),
    "gru_as_any_module": lambda: Rows(GRU(D, 3, bidirectional=True, per_position=True)),
    "with_positions": WithPositions,
}


def layer(ordering, function, memory_budget=2**30):
    torch.manual_seed(1)
    return JanossyEquivariant(FUNCTIONS[function](), ORDERINGS[ordering], memory_budget=memory_budget)


def outputs(equivariant, sets):
    return equivariant(sets, **drawing(equivariant.orderings))


def by_definition(equivariant, x):
    """Computes brute force for one set, by all permutations or the sorted order. Equal elements share their mean."""
    orders = permutations(range(len(x))) if equivariant.orderings == AllPermutations() else [in_order(x, None)]
    found = []
    for order in orders:
        index = torch.tensor(list(order), dtype=torch.long)
        y = equivariant.f(x[index][None])[0]
        found.append(y[index.argsort()])
    mean = sum(found) / len(found)
    return torch.stack([mean[(x == each).all(1)].mean(0) for each in x])


@pytest.mark.parametrize("make", [distinct_sets, tied_sets])
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("ordering", ["all_permutations", "canonical"])
def test_definition(ordering, function, make):
    equivariant, sets = layer(ordering, function), make((3, 0, 4, 1, 3))
    for got, x in zip(outputs(equivariant, sets), sets, strict=True):
        assert len(got) == len(x)
        if len(x):
            close(got, by_definition(equivariant, x))


def law_equivariant(equivariant, sets):
    """Checks that elements in another order have their outputs in that order."""
    expected = outputs(equivariant, sets)
    for seed in range(3):
        shuffle = torch.Generator().manual_seed(seed)
        orders = [torch.randperm(n, generator=shuffle) for n in sets.sizes]
        shuffled = Ragged.from_sets([x[order] for x, order in zip(sets, orders, strict=True)])
        wanted = torch.cat([y[order] for y, order in zip(expected, orders, strict=True)])
        close(outputs(equivariant, shuffled).values, wanted)


@pytest.mark.parametrize("make", [distinct_sets, tied_sets])
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("ordering", EXACT)
def test_equivariance(ordering, function, make):
    law_equivariant(layer(ordering, function), make())


@pytest.mark.parametrize("ordering", EXACT)
@given(data=st.data())
def test_equivariance_with_duplicates(ordering, data):
    n = data.draw(st.integers(0, 5))
    element = st.lists(st.sampled_from([-1.0, 0.0, 0.5]), min_size=D, max_size=D)
    x = torch.tensor(data.draw(st.lists(element, min_size=n, max_size=n))).reshape(n, D)
    law_equivariant(layer(ordering, "gru"), Ragged.from_sets([x, x[:2]]))


def test_the_law_can_fail():
    class AsItComes(Canonical):
        def enumerate(self, keys, generator=None):
            return Sampled(1, seed=0).enumerate(keys.with_values(torch.arange(len(keys.values))), generator)

    with pytest.raises(AssertionError):
        law_equivariant(JanossyEquivariant(FUNCTIONS["gru"](), AsItComes()), distinct_sets())


@pytest.mark.parametrize("ordering", ["all_permutations", "canonical", "sampled_seeded"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_independence_of_batch_mates(ordering, function):
    equivariant, sets = layer(ordering, function), distinct_sets((3, 0, 4, 1, 2))
    together = outputs(equivariant, sets)
    for b in range(len(sets)):
        close(outputs(equivariant, sets[[b]]).values, together[b])


@pytest.mark.parametrize("ordering", ORDERINGS)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.cover(1)  # rows know no f, and f no orderings
def test_chunks_and_ways_agree(ordering, function):
    whole, sets = layer(ordering, function), distinct_sets((3, 0, 4, 1, 2))
    values = sets.values.clone().requires_grad_()
    wanted = value_and_gradients(whole, sets.with_values(values), values)
    for other in (layer(ordering, function, 1500), layer(ordering, function, 1), same_by_rows(whole)):
        for got, want in zip(value_and_gradients(other, sets.with_values(values), values), wanted, strict=True):
            close(got, want)


def same_by_rows(equivariant):
    return JanossyEquivariant(Rows(equivariant.f), equivariant.orderings)


def value_and_gradients(equivariant, sets, values):
    result = outputs(equivariant, sets).values
    functional = (result * torch.linspace(-1, 1, result.numel()).view_as(result)).sum()
    return [result, *torch.autograd.grad(functional, [values, *equivariant.parameters()])]


@pytest.mark.parametrize("memory_budget", [2**30, 1])
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.cover(1)  # chunks know no f
def test_gradients(function, memory_budget):
    law_gradients(layer("canonical", function, memory_budget), distinct_sets((3, 0, 1)), twice=True)


def test_the_mean_over_random_permutations_approaches_that_over_all():
    """Seeded; fails with probability below 1e-6: eight standard errors, six numbers per element."""
    torch.manual_seed(0)
    f, sets = FUNCTIONS["gru"](), distinct_sets((4,))
    exact = JanossyEquivariant(f, AllPermutations())(sets).values
    draws = torch.stack([JanossyEquivariant(f, Sampled(1))(sets).values for _ in range(600)])
    assert ((draws.mean(0) - exact).abs() < 8 * draws.std(0) / 600**0.5).all()


@pytest.mark.parametrize("sizes", [(), (0,), (0, 0)])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_no_elements(function, sizes):
    got = layer("canonical", function)(Ragged.from_sizes(torch.zeros(0, D), sizes))
    assert got.values.shape == (0, 6 if "gru" in function or "rnn" in function else 3)
    assert got.sizes == sizes


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_keeps_the_elements_dtype(dtype):
    equivariant, sets = layer("canonical", "gru"), distinct_sets()
    want = outputs(equivariant, sets).values
    got = equivariant.to(dtype)(sets.to(dtype)).values
    assert got.dtype == dtype
    torch.testing.assert_close(got.double(), want, atol=30 * torch.finfo(dtype).eps, rtol=0)


def test_errors():
    with pytest.raises(ValueError, match=r"orderings of whole sets.*got Tuples\(k=2"):
        JanossyEquivariant(FUNCTIONS["gru"](), Tuples(2))
    with pytest.raises(ValueError, match=r"got \(6, 3\)\. RNN, GRU and LSTM do so with per_position=True"):
        JanossyEquivariant(GRU(D, 3), AllPermutations())(distinct_sets((3,)))
    with pytest.raises(ValueError, match="memory_budget >= 1"):
        JanossyEquivariant(FUNCTIONS["gru"](), Canonical(), memory_budget=0)
    with pytest.raises(TypeError, match="JanossyEquivariant expects a Ragged"):
        layer("canonical", "gru")(torch.zeros(2, 3, D))
    with pytest.raises(ValueError, match="keys is expected to have the sizes"):
        layer("canonical", "gru")(distinct_sets((3,)), keys=distinct_sets((2, 1)))


class Normed(nn.Module):
    """Counts its calls, and normalizes over all positions of a call."""

    def __init__(self):
        super().__init__()
        self.norm, self.calls = nn.BatchNorm1d(D), 0

    def forward(self, x):
        self.calls += 1
        return self.norm(x.flatten(0, 1)).view_as(x)


@pytest.mark.parametrize(("memory_budget", "again"), [(2**30, 0), (300, 1)])
def test_only_the_memory_budget_asks_for_a_second_call(memory_budget, again):
    equivariant = JanossyEquivariant(Normed(), Canonical(), memory_budget=memory_budget)
    sets = distinct_sets((3, 2, 4, 3))
    f = equivariant.f
    outputs = equivariant(sets).values
    calls, tracked, mean = f.calls, f.norm.num_batches_tracked.clone(), f.norm.running_mean.clone()
    outputs.sum().backward()
    assert (f.calls - calls) == again * calls
    assert f.norm.num_batches_tracked == tracked == calls
    assert torch.equal(f.norm.running_mean, mean)


def attention():
    return nn.TransformerEncoderLayer(D, 1, dim_feedforward=5, dropout=0.0, batch_first=True)


class SetLayer(nn.Module):
    """Each element beside the mean of its row; says that it takes a mask."""

    takes_mask = True

    def __init__(self):
        super().__init__()
        self.linear, self.shapes = nn.Linear(2 * D, 3), []

    def forward(self, x, mask=None):
        self.shapes.append(tuple(x.shape))
        mean = x.mean(1) if mask is None else x.sum(1) / mask.sum(1, keepdim=True)
        return self.linear(torch.cat((x, mean[:, None].expand_as(x)), dim=2)).tanh()


@pytest.mark.parametrize("memory_budget", [2**30, 20_000, 1])
@pytest.mark.parametrize("make", [attention, SetLayer])
def test_rows_of_like_lengths_under_a_mask_are_as_alone(make, memory_budget):
    torch.manual_seed(0)
    f, sets = make(), distinct_sets((5, 0, 3, 9, 1, 8, 5, 30))
    masked = JanossyEquivariant(f, Canonical(), memory_budget=memory_budget)
    values = sets.values.clone().requires_grad_()
    alone = JanossyEquivariant(Rows(f), Canonical())
    pairs = (value_and_gradients(each, sets.with_values(values), values) for each in (masked, alone))
    for got, want in zip(*pairs, strict=True):
        close(got, want)


def test_padding_bounds_the_number_of_calls():
    sets = Ragged.from_sizes(torch.randn(5050, D), range(1, 101))
    layer = JanossyEquivariant(SetLayer(), Canonical())
    layer(sets)
    shapes = layer.f.shapes
    padding = sum(num * length for num, length, _ in shapes) - 5050
    assert len(shapes) < 8 and padding < 64 * (100 - len(shapes))  # a call saved is worth 64 positions
